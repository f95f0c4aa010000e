import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// The refresh tokens of discarded answers: a sign-out at the provider, a login or a logout came first.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct SignOutTests {
  private func rig(_ change: (inout ProviderSettings) -> Void = { _ in }) async throws -> Rig {
    let store = MemoryStore()
    try await store.signIn("work", age: .seconds(3700))
    let settings = ProviderSettings.plain {
      $0.logout.backchannel = true
      change(&$0)
    }
    return try await Rig(store: store, configuration: .plain([NamingProvider(settings)]))
  }

  private func refreshing(_ rig: Rig) -> Task<ErrorReason?, Never> {
    Task { await rig.reason { try await rig.token("work", timeout: 60) } }
  }

  private func queued(_ rig: Rig) -> [String] { rig.store.revocations.map(\.token.exposed).sorted() }

  @Test("The result of a refresh during a sign-out is revoked") func underWay() async throws {
    let rig = try await rig()
    rig.transport.hold(.token)
    let caller = refreshing(rig)
    #expect(await eventually { rig.transport.held(.token) == 1 })
    #expect(await rig.signOutAtProvider() == .taken)
    #expect(await caller.value == .loginRequired)
    rig.transport.release(.token)
    #expect(await rig.isQuiet())
    #expect(queued(rig) == ["work-r1", "work-r2"])
    #expect(rig.store.grant("work")?.refreshToken == nil && rig.store.token("work") == nil)
  }

  @Test("So is a renewal that is being committed when the sign-out comes") func committing() async throws {
    let rig = try await rig()
    rig.store.set(.hangs, concerning: isRenewal)
    let caller = refreshing(rig)
    #expect(await eventually { rig.store.hanging == 1 })
    let signedOut = Task { await rig.signOutAtProvider() }
    #expect(await caller.value == .loginRequired)
    rig.store.set(.works)
    #expect(await signedOut.value == .taken)
    #expect(await rig.isQuiet())
    #expect(queued(rig) == ["work-r1", "work-r2"])
    #expect(rig.store.grant("work")?.refreshToken == nil)
  }

  @Test("A refresh token that was not rotated is revoked once") func same() async throws {
    let rig = try await rig()
    rig.transport.answer(.token) { _ in
      reply(#"{"access_token":"work-a2","token_type":"Bearer","expires_in":3600,"refresh_token":"work-r1"}"#)
    }
    rig.transport.hold(.token)
    let caller = refreshing(rig)
    #expect(await eventually { rig.transport.held(.token) == 1 })
    #expect(await rig.signOutAtProvider() == .taken)
    _ = await caller.value
    rig.transport.release(.token)
    #expect(await rig.isQuiet())
    #expect(queued(rig) == ["work-r1"])
  }

  @Test(
    "The result of a refresh after a login is revoked only if a revocation is known to end only that grant",
    arguments: [
      (ProviderSettings.RevocationStyle.rfc7009, true), (.rfc7009, false), (.bearer, false),
    ])
  func replaced(_ style: ProviderSettings.RevocationStyle, _ revokesReplaced: Bool) async throws {
    let rig = try await rig {
      $0.logout.revocation = style
      $0.logout.revokesReplaced = revokesReplaced
    }
    let login = try await rig.start()
    rig.transport.hold(.token)
    let caller = refreshing(rig)
    #expect(await eventually { rig.transport.held(.token) == 1 })
    rig.transport.answer(.token) { request in
      // The login's answer: the same user, another refresh token.
      request.form["code"] == nil
        ? TokenServer.granted(request, lifetime: 3600)
        : reply(#"{"access_token":"work-a9","token_type":"Bearer","expires_in":3600,"refresh_token":"work-r9"}"#)
    }
    let callback = Task { await rig.callBack(login) }
    #expect(await eventually { rig.transport.held(.token) == 2 })
    rig.transport.releaseOne(.token, last: true)
    #expect(await callback.value.kind == .completed)
    #expect(await caller.value == nil)
    rig.transport.release(.token)
    #expect(await rig.isQuiet())
    #expect(queued(rig) == (revokesReplaced ? ["work-r1", "work-r2"] : []))
    #expect(rig.store.grant("work")?.refreshToken == Secret("work-r9"))
  }

  @Test("A renewal that the end of the broker cuts short is not: the account still has the refresh token before it")
  func cutShort() async throws {
    let rig = try await rig()
    rig.store.set(.fails, concerning: isRenewal)
    let caller = refreshing(rig)
    #expect(await caller.value == .storeFailure)
    await rig.clock.passes { await rig.broker.drain(until: rig.clock.elapsed) }
    #expect(await rig.isQuiet())
    #expect(queued(rig).isEmpty && rig.store.grant("work")?.refreshToken == Secret("work-r1"))
  }

  @Test("A refresh token that the account has by now is not revoked") func inUse() async throws {
    let rig = try await rig()
    rig.transport.hold(.token)
    let caller = refreshing(rig)
    #expect(await eventually { rig.transport.held(.token) == 1 })
    _ = try await rig.call(AccountLogout.self, .init(account: "work", revoke: false))
    let imported = Task {
      try await rig.call(
        AccountImport.self, .init(account: "work", provider: "example", refresh_token: SecretText("work-r2")))
    }
    #expect(await eventually { rig.transport.held(.token) == 2 })
    rig.transport.releaseOne(.token)
    await settle()
    #expect(queued(rig).isEmpty)
    rig.transport.release(.token)
    _ = try await imported.value
    _ = await caller.value
    #expect(rig.store.grant("work")?.refreshToken == Secret("work-r3") && queued(rig).isEmpty)
  }
}

extension Rig {
  /// The user `work` signs out at the provider, which reports it.
  ///
  /// - Parameters:
  ///   - session: the ended one; nil: all of the user's.
  ///   - number: of the logout token.
  func signOutAtProvider(session: String? = nil, number: Int = 1) async -> LogoutOutcome {
    let session = session.map { #","sid":"\#($0)""# } ?? ""
    let token = unsignedToken(
      #""jti":"\#(number)","events":{"http://schemas.openid.net/event/backchannel-logout":{}}\#(session)"#)
    return await broker.handleLogout(provider: "example", form: Data("logout_token=\(token)".utf8))
  }
}

/// A token about the user `work` for the client.
///
/// - Parameter claims: the further ones.
func unsignedToken(_ claims: String) -> String {
  let time = ManualClock.start.seconds
  let claims = """
    {"iss":"https://id.example","aud":"client","sub":"work","iat":\(time),"exp":\(time + 60),\(claims)}
    """
  return [#"{"alg":"RS256"}"#, claims, "signature"].map { text in
    Data(text.utf8).base64EncodedString().replacing("=", with: "").replacing("+", with: "-").replacing("/", with: "_")
  }.joined(separator: ".")
}
