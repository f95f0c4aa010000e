import Foundation
import Grants
import OAuth
import Testing

@testable import Providers

/// What an authorization request without a user finds out.
@Suite("A probe of the authorization request") struct ProbeTests {
  private let request = LoginRequest(
    scopes: ["openid", "mail"], resource: nil, redirectURI: try! RedirectURI("http://127.0.0.1:4711/callback"),
    state: Secret("the-state"), nonce: Secret("the-nonce"), verifier: nil, prompt: nil, loginHint: nil, parameters: [:],
    madeAt: start, identifier: "jti-1")

  /// Runs the probe with one response for each request; the last one repeats.
  private func probe(
    _ responses: HTTPResponse..., metadata: ServerMetadata = metadata
  ) throws -> (finding: AuthorizationFinding, sent: [HTTPRequest]) {
    var step = provider().probe(request, metadata: metadata)
    var sent: [HTTPRequest] = []
    for _ in 0..<10 {
      switch step {
      case .attempt(let request, let then):
        sent.append(request)
        step = then(.success(responses[min(sent.count, responses.count) - 1]), at(1))
      case .done(let finding): return (finding, sent)
      case .failed, .send, .keys: throw ProviderFailure.lost(message: "\(step)")
      }
    }
    throw ProviderFailure.lost(message: "the probe does not end")
  }

  private func page(_ text: String, _ status: Int = 400) -> HTTPResponse {
    answer(text, status: status, type: "text/html")
  }

  private func redirect(_ location: String) -> HTTPResponse {
    answer("", status: 302, type: "", headers: [.init("Location", location)])
  }

  @Test("a sign-in page, and a redirect to another host, accept the request")
  func accepted() throws {
    for response in [
      page("<title>Sign in</title>", 200), redirect("https://sso.example.org/login"),
      redirect("http://127.0.0.1:4711/callback?code=c&state=the-state"),
    ] {
      #expect(try probe(response).finding.result == .ok)
    }
    let (finding, sent) = try probe(redirect("/login"), page("Sign in", 200))
    #expect(finding.result == .ok && sent.map(\.url.path) == ["/authorize", "/login"])
    #expect(sent.allSatisfy { $0.method == "GET" && $0.headers.map(\.name) == ["Accept"] })
  }

  @Test("redirects are followed twice")
  func loop() throws {
    let (finding, sent) = try probe(redirect("/login"))
    #expect(finding.result == .ok && sent.count == 3)
  }

  @Test(
    "an error names its likely cause",
    arguments: [
      ("<p>Invalid parameter: redirect_uri</p>", AuthorizationFinding.Cause.redirectURI),
      ("<h1>Client not found</h1>", .clientID), ("{\"error\":\"invalid_client\"}", .clientID),
      // The client is known, and may not use this grant (RFC 6749 §4.1.2.1).
      ("{\"error\":\"unauthorized_client\"}", nil),
      ("invalid_scope: mail", .scopes), ("<script>client_id</script><p>Forbidden</p>", nil),
    ] as [(String, AuthorizationFinding.Cause?)])
  func cause(text: String, cause: AuthorizationFinding.Cause?) throws {
    let type = text.hasPrefix("{") ? "application/json" : "text/html"
    let finding = try probe(answer(text, status: 400, type: type)).finding
    guard case .failed(let hint) = finding.result else {
      Issue.record("\(finding)")
      return
    }
    #expect(finding.cause == cause && !hint.isEmpty && finding.message.contains("HTTP 400"))
  }

  @Test("an error at the redirect URI, and on Microsoft's page with status 200, is one")
  func errors() throws {
    let scope = try probe(redirect("http://127.0.0.1:4711/callback?error=invalid_scope&state=the-state")).finding
    #expect(scope.cause == .scopes)
    let entra = try probe(page("<p>AADSTS700016: Application with identifier 'x' was not found</p>", 200)).finding
    #expect(entra.cause == .clientID)
  }

  @Test("without a cause the request is repeated with the fewest scopes")
  func fewerScopes() throws {
    let (finding, sent) = try probe(page("", 403), page("Sign in", 200))
    #expect(finding.cause == .scopes && sent.count == 2)
    #expect(sent.last?.url.absoluteString.contains("mail") == false)
    #expect(try probe(page("", 403)).finding.cause == nil)
  }

  @Test("an overloaded server, and one that wants a browser, are not refusals", arguments: [429, 503, 403])
  func unclear(status: Int) throws {
    switch try probe(page("Enable JavaScript and cookies to continue", status)).finding.result {
    case .failed: Issue.record("a refusal")
    case .ok, .warning, .skipped: break
    }
  }

  @Test("a pushed request decides if it is accepted, else the URL does")
  func pushed() throws {
    var metadata = metadata
    metadata.endpoints[.pushedAuthorizationRequest] = URL(string: issuerText + "/par")
    let good = answer(#"{"request_uri":"urn:ietf:params:oauth:request_uri:x","expires_in":60}"#, status: 201)
    let (finding, sent) = try probe(good, metadata: metadata)
    #expect(finding.result == .ok && finding.isPushed && sent.map(\.purpose) == [.par])
    let refused = answer(#"{"error":"invalid_client"}"#, status: 401)
    let second = try probe(refused, page("Sign in", 200), metadata: metadata)
    #expect(second.finding.result == .ok && !second.finding.isPushed && second.sent.count == 2)
    metadata.requiresPushedRequests = true
    #expect(try probe(refused, metadata: metadata).finding.cause == .clientID)
  }
}
