public import FoundationEssentials

/// The request that ends the user's session at the provider (OpenID Connect RP-Initiated Logout §2).
public struct EndSessionRequest: Sendable {
  public var idTokenHint: Secret?
  public var clientID: String?
  /// The registered URL that the provider sends the user to afterwards.
  public var postLogoutRedirectURI: String?
  /// Returned with the user; only with ``postLogoutRedirectURI``.
  public var state: Secret?
  /// Provider-specific parameters. They never replace existing ones.
  public var extra: [Parameter] = []

  public init(idTokenHint: Secret?, clientID: String?, postLogoutRedirectURI: String?, state: Secret?) {
    self.idTokenHint = idTokenHint
    self.clientID = clientID
    self.postLogoutRedirectURI = postLogoutRedirectURI
    self.state = state
  }

  /// The URL to open; nil if the endpoint cannot have parameters. The endpoint's own query is kept.
  public func url(at endpoint: URL) -> URL? {
    let text = endpoint.absoluteString
    guard let uri = URI(text), uri.fragment == nil, let existing = FormEncoding.decode(uri.query ?? "") else {
      return nil
    }
    var parameters: [Parameter] = []
    // ID token and state are exposed to be sent: the specification sends them through the user agent.
    if let idTokenHint { parameters.append(Parameter("id_token_hint", idTokenHint.exposed)) }
    if let clientID, !clientID.isEmpty { parameters.append(Parameter("client_id", clientID)) }
    if let postLogoutRedirectURI {
      parameters.append(Parameter("post_logout_redirect_uri", postLogoutRedirectURI))
      if let state { parameters.append(Parameter("state", state.exposed)) }
    }
    let own = Set(existing.map(\.name))
    parameters.removeAll { own.contains($0.name) }
    let taken = own.union(parameters.map(\.name))
    parameters += extra.filter { !taken.contains($0.name) }
    guard !parameters.isEmpty else { return endpoint }
    let joint = uri.query == nil ? "?" : text.hasSuffix("?") || text.hasSuffix("&") ? "" : "&"
    return URL(string: text + joint + FormEncoding.query(parameters), encodingInvalidCharacters: false)
  }

  /// Whether `url` is the return from this logout: the URL matches, and the state occurs once and is equal (§3). If no
  /// state was sent, there must be none.
  public func isReturn(_ url: String) -> Bool {
    guard let postLogoutRedirectURI, let redirectURI = RedirectURI(rawValue: postLogoutRedirectURI),
      url.utf8.count <= AuthorizationResponse.longestURL, redirectURI.matches(url), let uri = URI(url),
      let parameters = FormEncoding.decode(uri.query ?? "")
    else { return false }
    let states = parameters.filter { $0.name == "state" }.map { Secret($0.value) }
    return states == (state.map { [$0] } ?? [])
  }
}

extension EndSessionRequest: Redacted {
  public var description: String { "end-session request" }
}
