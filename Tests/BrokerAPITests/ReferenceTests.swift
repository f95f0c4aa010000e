import BrokerAPI
import Foundation
import Testing

@Suite("The reference")
struct ReferenceTests {
  private static let docs = URL(fileURLWithPath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("docs")

  @Test("the committed files equal the types", arguments: ReferenceFiles.all.map(\.name))
  func committed(name: String) throws {
    let generated = try #require(ReferenceFiles.all.first { $0.name == name })
    let file = try String(contentsOf: Self.docs.appendingPathComponent(name), encoding: .utf8)
    #expect(file == generated.content, "run grantd-reference --write docs")
  }

  @Test("methods have distinct names of a family and a verb, and their summary is a sentence")
  func names() throws {
    let names = Methods.all.map { $0.name }
    #expect(Set(names).count == names.count)
    for method in Methods.descriptions {
      #expect(method.name.split(separator: ".").count == 2)
      #expect(method.summary.hasSuffix("."), "\(method.name)")
      #expect(Set(method.errors).count == method.errors.count)
      #expect(Methods.named(method.name) != nil)
    }
  }

  @Test("each method's type is registered in Methods.all")
  func registered() throws {
    let sources = Self.docs.deletingLastPathComponent().appendingPathComponent("Sources/Clients/BrokerAPI/Methods")
    let paths = try #require(FileManager.default.enumerator(atPath: sources.path)).compactMap { $0 as? String }
    let declared = try paths.filter { $0.hasSuffix(".swift") }.flatMap { path in
      try String(contentsOf: sources.appendingPathComponent(path), encoding: .utf8)
        .matches(of: /public enum (\w+): (?:RPCMethod|TokenRelease)\b/).map { String($0.1) }
    }
    #expect(declared.sorted() == Methods.all.map { String(describing: $0) }.sorted(), "add it to Methods.all")
  }

  @Test("the words of a method name exactly the members of its types", arguments: Methods.all.map { $0.name })
  func methodDocs(name: String) throws {
    let method = try #require(Methods.named(name))
    let description = try #require(Methods.description(of: name))
    #expect(Set(method.paramDocs.keys) == Set(description.params.map(\.name)))
    #expect(Set(method.resultDocs.keys) == Set(description.resultMembers.map(\.name)))
    #expect((description.params + description.resultMembers).allSatisfy { !$0.meaning.isEmpty })
  }

  @Test("each object has exactly the documented members")
  func objectDocs() throws {
    func check<T: Decodable & Documented>(_ type: T.Type) {
      guard case .object(let object) = JSONSchema(of: type) else {
        Issue.record("\(type) is no object")
        return
      }
      #expect(Set(T.docs.keys) == Set(object.members.map(\.name)), "\(type)")
    }
    check(AccountView.self)
    check(AccountView.Identity.self)
    check(AccountView.LastError.self)
    check(AccountView.NarrowedToken.self)
    check(AccountLogout.Step.self)
    check(Destination.self)
    check(LoginList.LoginView.self)
    check(ProviderView.self)
    check(BrokerStatus.StoreView.self)
    check(BrokerStatus.ConfigurationView.self)
    check(BrokerStatus.ConditionView.self)
    check(BrokerStatus.CallerView.self)
    check(ProviderCheck.Check.self)
    check(OAuthDetail.self)
    check(Event.self)
    let components = try #require(OpenRPC.document()["components"]?["schemas"]?.members)
    for component in components {
      for property in component.value["properties"]?.members ?? [] {
        #expect(property.value["description"] != nil, "\(component.name).\(property.name)")
      }
    }
  }

  @Test("a type's members are found with their types, and whether they must be there")
  func probe() throws {
    let params = try #require(Methods.description(of: "login.start")).params
    #expect(params.map(\.name).prefix(3) == ["provider", "account", "scopes"])
    #expect(params.map(\.required).prefix(3) == [true, false, false])
    #expect(
      params.map(\.schema.words) == [
        "string", "string", "array of string", "string", "string", "array of string", "string", "string",
        "object of string",
        "array of string", "string", "object of string", "boolean", "integer", "boolean",
      ])
    guard case .object(let status) = JSONSchema(of: BrokerStatus.Result.self) else {
      Issue.record("no object")
      return
    }
    let words = Dictionary(uniqueKeysWithValues: status.members.map { ($0.name, $0.schema.words) })
    #expect(words["pid"] == "integer" && words["accounts"] == "object of integer" && words["store"] == "StoreView")
    let state = JSONSchema.enumeration(name: "LoginState", cases: ["pending", "action_required", "completed"])
    guard case .object(let wait) = JSONSchema(of: LoginWait.Result.self) else {
      Issue.record("no object")
      return
    }
    #expect(wait.members.first { $0.name == "state" }?.schema == state)
    #expect(wait.members.first { $0.name == "account" }?.required == false)
  }

  @Test("the OpenRPC document has all methods, and each reference in it leads somewhere")
  func openRPC() throws {
    let document = OpenRPC.document(version: "9.9.9")
    #expect(document["openrpc"] == "1.3.2" && document["info"]?["version"] == "9.9.9")
    #expect(document["methods"]?.array?.compactMap { $0["name"]?.string } == Methods.all.map { $0.name })
    func references(_ json: JSON) -> [String] {
      switch json {
      case .array(let elements): elements.flatMap(references)
      case .object(let members):
        members.flatMap { $0.name == "$ref" ? [$0.value.string ?? ""] : references($0.value) }
      default: []
      }
    }
    let found = references(document)
    #expect(found.count > 20)
    for reference in Set(found) {
      let target = reference.split(separator: "/").dropFirst().reduce(document as JSON?) { $0?[String($1)] }
      #expect(target != nil, "\(reference)")
    }
    #expect(document.serialized().count < Incoming.maximumLine)
    #expect(try JSON.parse(Array(document.pretty().utf8)) == document)
  }

  @Test("each example is a call and a reply of its method's types, in the file as well")
  func examples() throws {
    func check<M: RPCMethod>(_ method: M.Type, _ params: JSON?, _ result: JSON) throws {
      _ = try decodeParams(M.self, from: params)
      let value = try result.decode(M.Result.self, root: "result")
      #expect(JSON(encoding: value) == result, "\(M.name): the example has members that the type does not")
    }
    let parts = ReferenceFiles.all.first { $0.name == "rpc.md" }?.content.components(separatedBy: "```") ?? []
    let blocks = try parts.filter { $0.hasPrefix("json\n") }.map { try JSON.parse(Array($0.dropFirst(5).utf8)) }
    #expect(blocks.count == Methods.all.count * 2 + 1)
    for (index, method) in Methods.all.enumerated() {
      let line = blocks[index * 2].serialized()
      guard case .single(.call(let request, let id)) = Incoming.parse(line),
        case .reply(let answered, .success(let result)) = try ServerMessage.parse(blocks[index * 2 + 1].serialized())
      else {
        Issue.record("\(method.name): no call and reply")
        continue
      }
      #expect(request.method == method.name && id == answered)
      try check(method, request.params, result)
    }
    let event = try #require(blocks.last)
    #expect(JSON(encoding: try #require(event["params"]).decode(Event.self)) == event["params"])
  }

  @Test("the pages keep to 80 columns", arguments: ["rpc.md", "errors.md"])
  func width(name: String) {
    let lines = ReferenceFiles.all.first { $0.name == name }?.content.split(separator: "\n") ?? []
    #expect(lines.filter { $0.count > 80 } == [])
  }
}
