import BrokerAPI
import HTTPServer
import NIOCore
import NIOHTTP1
import Testing

@testable import Loopback

/// Errors of the broker as answers to JSON-RPC requests.
@Suite struct JSONRPCReplyTests {
  private static let reply = HTTPReply(
    RPCError(.loginRequired, "the grant has ended", hint: "Sign in again with `grantctl login p a`."))

  private func answer(_ body: String) throws -> JSON? {
    guard let made = JSONRPCReply.error(Self.reply, to: Array(body.utf8)) else { return nil }
    #expect(made.status == .ok && made.headers.first(name: "Content-Type") == "application/json")
    return try JSON.parse(Array(made.body.readableBytesView))
  }

  @Test("a call gets an error with its id, the reason and the next command", arguments: ["7", "\"a\"", "1.5"])
  func call(id: String) throws {
    let made = try #require(try answer("{\"jsonrpc\":\"2.0\",\"id\":\(id),\"method\":\"tools/list\"}"))
    #expect(String(decoding: (made["id"] ?? .null).serialized(), as: UTF8.self) == id)
    #expect(made["error"]?["code"] == .number("-32004"))
    #expect(made["error"]?["data"]?["reason"] == "login_required")
    #expect(made["error"]?["data"]?["hint"]?.string?.contains("grantctl login p a") == true)
    #expect(made["error"]?["message"]?.string?.contains("grantctl login p a") == true)
  }

  @Test("each call of a batch gets one")
  func batch() throws {
    let one = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}"
    let made = try #require(try answer("[\(one),{\"jsonrpc\":\"2.0\",\"method\":\"b\"},\(one)]"))
    #expect(made.array?.count == 2)
  }

  @Test(
    "other bodies and notifications get the HTTP error",
    arguments: [
      "{}", "[]", "x", "{\"jsonrpc\":\"2.0\",\"method\":\"a\"}", "{\"jsonrpc\":\"2.0\",\"id\":1}",
      "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"a\"}", "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"a\"}",
    ])
  func others(body: String) throws {
    #expect(try answer(body) == nil)
  }

  @Test("only a POST of JSON may be one")
  func heads() {
    func head(_ method: HTTPMethod, _ type: String?) -> HTTPRequestHead {
      var head = HTTPRequestHead(version: .http1_1, method: method, uri: "/forward/a/mcp")
      if let type { head.headers.add(name: "Content-Type", value: type) }
      return head
    }
    #expect(JSONRPCReply.mayAnswer(head(.POST, "application/json")))
    #expect(JSONRPCReply.mayAnswer(head(.POST, "Application/JSON; charset=utf-8")))
    #expect(!JSONRPCReply.mayAnswer(head(.GET, "application/json")))
    #expect(!JSONRPCReply.mayAnswer(head(.POST, "text/plain")))
    #expect(!JSONRPCReply.mayAnswer(head(.POST, nil)))
  }
}
