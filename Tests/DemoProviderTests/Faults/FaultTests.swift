import DemoProvider
import NIOHTTP1
import TestSupport
import Testing

@Suite struct FaultTests {
  @Test(arguments: FaultCase.all)
  func aFaultShowsOnceAndThenNoMore(_ fault: FaultCase) async throws {
    try await withServer { server, client in
      let clean = await Sight.take(at: fault.place, server, client)
      #expect(fault.isSlowness || !fault.shows(clean), "it shows without the fault")
      try server.fault(.init(fault.kind, at: fault.place, times: 1, fault.parameters))
      let faulty = await Sight.take(at: fault.place, server, client)
      #expect(fault.shows(faulty), "\(faulty)")
      #expect(server.stats().faultHits == [fault.kind.rawValue: 1])
      let after = await Sight.take(at: fault.place, server, client)
      #expect(fault.isSlowness || !fault.shows(after), "it shows again")
    }
  }

  @Test func theTableHasEveryKind() {
    let missing = Set(DemoServer.Fault.Kind.allCases).subtracting(FaultCase.all.map(\.kind))
      // These two need more than one request: ProofTests, SignedResponseTests.
      .subtracting([.noNonceHeader, .plainResponse])
    #expect(missing.isEmpty)
  }

  @Test func aFaultWithoutACountLastsUntilReset() async throws {
    try await withServer { server, client in
      try server.fault(.status, at: .any)
      for path in ["/jwks", "/.well-known/openid-configuration", "/jwks"] {
        #expect(await client.send(.GET, path)?.status == 503)
      }
      server.reset()
      #expect(await client.send(.GET, "/jwks")?.status == 200)
    }
  }

  @Test func aFaultIsNotUsedUpWhereItCannotAct() async throws {
    try await withServer { server, client in
      try server.fault(.wrongNonce, at: .any, times: 1)
      _ = await client.send(.GET, "/jwks")
      _ = await client.authorize()
      #expect(server.stats().faultsSet == 1)
      #expect(JWT.part(1, of: await client.signIn().id)?["nonce"] == "wrong-nonce")
      #expect(server.stats().faultsSet == 0)
    }
  }

  @Test(.timeLimit(.minutes(5)), arguments: [DemoServer.Fault.Moment.before, .after])
  func aDelayStandsBeforeOrAfterTheStateChange(_ moment: DemoServer.Fault.Moment) async throws {
    try await withServer { server, client in
      let token = await client.signIn().refresh
      try server.fault(.delay, at: .tokenRefresh, times: 1) {
        $0.seconds = 3600
        $0.moment = moment
      }
      async let answer = client.refresh(token)
      let committed = moment == .after ? 1 : 0
      #expect(
        await eventually {
          server.stats().requests["token.refresh"] != nil && server.stats().refreshes >= committed
        })
      #expect(server.stats().refreshes == committed)
      await server.stop()
      #expect(await answer == nil)
      #expect(server.stats().refreshes == committed)
    }
  }

  @Test(.timeLimit(.minutes(5))) func delayedAnswersAreLetGo() async throws {
    try await withServer { server, client in
      let token = await client.signIn().refresh
      try server.fault(.delay, at: .any, times: 2) { $0.seconds = 3600 }
      let delayed = [
        Task { await client.send(.GET, "/jwks")?.status }, Task { await client.refresh(token)?.status },
      ]
      #expect(
        await eventually {
          server.stats().requests["jwks"] != nil && server.stats().requests["token.refresh"] != nil
        })
      #expect(server.stats().refreshes == 0)
      #expect(await client.send(.POST, "/_control/release", json: [:])?.status == 200)
      for answer in delayed { #expect(await answer.value == 200) }
      #expect(server.stats().refreshes == 1)
    }
  }

  @Test func aLostAnswerLeavesARotatedTokenBehind() async throws {
    try await withServer { server, client in
      let kept = await client.signIn(user: "alice").refresh
      try server.fault(.dropBeforeCommit, at: .tokenRefresh, times: 1)
      #expect(await client.refresh(kept) == nil)
      #expect(await client.refresh(kept)?.status == 200)
      let lost = await client.signIn(user: "bob").refresh
      try server.fault(.dropAfterCommit, at: .tokenRefresh, times: 1)
      #expect(await client.refresh(lost) == nil)
      #expect(await client.refresh(lost)?.json?["error"] == "invalid_grant")
      #expect(server.stats().grants.map(\.ended) == [nil, "refresh token reused"])
    }
  }
}
