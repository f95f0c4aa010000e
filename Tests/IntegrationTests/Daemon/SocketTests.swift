import AsyncClient
import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("JSON-RPC at the real daemon")
struct SocketTests {
  @Test("batches, notifications and every standard error are as the specification says")
  func protocolErrors() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let raw = try RawClient(rig.socket)
      func code(_ line: String) async throws -> Int64? { try await raw.ask(line)["error"]?["code"]?.integer }

      #expect(try await code("{\"jsonrpc\":") == -32700)
      #expect(try await code("[]") == -32600)
      #expect(try await code("42") == -32600)
      #expect(try await code("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"broker.status\"}") == -32600)
      let unknown = try await raw.ask("{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"token.gte\"}")
      #expect(unknown["id"] == "x")
      #expect(unknown["error"]?["code"]?.integer == -32601)
      #expect(unknown["error"]?["data"]?["hint"]?.string?.contains("token.get") == true)
      for params in [
        "{\"account\":5}", "{}", "[]", "\"alice\"", "{\"account\":\"a b\"}",
        "{\"account\":\"alice\",\"min_ttl\":\"x\"}",
      ] {
        let line = "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"token.get\",\"params\":\(params)}"
        let code = try await code(line)
        #expect(code == -32602 || (params == "\"alice\"" && code == -32600), "\(params)")
      }
      try await raw.send(
        "[\(tokenGet(1)),{\"jsonrpc\":\"2.0\",\"method\":\"broker.status\"},\(tokenGet(2, account: "none")),7]\n")
      let batch = try #require(try await raw.json().array)
      #expect(batch.count == 3)
      #expect(batch.first { $0["id"] == 1 }?["result"]?["access_token"]?.string != nil)
      #expect(batch.first { $0["id"] == 2 }?["error"]?["data"]?["reason"] == "unknown_account")
      #expect(batch.first { $0["id"] == .null }?["error"]?["code"]?.integer == -32600)
      // Notifications have no answer: the next line is the next request's.
      try await raw.send(
        "{\"jsonrpc\":\"2.0\",\"method\":\"no.such\"}\n[{\"jsonrpc\":\"2.0\",\"method\":\"no.such\"}]\n")
      #expect(try await raw.ask(tokenGet(9))["id"] == 9)
    }
  }

  /// The provider's answer to the refresh, once it has been asked.
  private func letGo(_ rig: Rig) async throws {
    try await eventually("the refresh is under way") { rig.count(.tokenRefresh) == 1 }
    rig.demo.release()
  }

  @Test("a huge line is refused, and the connection's other requests are unharmed")
  func hugeLine() async throws {
    try await Rig.with { rig in
      try await rig.login()
      try rig.demo.fault(.delay, at: .tokenRefresh) { $0.seconds = 60 }
      let raw = try RawClient(rig.socket)
      try await raw.send(
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"token.report_rejected\",\"params\":{\"account\":\"alice\",\"generation\":1}}\n"
      )
      try await raw.send([UInt8](repeating: UInt8(ascii: "x"), count: 400_000) + [0x0A])
      #expect(try await raw.json()["error"]?["code"]?.integer == -32600)
      try await letGo(rig)
      let answer = try await raw.json()
      #expect(answer["id"] == 1)
      #expect(answer["result"]?["refreshed"]?.bool == true)
      #expect(try await raw.ask(tokenGet(2))["result"]?["generation"] == 2)
    }
  }

  @Test("a fast request is answered before a slow one that came first")
  func outOfOrder() async throws {
    try await Rig.with { rig in
      try await rig.login()
      try rig.demo.fault(.delay, at: .tokenRefresh) { $0.seconds = 60 }
      let raw = try RawClient(rig.socket)
      try await raw.send(
        "{\"jsonrpc\":\"2.0\",\"id\":\"slow\",\"method\":\"token.report_rejected\",\"params\":{\"account\":\"alice\",\"generation\":1}}\n"
      )
      try await raw.send("{\"jsonrpc\":\"2.0\",\"id\":\"fast\",\"method\":\"broker.status\"}\n")
      #expect(try await raw.json()["id"] == "fast")
      try await letGo(rig)
      #expect(try await raw.json()["id"] == "slow")
    }
  }

  @Test("a client that closes its half after asking still gets every answer")
  func halfOpen() async throws {
    try await Rig.with { rig in
      try await rig.login()
      try rig.demo.fault(.delay, at: .tokenRefresh) { $0.seconds = 60 }
      let raw = try RawClient(rig.socket)
      try await raw.send(
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"token.report_rejected\",\"params\":{\"account\":\"alice\",\"generation\":1}}\n"
      )
      // Without a newline at the end, as `printf` sends it.
      try await raw.send("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"broker.status\"}")
      raw.closeOutput()
      #expect(try await raw.json()["id"] == 2)
      try await letGo(rig)
      #expect(try await raw.json()["id"] == 1)
      await #expect(throws: RawClient.Ended.self) { _ = try await raw.line() }
    }
  }

  @Test("rpc.discover is the document that grantctl prints without a broker")
  func discover() async throws {
    try await Rig.with { rig in
      let printed = try await Programs.run(Programs.grantctl, ["openrpc"], in: rig.folder)
      #expect(printed.status == 0)
      let discovered = try await rig.call("rpc.discover")
      #expect(try discovered == JSON.parse(Array(printed.output.utf8)))
    }
  }

  @Test("events report logins, refreshes, failures and removals, and never a token")
  func events() async throws {
    try await Rig.with { rig in
      let listener = try await SocketClient.connect(path: rig.socket)
      _ = try await listener.call(method: "events.subscribe", params: [:], timeout: .seconds(10))
      let heard = Task {
        var events: [JSON] = []
        for await notification in listener.notifications {
          events.append(notification.params)
          if notification.params["type"] == "account.removed" { break }
        }
        return events
      }
      try await rig.login()
      let token = try await rig.token().access_token
      _ = try await rig.call("token.report_rejected", ["account": "alice", "generation": 1])
      try rig.demo.revoke(user: "alice")
      _ = try await rig.failure("token.report_rejected", ["account": "alice", "generation": 2])
      // The second refusal ends the grant.
      _ = try await rig.failure("account.refresh", ["account": "alice", "now": true])
      _ = try await rig.call("account.logout", ["account": "alice"])
      let guardian = timeOut(after: .seconds(60)) { await listener.close() }
      let events = await heard.value
      guardian.cancel()
      let types = events.compactMap { $0["type"]?.string }
      for type in ["login.started", "login.completed", "token.refreshed", "login.required", "account.removed"] {
        #expect(types.contains(type), "\(type)")
      }
      #expect(events.allSatisfy { $0["account"] == "alice" })
      let text = events.map { String(decoding: $0.serialized(), as: UTF8.self) }.joined()
      #expect(!text.contains(token))
      #expect(
        events.first { $0["type"] == "login.required" }?["hint"]?.string?.contains("grantctl login demo alice") == true)
      await listener.close()
    }
  }

  @Test("events can be selected, and an unknown one is refused with the known ones")
  func chosenEvents() async throws {
    try await Rig.with { rig in
      let error = try await rig.failure("events.subscribe", ["events": ["token.refershed"]])
      #expect(error.code == -32602)
      #expect(error.hint?.contains("token.refreshed") == true)
    }
  }
}
