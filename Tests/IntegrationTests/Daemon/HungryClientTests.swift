import AsyncClient
import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("Clients that take more than their share")
struct HungryClientTests {
  @Test("clients that never read, or send half a line, delay no other")
  func silent() async throws {
    try await Rig.with { rig in
      try await rig.login()
      var idlers: [RawClient] = []
      for number in 0..<60 {
        let raw = try RawClient(rig.socket)
        if number % 2 == 0 { try await raw.send("{\"jsonrpc\":\"2.0\",\"id\":1,\"meth") }
        idlers.append(raw)
      }
      // Far more answers than the daemon keeps for one client; it stops reading, so the sender is not waited for.
      let greedy = try RawClient(rig.socket)
      let flood = Task {
        let line = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"rpc.discover\"}\n"
        for _ in 1...2000 { try await greedy.send(line) }
      }
      var times: [Duration] = []
      for _ in 1...100 {
        let start = ContinuousClock.now
        _ = try await rig.token()
        times.append(ContinuousClock.now - start)
      }
      // Behind all that is asked there, an answer would take many seconds.
      #expect(times.sorted()[50] < .seconds(3) * slowness)
      let statm = try String(contentsOfFile: "/proc/\(rig.daemon.pid)/statm", encoding: .utf8).split(separator: " ")
      // Resident pages: the answers to all that was asked would be many times this.
      #expect((Int(statm[1]) ?? 0) * 4096 < 300 << 20)
      flood.cancel()
      _ = await flood.result
      // The half lines are still good when they are completed.
      try await idlers[0].send("od\":\"broker.status\"}\n")
      #expect(try await idlers[0].json()["result"]?["state"] == "running")
    }
  }

  @Test("connections beyond the quota are refused at once, others continue, and closed ones free their slots")
  func quota() async throws {
    try await Rig.with(Wish { $0.configuration = "[socket]\nconnections_per_user = 8" }) { rig in
      try await rig.login()
      // One is the rig's own.
      var held: [RawClient] = []
      for _ in 1...7 {
        let raw = try RawClient(rig.socket)
        #expect(try await raw.ask(tokenGet(1))["result"] != nil)
        held.append(raw)
      }
      let refused = try RawClient(rig.socket)
      do {
        let answer = try await refused.ask(tokenGet(1))
        #expect(answer["error"]?["data"]?["reason"] == "overloaded")
      } catch is RawClient.Ended {
        // A connection that closes without an answer is sufficient.
      }
      #expect(try await rig.token().access_token.isEmpty == false)
      #expect(try await held[3].ask(tokenGet(2))["result"] != nil)
      held.removeLast()
      try await eventually("there is room again") {
        guard let raw = try? RawClient(rig.socket) else { return false }
        return (try? await raw.ask(tokenGet(3)))?["result"] != nil
      }
    }
  }

  @Test("a connection without requests is closed after the idle time-out, one that waits for an answer is not")
  func idle() async throws {
    try await Rig.with(Wish { $0.configuration = "[socket]\nidle_timeout = \"8s\"" }) { rig in
      let login = try await rig.startLogin()
      let waiting = try RawClient(rig.socket)
      try await waiting.send(
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"login.wait\",\"params\":{\"login_id\":\"\(login.id)\",\"timeout\":20}}\n"
      )
      let quiet = try RawClient(rig.socket)
      await #expect(throws: RawClient.Ended.self) { _ = try await quiet.line() }
      #expect(try await waiting.json()["result"]?["state"] == "pending")
    }
  }
}
