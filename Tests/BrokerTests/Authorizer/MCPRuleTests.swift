import BrokerAPI
import Principals
import Testing

@testable import Broker

@Suite("Rules for calls of the Model Context Protocol")
struct MCPRuleTests {
  private static func content(_ body: String) -> MCPContent {
    MCPContent(method: "POST", headers: [("Content-Type", "application/json")], body: Array(body.utf8))
  }

  private static func call(_ method: String, _ name: String? = nil) -> String {
    let params = name.map { #","params":{"name":"\#($0)"}"# } ?? ""
    return #"{"jsonrpc":"2.0","id":1,"method":"\#(method)"\#(params)}"#
  }

  private static func request(_ content: MCPContent?, method: String = "POST") -> APIRequest {
    var request = APIRequest(method: method, host: "api.example.com", path: "/mcp")
    request.content = content
    return request
  }

  private static func rule(
    _ mcp: [String], who: Rule.CallerCondition = .init(uid: 7), confirm: Duration? = nil,
    requests: [String] = ["POST /mcp"]
  ) -> Rule {
    var rule = Rule(
      name: mcp.joined(separator: " "), who: who, accounts: ["*"], access: [], methods: [RequestSend.name],
      confirm: confirm)
    rule.requests = requests.compactMap(RequestPattern.init)
    rule.mcp = mcp.compactMap(MCPPattern.init)
    return rule
  }

  private static func decision(
    _ rules: [Rule], _ request: APIRequest, uid: UInt32 = 7
  ) -> Policy.Decision? {
    Policy(instance: .user, owner: 1, rules: rules).permission(
      .use, RequestSend.name, "work", .process(Caller(uid: uid, gid: 7, groups: [], pid: 1)), request: request)
  }

  @Test("Patterns: methods, with the name of a tool, prompt or resource")
  func patterns() {
    for text in ["tools/list", "tools/call:search_*", "resources/read:file:///a/*", "*", "prompts/get:x"] {
      #expect(MCPPattern(text)?.description == text)
    }
    for text in [
      "", ":x", "tools/call:", "tools/list:x", "a b", "tools/call:a b", "é", String(repeating: "a", count: 300),
    ] {
      #expect(MCPPattern(text) == nil, "\(text)")
    }
  }

  @Test("A rule allows what it lists, the messages of each session, and nothing that is not clear")
  func allowed() {
    let rules = [Self.rule(["tools/list", "tools/call:search_*"])]
    let rows: [(MCPContent?, Bool)] = [
      (Self.content(Self.call("tools/list")), true), (Self.content(Self.call("tools/call", "search_a")), true),
      (Self.content(Self.call("tools/call", "delete")), false), (Self.content(Self.call("initialize")), true),
      (Self.content("[\(Self.call("tools/list")),\(Self.call("tools/call", "delete"))]"), false),
      (Self.content(#"{"jsonrpc":"2.0","id":1,"result":{}}"#), true), (Self.content("{}"), false),
      (Self.content(#"{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"x"}"#), false), (nil, false),
    ]
    for (content, isAllowed) in rows {
      #expect((Self.decision(rules, Self.request(content)) != nil) == isAllowed, "\(String(describing: content))")
    }
    #expect(Self.decision(rules, Self.request(.session, method: "GET")) == nil)
    let open = [Self.rule(["tools/list"], requests: ["POST /mcp", "GET /mcp", "* /mcp"])]
    #expect(Self.decision(open, Self.request(.session, method: "GET")) != nil)
    #expect(Self.decision(open, Self.request(.session, method: "DELETE")) == nil)
  }

  @Test("A user approves the calls that a rule lists, even for the owner, and if the body is not clear")
  func confirmed() {
    let rules = [Self.rule(["tools/call:delete_*"], who: .init(), confirm: .seconds(60))]
    func asks(_ content: MCPContent?, uid: UInt32) -> Bool? {
      guard case .allowed(_, _, let confirm)? = Self.decision(rules, Self.request(content), uid: uid) else {
        return nil
      }
      return confirm != nil
    }
    let (delete, list) = (Self.call("tools/call", "delete_a"), Self.call("tools/list"))
    let rows: [(MCPContent?, Bool?, Bool?)] = [
      (Self.content(delete), true, true), (Self.content(list), nil, false),
      (Self.content(Self.call("ping")), false, false),
      (Self.content("[\(list),\(delete)]"), nil, true), (.unclear("x"), nil, true), (nil, nil, true),
    ]
    for (content, agent, owner) in rows {
      #expect(asks(content, uid: 7) == agent, "\(String(describing: content))")
      #expect(asks(content, uid: 1) == owner, "\(String(describing: content))")
    }
  }

  @Test("What two servers could read as different calls is not clear")
  func unclear() {
    func isClear(_ body: String, _ headers: [(name: String, value: String)] = []) -> Bool {
      let headers = [(name: "Content-Type", value: "application/json")] + headers
      if case .calls = MCPContent(method: "POST", headers: headers, body: Array(body.utf8)) { return true }
      return false
    }
    let call = Self.call("tools/call", "search_a")
    #expect(isClear(call) && isClear(call, [("Mcp-Method", "tools/call"), ("Mcp-Name", "search_a")]))
    #expect(!isClear(call, [("Content-Encoding", "gzip")]))
    #expect(!isClear(call, [("Mcp-Name", "delete")]) && !isClear(call, [("Mcp-Method", "tools/list")]))
    for name in ["Name", "NAME", "na_me", "name\u{200B}"] {
      let members = #"{"name":"search_a","\#(name)":"delete"}"#
      #expect(!isClear(#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":\#(members)}"#), "\(name)")
    }
    #expect(!isClear(#"{"jsonrpc":"2.0","id":1,"method":"tools/list","Method":"tools/call"}"#))
  }
}
