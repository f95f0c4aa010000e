/// The machine-readable description of the socket: an OpenRPC 1.3.2 document, made from the method types.
public enum OpenRPC {
  public static let specification = "1.3.2"
  /// The version of the methods; raised when they change (semantic versioning).
  public static let contractVersion = "0.1.0"

  /// The document that `rpc.discover` returns. Each call makes it again: keep it.
  public static func document(version: String = contractVersion) -> JSON {
    [
      "openrpc": .string(specification),
      "info": info(version: version),
      "methods": .array(Methods.descriptions.map { method($0) }),
      "components": ["schemas": schemas(), "tags": tags()],
      "x-notifications": [notification()],
    ]
  }

  static func info(version: String = contractVersion) -> JSON {
    [
      "title": "grantd", "version": .string(version),
      "description": "The JSON-RPC 2.0 methods of grantd's socket.",
      "license": ["name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"],
    ]
  }

  private static func method(_ method: MethodDescription) -> JSON {
    [
      "name": .string(method.name),
      "summary": .string(method.summary),
      "tags": [["$ref": .string("#/components/tags/\(method.access.rawValue)")]],
      "paramStructure": "by-name",
      "params": .array(method.params.map { contentDescriptor($0) }),
      "result": ["name": .string("\(method.name) result"), "schema": method.result.json],
      "errors": .array(method.errors.map { error($0) }),
      "examples": [example(method.example)],
    ]
  }

  private static func contentDescriptor(_ member: ObjectSchema.Member) -> JSON {
    [
      "name": .string(member.name), "description": .string(member.meaning), "required": .bool(member.required),
      "schema": member.schema.json,
    ]
  }

  private static func error(_ reason: ErrorReason) -> JSON {
    [
      "code": .integer(reason.code), "message": .string(reason.meaning),
      "data": ["reason": .string(reason.rawValue), "hint": .string(reason.defaultHint)],
    ]
  }

  private static func example(_ example: MethodExample) -> JSON {
    let params = (example.params.members ?? []).map { member -> JSON in
      ["name": .string(member.name), "value": member.value]
    }
    return [
      "name": "example", "params": .array(params), "result": ["name": "result", "value": example.result],
    ]
  }

  private static func notification() -> JSON {
    let event = JSONSchema(of: Event.self)
    return [
      "name": .string(Event.method), "summary": "What happened, on connections that called `events.subscribe`.",
      "paramStructure": "by-name", "params": .array(event.members.map { contentDescriptor($0) }),
    ]
  }

  /// The named types of all methods and events, each once, by name.
  static func namedSchemas() -> [(name: String, schema: JSONSchema)] {
    let roots = Methods.descriptions.flatMap { [$0.result] + $0.params.map(\.schema) }
    var schemas: [String: JSONSchema] = [:]
    for schema in (roots + [JSONSchema(of: Event.self), JSONSchema(of: OAuthDetail.self)]).flatMap(\.named) {
      switch schema {
      case .object(let object):
        let same = schemas[object.name].map { $0.members.map(\.name) == schema.members.map(\.name) } ?? true
        precondition(same, "two types are called \(object.name)")
        schemas[object.name] = schemas[object.name] ?? schema
      case .enumeration(let name, _): schemas[name] = schema
      default: break
      }
    }
    return schemas.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
  }

  private static func schemas() -> JSON {
    .object(
      namedSchemas().map { name, schema in
        switch schema {
        case .object(let object): JSON.Member(name: name, value: object.json)
        case .enumeration(_, let cases):
          JSON.Member(name: name, value: ["type": "string", "enum": .array(cases.map { .string($0) })])
        default: JSON.Member(name: name, value: schema.json)
        }
      })
  }

  private static func tags() -> JSON {
    .object(
      Access.allCases.map { access in
        JSON.Member(
          name: access.rawValue,
          value: ["name": .string(access.rawValue), "description": .string(access.meaning)])
      })
  }
}

extension Access {
  /// One sentence for the reference.
  public var meaning: String {
    switch self {
    case .open: "Any client that can connect."
    case .use: "Callers whose rule lets them use the account's tokens."
    case .idToken: "Callers whose rule lets them get the account's ID tokens."
    case .login: "Callers whose rule lets them sign people in."
    case .manage: "Callers whose rule lets them change the broker: forget accounts, reload the configuration."
    case .observe: "Callers whose rule lets them see accounts, providers, state and events; never a token."
    }
  }
}
