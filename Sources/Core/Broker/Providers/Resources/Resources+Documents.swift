import BrokerAPI
import FoundationEssentials
import Grants
import OAuth

// The documents of a protected resource (RFC 9728) and of its authorization servers (RFC 8414). The resource is not trusted:
// documents are bounded, redirects stay within their origin, and no document leads to an address that is nearer than the
// URL that the user named.
extension Resources {
  /// The content of a resource's documents.
  struct Found {
    var url: ResourceURL
    var resource: String
    /// The URL of the resource's metadata.
    var document: URL?
    var issuers: [Issuer]
    var scopes: [String]
    var bounds: Bounds

    var reach: AddressScope { bounds.reach ?? .global }
  }

  /// The limits of the requests for one resource.
  struct Bounds {
    /// The nearest addresses that documents may lead to; nil: the user named the URL.
    var reach: AddressScope?
    /// No further request begins after this time.
    var end: Duration
  }

  /// The metadata of an authorization server, and their location.
  struct Server {
    var issuer: Issuer
    var style: DiscoveryStyle
    var metadata: ServerMetadata
  }

  /// Requests the URL and the resource's metadata.
  ///
  /// - Parameter issuer: the server that the user chose.
  func found(_ text: String, issuer: String?) async throws(RPCError) -> Found {
    guard let url = ResourceURL(text) else {
      throw .invalidParams("params.url: expected an https URL without user or fragment; http only for this machine")
    }
    let chosen = try issuer.map { text throws(RPCError) in try chosenIssuer(text, of: url) }
    let end = uptime + Limit.documents
    let before = (try? await transport.scope(of: url.url)) ?? .global
    let first = try await response(url.url, "application/json, text/event-stream", of: .resource, Bounds(end: end))
    // The farther one: the name's owner may answer with a nearer address in between.
    let bounds = Bounds(reach: min(before, (try? await transport.scope(of: url.url)) ?? .global), end: end)
    let challenge = first.status == 401 || first.status == 403 ? try challenge(first, url) : nil
    guard let (metadata, document) = try await resourceMetadata(url, challenge, bounds) else {
      guard first.status == 401 || challenge != nil else { throw isOpen(url, first.status) }
      guard let chosen else { throw lacksMetadata(url) }
      return Found(
        url: url, resource: url.description, document: nil, issuers: [chosen], scopes: challenge?.scopes ?? [],
        bounds: bounds)
    }
    var found = Found(
      url: url, resource: metadata.resource, document: document, issuers: metadata.authorizationServers,
      scopes: challenge?.scopes ?? metadata.scopesSupported, bounds: bounds)
    if let chosen { found.issuers = [try listed(chosen, found)] }
    return found
  }

  private func chosenIssuer(_ text: String, of url: ResourceURL) throws(RPCError) -> Issuer {
    do throws(IssuerError) {
      return try Issuer(text, allowInsecureHTTP: false)
    } catch {
      throw .invalidIssuer(error) { "grantctl login \(url) --issuer \($0)" }
    }
  }

  /// The resource must name the server that the user chose.
  private func listed(_ chosen: Issuer, _ found: Found) throws(RPCError) -> Issuer {
    guard found.issuers.contains(chosen) else {
      let all = found.issuers.map { $0.rawValue.printable(limit: 200) }.joined(separator: ", ")
      throw RPCError(
        .providerMisconfigured, "\(place(found)) does not name the authorization server \(chosen), only: \(all)",
        hint: "Choose one of them with --issuer, exactly as it is written.")
    }
    return chosen
  }

  private func challenge(_ response: HTTPResponse, _ url: ResourceURL) throws(RPCError) -> ResourceChallenge? {
    do throws(ChallengeError) {
      return try ResourceChallenge(response)
    } catch {
      throw RPCError(
        .providerError, "the answer of \(url) \(error)",
        hint: "Report it to the operator of \(url.host). Nothing was stored.")
    }
  }

  // MARK: The resource's metadata

  private func resourceMetadata(
    _ url: ResourceURL, _ challenge: ResourceChallenge?, _ bounds: Bounds
  ) async throws(RPCError) -> (ProtectedResourceMetadata, URL)? {
    var places = url.metadataURLs
    if let named = challenge?.metadata {
      guard let place = Endpoint.url(named, allowInsecureHTTP: false), url.hasOrigin(of: named) else {
        throw RPCError(
          .providerError,
          "the answer of \(url) names its metadata at “\(named.printable(limit: 300))”, which is not of the same origin",
          hint: "Report it to the operator of \(url.host). Nothing was stored.")
      }
      places = [place]
    }
    for place in places {
      let response = try await response(place, "application/json", of: .discovery, bounds)
      if challenge?.metadata == nil, (400..<500).contains(response.status) { continue }
      do throws(ProtectedResourceError) {
        return (try ProtectedResourceMetadata.parse(response, of: url), place)
      } catch {
        throw unusable(error, at: place, url)
      }
    }
    return nil
  }

  private func unusable(_ error: ProtectedResourceError, at place: URL, _ url: ResourceURL) -> RPCError {
    let message = "the document at \(place.absoluteString) \(error)"
    switch error {
    case .status(500...):
      return RPCError(.temporarilyUnavailable, message, hint: "Try again later.", retryAfter: 30)
    case .otherResource(let resource):
      let isHere = ResourceURL(resource).map { $0.hasOrigin(of: url.description) } ?? false
      return RPCError(
        .providerError, message,
        hint: isHere ? "Name that URL: `grantctl login \(resource)`." : report(url))
    case .status, .notJSON, .member, .noServers, .tooManyServers, .wrongServer:
      return RPCError(.providerError, message, hint: report(url))
    }
  }

  private func report(_ url: ResourceURL) -> String { "Report it to the operator of \(url.host). Nothing was stored." }

  private func isOpen(_ url: ResourceURL, _ status: Int) -> RPCError {
    RPCError(
      .unsupportedByProvider,
      "\(url) answers without a token (HTTP \(status)), and has no protected resource metadata (RFC 9728)",
      hint: "If it is an issuer: `grantctl provider register \(url)`.", detail: "not_protected")
  }

  private func lacksMetadata(_ url: ResourceURL) -> RPCError {
    let places = url.metadataURLs.map(\.absoluteString).joined(separator: " or ")
    return RPCError(
      .providerError, "\(url) requires a token, and has no metadata at \(places) (RFC 9728)",
      hint: "Name its authorization server: `grantctl login \(url) --issuer https://…`.")
  }

  func place(_ found: Found) -> String {
    found.document.map { "the document at \($0.absoluteString)" } ?? "\(found.url)"
  }

  // MARK: The authorization server

  /// The first server whose metadata can be used; servers with a provider are tried first.
  func server(of found: Found) async throws(RPCError) -> Server {
    let known = found.issuers.filter { issuer in
      providers.all.contains { $0.provider.description.issuer == issuer.rawValue }
    }
    var first: RPCError?
    for issuer in (known + found.issuers.filter { !known.contains($0) }).prefix(Limit.triedServers) {
      do throws(RPCError) {
        return try await server(issuer, found)
      } catch {
        first = first ?? error
      }
    }
    throw first ?? RPCError(.providerError, "\(place(found)) names no authorization server", hint: report(found.url))
  }

  private func server(_ issuer: Issuer, _ found: Found) async throws(RPCError) -> Server {
    var failure: RPCError?
    for style in issuer.discoveryStyles {
      let place = issuer.discoveryURL(style)
      let response = try await response(place, "application/json", of: .discovery, found.bounds)
      if (400..<500).contains(response.status) { continue }
      let metadata: ServerMetadata
      do throws(ResponseError) {
        metadata = try ServerMetadata.parse(response, expected: issuer, issuerRule: .exact, allowInsecureHTTP: false)
      } catch {
        failure = failure ?? unusable(error, at: place, issuer, found)
        continue
      }
      try check(metadata, at: place, found)
      return Server(issuer: issuer, style: style, metadata: metadata)
    }
    throw failure
      ?? RPCError(
        .providerError,
        "\(self.place(found)) names the authorization server \(issuer), which has no metadata at "
          + issuer.discoveryStyles.map { issuer.discoveryURL($0).absoluteString }.joined(separator: " or "),
        hint: report(found.url))
  }

  private func unusable(_ error: ResponseError, at place: URL, _ issuer: Issuer, _ found: Found) -> RPCError {
    let message: String
    switch error {
    case .issuerMismatch(_, let other):
      message = "is of the issuer “\(other)”, and the resource names “\(issuer)” (RFC 8414 §3.3)"
    case .redirect(let status): message = "is a redirect (HTTP \(status)) to another origin"
    case .oauth(let error, let status, _): message = "cannot be used: HTTP \(status), \(error.summary)"
    case .nonConforming(let status, _, let reason, _): message = "cannot be used: HTTP \(status), \(reason)"
    case .subjectMismatch: message = "cannot be used"
    }
    let isDown = error.status.map { $0 >= 500 } ?? false
    return RPCError(
      isDown ? .temporarilyUnavailable : .providerError, "the document at \(place.absoluteString) \(message)",
      hint: isDown ? "Try again later." : report(found.url), retryAfter: isDown ? 30 : nil)
  }

  /// The endpoints that a browser or the broker is sent to.
  private func check(_ metadata: ServerMetadata, at place: URL, _ found: Found) throws(RPCError) {
    func wrong(_ reason: String) -> RPCError {
      RPCError(.providerError, "the document at \(place.absoluteString) \(reason)", hint: report(found.url))
    }
    for endpoint in [Endpoint.authorization, .token] {
      do throws(EndpointError) {
        _ = try metadata.endpoint(endpoint)
      } catch {
        switch error {
        case .missing(let name): throw wrong("has no \(name)")
        case .invalid(let name, let text): throw wrong("has an unusable \(name) “\(text)”: it must be https")
        }
      }
    }
    for endpoint in Endpoint.allCases {
      guard let url = try? metadata.endpoint(endpoint), let scope = Self.literalScope(url), scope > found.reach else {
        continue
      }
      throw wrong("names \(scope.words) as its \(endpoint.rawValue): \(url.absoluteString.printable(limit: 300))")
    }
    if let methods = metadata.supported.codeChallengeMethods, !methods.contains("S256") {
      throw wrong("does not list PKCE with S256 (RFC 7636)")
    }
  }

  /// The scope of a URL whose host is an address or this machine's name; nil: another name, which is looked up later.
  private static func literalScope(_ url: URL) -> AddressScope? {
    let host = (url.host() ?? "").lowercased().filter { $0 != "[" && $0 != "]" }
    return AddressScope(host) ?? (host == "localhost" || host.hasSuffix(".localhost") ? .machine : nil)
  }
}
