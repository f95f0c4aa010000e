import Foundation
import Grants
import OAuth
import Testing

@testable import Providers

@Suite struct AuthorizationTests {
  private func request(
    scopes: [String] = ["openid", "mail"], prompt: String? = nil, parameters: [String: String] = [:]
  ) -> LoginRequest {
    LoginRequest(
      scopes: scopes, resource: nil, redirectURI: try! RedirectURI("http://127.0.0.1:4711/callback"),
      state: Secret("the-state"), nonce: Secret("the-nonce"),
      verifier: CodeVerifier(rawValue: Secret("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")), prompt: prompt,
      loginHint: nil, parameters: parameters, madeAt: start, identifier: "jti-1")
  }

  /// The URL for the user, without a request before.
  private func place(
    _ provider: OAuthProvider, _ request: LoginRequest, metadata: ServerMetadata
  ) throws(ProviderFailure) -> AuthorizationPlace {
    guard let end = provider.authorization(request, metadata: metadata).end else {
      throw .unclear(message: "something is asked first", retryAfter: nil)
    }
    return try end.get()
  }

  private func query(_ url: URL) -> [String: String] {
    let items = URLComponents(url: url, resolvingAgainstBaseURL: false)?.queryItems ?? []
    return Dictionary(items.map { ($0.name, $0.value ?? "") }) { "\($0) AND \($1)" }
  }

  @Test("A person is sent to the endpoint with state, nonce, PKCE and the settings' parameters")
  func url() throws {
    let provider = provider {
      $0.authorization.parameters = ["access_type": "offline", "audience": "settings"]
      $0.authorization.prompt = "consent"
    }
    let sent = try place(provider, request(parameters: ["audience": "asked"]), metadata: metadata)
    #expect(sent.url.absoluteString.hasPrefix(issuerText + "/authorize?"))
    #expect(
      query(sent.url).filter { $0.key != "scope" } == [
        "response_type": "code", "client_id": "client", "redirect_uri": "http://127.0.0.1:4711/callback",
        "state": "the-state", "nonce": "the-nonce", "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
        "code_challenge_method": "S256", "access_type": "offline", "audience": "asked", "prompt": "consent",
      ])
    #expect(sent.warnings.isEmpty)
    let asked = try place(provider, request(prompt: "login"), metadata: metadata)
    #expect(query(asked.url)["prompt"] == "login")
  }

  @Test(
    "Settings or a caller cannot set the request's own parameters",
    arguments: ["state", "nonce", "redirect_uri", "client_id", "response_type", "scope", "code_challenge", "prompt"])
  func duplicates(name: String) {
    let bySettings = provider {
      $0.authorization.parameters = [name: "evil"]
      $0.authorization.prompt = "login"
    }
    #expect(
      thrown { () throws(ProviderFailure) in try place(bySettings, request(), metadata: metadata) } == "invalid")
    let plain = provider { $0.authorization.prompt = "login" }
    let asked = request(parameters: [name: "evil"])
    #expect(thrown { () throws(ProviderFailure) in try place(plain, asked, metadata: metadata) } == "invalid")
  }

  @Test("offline_access without consent, and metadata without S256, are warned of")
  func warnings() throws {
    let offline = request(scopes: ["openid", "offline_access"])
    #expect(try place(provider(), offline, metadata: metadata).warnings.count == 1)
    #expect(try place(provider(.oauth2), offline, metadata: metadata).warnings.isEmpty)
    let consenting = provider { $0.authorization.prompt = "login consent" }
    #expect(try place(consenting, offline, metadata: metadata).warnings.isEmpty)
    var plain = metadata
    plain.supported.codeChallengeMethods = ["plain"]
    #expect(try place(provider(), request(), metadata: plain).warnings.count == 1)
    plain.supported.codeChallengeMethods = ["plain", "S256"]
    #expect(try place(provider(), request(), metadata: plain).warnings.isEmpty)
  }

  @Test("prompt=consent goes with offline_access only if the metadata or the generic profile allow it")
  func consent() throws {
    let offline = request(scopes: ["openid", "offline_access"])
    for (profile, prompts, sent) in [
      (nil, nil, nil), (nil, ["consent"], "consent"), (nil, ["login"], nil), ("oidc", nil, "consent"),
      ("oidc", ["login"], nil), ("oidc", ["none", "consent"], "consent"),
    ] as [(String?, [String]?, String?)] {
      var listed = metadata
      listed.supported.prompts = prompts
      let chosen = provider { $0.profile = profile }
      #expect(
        query(try place(chosen, offline, metadata: listed).url)["prompt"] == sent, "\(profile ?? ""), \(prompts ?? [])")
      #expect(query(try place(chosen, request(), metadata: listed).url)["prompt"] == nil)
    }
    var listed = metadata
    listed.supported.prompts = ["consent"]
    #expect(query(try place(provider { $0.authorization.prompt = "" }, offline, metadata: listed).url)["prompt"] == nil)
    #expect(
      query(try place(provider { $0.authorization.prompt = "login" }, offline, metadata: listed).url)["prompt"]
        == "login")
  }

  @Test("A provider that requires pushed requests is refused if the settings forbid them, with that reason")
  func pushedRequired() {
    var demanding = metadata
    demanding.requiresPushedRequests = true
    do throws(ProviderFailure) {
      _ = try place(provider { $0.authorization.par = .never }, request(), metadata: demanding)
      Issue.record("sent all the same")
    } catch {
      #expect(name(error) == "misconfigured")
      #expect(error.message.contains("RFC 9126"))
    }
  }

  @Test("A provider that requires signed requests is refused if the settings have no key for them, with that reason")
  func signatureRequired() {
    var demanding = metadata
    demanding.requiresSignedRequests = true
    demanding.endpoints[.pushedAuthorizationRequest] = URL(string: "https://a.example/par")
    for par in [ProviderSettings.PushedRequests.whenRequired, .always] {
      do throws(ProviderFailure) {
        _ = try place(provider { $0.authorization.par = par }, request(), metadata: demanding)
        Issue.record("sent all the same")
      } catch {
        #expect(name(error) == "misconfigured")
        #expect(error.message.contains("RFC 9101"))
      }
    }
  }

  @Test("Configured endpoints win over the document's, and stand alone where there is none")
  func overrides() throws {
    let document = answer(
      #"{"issuer":"\#(issuerText)","token_endpoint":"https://a.example/token","jwks_uri":"https://a.example/keys"}"#)
    let provider = provider {
      $0.server.endpoints[.token] = "https://b.example/token"
      $0.server.endpoints[.revocation] = "https://b.example/revoke"
    }
    let found = try provider.metadata(from: document)
    #expect(found.endpoints[.token]?.absoluteString == "https://b.example/token")
    #expect(found.endpoints[.keys]?.absoluteString == "https://a.example/keys")
    #expect(found.endpoints[.revocation]?.absoluteString == "https://b.example/revoke")
    let alone = try provider.metadata(from: nil)
    #expect(alone.issuer == issuerText)
    #expect(alone.endpoints[.token]?.absoluteString == "https://b.example/token")
    #expect(alone.endpoints[.keys] == nil)
  }

  @Test("A missing or unusable endpoint is misconfigured at its use, and stops nothing else")
  func endpoints() throws {
    let insecure = answer(
      #"{"issuer":"\#(issuerText)","authorization_endpoint":"http://login.example.com/authorize"}"#)
    let provider = provider()
    let found = try provider.metadata(from: insecure)
    #expect(
      thrown { () throws(ProviderFailure) in try place(provider, request(), metadata: found) } == "misconfigured"
    )
    #expect(thrown { () throws(ProviderFailure) in try provider.keysRequest(found) } == "misconfigured")
    #expect(try Providers.OAuthProvider(settings(.oauth2)).keysRequest(found) == nil)
    #expect(provider.revocation(of: Secret("t"), hint: "refresh_token", context: [:], metadata: found) == nil)
  }

  @Test(
    "A configured endpoint must be https, or http on this machine, unless insecure http is allowed",
    arguments: [
      ("https://b.example/token", false, "none"), ("http://b.example/token", false, "misconfigured"),
      ("http://b.example/token", true, "none"), ("http://127.0.0.1:8080/token", false, "none"),
      ("https://b.example/token#part", false, "misconfigured"), ("b.example/token", false, "misconfigured"),
      ("", false, "misconfigured"), ("https://user@b.example/token", false, "misconfigured"),
    ])
  func configuredEndpoint(text: String, insecure: Bool, meaning: String) {
    let provider = provider {
      $0.server.endpoints[.token] = text
      $0.server.refreshEndpoint = text
      $0.server.allowInsecureHTTP = insecure
    }
    #expect(thrown { () throws(ProviderFailure) in try provider.metadata(from: nil) } == meaning)
    var script = Script(answer(tokenBody()))
    let result = script.run(
      provider.refresh(savedGrant(), token: Secret("r"), key: SavedToken.Key(), metadata: metadata))
    #expect(name(result) == (meaning == "none" ? "taken" : "misconfigured"))
    #expect(script.sent.isEmpty == (meaning != "none"))
  }

  @Test("Metadata are fetched from the configured URL, and not at all if only endpoints are configured")
  func discovery() {
    #expect(provider().discovery()?.url.absoluteString == issuerText + "/.well-known/openid-configuration")
    let rfc8414 = provider { $0.server.discovery = .oauth }
    #expect(rfc8414.discovery()?.url.absoluteString == issuerText + "/.well-known/oauth-authorization-server")
    #expect(provider { $0.server.discovery = nil }.discovery() == nil)
    #expect(provider { $0.server.issuer = nil }.discovery() == nil)
  }
}
