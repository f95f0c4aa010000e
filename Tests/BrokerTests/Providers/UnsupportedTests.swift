import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// The next command after a request for something that the provider does not offer.
@Suite("The hint names a command to copy", .scheduled, .timeLimit(.minutes(5))) struct UnsupportedTests {
  private static let login = "`grantctl login example work`"

  /// The hint of the call's failure; empty if it succeeds.
  private func hint<Value>(_ body: () async throws -> Value) async -> String {
    do {
      _ = try await body()
      return ""
    } catch {
      return (error as? RPCError)?.hint ?? ""
    }
  }

  @Test("for a login on another device")
  func device() async throws {
    let rig = try await Rig()
    let params = LoginStart.Params(provider: "example", account: "work", destinations: ["device"])
    let hint = await hint { try await rig.call(LoginStart.self, params) }
    let others = "or with one on another machine: `grantctl login example work --manual`."
    #expect(hint.hasPrefix("Sign in with a browser: \(Self.login), \(others)"), "\(hint)")
    #expect(hint.contains("device_authorization_endpoint") && !hint.contains("Use another method"))
  }

  @Test(
    "for the options of a login",
    arguments: [
      LoginStart.Params(provider: "example", account: "work", audience: "api"),
      .init(provider: "example", account: "work", apps: ["rides"]),
      .init(provider: "example", account: "work", idp: "google"),
      .init(provider: "example", account: "work", prefill: ["email": "ada@example.com"]),
    ])
  func options(_ params: LoginStart.Params) async throws {
    let rig = try await Rig()
    let hint = await hint { try await rig.call(LoginStart.self, params) }
    #expect(hint.contains("Sign in without it: \(Self.login)."), "\(hint)")
  }

  @Test("for a name and password")
  func password() async throws {
    let params = LoginPassword.Params(
      provider: "example", account: "work", username: "ada", password: SecretText("open-sesame"))
    let rig = try await Rig()
    let hint = await hint { try await rig.call(LoginPassword.self, params) }
    #expect(hint.contains(Self.login), "\(hint)")
  }

  /// The hint after the provider has refused the scopes of a login.
  private func refused(_ scopes: [String]?, listed: String? = nil) async throws -> String {
    let settings = listed == nil ? ProviderSettings.plain() : .discovered()
    let rig = try await Rig(configuration: .plain([OAuthProvider(settings)]))
    if let listed {
      rig.transport.answer(.discovery) { _ in
        reply(String(TokenServer.metadata.dropLast()) + ",\"scopes_supported\":[\(listed)]}")
      }
    }
    let params = LoginStart.Params(provider: "example", account: "work", scopes: scopes)
    let login = try await rig.call(LoginStart.self, params)
    #expect(await rig.callBack(login, ["code": nil, "error": "invalid_scope"]).kind == .providerFault)
    return await hint { try await rig.waitFor(login) }
  }

  @Test("for scopes that the provider refuses at a login")
  func scopes() async throws {
    #expect(
      try await refused(["read", "admin"], listed: "\"read\",\"write\"")
        == "Provider example does not list admin. Sign in without: `grantctl login example work --scope read`.")
    // Metadata omit API scopes and offline_access.
    let api = "https://api.example.com/files.read"
    #expect(
      try await refused(["read", api, "offline_access", "admin"], listed: "\"read\"")
        == "Provider example does not list admin. Sign in without: "
        + "`grantctl login example work --scope read --scope \(api) --scope offline_access`.")
    #expect(
      try await refused(["read", "admin"])
        == "Sign in with the configured scopes: \(Self.login). Or name others with --scope.")
    #expect(
      try await refused(nil)
        == "Correct `scopes` in [provider.example]. Then run `grantctl reload` and \(Self.login).")
  }

  @Test("for scopes of a token that the account was not granted; a scope with characters of a shell is not repeated")
  func notGranted() async throws {
    let store = MemoryStore()
    try await store.signIn("work")
    let rig = try await Rig(store: store)
    for (scope, options) in [("write", "--scope read --scope write"), ("$(id)", "--scope …")] {
      let hint = await hint { try await rig.call(TokenGet.self, .init(account: "work", scopes: [scope])) }
      let login = "`grantctl login example work \(options)`"
      #expect(
        hint == "Sign in again with all the scopes that are needed: \(login). Without: `grantctl token work`.")
    }
  }

  @Test("that keeps the resource and the refresh token of the account")
  func kept() {
    let saved = SavedGrant(
      account: account("work"), provider: provider("example"), identity: nil,
      requestedScopes: ["openid", "offline_access", "read"], grantedScopes: ["openid", "read"],
      resource: "https://api.example.com/", refreshToken: nil, generation: 1, createdAt: ManualClock.start,
      loggedInAt: ManualClock.start)
    #expect(
      HintedCommand.login(saved, adding: ["write", "read"])
        == "grantctl login example work --scope openid --scope offline_access --scope read --scope write"
        + " --resource https://api.example.com/")
    #expect(
      HintedCommand.separateLogin(saved, scopes: ["read"])
        == "grantctl login example work-limited --scope openid --scope offline_access --scope read")
    let many = (0..<20).map { "scope\($0)" }
    #expect(HintedCommand.login(saved, adding: many).hasSuffix(" work --scope … --resource https://api.example.com/"))
  }
}
