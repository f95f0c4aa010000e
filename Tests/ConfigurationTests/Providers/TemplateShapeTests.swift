import Foundation
import Grants
import OAuth
import Testing

@testable import GrantdConfiguration
@testable import Providers

/// What a provider documents of its token endpoint: an answer to a code, one to a refresh, and the one that means "sign in
/// again".
struct Shape: Sendable, CustomTestStringConvertible {
  var profile: String
  var keys = ""
  var answer: String
  var expiresIn: Duration?
  var refreshToken: String?
  var refreshTokenExpiresIn: Duration?
  var scope: [String]?
  var kept = "{}"
  /// Nil: the provider has no refresh tokens.
  var refreshed: String?
  /// The refresh token in it; nil: the old one stays.
  var newRefreshToken: String?
  var refusal: String?
  var status = 400
  var testDescription: String { profile }
}

@Suite("What each provider's token endpoint is documented to answer")
struct TemplateShapeTests {
  static let shapes: [Shape] = [
    Shape(
      profile: "google", keys: secret,
      answer:
        #"{"access_token":"a","expires_in":3920,"token_type":"Bearer","scope":"openid email","refresh_token":"r"}"#,
      expiresIn: .seconds(3920), refreshToken: "r", scope: ["openid", "email"],
      refreshed: #"{"access_token":"b","expires_in":3920,"scope":"openid email","token_type":"Bearer"}"#,
      refusal: #"{"error":"invalid_grant","error_description":"Token has been expired or revoked."}"#),
    Shape(
      profile: "microsoft",
      answer: #"{"access_token":"a","token_type":"Bearer","expires_in":3599,"ext_expires_in":3599,"refresh_in":1800,"#
        + #""scope":"openid offline_access","refresh_token":"r","client_info":"e30"}"#,
      expiresIn: .seconds(3599), refreshToken: "r", scope: ["openid", "offline_access"],
      refreshed: #"{"access_token":"b","token_type":"Bearer","expires_in":3599,"scope":"openid","refresh_token":"r2"}"#,
      newRefreshToken: "r2",
      refusal: #"{"error":"invalid_grant","error_description":"AADSTS50173: The provided grant has expired.","#
        + #""error_codes":[50173],"suberror":"bad_token","timestamp":"2025-01-01 00:00:00Z","trace_id":"t"}"#),
    Shape(
      profile: "github", keys: secret,
      answer:
        #"{"access_token":"ghu_a","expires_in":28800,"refresh_token":"ghr_r","refresh_token_expires_in":15897600,"#
        + #""scope":"","token_type":"bearer"}"#,
      expiresIn: .seconds(28_800), refreshToken: "ghr_r", refreshTokenExpiresIn: .seconds(15_897_600), scope: [],
      refreshed: #"{"access_token":"ghu_b","expires_in":28800,"refresh_token":"ghr_s","#
        + #""refresh_token_expires_in":15897600,"scope":"","token_type":"bearer"}"#,
      newRefreshToken: "ghr_s",
      refusal: #"{"error":"bad_refresh_token","error_description":"The refresh token passed is incorrect or expired.","#
        + #""error_uri":"https://docs.github.com/"}"#,
      status: 200),
    Shape(
      profile: "github-oauth", keys: secret,
      answer: #"{"access_token":"gho_a","scope":"repo,gist","token_type":"bearer"}"#, scope: ["repo", "gist"]),
    Shape(
      profile: "gitlab",
      answer: #"{"access_token":"a","token_type":"bearer","expires_in":7200,"refresh_token":"r","#
        + #""created_at":1607635748}"#,
      expiresIn: .seconds(7200), refreshToken: "r",
      refreshed: #"{"access_token":"b","token_type":"bearer","expires_in":7200,"refresh_token":"r2","created_at":1}"#,
      newRefreshToken: "r2",
      refusal: #"{"error":"invalid_grant","error_description":"The provided authorization grant is invalid, expired, "#
        + #"revoked, or was issued to another client."}"#),
    Shape(
      profile: "slack", keys: "authorization_parameters = { user_scope = \"chat:write\" }",
      answer: #"{"ok":true,"app_id":"A0","authed_user":{"id":"U1","scope":"chat:write,channels:read","#
        + #""access_token":"xoxe.xoxp-1","token_type":"user","expires_in":43200,"refresh_token":"xoxe-1-r"},"#
        + #""team":{"id":"T1","name":"Team"},"enterprise":null,"is_enterprise_install":false}"#,
      expiresIn: .seconds(43_200), refreshToken: "xoxe-1-r", scope: ["chat:write", "channels:read"],
      kept: #"{"enterprise":null,"id":"U1","team":{"id":"T1","name":"Team"}}"#,
      refreshed: #"{"ok":true,"access_token":"xoxe.xoxp-2","token_type":"user","expires_in":43200,"#
        + #""refresh_token":"xoxe-1-s","scope":"chat:write","user_id":"U1","team":{"id":"T1"}}"#,
      newRefreshToken: "xoxe-1-s", refusal: #"{"ok":false,"error":"invalid_refresh_token"}"#, status: 200),
    Shape(
      profile: "slack-bot", keys: secret + "\nredirect_uri = \"https://app.example.com/cb\"",
      answer: #"{"ok":true,"access_token":"xoxb-1","token_type":"bot","scope":"commands,incoming-webhook","#
        + #""bot_user_id":"U0","app_id":"A0","expires_in":43200,"refresh_token":"xoxe-1-r","#
        + #""team":{"name":"Team","id":"T9"},"enterprise":null,"authed_user":{"id":"U1"}}"#,
      expiresIn: .seconds(43_200), refreshToken: "xoxe-1-r", scope: ["commands", "incoming-webhook"],
      kept: #"{"bot_user_id":"U0","enterprise":null,"team":{"id":"T9","name":"Team"}}"#,
      refreshed: #"{"ok":true,"access_token":"xoxe.xoxb-2","token_type":"bot","expires_in":43200,"#
        + #""refresh_token":"xoxe-1-s","scope":"commands"}"#,
      newRefreshToken: "xoxe-1-s", refusal: #"{"ok":false,"error":"token_revoked"}"#, status: 200),
    Shape(
      profile: "linkedin", keys: secret,
      answer: #"{"access_token":"AQX","expires_in":5184000,"refresh_token":"AQW","refresh_token_expires_in":31536000,"#
        + #""scope":"email,openid,profile"}"#,
      expiresIn: .seconds(5_184_000), refreshToken: "AQW", refreshTokenExpiresIn: .seconds(31_536_000),
      scope: ["email", "openid", "profile"],
      refreshed: #"{"access_token":"BBB","expires_in":86400,"refresh_token":"AQW","refresh_token_expires_in":439200}"#,
      newRefreshToken: "AQW",
      refusal: #"{"error":"invalid_grant","error_description":"The provided authorization grant or refresh token is "#
        + #"invalid, expired or revoked."}"#),
    Shape(
      profile: "salesforce", keys: secret,
      answer: #"{"access_token":"00Dx!a","refresh_token":"5Aep","signature":"s","scope":"refresh_token api","#
        + #""instance_url":"https://example.my.salesforce.com","id":"https://login.salesforce.com/id/00D/005","#
        + #""token_type":"Bearer","issued_at":"1708058728442"}"#,
      expiresIn: .seconds(7200), refreshToken: "5Aep", scope: ["refresh_token", "api"],
      kept: #"{"id":"https://login.salesforce.com/id/00D/005","instance_url":"https://example.my.salesforce.com"}"#,
      refreshed: #"{"access_token":"00Dx!b","signature":"s","scope":"refresh_token api","#
        + #""instance_url":"https://example.my.salesforce.com","id":"https://login.salesforce.com/id/00D/005","#
        + #""token_type":"Bearer","issued_at":"1708058728443"}"#,
      refusal: #"{"error":"invalid_grant","error_description":"expired access/refresh token"}"#),
    Shape(
      profile: "xero",
      answer: #"{"access_token":"a","expires_in":1800,"token_type":"Bearer","refresh_token":"r","#
        + #""scope":"openid profile email offline_access"}"#,
      expiresIn: .seconds(1800), refreshToken: "r", scope: ["openid", "profile", "email", "offline_access"],
      refreshed: #"{"access_token":"b","expires_in":1800,"token_type":"Bearer","refresh_token":"r2"}"#,
      newRefreshToken: "r2", refusal: #"{"error":"invalid_grant"}"#),
    Shape(
      profile: "quickbooks", keys: secret,
      answer: #"{"token_type":"bearer","expires_in":3600,"refresh_token":"r","x_refresh_token_expires_in":8726400,"#
        + #""access_token":"a"}"#,
      expiresIn: .seconds(3600), refreshToken: "r", refreshTokenExpiresIn: .seconds(8_726_400),
      refreshed: #"{"token_type":"bearer","expires_in":3600,"refresh_token":"r2","#
        + #""x_refresh_token_expires_in":8640000,"access_token":"b"}"#,
      newRefreshToken: "r2",
      refusal: #"{"error":"invalid_grant","error_description":"Incorrect or invalid refresh token"}"#),
    Shape(
      profile: "zoom", keys: secret,
      answer: #"{"access_token":"a","token_type":"bearer","refresh_token":"r","expires_in":3599,"#
        + #""scope":"user:read:user meeting:read","api_url":"https://api.zoom.us"}"#,
      expiresIn: .seconds(3599), refreshToken: "r", scope: ["user:read:user", "meeting:read"],
      kept: #"{"api_url":"https://api.zoom.us"}"#,
      refreshed: #"{"access_token":"b","token_type":"bearer","refresh_token":"r2","expires_in":3599,"scope":"x"}"#,
      newRefreshToken: "r2", refusal: #"{"reason":"Invalid Token!","error":"invalid_request"}"#, status: 401),
    Shape(
      profile: "spotify",
      answer: #"{"access_token":"a","token_type":"Bearer","scope":"user-read-private","expires_in":3600,"#
        + #""refresh_token":"r"}"#,
      expiresIn: .seconds(3600), refreshToken: "r", scope: ["user-read-private"],
      refreshed: #"{"access_token":"b","token_type":"Bearer","expires_in":3600,"refresh_token":"r2","scope":"x"}"#,
      newRefreshToken: "r2", refusal: #"{"error":"invalid_grant","error_description":"Refresh token revoked"}"#),
    Shape(
      profile: "dropbox",
      answer: #"{"access_token":"sl.a","token_type":"bearer","expires_in":14400,"refresh_token":"r","scope":"x y","#
        + #""uid":"12345","account_id":"dbid:1"}"#,
      expiresIn: .seconds(14_400), refreshToken: "r", scope: ["x", "y"],
      kept: #"{"account_id":"dbid:1","uid":"12345"}"#,
      refreshed: #"{"access_token":"sl.b","token_type":"bearer","expires_in":14400}"#,
      refusal: #"{"error":"invalid_grant","error_description":"refresh token is invalid or revoked"}"#),
    Shape(
      profile: "uber",
      answer: #"{"access_token":"a","token_type":"Bearer","expires_in":"2592000","refresh_token":"r","#
        + #""scope":["profile","history"]}"#,
      expiresIn: .seconds(2_592_000), refreshToken: "r", scope: ["profile", "history"],
      refreshed: #"{"access_token":"b","token_type":"Bearer","expires_in":2592000,"refresh_token":"r2","scope":"p"}"#,
      newRefreshToken: "r2", refusal: #"{"error":"invalid_grant"}"#),
    Shape(
      profile: "7pass", keys: "issuer = \"https://op.example.com\"",
      answer: #"{"access_token":"a","token_type":"Bearer","refresh_token":"r","expires_in":7200}"#,
      expiresIn: .seconds(7200), refreshToken: "r",
      refreshed: #"{"access_token":"b","token_type":"Bearer","refresh_token":"r","expires_in":7200}"#,
      newRefreshToken: "r", refusal: #"{"error":"invalid_grant"}"#),
    Shape(
      profile: "keycloak", keys: "host = \"login.example.com\"\nrealm = \"company\"",
      answer: #"{"access_token":"a","expires_in":300,"refresh_expires_in":1800,"refresh_token":"r","#
        + #""token_type":"Bearer","not-before-policy":0,"session_state":"s","scope":"openid email"}"#,
      expiresIn: .seconds(300), refreshToken: "r", refreshTokenExpiresIn: .seconds(1800), scope: ["openid", "email"],
      refreshed: #"{"access_token":"b","expires_in":300,"refresh_expires_in":0,"refresh_token":"r2","#
        + #""token_type":"Bearer","not-before-policy":0,"session_state":"s","scope":"openid"}"#,
      newRefreshToken: "r2", refusal: #"{"error":"invalid_grant","error_description":"Token is not active"}"#),
    Shape(
      profile: "auth0", keys: "domain = \"example.eu.auth0.com\"",
      answer: #"{"access_token":"a","refresh_token":"r","id_token":"i","scope":"openid offline_access","#
        + #""expires_in":86400,"token_type":"Bearer"}"#,
      expiresIn: .seconds(86_400), refreshToken: "r", scope: ["openid", "offline_access"],
      refreshed: #"{"access_token":"b","refresh_token":"r2","expires_in":86400,"token_type":"Bearer"}"#,
      newRefreshToken: "r2",
      refusal: #"{"error":"invalid_grant","error_description":"Unknown or invalid refresh token."}"#, status: 403),
    Shape(
      profile: "okta", keys: "domain = \"example.okta.com\"",
      answer: #"{"token_type":"Bearer","expires_in":3600,"access_token":"a","scope":"offline_access openid","#
        + #""refresh_token":"r","id_token":"i"}"#,
      expiresIn: .seconds(3600), refreshToken: "r", scope: ["offline_access", "openid"],
      refreshed: #"{"token_type":"Bearer","expires_in":3600,"access_token":"b","scope":"openid","refresh_token":"r2"}"#,
      newRefreshToken: "r2",
      refusal: #"{"error":"invalid_grant","error_description":"The refresh token is invalid or expired."}"#),
    Shape(
      profile: "google-service-account",
      keys: "[account.a]\nprovider = \"x\"\ngrant = \"jwt_bearer\"\nkey_file = \"ROBOT\"",
      answer: #"{"access_token":"ya29.c","expires_in":3599,"token_type":"Bearer"}"#, expiresIn: .seconds(3599)),
  ]

  private static let secret = "client_secret_file = \"SECRET\""

  private func provider(_ shape: Shape) throws -> OAuthProvider {
    let fixture = try Fixture()
    let path = try fixture.write("secret", "x", mode: 0o600)
    let keys = "[provider.x]\nprofile = \"\(shape.profile)\"\nclient_id = \"c\"\n\(shape.keys)"
    let robot = try fixture.write("robot.json", TestKey.googleServiceAccount, mode: 0o600)
    let settings = try fixture.load(keys.replacing("SECRET", with: path).replacing("ROBOT", with: robot))
    #expect(settings.warnings.isEmpty)
    return OAuthProvider(try #require(settings.providers.first))
  }

  private func answer(_ body: String, status: Int = 200) -> HTTPResponse {
    HTTPResponse(
      status: status, headers: [.init("Content-Type", "application/json; charset=utf-8")], body: Data(body.utf8))
  }

  @Test("Every template is in this table", arguments: [Set(shapes.map(\.profile))])
  func complete(known: Set<String>) throws {
    let files = try FileManager.default.contentsOfDirectory(atPath: "\(Fixture.package)/config/providers.d")
    // The two that are for any provider have no shapes of their own.
    let names = Set(files.map { $0.replacing(".toml", with: "") }).subtracting(["oidc", "oauth2"])
    #expect(names == known)
  }

  @Test("The answer to a code", arguments: shapes)
  func code(shape: Shape) throws {
    let tokens = try TokenResponse.parse(answer(shape.answer), quirks: provider(shape).settings.token.response)
    #expect(tokens.tokenType == "Bearer")
    #expect((tokens.expiresIn ?? tokens.configuredLifetime) == shape.expiresIn)
    #expect(tokens.refreshToken == shape.refreshToken.map(Secret.init))
    #expect(tokens.refreshTokenExpiresIn == shape.refreshTokenExpiresIn)
    #expect(tokens.scope == shape.scope)
    #expect(String(decoding: tokens.extra, as: UTF8.self) == shape.kept)
  }

  @Test("The answer to a refresh", arguments: shapes.filter { $0.refreshed != nil })
  func refresh(shape: Shape) throws {
    let body = try #require(shape.refreshed)
    let tokens = try TokenResponse.parse(answer(body), quirks: provider(shape).settings.refreshResponse)
    #expect(tokens.tokenType == "Bearer")
    #expect(!tokens.accessToken.isEmpty)
    #expect((tokens.expiresIn ?? tokens.configuredLifetime) != nil)
    #expect(tokens.refreshToken == shape.newRefreshToken.map(Secret.init))
  }

  @Test("The answer that means \"sign in again\" ends the grant", arguments: shapes.filter { $0.refusal != nil })
  func refusal(shape: Shape) throws {
    let provider = try provider(shape)
    let body = try #require(shape.refusal)
    do throws(ResponseError) {
      _ = try TokenResponse.parse(
        answer(body, status: shape.status), quirks: provider.settings.refreshResponse)
      Issue.record("it was taken for tokens")
    } catch {
      guard case .ended(.refused, _, let oauth?) = provider.classify(error) else {
        Issue.record("\(provider.classify(error))")
        return
      }
      #expect(body.contains("\"\(oauth.code)\""))
    }
  }

  @Test("Errors that pass end nothing: Slack's throttle, Zoom's other invalid requests, a wrong code at GitHub")
  func passing() throws {
    let cases: [(profile: String, body: String, status: Int, isOfProvider: Bool)] = [
      ("slack-bot", #"{"ok":false,"error":"ratelimited"}"#, 200, true),
      ("slack-bot", #"{"ok":false}"#, 200, false),
      ("zoom", #"{"reason":"Missing grant type","error":"invalid_request"}"#, 400, false),
      (
        "github-oauth", #"{"error":"bad_verification_code","error_description":"The code passed is incorrect."}"#, 200,
        false
      ),
      ("salesforce", #"{"error":"unknown_error","error_description":"retry your request"}"#, 400, false),
    ]
    for (profile, body, status, isOfProvider) in cases {
      let provider = try provider(try #require(Self.shapes.first { $0.profile == profile }))
      let error = try #require(throws: ResponseError.self) {
        try TokenResponse.parse(answer(body, status: status), quirks: provider.settings.refreshResponse)
      }
      switch provider.classify(error) {
      case .rateLimited, .tryLater: #expect(isOfProvider, "\(profile): \(body)")
      case .requestRefused: #expect(!isOfProvider, "\(profile): \(body)")
      case let failure: Issue.record("\(profile): \(failure)")
      }
    }
  }
}
