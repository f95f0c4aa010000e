public import OAuth

/// How a person's sessions at a provider end.
public struct LogoutTraits: Sendable, Equatable {
  /// Lists the person's sessions, and ends them one by one.
  public var listsSessions = false
  /// How far a logout may go, the standard first; empty: the provider does not ask.
  public var reaches: [String] = []
  /// Takes the provider's logout tokens (OpenID Connect Back-Channel Logout).
  public var acceptsLogoutTokens = false
  /// `post_logout_redirect_uri`, as registered (OpenID Connect RP-Initiated Logout §3); a loopback one without a port
  /// stands for the port of the callback endpoint.
  public var redirectURI: RedirectURI?

  public init() {}

  /// Where the browser comes back after it signed out; nil: nowhere.
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
