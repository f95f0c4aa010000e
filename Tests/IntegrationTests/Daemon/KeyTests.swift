import AsyncClient
import BrokerAPI
import Foundation
import Synchronization
import TestSupport
import Testing

@Suite("The store's key", .atMost) struct KeyTests {
  private func fill(_ rig: Rig) async throws {
    let (status, said) = try await Programs.run(
      Programs.fixture, ["fill", rig.state, String(repeating: "01", count: 31) + "00"], in: rig.folder)
    guard status == 0 else { throw Failed("the store is not filled: \(said)") }
  }

  private struct Served: Sendable {
    var count = 0
    var slowest = Duration.zero
    var isEnough = false
  }

  private final class Tally: Sendable {
    let served = Mutex(Served())
  }

  /// Asks for tokens of a thousand accounts on a connection of its own, until it is enough.
  private func use(_ rig: Rig, _ tally: Tally) async throws {
    let client = try await SocketClient.connect(path: rig.socket)
    let clock = ContinuousClock()
    var number = 0
    while tally.served.withLock({ !$0.isEnough }) {
      let began = clock.now
      let answer = try await client.call(
        method: "token.get", params: ["account": .string("a\(number % 1000)")], timeout: .seconds(30))
      guard answer["generation"]?.integer == 1 else { throw Failed("another token: \(answer)") }
      number += 7
      tally.served.withLock {
        $0.count += 1
        $0.slowest = max($0.slowest, clock.now - began)
      }
    }
    await client.close()
  }

  @Test("changes for a thousand accounts while their tokens are served")
  func thousand() async throws {
    try await Rig.with(starting: false) { rig in
      try await fill(rig)
      try await rig.start()
      let before = try String(contentsOfFile: rig.state + "/grantd.key", encoding: .utf8)
      let tally = Tally()
      let users = (0..<3).map { _ in Task { try await self.use(rig, tally) } }
      try await eventually("tokens are served") { tally.served.withLock { $0.count > 50 } }
      var (during, seconds) = (Served(), 0.0)
      // The callers may have had no processor time during one.
      for _ in 0..<5 where during.count <= 12 {
        tally.served.withLock { $0 = Served() }
        let result = try await rig.call("store.rotate_key")
        during = tally.served.withLock { $0 }
        seconds = try #require(result["seconds"]?.double)
        #expect(result["accounts"]?.integer == 1000 && result["warnings"]?.array == [])
      }
      tally.served.withLock { $0.isEnough = true }
      for user in users { try await user.value }
      // While it waits, each of the three callers would be answered once at its beginning and once at its end.
      #expect(during.count > 12, "\(during) in \(seconds) s")
      print(
        "a rotation of 1,000 accounts took \(seconds) s; during it \(during.count) tokens, the slowest \(during.slowest)"
      )
      #expect(try String(contentsOfFile: rig.state + "/grantd.key", encoding: .utf8) != before)
      try await rig.restart()
      #expect(try await rig.call("account.list")["accounts"]?.array?.count == 1000)
      #expect(try await rig.token("a999").access_token.hasPrefix("a999-"))
    }
  }

  @Test("changes by grantctl, and refreshes continue under the new key")
  func commandLine() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let (status, said) = try await Programs.run(
        Programs.grantctl, ["key", "rotate", "--socket", rig.socket], in: rig.folder)
      #expect(status == 0 && said.hasPrefix("The state is sealed under a new key: 1 account\n"), "\(said)")
      let generation = try await rig.token().generation
      _ = try await rig.call(
        "token.report_rejected", ["account": "alice", "generation": .integer(generation)])
      try await rig.restart()
      let token = try await rig.token()
      #expect(token.generation > generation)
      #expect(try await works(token.access_token, at: rig.demo))
    }
  }

  @Test("that is a credential is changed by giving the old one beside the new, and a notice says when that can go")
  func credential() async throws {
    let folder = try Folder()
    func give(_ name: String, _ digit: Character) throws {
      let hex = String(repeating: "\(digit)1", count: 31) + "00"
      try folder.write(hex + "\n", to: name)
    }
    try give("grantd.key", "a")
    try await Rig.with(Wish { $0.environment = ["CREDENTIALS_DIRECTORY": folder.root] }) { rig in
      try await rig.login()
      let token = try await rig.token().access_token
      let error = try await rig.failure("store.rotate_key")
      #expect(error.reason == .keyNotReplaceable && error.hint?.contains("grantd.key.previous") == true)
      // The new one alone opens nothing, and harms nothing.
      try give("grantd.key", "b")
      try rig.kill9()
      #expect(try await rig.launch().end() == 65)
      try give("grantd.key.previous", "a")
      try await rig.start()
      #expect(try await rig.token().access_token == token)
      #expect(
        await eventually { rig.log.contains("the state was sealed again under the key in \(folder.root)/grantd.key;") })
      try await rig.restart()
      #expect(
        await eventually { rig.log.contains("nothing is sealed under the key in \(folder.root)/grantd.key.previous") })
      unlink(folder.path("grantd.key.previous"))
      try await rig.restart()
      #expect(try await rig.token().access_token == token)
    }
  }

  @Test("moves automatically from its file to a credential with another key")
  func toCredential() async throws {
    let folder = try Folder()
    try await Rig.with(Wish { $0.environment = ["CREDENTIALS_DIRECTORY": folder.root] }) { rig in
      try await rig.login()
      let token = try await rig.token().access_token
      #expect(FileManager.default.fileExists(atPath: rig.state + "/grantd.key"))
      try folder.write(String(repeating: "c1", count: 31) + "00", to: "grantd.key")
      try await rig.restart()
      #expect(try await rig.token().access_token == token)
      #expect(await eventually { rig.log.contains("the one in \(rig.state)/grantd.key is no longer needed") })
      unlink(rig.state + "/grantd.key")
      try await rig.restart()
      #expect(try await rig.token().access_token == token)
    }
  }
}
