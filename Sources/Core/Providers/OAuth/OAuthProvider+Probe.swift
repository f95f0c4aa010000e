import FoundationEssentials
public import Grants
public import OAuth

// The authorization request without a user. A server checks the client ID, the redirect URI and most scopes before it
// asks for a sign-in, and shows an error page that the broker would otherwise never see (RFC 6749 §4.1.2.1).
extension OAuthProvider {
  /// Redirects within the server's origin that a probe follows.
  private static let hops = 2
  /// Longest part of a page's text in a message, in characters.
  private static let quotation = 160

  public func probe(_ request: LoginRequest, metadata: ServerMetadata) -> Step<AuthorizationFinding> {
    stepping {
      let opening = try opening(request, metadata)
      let mustPush = try pushes(metadata)
      guard mustPush || pushesOnTrial(metadata) else { return front(opening) }
      return .attempt(try pushed(opening)) { result, _ in
        do throws(ProviderFailure) {
          let response = try result.get()
          _ = try read(otherwise: refusedRequest) { () throws(ResponseError) in
            try PushedAuthorizationResponse.parse(response)
          }.end?.get()
          return .done(.init(.ok, "\(host(opening)) accepts the pushed authorization request", isPushed: true))
        } catch {
          // A server may refuse to take requests this way and accept them by the browser.
          guard mustPush else { return front(opening) }
          return .done(refused(error, opening))
        }
      }
    }
  }

  private func pushesOnTrial(_ metadata: ServerMetadata) -> Bool {
    settings.authorization.par != .never && metadata.endpoints[.pushedAuthorizationRequest] != nil
      && !settings.signIn.staysInFront
  }

  private func host(_ opening: Opening) -> String { opening.endpoint.host ?? "the provider" }

  private func refused(_ failure: ProviderFailure, _ opening: Opening) -> AuthorizationFinding {
    let message = "\(host(opening)) refuses the pushed authorization request: \(failure.message)"
    guard !failure.isOfProvider else {
      return .init(.warning(hint: "Try again later."), failure.message, isPushed: true)
    }
    let text = [failure.oauth?.code.rawValue, failure.oauth?.description].compactMap(\.self).joined(separator: " ")
    let cause = Self.cause(text)
    return .init(.failed(hint: hint(cause, opening)), cause: cause, message, isPushed: true)
  }

  // MARK: By the URL

  private func front(_ opening: Opening, isReduced: Bool = false) -> Step<AuthorizationFinding> {
    stepping { get(try place(opening, pushed: nil).url, opening, hops: Self.hops, isReduced: isReduced) }
  }

  private func get(_ url: URL, _ opening: Opening, hops: Int, isReduced: Bool) -> Step<AuthorizationFinding> {
    let request = secured(
      HTTPRequest(
        purpose: .discovery, method: "GET", url: url,
        headers: [.init("Accept", "text/html,application/xhtml+xml,application/json;q=0.9,*/*;q=0.8")]))
    return .attempt(request) { result, _ in
      guard case .success(let response) = result else {
        let message = "the authorization request had no usable answer"
        return .done(.init(.warning(hint: "`grantctl doctor \(name)` checks the provider."), message))
      }
      let judged = AuthorizationAnswer(response, to: request, redirectURI: opening.message.redirectURI)
      switch judged {
      case .leads(let next) where hops > 0: return get(next.url, opening, hops: hops - 1, isReduced: isReduced)
      case .leads, .accepted: return .done(.init(.ok, "\(host(opening)) accepts the authorization request"))
      case .unclear(let reason): return .done(.init(.skipped, "\(host(opening)) \(reason)"))
      case .unavailable(let status):
        let message = "\(host(opening)) answers the authorization request with HTTP \(status)"
        return .done(.init(.warning(hint: "Try again later; the provider is overloaded or out of service."), message))
      case .refused(let answer, let text):
        let cause = Self.cause(text)
        let quoted = text.isEmpty ? "" : ": “\(text.printable(limit: Self.quotation))”"
        let message = "\(host(opening)) answers the authorization request with \(answer)\(quoted)"
        let finding = AuthorizationFinding(.failed(hint: hint(cause, opening)), cause: cause, message)
        guard cause == nil, !isReduced, let fewer = fewerScopes(opening) else { return .done(finding) }
        return front(fewer, isReduced: true).ending { second in
          guard case .success(let second) = second, second.result == .ok else { return .success(finding) }
          return .success(.init(.failed(hint: hint(.scopes, opening)), cause: .scopes, message))
        }
      }
    }
  }

  /// The same request with the fewest scopes: if it is accepted, a scope was refused.
  private func fewerScopes(_ opening: Opening) -> Opening? {
    let fewest = opening.message.scopes.filter { $0 == "openid" }
    guard fewest.count < opening.message.scopes.count else { return nil }
    var fewer = opening
    (fewer.message.scopes, fewer.request.scopes) = (fewest, fewest)
    return fewer
  }

  // MARK: The likely cause

  /// Parts of texts that servers write, in lower case. The first row that matches decides.
  private static let marks: [(AuthorizationFinding.Cause, [String])] = [
    (.redirectURI, ["redirect_uri", "redirect uri", "redirect-uri", "redirect url", "callback url", "aadsts50011"]),
    (.scopes, ["invalid_scope", "invalid scope", "aadsts70011", "aadsts650053"]),
    (
      .clientID,
      [
        "invalid_client", "deleted_client", "client_id", "client id", "client not found",
        "unknown client", "invalid client", "no such client", "unknown application", "application is not known",
        "aadsts700016", "application with identifier",
      ]
    ),
    (.scopes, ["scope"]),
  ]

  static func cause(_ text: String) -> AuthorizationFinding.Cause? {
    let text = text.lowercased()
    return marks.first { $0.1.contains(where: text.contains) }?.0
  }

  private func hint(_ cause: AuthorizationFinding.Cause?, _ opening: Opening) -> String {
    let client = settings.client.id.printable(limit: 128)
    let uri = opening.message.redirectURI.rawValue
    let scopes = opening.message.scopes.joined(separator: " ")
    switch cause {
    case .clientID: return "The provider does not accept client ID \(client). Copy it again from the provider's page."
    case .redirectURI: return "Register this redirect URI for client ID \(client): \(uri)"
    case .scopes: return "The client may not request all of these scopes: \(scopes). Allow them, or request fewer."
    case nil:
      return "Compare with the provider's page: client ID \(client), redirect URI \(uri)"
        + (scopes.isEmpty ? "." : ", scopes \(scopes).")
    }
  }
}
