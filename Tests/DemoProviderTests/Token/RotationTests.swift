import Crypto
import DemoProvider
import Foundation
import NIOHTTP1
import Testing

@Suite struct RotationTests {
  @Test func strictRotationRevokesTheFamilyWhenAnOldTokenIsUsed() async throws {
    try await withServer { server, client in
      let first = await client.signIn()
      let second = Tokens(await client.refresh(first.refresh))
      #expect(second.refresh != first.refresh && !second.refresh.isEmpty)
      #expect(await client.refresh(first.refresh)?.json?["error"] == "invalid_grant")
      #expect(await client.refresh(second.refresh)?.json?["error"] == "invalid_grant")
      #expect(await client.userinfo(second.access)?.status == 401)
      #expect(server.stats().deadGrants == 1)
    }
  }

  @Test func theLedgerSaysWhatBecameOfAToken() async throws {
    try await withServer { server, client in
      func facts(_ body: DemoServer.JSON) async -> DemoServer.JSON? {
        await client.send(.POST, "/_control/token", json: body)?.json
      }
      let first = await client.signIn()
      let second = Tokens(await client.refresh(first.refresh))
      #expect(
        await facts(["token": .string(first.refresh)]) == [
          "kind": "refresh", "grant": 1, "user": "alice", "live": false, "current": false, "rotated_last": true,
          "ended": .null,
        ])
      let hash = JWT.text(Data(SHA256.hash(data: Data(second.refresh.utf8))))
      #expect(
        await facts(["refresh_token_sha256": .string(hash)]) == [
          "kind": "refresh", "grant": 1, "user": "alice", "live": true, "current": true, "rotated_last": false,
          "ended": .null,
        ])
      #expect(await facts(["token": .string(first.access)])?["current"] == false)
      _ = Tokens(await client.refresh(second.refresh))
      #expect(await facts(["token": .string(first.refresh)])?["rotated_last"] == false)
      #expect(await facts(["token": .string(second.refresh)])?["rotated_last"] == true)
      #expect(await client.refresh(first.refresh)?.status == 400)
      #expect(await facts(["token": .string(second.access)])?["ended"] == "refresh token reused")
      #expect(await facts(["token": "nobody's"]) == ["kind": "unknown"])
      #expect(server.stats().refreshesInFlight == 0)
    }
  }

  @Test func aGraceKeepsTheOldTokenGoodForAWhile() async throws {
    let clock = StepClock()
    try await withServer({
      $0.now = { clock.now }
      $0.settings.rotation = .grace
      $0.settings.grace = .seconds(10)
    }) { server, client in
      let first = await client.signIn()
      let second = Tokens(await client.refresh(first.refresh))
      clock.advance(9)
      let again = Tokens(await client.refresh(first.refresh))
      #expect(again.refresh == second.refresh && again.access != second.access)
      clock.advance(2)
      #expect(await client.refresh(first.refresh)?.json?["error"] == "invalid_grant")
      #expect(server.stats().grants.first?.ended == "refresh token reused")
    }
  }

  @Test func oneOfManyRefreshesAtOnceWinsAndTheServerSawThemTogether() async throws {
    try await withServer { server, client in
      let token = await client.signIn().refresh
      try server.fault(.delay, at: .tokenRefresh) { $0.seconds = 0.5 }
      let winners = await withTaskGroup(of: Int.self) { group in
        for _ in 0..<20 { group.addTask { await client.refresh(token)?.status == 200 ? 1 : 0 } }
        return await group.reduce(0, +)
      }
      #expect(winners == 1)
      #expect(server.stats().refreshesInFlightMax > 1)
      #expect(server.stats().deadGrants == 1)
    }
  }
}
