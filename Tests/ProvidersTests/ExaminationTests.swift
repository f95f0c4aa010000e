import Foundation
import Grants
import OAuth
import Testing

@testable import Providers

@Suite("The examination of a provider") struct ExaminationTests {
  typealias Change = @Sendable (inout ProviderSettings) -> Void

  static let members: [String: String] = [
    "issuer": "\"\(issuerText)\"", "authorization_endpoint": "\"\(issuerText)/authorize\"",
    "token_endpoint": "\"\(issuerText)/token\"", "jwks_uri": "\"\(issuerText)/keys\"",
    "revocation_endpoint": "\"\(issuerText)/revoke\"", "scopes_supported": #"["openid","mail"]"#,
    "response_types_supported": #"["code"]"#, "grant_types_supported": #"["authorization_code","refresh_token"]"#,
    "token_endpoint_auth_methods_supported": #"["client_secret_basic","private_key_jwt"]"#,
    "code_challenge_methods_supported": #"["plain","S256"]"#,
  ]

  /// The metadata with these members changed; nil removes one.
  static func document(_ changes: [String: String?] = [:]) -> String {
    var members = members.mapValues(Optional.some)
    members.merge(changes) { $1 }
    return "{" + members.compactMap { name, value in value.map { "\"\(name)\":\($0)" } }.joined(separator: ",") + "}"
  }

  private func findings(_ document: String = document(), _ change: Change = { _ in }) -> [Finding] {
    provider(.oidc, change).examine(answer(document)).findings
  }

  private func kind(_ result: Finding.Result?) -> String {
    switch result {
    case .ok: "ok"
    case .warning: "warning"
    case .failed: "failed"
    case .skipped: "skipped"
    case nil: "none"
    }
  }

  @Test("Without faults all checks pass, and the metadata are the active ones") func allIsWell() {
    let examination = provider().examine(answer(Self.document()))
    #expect(examination.findings.map { kind($0.result) } == Array(repeating: "ok", count: 7))
    #expect(examination.metadata?.endpoints[.token]?.absoluteString == issuerText + "/token")
    #expect(kind(provider().examineSettings().result) == "ok")
    #expect(kind(provider { $0.server.allowInsecureHTTP = true }.examineSettings().result) == "warning")
  }

  static let signer = try? OAuth.SigningKey.shared(Secret("s"), algorithm: .hs256)

  static let answers: [(HTTPResponse, discovery: String, issuer: String, words: String)] = [
    (answer("<html>", type: "text/html"), "failed", "skipped", "a web page"),
    (answer("{}", status: 404), "failed", "skipped", "no metadata at"),
    (answer("", status: 503), "failed", "skipped", "unavailable"),
    (answer("", status: 429), "failed", "skipped", "too many requests"),
    (
      HTTPResponse(status: 302, headers: [.init("Location", "https://b.example/\u{1B}x")]), "failed", "skipped",
      "redirect to https://b.example/\\u{1b}x"
    ),
    (answer("[]"), "failed", "skipped", "not a JSON object"),
    (answer(document(["issuer": nil])), "failed", "skipped", "issuer is not"),
    (answer(document(["issuer": "\"\(issuerText)/\""])), "ok", "failed", "the provider says \(issuerText)/"),
  ]

  @Test("Invalid metadata and metadata of another issuer differ, each with its next step", arguments: answers.indices)
  func discovery(_ index: Int) throws {
    let (response, discovery, issuer, words) = Self.answers[index]
    let examination = provider().examine(response)
    #expect(examination.metadata == nil)
    let found = examination.findings
    #expect(found.map(\.name) == [.discovery, .issuer])
    #expect(found.map { kind($0.result) } == [discovery, issuer])
    let failed = try #require(found.first { kind($0.result) == "failed" })
    #expect(failed.message.contains(words), "\(failed.message)")
    guard case .failed(let hint) = failed.result else { return }
    #expect(hint.hasSuffix(".") && hint.count > 20)
  }

  @Test("Two issuers that differ are both said, and what to write") func bothIssuers() {
    let found = findings(Self.document(["issuer": "\"https://other.example\""]))
    #expect(found.last?.message == "configured is \(issuerText), the provider says https://other.example")
    guard case .failed(let hint) = found.last?.result else { return }
    #expect(hint.contains("issuer = \"https://other.example\" and discovery_url = \"\(issuerText)/.well-known/"))
  }

  static let metadataCases: [(Finding.Name, [String: String?], Change, String, String)] = [
    (.endpoints, ["token_endpoint": nil], { _ in }, "failed", "no token_endpoint"),
    (.endpoints, ["token_endpoint": "\"http://b.example/\""], { _ in }, "failed", "unusable token_endpoint"),
    (.endpoints, ["jwks_uri": nil], { _ in }, "failed", "jwks_uri"),
    (.endpoints, ["jwks_uri": nil], { $0.access.scopes = ["mail"] }, "ok", "authorization_endpoint, token_endpoint"),
    (.endpoints, ["userinfo_endpoint": "7"], { _ in }, "warning", "userinfo_endpoint"),
    (.endpoints, ["revocation_endpoint": nil], { _ in }, "ok", "a logout only forgets"),
    (.grantTypes, ["grant_types_supported": nil], { _ in }, "ok", "do not say"),
    (.grantTypes, ["grant_types_supported": #"["authorization_code"]"#], { _ in }, "warning", "refresh_token"),
    (.grantTypes, ["response_types_supported": #"["token"]"#], { _ in }, "warning", "code"),
    (
      .grantTypes, ["require_pushed_authorization_requests": "true"], { $0.authorization.par = .never }, "failed",
      "RFC 9126"
    ),
    (.grantTypes, ["require_signed_request_object": "true"], { _ in }, "failed", "RFC 9101"),
    (
      .grantTypes, ["require_signed_request_object": "true"], { $0.authorization.requestObjectKey = signer }, "ok",
      "refresh_token"
    ),
    (
      .grantTypes, [:], { $0.signIn.isImplicit = true }, "warning",
      "tokens come by the browser (RFC 6749 §4.2), and none is ever refreshed"
    ),
    (.clientAuthentication, [:], { _ in }, "ok", "public"),
    (
      .clientAuthentication, [:], { $0.client.credential = .basic(secret: Secret("s"), encoding: .form) }, "ok", "basic"
    ),
    (
      .clientAuthentication, [:], { $0.client.credential = .post(secret: Secret("s")) }, "warning",
      "client_secret_post is used"
    ),
    (
      .clientAuthentication, ["token_endpoint_auth_methods_supported": nil],
      { $0.client.credential = .post(secret: Secret("s")) },
      "ok", "client_secret_post"
    ),
    (.clientAuthentication, [:], { $0.client.credential = .mutualTLS }, "warning", "tls_client_auth is used"),
    (
      .clientAuthentication, ["token_endpoint_auth_methods_supported": #"["self_signed_tls_client_auth"]"#],
      { $0.client.credential = .mutualTLS }, "ok", "tls_client_auth"
    ),
    (.pkce, ["code_challenge_methods_supported": nil], { _ in }, "ok", "do not say"),
    (.pkce, ["code_challenge_methods_supported": #"["plain"]"#], { _ in }, "warning", "S256"),
    (.pkce, [:], { $0.authorization.pkce = false }, "warning", "switched off"),
    (.pkce, ["code_challenge_methods_supported": nil], { $0.authorization.pkce = false }, "skipped", "switched off"),
    (.scopes, ["scopes_supported": nil], { _ in }, "ok", "do not say"),
    (.scopes, [:], { $0.access.scopes = ["openid", "mali"] }, "warning", "does not name mali"),
    (.scopes, [:], { $0.access.scopes = ["openid", "https://api.example/mail"] }, "ok", "https://api.example/mail"),
    (.scopes, [:], { $0.access.scopes = ["mail"] }, "warning", "openid is not asked for"),
    (.scopes, ["scopes_supported": #"["openid","mail","offline_access"]"#], { _ in }, "warning", "offline_access"),
    (.scopes, [:], { $0.server.issuerRule = .entraTenant }, "warning", "offline_access"),
    (.scopes, [:], { $0.server.issuerRule = .google }, "warning", "access_type=offline"),
    (
      .scopes, [:],
      {
        $0.server.issuerRule = .google
        $0.authorization.parameters = ["access_type": "offline"]
      }, "ok", "all"
    ),
    (
      .scopes, ["scopes_supported": #"["openid","offline_access"]"#],
      {
        $0.profile = "7pass"
        $0.access.scopes = ["openid", "offline_access"]
      }, "warning", "prompt=consent"
    ),
  ]

  @Test(
    "Metadata and settings that do not go together are said, and no more than that", arguments: metadataCases.indices)
  func metadataAgainstSettings(_ index: Int) throws {
    let (name, changes, change, result, words) = Self.metadataCases[index]
    let finding = try #require(findings(Self.document(changes), change).first { $0.name == name })
    #expect(kind(finding.result) == result, "\(finding)")
    #expect(finding.message.contains(words), "\(finding.message)")
  }

  @Test("Without discovery the settings' own endpoints are looked at") func configured() {
    let configured = OAuthProvider(
      settings(.oauth2) {
        $0.server.issuer = nil
        $0.server.discovery = nil
        $0.server.endpoints[.authorization] = issuerText + "/authorize"
        $0.server.endpoints[.token] = issuerText + "/token"
      })
    let found = configured.examine(nil)
    #expect(found.findings.prefix(3).map { kind($0.result) } == ["skipped", "skipped", "ok"])
    #expect(found.metadata != nil)
  }

  @Test("Keys pass if one of them can verify a permitted algorithm") func keys() {
    func result(_ algorithms: [String], _ keys: JWKSet) -> String {
      kind(provider { $0.token.idToken.algorithms = algorithms }.examine(keys, metadata: metadata).result)
    }
    #expect(result(["ES256"], keySet(key)) == "ok")
    #expect(result(["RS256"], keySet(key)) == "failed")
    #expect(result(["ES256"], keySet()) == "failed")
    #expect(result(["HS256"], keySet()) == "ok")
    #expect(result([], keySet(key)) == "failed")
  }
}
