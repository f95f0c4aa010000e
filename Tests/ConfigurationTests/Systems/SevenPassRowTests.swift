import Foundation
import Grants
import OAuth
import Testing

@testable import GrantdConfiguration
@testable import Providers

/// The rows of 7Pass's table, by the shipped template; its ID tokens, calls and logout are tested over the socket.
@Suite("7Pass, row by row")
struct SevenPassRowTests {
  static let keys = """
    profile = "7pass"
    issuer = "https://op.example.com"
    client_id = "0123456789abcdef01234567"
    redirect_uri = "de.7pass.example:/cb/authz"
    discovery = false
    authorization_endpoint = "https://op.example.com/authz"
    token_endpoint = "https://op.example.com/token"
    jwks_uri = "https://op.example.com/keys"

    """
  static let bridge = """
    bridge = [{ scheme = "fb1234", forward = "https://op.example.com/external/callback", in_query = { fbapp_type = "web" }, in_fragment = { fbapp_type = "native" } }]

    """
  private func rig(_ more: String = "") throws -> SignInRig { try SignInRig(Self.keys + more) }

  @Test("discovery: the recorded metadata are taken, hybrids and all, with nowhere to revoke at")
  func discovery() throws {
    let settings = try Fixture().load(
      "[provider.x]\nprofile = \"7pass\"\nissuer = \"https://op.example.com\"\nclient_id = \"c\"")
    let provider = OAuthProvider(try #require(settings.providers.first))
    #expect(
      provider.discovery()?.url.absoluteString == "https://op.example.com/.well-known/openid-configuration")
    let metadata = try provider.metadata(
      from: json(
        #"{"issuer":"https://op.example.com","authorization_endpoint":"https://op.example.com/authz","#
          + #""token_endpoint":"https://op.example.com/token","jwks_uri":"https://op.example.com/jwks","#
          + #""response_types_supported":["code","code token","code id_token","code id_token token"],"#
          + #""token_endpoint_auth_methods_supported":["client_secret_post","client_secret_basic"],"#
          + #""subject_types_supported":["public"],"id_token_signing_alg_values_supported":["RS256"]}"#))
    #expect(metadata.endpoints[.revocation] == nil)
    #expect(provider.revocation(of: Secret("t"), hint: "access_token", context: [:], metadata: metadata) == nil)
  }

  @Test(
    "calls: below the issuer, where the section names no other address",
    arguments: [
      ("", "https://op.example.com"), ("api_base = \"https://api.example.com/v2\"", "https://api.example.com/v2"),
    ])
  func calls(_ more: String, _ base: String) throws {
    let api = try rig(more).provider.apiTraits
    #expect(api.base?.absoluteString == base)
  }

  @Test("authorization: a code, four scopes, consent, and free parameters of the provider's and of the login")
  func authorization() throws {
    let rig = try rig("authorization_parameters = { utm_source = \"grantd\", fbapp_pres = \"0\" }")
    let place = try rig.place([]) { $0.parameters = ["fbapp_pres": "1", "adid": "a b"] }.place
    #expect(
      place.url.parameters == [
        "response_type": "code", "client_id": "0123456789abcdef01234567", "redirect_uri": "de.7pass.example:/cb/authz",
        "scope": "openid offline_access profile email", "state": "the-state", "nonce": "the-nonce",
        "code_challenge": SignInRig.challenge, "code_challenge_method": "S256", "prompt": "consent",
        "utm_source": "grantd", "fbapp_pres": "1", "adid": "a b",
      ])
    #expect(place.warnings.isEmpty)
    let silent = try rig.place([]) { $0.prompt = "login" }.place
    #expect(silent.warnings.count == 1 && silent.warnings[0].contains("offline_access"))
  }

  static let addresses: [(String, CallbackClaim)] = [
    ("de.7pass.example:/cb/authz?code=c&state=the-state", .named),
    ("DE.7Pass.example:/cb/authz?code=c&state=the-state", .named),
    ("de.7pass.example:/cb/authz?code=c&state=other", .refused(.wrongState)),
    ("de.7pass.example:/cb/authz?code=c", .refused(.missingState)),
    ("de.7pass.example:///cb/authz?code=c&state=the-state", .refused(.wrongAddress)),
    ("de.7pass.example://cb/authz?code=c&state=the-state", .refused(.wrongAddress)),
    ("de.7pass.example:/cb/authz/?code=c&state=the-state", .refused(.wrongAddress)),
    ("de.7pass.example:/cb/authzX?code=c&state=the-state", .refused(.wrongAddress)),
    ("de.7pass.example:/cb/AUTHZ?code=c&state=the-state", .refused(.wrongAddress)),
    ("de.7pass.example:cb/authz?code=c&state=other", .foreign),
    ("de.7pass.examples:/cb/authz?code=c&state=other", .foreign),
  ]

  @Test("redirect: one slash and no host, matched exactly", arguments: addresses)
  func redirect(address: String, claim: CallbackClaim) throws {
    let rig = try rig()
    #expect(rig.claim(address, try rig.login()) == claim)
  }

  @Test("exchange: a form with client_id and the verifier; JSON with Basic by settings, the verifier always")
  func exchange() throws {
    let address = "de.7pass.example:/cb/authz?code=c&state=the-state"
    let plain = try rig()
    let form = try #require(try plain.exchange(address, try plain.login(), "{}").sent.first)
    #expect(
      form.form == [
        "grant_type": "authorization_code", "code": "c", "redirect_uri": "de.7pass.example:/cb/authz",
        "client_id": "0123456789abcdef01234567", "code_verifier": SignInRig.verifier,
      ])
    let fixture = try Fixture()
    let secret = try fixture.write("secret", "s", mode: 0o600)
    let older = try rig(
      "client_secret_file = \"\(secret)\"\ntoken_endpoint_auth_method = \"client_secret_basic\"\nbody_format = \"json\""
    )
    let sent = try #require(try older.exchange(address, try older.login(), "{}").sent.first)
    #expect(sent.headers.contains(.init("Content-Type", "application/json")))
    #expect(sent.headers.contains { $0.name == "Authorization" && $0.value.hasPrefix("Basic ") })
    let body = try #require(JSON(message: sent.body ?? Data())?.dictionary)
    #expect(body["code_verifier"] == .string(SignInRig.verifier) && body["code"] == .string("c"))
    #expect(body["client_secret"] == nil)
  }

  @Test("refresh: the same refresh token may come back, and each use prolongs its 90 days")
  func refresh() throws {
    let traits = try rig().provider.refreshTraits
    #expect(traits.isSliding && traits.lifetime == .seconds(90 * 86_400))
    for (isProlonged, days) in [(true, 190), (false, 90)] {
      var grant = Grant(saved: try saved(), token: nil, jitter: 0)
      let later = SignInRig.start + .seconds(100 * 86_400)
      guard case .begun(let attempt, _) = grant.beginRefresh(at: later) else {
        Issue.record("no refresh")
        continue
      }
      let tokens = try TokenResponse.parse(
        json(#"{"access_token":"b","token_type":"Bearer","refresh_token":"r","expires_in":7200}"#), quirks: .init())
      _ = grant.answered(
        attempt, Issued(tokens: tokens, idToken: nil, identity: nil, warning: nil), rotation: traits.rotation,
        refreshTokenLifetime: traits.lifetime, isProlonged: isProlonged)
      _ = grant.committed(attempt, jitter: 0)
      #expect(grant.saved.refreshToken == Secret("r"))
      #expect(grant.saved.refreshTokenExpiresAt == SignInRig.start + .seconds(Int64(days) * 86_400))
    }
  }

  private func saved() throws -> SavedGrant {
    SavedGrant(
      account: try #require(AccountName(rawValue: "x")), provider: try #require(ProviderName(rawValue: "x")),
      identity: nil, requestedScopes: [], grantedScopes: [], refreshToken: Secret("r"),
      refreshTokenExpiresAt: SignInRig.start + .seconds(90 * 86_400), generation: 1, createdAt: SignInRig.start,
      loggedInAt: SignInRig.start)
  }

  // MARK: The bridge

  static let forward = "https://op.example.com/external/callback?"
  static let bridged: [(String, String)] = [
    ("fb1234://authorize?code=c%2Fd&state=s+t", "code=c%2Fd&state=s%20t&fbapp_type=web"),
    ("FB1234://authorize?state=s&code=c&extra=1#code=x&state=y", "code=c&state=s&fbapp_type=web"),
    ("fb1234://authorize#state=s&code=c%26d", "code=c%26d&state=s&fbapp_type=native"),
    ("fb1234://authorize?state=#state=s&code=c", "code=c&state=s&fbapp_type=native"),
    ("fb1234://authorize?code=c#state=s", "code=c&state=s&fbapp_type=native"),
    ("fb1234:/authorize?code=c&state=the-state", "code=c&state=the-state&fbapp_type=web"),
  ]

  @Test(
    "native sign-in bridge: the other application's answer goes on, encoded anew, and the login waits",
    arguments: bridged)
  func bridge(address: String, query: String) throws {
    let rig = try rig(Self.bridge)
    #expect(rig.claim(address, try rig.login()) == .passOn(try #require(URL(string: Self.forward + query))))
  }

  static let unbridged: [(String, CallbackClaim)] = [
    ("fb1234://authorize?code=c", .refused(.missingState)), ("fb1234://authorize", .refused(.missingState)),
    ("fb1234://authorize?state=s", .refused(.neitherCodeNorError)),
    ("fb1234://authorize?state=s&state=t&code=c", .refused(.missingState)),
    ("fb1234://authorize?state=s&error=access_denied", .refused(.denied(OAuthError(code: .accessDenied)))),
    ("fb1234://authorize?state=\(String(repeating: "s", count: 2049))&code=c", .refused(.tooLarge)),
    ("fb12345://authorize?code=c&state=s", .foreign),
  ]

  @Test("native sign-in bridge: what has no code or no state goes nowhere", arguments: unbridged)
  func notBridged(address: String, claim: CallbackClaim) throws {
    let rig = try rig(Self.bridge)
    #expect(rig.claim(address, try rig.login()) == claim)
  }
}
