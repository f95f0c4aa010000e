public import OAuth

/// How the user's sessions at a provider end.
public struct LogoutTraits: Sendable, Equatable {
  /// Can list the user's sessions and end them individually.
  public var listsSessions = false
  /// The supported logout scopes, the default first; empty: none.
  public var reaches: [String] = []
  /// Accepts the provider's logout tokens (OpenID Connect Back-Channel Logout).
  public var acceptsLogoutTokens = false
  /// `post_logout_redirect_uri`, as registered (OpenID Connect RP-Initiated Logout §3). A loopback URL without a port
  /// gets the port of the callback endpoint.
  public var redirectURI: RedirectURI?

  public init() {}

  /// The URL that the browser returns to after the logout; nil: none.
  ///
  /// - Parameter port: of the callback endpoint; nil: it does not listen.
  public func returnAddress(port: Int?) -> RedirectURI? {
    guard let redirectURI, redirectURI.isLoopback, redirectURI.port == nil else { return redirectURI }
    return port.flatMap(UInt16.init(exactly:)).map(redirectURI.replacingPort)
  }

  public func check(reach: String) throws(Objection) {
    guard !reaches.contains(reach) else { return }
    throw Objection(
      "where", "the provider knows no \(reach.prefix(64).debugDescription)",
      hint: reaches.isEmpty ? "Leave it out: it has no such thing." : "It knows: \(reaches.joined(separator: ", ")).")
  }
}
