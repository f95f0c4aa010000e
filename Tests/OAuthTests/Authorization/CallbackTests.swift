import Foundation
import Testing

@testable import OAuth

@Suite("Callback")
struct CallbackTests {
  typealias Expectation = AuthorizationResponse.Expectation

  static let expected = Expectation(state: Secret("s"), issuer: "https://id.example", issuerPromised: false)
  static let promised = Expectation(state: Secret("s"), issuer: "https://id.example", issuerPromised: true)
  static let iss = "iss=https%3A%2F%2Fid.example"

  func verdict(_ query: String, _ expected: Expectation = expected) -> CallbackError? {
    thrown { () throws(CallbackError) in
      _ = try AuthorizationResponse.parse("http://127.0.0.1:8400/cb?" + query).code(for: expected)
    }
  }

  @Test("a good answer gives its code", arguments: [expected, promised])
  func good(expected: Expectation) throws {
    let response = try AuthorizationResponse.parse("/cb?code=a%2Bb+c&state=s&\(Self.iss)&realmId=42&realmId=43")
    #expect(try response.code(for: expected).exposed == "a+b c")
    #expect(response.others.mapValues(\.exposed) == ["realmId": "42"])
    #expect(response.issuer == "https://id.example" && !response.hasUnexpectedTokens)
  }

  @Test("18. a duplicate code, state, error or iss is refused", arguments: ["code", "state", "error", "iss"])
  func duplicates(name: String) {
    let url = "/cb?code=c&state=s&error=e&iss=i&\(name)=again"
    #expect(throws: CallbackError.duplicateParameter(name)) { try AuthorizationResponse.parse(url) }
    #expect(CallbackError.duplicateParameter(name).leavesLoginPending)
  }

  @Test("a combining mark hides no delimiter") func combiningMarks() throws {
    let hidden = try AuthorizationResponse.parse("http://127.0.0.1/cb?code=c#\u{301}&state=s&access_token=t")
    #expect(hidden.state == nil && hidden.hasUnexpectedTokens && hidden.others.isEmpty)
    let query = try AuthorizationResponse.parse("http://127.0.0.1/cb?\u{301}&state=s")
    #expect(query.state == Secret("s"))
    let uri = try #require(URI("app:/back?\u{301}a#\u{301}b"))
    #expect(uri.path == "/back" && uri.query == "\u{301}a" && uri.fragment == "\u{301}b")
  }

  static let denied = CallbackError.denied(OAuthError(code: .accessDenied))

  @Test(
    "19. iss first, then state, then error, then tokens, then code",
    arguments: [
      ("error=access_denied&state=x&iss=evil", .wrongIssuer("evil")),
      ("error=access_denied&state=x&\(iss)", .wrongState),
      ("error=access_denied&\(iss)", .missingState), ("error=access_denied&state=s&\(iss)&access_token=t", denied),
      ("state=s&\(iss)&access_token=t", .unexpectedToken), ("state=s&\(iss)", .neitherCodeNorError),
      ("code=c&state=s&error=access_denied", denied),
    ] as [(String, CallbackError)])
  func order(query: String, error: CallbackError) {
    #expect(verdict(query) == error)
  }

  @Test(
    "20. a missing and a wrong state are told apart, and both leave the login pending",
    arguments: [
      ("code=c", .missingState), ("code=c&state=", .missingState), ("code=c&state=S", .wrongState),
      ("code=c&state=ss", .wrongState),
    ] as [(String, CallbackError)])
  func state(query: String, error: CallbackError) {
    #expect(verdict(query) == error)
    #expect(error.leavesLoginPending)
  }

  @Test(
    "21. iss equals the issuer where it is present, and must be there where it is promised",
    arguments: [
      ("code=c&state=s", promised, .missingIssuer),
      ("code=c&state=s&iss=", expected, .wrongIssuer("")),
      ("code=c&state=s&iss=https://id.example/", expected, .wrongIssuer("https://id.example/")),
      ("error=access_denied&state=s&iss=https://evil.example", promised, .wrongIssuer("https://evil.example")),
      (
        "code=c&state=s&iss=https://any.example", Expectation(state: Secret("s"), issuer: nil, issuerPromised: false),
        nil
      ),
      ("code=c&state=s", expected, nil),
    ] as [(String, Expectation, CallbackError?)])
  func issuer(query: String, expected: Expectation, error: CallbackError?) {
    #expect(verdict(query, expected) == error)
    if let error { #expect(error.leavesLoginPending) }
  }

  @Test("21. an error without the promised iss ends only the login with its state")
  func errorWithoutIssuer() {
    #expect(verdict("error=access_denied&state=s", Self.promised) == Self.denied)
    #expect(verdict("error=access_denied&state=x", Self.promised) == .wrongState)
    for query in ["error=e&code=c&state=s", "error=e&access_token=t&state=s", "code=c&state=s", "state=s"] {
      #expect(verdict(query, Self.promised) == .missingIssuer)
    }
  }

  @Test(
    "a parameter in another encoding is passed over, unless it decides something",
    arguments: [
      ("error=access_denied&error_description=Acc%E8s%20refus%E9&state=s", .access),
      ("error=access_denied&error_description=100%&state=s", .access),
      ("error=access_denied&error_description=%ZZ&state=s", .access), ("%E8=%ZZ&error=access_denied&state=s", .access),
      ("code=%ZZ&state=s", .unreadable), ("code=c&state=%E8", .unreadable), ("error=%E8&state=s", .unreadable),
      ("code=c&state=s&iss=%", .unreadable), ("response=%E8", .unreadable), ("code=c&state=s&x=%E8", .code),
    ] as [(String, Encoded)])
  func encodings(query: String, outcome: Encoded) throws {
    switch outcome {
    case .unreadable: #expect(verdict(query) == .unreadable)
    case .code: #expect(verdict(query) == nil)
    case .access:
      guard case .denied(let error)? = verdict(query) else {
        Issue.record("not denied: \(query)")
        return
      }
      #expect(error.code == .accessDenied)
      #expect(error.description?.contains("\u{FFFD}") ?? false == query.contains("%E8s"))
    }
  }

  enum Encoded: Sendable { case access, unreadable, code }

  @Test(
    "22. a token in a code response is refused, in the query and in the fragment",
    arguments: [
      "code=c&state=s&access_token=t", "code=c&state=s&id_token=t", "code=c&state=s#access_token=t",
      "code=c&state=s#x=1&id_token=",
    ])
  func tokens(query: String) {
    #expect(verdict(query) == .unexpectedToken)
    #expect(CallbackError.unexpectedToken.leavesLoginPending)
  }

  @Test("23. neither code nor error is refused, and the login stays pending", arguments: ["state=s", "state=s&code="])
  func neither(query: String) {
    #expect(verdict(query) == .neitherCodeNorError)
    #expect(CallbackError.neitherCodeNorError.leavesLoginPending)
  }

  @Test("a denial ends the login, with texts that are bounded and escaped")
  func denial() throws {
    let long = String(repeating: "x", count: 2000)
    let query = "state=s&error=access_denied&error_description=The+user%0Asaid%1B[31m+no\(long)&error_uri=u\(long)"
    guard case .denied(let error)? = verdict(query) else {
      Issue.record("not denied")
      return
    }
    #expect(error.code == .accessDenied)
    #expect(error.description?.hasPrefix("The user said [31m no") == true)
    #expect(error.description?.unicodeScalars.count == 512 && error.uri?.unicodeScalars.count == 512)
    #expect(OAuthError(code: .init(rawValue: long)).code.rawValue.count == 128)
    #expect(!CallbackError.denied(error).leavesLoginPending)
  }

  @Test(
    "an unreadable response is refused",
    arguments: [
      ("/cb?code=%", .unreadable), ("/cb?code=%4", .unreadable), ("/cb?code=%zz", .unreadable),
      ("/cb?state=%ff", .unreadable), ("/cb?state=" + String(repeating: "s", count: 2049), .tooLarge),
      ("/cb?iss=" + String(repeating: "s", count: 2049), .tooLarge),
      ("/cb?x=" + String(repeating: "s", count: 64 << 10), .tooLarge),
    ] as [(String, CallbackError)])
  func unreadable(url: String, error: CallbackError) {
    #expect(throws: error) { try AuthorizationResponse.parse(url) }
    #expect(error.leavesLoginPending)
  }

  @Test(
    "26. scheme and host match without case; user, port, path and the URI's own parameters are equal",
    arguments: [
      ("http://127.0.0.1:8400/cb", "HTTP://127.0.0.1:8400/cb?code=c#x", true),
      ("http://127.0.0.1:8400/cb", "http://127.0.0.1:8401/cb", false),
      ("http://127.0.0.1:8400/cb", "http://127.0.0.1:8400/cb/", false),
      ("http://127.0.0.1:8400/cb", "http://127.0.0.1:8400/CB", false),
      ("http://127.0.0.1:8400/cb", "http://u@127.0.0.1:8400/cb", false),
      ("http://127.0.0.1:8400/cb", "http://127.0.0.1:8400/cbx", false),
      ("http://127.0.0.1/cb", "http://127.0.0.1:80/cb", true), ("http://localhost", "http://LOCALHOST/?code=c", true),
      ("http://[::1]:8400/cb", "http://[::1]:8400/cb?code=c", true),
      ("https://app.example/cb?t=1", "https://APP.example/cb?code=c&t=1", true),
      ("https://app.example/cb?t=1", "https://app.example/cb?code=c", false),
      ("https://app.example/cb?t=1", "https://app.example/cb?t=2", false),
      ("de.7pass.example:/cb/authz", "de.7pass.example:/cb/authz?code=c", true),
      ("de.7pass.example:/cb/authz", "DE.7pass.example:/cb/authz?code=c", true),
      ("de.7pass.example:/cb/authz", "de.7pass.example://cb/authz?code=c", false),
      ("de.7pass.example:/cb/authz", "de.7pass.example:/cb/authzX", false),
      ("db-KEY://2/token", "db-key://2/token?code=c", true), ("db-KEY://2/token", "db-key://2/tokenX?code=c", false),
      ("db-KEY://2/token", "db-key://1/token", false), ("db-KEY://2/token", "not a url", false),
    ])
  func matching(registered: String, url: String, matches: Bool) throws {
    let redirectURI = try RedirectURI(registered)
    #expect(redirectURI.matches(url) == matches)
  }

  @Test(
    "26. texts that are not a redirect URI",
    arguments: [
      "", "/cb", "http:///cb", "http://127.0.0.1/cb#f", "http://a b/", "https:cb", "1x:/cb", "http://ä.example/",
    ])
  func redirectForm(text: String) {
    #expect(throws: RedirectURIError.self) { try RedirectURI(text) }
  }

  @Test("26. a redirect URI knows its parts, and takes another port")
  func parts() throws {
    let loopback = try RedirectURI("http://127.0.0.1/cb?x=1")
    #expect(loopback.isLoopback && loopback.port == nil && loopback.path == "/cb")
    #expect(loopback.replacingPort(4711).rawValue == "http://127.0.0.1:4711/cb?x=1")
    #expect(try RedirectURI("http://[::1]:80/").replacingPort(4711).rawValue == "http://[::1]:4711/")
    #expect(try !RedirectURI("http://127.0.0.1.evil.example/").isLoopback)
    #expect(try !RedirectURI("https://127.0.0.1/").isLoopback)
    #expect(try RedirectURI("http://localhost:3000").path == "/")
    let custom = try RedirectURI("de.7pass.example:/cb/authz")
    #expect(!custom.isLoopback && custom.host == nil && custom.replacingPort(1) == custom)
  }

  @Test(
    "A redirect URI with one more segment keeps all other parts",
    arguments: [
      ("http://127.0.0.1:8400/cb", "http://127.0.0.1:8400/cb/n-1"),
      ("http://127.0.0.1:8400", "http://127.0.0.1:8400/n-1"),
      ("https://a.example/cb/?x=1", "https://a.example/cb/n-1?x=1"), ("app:/cb", "app:/cb/n-1"),
      ("app://auth", "app://auth/n-1"),
    ])
  func segment(registered: String, own: String) throws {
    let uri = try RedirectURI(registered).appending("n-1")
    #expect(uri.rawValue == own)
    #expect(try !RedirectURI(registered).matches(own))
    #expect(uri.matches(own + (own.contains("?") ? "&" : "?") + "status=success"))
  }

  @Test("27. the redirect URI at the token endpoint is the stored string")
  func storedString() throws {
    let text = "HTTP://LocalHost:080/cb?b=%2f"
    let redirectURI = try JSONDecoder().decode([RedirectURI].self, from: JSONEncoder().encode([RedirectURI(text)]))[0]
    let request = TokenRequest.code(Secret("c"), redirectURI: redirectURI, verifier: nil)
      .httpRequest(to: URL(string: "https://id.example/t")!, clientID: "client", client: .none)
    #expect(request.form["redirect_uri"] == text)
  }
}

@Suite("Implicit grant")
struct ImplicitTests {
  static let expected = AuthorizationResponse.Expectation(
    state: Secret("s"), issuer: "https://id.example", issuerPromised: false)

  func tokens(_ url: String) throws(CallbackError) -> TokenResponse {
    try AuthorizationResponse.implicitTokens(url, for: Self.expected, quirks: .init(keepMembers: ["uid"]))
  }

  @Test("58. a token is taken only from the fragment, after iss, state and error")
  func good() throws {
    let found = try tokens(
      "db-KEY://2/token#access_token=a%2Bb&token_type=bearer&expires_in=3600&scope=x+y&uid=7&state=s&refresh_token=r")
    #expect(found.accessToken.exposed == "a+b" && found.tokenType == "Bearer" && found.expiresIn == .seconds(3600))
    #expect(found.scope == ["x", "y"] && found.refreshToken == nil)
    #expect(String(decoding: found.extra, as: UTF8.self) == #"{"uid":"7"}"#)
  }

  @Test(
    "58. anything else is refused, and only a refusal of the provider's ends the login",
    arguments: [
      ("/cb#access_token=a&token_type=bearer&state=t", .wrongState),
      ("/cb#access_token=a&token_type=bearer", .missingState),
      ("/cb?state=s&access_token=a&token_type=bearer", .unexpectedToken),
      ("/cb?state=s#access_token=a&token_type=bearer", .missingState),
      ("/cb#access_token=a&access_token=b&token_type=bearer&state=s", .duplicateParameter("access_token")),
      ("/cb#access_token=a&token_type=bearer&state=s&iss=https://evil.example", .wrongIssuer("https://evil.example")),
      (
        "/cb#error=access_denied&error_description=The+user+chose&state=s",
        .denied(OAuthError(code: .accessDenied, description: "The user chose"))
      ),
      ("/cb?error=access_denied&state=s", .denied(OAuthError(code: .accessDenied))),
      ("/cb#error=access_denied&state=t", .wrongState),
      ("/cb?code=c&state=s", .noToken("it has a code, and a token was asked for")),
      ("/cb#token_type=bearer&state=s", .noToken("access_token is not a non-empty string")),
      ("/cb#access_token=a&state=s&token_type=mac", .noToken("token_type is not one that is known (Bearer, DPoP)")),
      ("/cb#%", .unreadable), ("/cb", .missingState), ("/cb#", .missingState),
    ] as [(String, CallbackError)])
  func refused(url: String, error: CallbackError) {
    #expect(throws: error) { try tokens(url) }
    if case .denied = error {} else { #expect(error.leavesLoginPending) }
    let long = "/cb#access_token=\(String(repeating: "a", count: 65 << 10))"
    #expect(throws: CallbackError.tooLarge) { try tokens(long) }
  }
}
