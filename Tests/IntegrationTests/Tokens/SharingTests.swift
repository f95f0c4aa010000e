import AsyncClient
import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("Many callers")
struct SharingTests {
  @Test("200 clients that ask for an expired token at once cause one refresh and get the same token")
  func twoHundred() async throws {
    // Callers refresh in the second half of the life; the clockwork would at its end.
    try await Rig.with(Wish { $0.accessTTL = 8 }) { rig in
      let account = try await rig.login()
      let first = try await rig.token()
      rig.demo.changeSettings { $0.accessTTL = .seconds(300) }
      try rig.demo.fault(.delay, at: .tokenRefresh) { $0.seconds = 0.3 }
      var clients: [SocketClient] = []
      for _ in 1...200 { clients.append(try await SocketClient.connect(path: rig.socket)) }
      let stale = Double(try #require(account.expires_at)) - 2.8
      try await eventually("less than half of the life is left") { Date().timeIntervalSince1970 > stale }
      let tokens = try await withThrowingTaskGroup(of: TokenGet.Result.self) { group in
        for client in clients {
          group.addTask { try await client.call(TokenGet.self, .init(account: "alice"), timeout: .seconds(30)) }
        }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      #expect(tokens.count == 200)
      #expect(Set(tokens.map(\.access_token)).count == 1)
      #expect(tokens.first?.access_token != first.access_token)
      let stats = rig.demo.stats()
      #expect(stats.requests["token.refresh"] == 1)
      #expect(stats.refreshes == 1)
      for client in clients { await client.close() }
    }
  }

  @Test("while one provider does not answer, another account's cached token comes all the same")
  func slowProvider() async throws {
    try await Rig.with(Wish { $0.hasSecondProvider = true }) { rig in
      try await rig.login()
      try await rig.login("bob", at: "other")
      let slow = try await rig.token()
      try rig.demo.fault(.delay, at: .tokenRefresh) { $0.seconds = 60 }
      let refreshing = Task {
        try await rig.call("token.report_rejected", ["account": "alice", "generation": .integer(slow.generation)])
      }
      try await eventually("the slow refresh is under way") { rig.count(.tokenRefresh) == 1 }
      for _ in 1...100 { _ = try await rig.token("bob") }
      #expect(try await rig.account().state == .refreshing, "the slow refresh is still under way")
      rig.demo.release()
      #expect(try await refreshing.value["refreshed"]?.bool == true)
    }
  }

  @Test("a daemon with nothing to do uses no processor time")
  func idle() async throws {
    try await Rig.with(.shortLived()) { rig in
      try await rig.login()
      try await eventually("the clockwork has slept and woken") { try await rig.account().generation > 2 }
      let generation = try await rig.account().generation
      rig.demo.changeSettings { $0.accessTTL = .seconds(300) }
      // The first one may have been on its way already.
      try await eventually("a long token") {
        guard try await rig.account().generation > generation else { return false }
        return try await rig.token().expires_in ?? 0 > 60
      }
      let stat = "/proc/\(try rig.daemon.pid)/stat"
      func ticks() throws -> Int {
        let fields = try String(contentsOfFile: stat, encoding: .utf8).split(separator: ")").last?.split(separator: " ")
        return (fields?[11...12] ?? []).compactMap { Int($0) }.reduce(0, +)
      }
      let before = try ticks()
      let end = ContinuousClock.now + .seconds(2)
      // In hundredths of a second.
      try await eventually("too much, or 2 s", every: .milliseconds(100)) {
        try ticks() - before >= 20 || ContinuousClock.now >= end
      }
      let used = try ticks() - before
      #expect(used < 20)
    }
  }

  @Test("a burst of connections and requests leaves no descriptor behind")
  func descriptors() async throws {
    try await Rig.with { rig in
      try await rig.login()
      for _ in 1...5 { _ = try await rig.call("token.report_rejected", ["account": "alice", "generation": 1]) }
      let folder = "/proc/\(try rig.daemon.pid)/fd"
      func count() -> Int { (try? FileManager.default.contentsOfDirectory(atPath: folder).count) ?? 0 }
      let before = count()
      for round in 1...60 {
        let raw = try RawClient(rig.socket)
        // Some leave in the middle of a line, some before the answer, some with it.
        try await raw.send(round % 3 == 0 ? "{\"jsonrpc\"" : tokenGet(1) + "\n")
        if round % 3 == 1 { _ = try await raw.line() }
      }
      try await eventually("as many descriptors as before, give or take the provider's pooled connection") {
        count() <= before + 1
      }
    }
  }
}

func tokenGet(_ id: Int, account: String = "alice") -> String {
  "{\"jsonrpc\":\"2.0\",\"id\":\(id),\"method\":\"token.get\",\"params\":{\"account\":\"\(account)\"}}"
}
