import AsyncClient
import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("Many narrowed tokens of one account")
struct NarrowedCrowdTests {
  /// Six scopes have more subsets than tokens are kept.
  private static let letters = ["a", "b", "c", "d", "e", "f"]
  private static let sets: [[String]] = (1...40).map { number in
    letters.enumerated().filter { number & 1 << $0.offset != 0 }.map(\.element)
  }

  private func withLetters(_ body: (Rig) async throws -> Void) async throws {
    try await Rig.with(starting: false) { rig in
      let text = try String(contentsOfFile: rig.configurationFile, encoding: .utf8)
      let scopes = (["openid"] + Self.letters).map { "\"\($0)\"" }.joined(separator: ", ")
      let changed = text.replacing(
        "scopes = [\"openid\", \"email\", \"profile\", \"offline_access\"]", with: "scopes = [\(scopes)]")
      try rig.folder.write(changed, to: "grantd.toml")
      try await rig.start()
      try await rig.login()
      try await body(rig)
    }
  }

  @Test("of forty scope sets the last 32 are kept, and every one of them is had; the account's own token stays")
  func many() async throws {
    try await withLetters { rig in
      let whole = try await rig.token()
      for set in Self.sets { #expect(try await Set(rig.narrowed(scopes: set).scope) == Set(set)) }
      #expect(rig.count(.tokenRefresh) == 40)
      try await rig.restart()
      for set in Self.sets.suffix(32) { _ = try await rig.narrowed(scopes: set) }
      #expect(rig.count(.tokenRefresh) == 40)
      _ = try await rig.narrowed(scopes: Self.sets[0])
      #expect(rig.count(.tokenRefresh) == 41)
      #expect(try await rig.token().access_token == whole.access_token)
      #expect(rig.demo.stats().count(.reuse) == 0 && rig.demo.stats().liveGrants == 1)
    }
  }

  @Test("forty callers that each want another scope set all get it, by one refresh at a time")
  func manyAtOnce() async throws {
    try await withLetters { rig in
      let tokens = try await withThrowingTaskGroup(of: (Int, Token).self) { group in
        for (index, set) in Self.sets.enumerated() {
          group.addTask { (index, try await rig.narrowed(scopes: set, timeout: 40)) }
        }
        return try await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
      }
      for (index, set) in Self.sets.enumerated() { #expect(Set(tokens[index]?.scope ?? []) == Set(set)) }
      #expect(rig.count(.tokenRefresh) == 40)
      let stats = rig.demo.stats()
      #expect(stats.refreshesInFlightMax == 1 && stats.count(.reuse) == 0 && stats.liveGrants == 1)
    }
  }

  @Test("a daemon that is killed among narrowed refreshes loses no grant where the old refresh token is still taken")
  func killed() async throws {
    let wish = Wish {
      $0.rotation = .grace
      $0.provider = "rotation = \"grace 60s\""
    }
    try await Rig.with(wish) { rig in
      try await rig.login()
      for set in [["email"], ["profile"], ["openid"]] {
        let client = try rig.client
        try rig.demo.fault(.delay, at: .tokenRefresh, times: 1) {
          $0.seconds = 60
          $0.moment = .after
        }
        let before = rig.demo.stats().refreshes
        let asking = Task {
          try? await client.call(TokenGet.self, .init(account: "alice", scopes: set), timeout: .seconds(10))
        }
        try await eventually("the refresh is under way") { rig.demo.stats().refreshes > before }
        try rig.kill9()
        _ = await asking.value
        try await rig.start()
        #expect(try await rig.narrowed(scopes: set).scope == set)
      }
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
      #expect(rig.demo.stats().liveGrants == 1)
    }
  }
}
