import Foundation
import Testing

@testable import OAuth

@Suite("Transport and discovery")
struct DiscoveryTests {
  static let issuer = try! Issuer("https://id.example/realm", allowInsecureHTTP: false)

  func parse(
    _ response: HTTPResponse, expected: Issuer = issuer, rule: IssuerRule = .exact, insecure: Bool = false
  ) throws(ResponseError) -> ServerMetadata {
    try ServerMetadata.parse(response, expected: expected, issuerRule: rule, allowInsecureHTTP: insecure)
  }

  @Test(
    "1. an endpoint is https; plain http needs the switch, except to this machine",
    arguments: [
      ("https://id.example/t", false, true), ("http://id.example/t", false, false), ("http://id.example/t", true, true),
      ("http://127.0.0.1:8080/t", false, true), ("http://[::1]:8080/t", false, true),
      ("http://127.0.0.1.evil.example/t", false, false), ("ftp://id.example/t", true, false),
      ("https://id.example/t#f", false, false), ("https://user@id.example/t", false, false),
      ("https:///t", false, false), ("/t", true, false), ("https://id.example/a b", false, false),
    ])
  func endpointTransport(text: String, insecure: Bool, accepted: Bool) throws {
    #expect((Endpoint.url(text, allowInsecureHTTP: insecure) != nil) == accepted)
    let body = #"{"issuer":"https://id.example/realm","token_endpoint":"\#(text)"}"#
    let metadata = try parse(answer(body), insecure: insecure)
    #expect((metadata.endpoints[.token]?.absoluteString == text) == accepted)
  }

  @Test("1. an issuer is https in the same way")
  func issuerTransport() {
    #expect(throws: IssuerError.notHTTPS("http://id.example")) {
      try Issuer("http://id.example", allowInsecureHTTP: false)
    }
    #expect((try? Issuer("http://id.example", allowInsecureHTTP: true))?.rawValue == "http://id.example")
    #expect((try? Issuer("http://127.0.0.1:9000", allowInsecureHTTP: false)) != nil)
    #expect(IssuerError.notHTTPS("http://id.example:80/a:80").withHTTPS == "https://id.example/a:80")
    #expect(IssuerError.notHTTPS("HTTP://id.example:8080").withHTTPS == "https://id.example:8080")
    #expect(IssuerError.notAURL("http://").withHTTPS == nil)
    for (text, issuer) in [
      ("127.0.0.1", "https://127.0.0.1"), ("id.example:8443/a", "https://id.example:8443/a"), ("http://", nil),
      ("a b", nil), ("", nil), ("a;b", nil),
    ] as [(String, String?)] {
      #expect(IssuerError.notAURL(text).withScheme == issuer, "\(text)")
    }
  }

  @Test("2. a redirect is an error, not an answer", arguments: [301, 302, 303, 307, 308])
  func redirects(status: Int) {
    let response = answer(#"{"issuer":"https://id.example/realm"}"#, status: status)
    #expect(throws: ResponseError.redirect(status: status)) { try parse(response) }
    #expect(throws: ResponseError.redirect(status: status)) { try JWKSet.parse(response) }
    #expect(throws: ResponseError.redirect(status: status)) { try TokenResponse.parse(response, quirks: .init()) }
    #expect(throws: ResponseError.redirect(status: status)) { try PushedAuthorizationResponse.parse(response) }
    let revocation = RevocationRequest(token: Secret("t"), hint: nil)
    #expect(revocation.outcome(of: response) == .refused(nil))
  }

  @Test(
    "3. discovery is 200 and a JSON object",
    arguments: [
      (#"{"issuer":"https://id.example/realm"}"#, 200, true), (#"{"issuer":"https://id.example/realm"}"#, 201, false),
      (#"{"issuer":"https://id.example/realm"}"#, 500, false), ("[]", 200, false), ("<html>", 200, false),
      ("", 200, false), (#"{"issuer":7}"#, 200, false), ("{}", 200, false),
      (#"{"issuer":"https://id.example/realm"} x"#, 200, false),
    ])
  func shape(body: String, status: Int, accepted: Bool) {
    let error = thrown { () throws(ResponseError) in _ = try parse(answer(body, status: status)) }
    #expect((error == nil) == accepted)
    if let error { #expect(error.status == status) }
  }

  @Test(
    "4. the document's issuer is string-identical, and the error prints both",
    arguments: [
      "https://id.example/realm/", "https://ID.example/realm", "https://id.example", "http://id.example/realm",
    ])
  func identity(found: String) throws {
    let error = thrown { () throws(ResponseError) in _ = try parse(answer(#"{"issuer":"\#(found)"}"#)) }
    #expect(error == .issuerMismatch(expected: "https://id.example/realm", found: found))
    let text = try #require(error).description
    #expect(text.contains("“https://id.example/realm”") && text.contains("“\(found)”"))
  }

  @Test(
    "5. OpenID appends the well-known path, RFC 8414 inserts it",
    arguments: [
      ("https://a.example", "https://a.example", ""), ("https://a.example/", "https://a.example", ""),
      ("https://a.example/x/y", "https://a.example", "/x/y"), ("https://a.example/x/", "https://a.example", "/x"),
      ("https://a.example:8443/x", "https://a.example:8443", "/x"),
    ])
  func wellKnown(text: String, origin: String, path: String) throws {
    let issuer = try Issuer(text, allowInsecureHTTP: false)
    #expect(issuer.rawValue == text)
    #expect(issuer.discoveryURL(.openID).absoluteString == origin + path + "/.well-known/openid-configuration")
    #expect(issuer.discoveryURL(.oauth).absoluteString == origin + "/.well-known/oauth-authorization-server" + path)
    let request = issuer.discoveryRequest(.openID)
    #expect(request.method == "GET" && request.purpose == .discovery && request.header("Accept") == "application/json")
  }

  @Test("A second document adds what the first lacks, and only if it is of the same issuer")
  func completed() throws {
    let first = try parse(
      answer(#"{"issuer":"https://id.example/realm","token_endpoint":"https://id.example/first"}"#))
    let more = #""token_endpoint":"https://id.example/second","revocation_endpoint":"https://id.example/revoke"}"#
    let second = try parse(answer(#"{"issuer":"https://id.example/realm","# + more))
    let whole = first.completed(by: second)
    #expect(whole.endpoints[.revocation]?.absoluteString == "https://id.example/revoke")
    #expect(whole.endpoints[.token]?.absoluteString == "https://id.example/first")
    let other = try Issuer("https://other.example/realm", allowInsecureHTTP: false)
    let foreign = try parse(answer(#"{"issuer":"https://other.example/realm","# + more), expected: other)
    #expect(first.completed(by: foreign).endpoints[.revocation] == nil)
  }

  @Test(
    "6. an issuer has no query, no fragment, no user, and is a URL",
    arguments: [
      "https://a.example?x=1", "https://a.example/?", "https://a.example#f", "https://a.example/#", "a.example", "",
      "https://", "https://u:p@a.example", "https://a.example/ä", "https://a example", "https://a.example:99999",
      "javascript:alert(1)",
    ])
  func issuerForm(text: String) {
    #expect(throws: IssuerError.self) { try Issuer(text, allowInsecureHTTP: true) }
    #expect(Issuer(rawValue: text) == nil)
  }

  @Test("7. a missing and an invalid endpoint are two errors, raised at use", arguments: Endpoint.allCases)
  func endpoints(endpoint: Endpoint) throws {
    func metadata(_ value: String?) throws -> ServerMetadata {
      let member = value.map { #","\#(endpoint.rawValue)":\#($0)"# } ?? ""
      return try parse(answer(#"{"issuer":"https://id.example/realm"\#(member)}"#))
    }
    let name = endpoint.rawValue
    let good = try metadata(#""https://id.example/e""#)
    #expect(try good.endpoint(endpoint).absoluteString == "https://id.example/e")
    for absent in [nil, "null"] {
      let absent = try metadata(absent)
      #expect(throws: EndpointError.missing(name)) { try absent.endpoint(endpoint) }
    }
    let invalid = try metadata(#""http://id.example/e""#)
    #expect(throws: EndpointError.invalid(name, "http://id.example/e")) { try invalid.endpoint(endpoint) }
    let wrongType = try metadata("7")
    #expect(throws: EndpointError.invalid(name, "7")) { try wrongType.endpoint(endpoint) }
  }

  static let guid = "9188040d-6c67-4c5b-b112-36a304b66dad"
  static let entra = "https://login.microsoftonline.com/{tenantid}/v2.0"

  @Test(
    "8. Entra's document may say {tenantid}, under its own rule only",
    arguments: [
      (IssuerRule.entraTenant, entra, true), (.exact, entra, false), (.google, entra, false),
      (.entraTenant, "https://login.microsoftonline.com/common/v2.0", true),
      (.entraTenant, "https://login.microsoftonline.com/{tenantid}/v1.0", false),
      (.entraTenant, "https://evil.example/{tenantid}/v2.0", false),
      (.entraTenant, "https://login.microsoftonline.com/organizations/v2.0", false),
    ])
  func entraDocument(rule: IssuerRule, found: String, accepted: Bool) throws {
    let expected = try Issuer("https://login.microsoftonline.com/common/v2.0", allowInsecureHTTP: false)
    let metadata = try? parse(answer(#"{"issuer":"\#(found)"}"#), expected: expected, rule: rule)
    #expect((metadata?.issuer == found) == accepted)
  }

  @Test(
    "8. a message's iss: named exceptions only",
    arguments: [
      (IssuerRule.exact, "https://a.example", "https://a.example", nil, true),
      (.exact, "a.example", "https://a.example", nil, false),
      (.google, "accounts.google.com", "https://accounts.google.com", nil, true),
      (.google, "https://accounts.google.com", "https://accounts.google.com", nil, true),
      (.google, "a.example", "https://a.example", nil, false),
      (.exact, "accounts.google.com", "https://accounts.google.com", nil, false),
      (.entraTenant, "https://login.microsoftonline.com/\(guid)/v2.0", entra, guid, true),
      (.entraTenant, "https://login.microsoftonline.com/\(guid)/v2.0", entra, nil, true),
      (.entraTenant, "https://login.microsoftonline.com/\(guid)/v2.0", entra, UUID().uuidString, false),
      (.entraTenant, "https://login.microsoftonline.com/evil/v2.0", entra, "evil", false),
      (.entraTenant, entra, entra, nil, false), (.exact, entra, entra, nil, false),
      (.exact, "https://login.microsoftonline.com/\(guid)/v2.0", entra, guid, false),
    ] as [(IssuerRule, String, String, String?, Bool)])
  func messageIssuer(rule: IssuerRule, found: String, expected: String, tenant: String?, accepted: Bool) {
    #expect(rule.acceptsMessage(found, expected: expected, tenant: tenant) == accepted)
  }

  @Test("9. a body beyond 1 MiB is not read")
  func bodyCap() throws {
    let start = #"{"issuer":"https://id.example/realm","x":""#
    let filler = String(repeating: "x", count: (1 << 20) - start.utf8.count - 2)
    #expect(throws: Never.self) { try parse(answer(start + filler + #""}"#)) }
    #expect(throws: ResponseError.self) { try parse(answer(start + filler + #"x"}"#)) }
  }

  @Test("metadata keep the features, and skip lists of another type")
  func features() throws {
    let body = #"""
      {"issuer":"https://id.example/realm","scopes_supported":["openid"],"grant_types_supported":"code",
       "code_challenge_methods_supported":["S256"],"authorization_response_iss_parameter_supported":true,
       "require_pushed_authorization_requests":true,"id_token_signing_alg_values_supported":["none","HS256","ES256"]}
      """#
    let metadata = try parse(answer(body))
    #expect(metadata.supported.scopes == ["openid"] && metadata.supported.grantTypes == nil)
    #expect(metadata.supported.codeChallengeMethods == ["S256"])
    #expect(metadata.sendsIssuer && metadata.requiresPushedRequests)
    let odd = #"{"issuer":"https://id.example/realm","authorization_response_iss_parameter_supported":"true"}"#
    #expect(throws: ResponseError.self) { try parse(answer(odd)) }
  }

  @Test("metadata name the endpoints for certificates, the algorithms of signed responses, and duties of the client")
  func extensions() throws {
    let body = #"""
      {"issuer":"https://id.example/realm","token_endpoint":"https://id.example/t",
       "authorization_signing_alg_values_supported":["ES256"],"client_id_metadata_document_supported":"yes",
       "require_signed_request_object":true,
       "mtls_endpoint_aliases":{"token_endpoint":"https://mtls.example/t","userinfo_endpoint":"http://mtls.example/u",
       "jwks_uri":7,"other":"https://mtls.example/o"}}
      """#
    let metadata = try parse(answer(body))
    #expect(metadata.supported.responseAlgorithms == ["ES256"])
    #expect(metadata.requiresSignedRequests && !metadata.supported.clientMetadataDocuments)
    let alias = try #require(URL(string: "https://mtls.example/t"))
    #expect(metadata.mtlsEndpointAliases == [.token: alias])
    #expect(try metadata.endpoint(.token).host == "id.example")
    let plain = try parse(answer(#"{"issuer":"https://id.example/realm","mtls_endpoint_aliases":[]}"#))
    #expect(plain.mtlsEndpointAliases.isEmpty && !plain.requiresSignedRequests)
    let demand = #"{"issuer":"https://id.example/realm","require_signed_request_object":"true"}"#
    #expect(throws: ResponseError.self) { try parse(answer(demand)) }
  }
}
