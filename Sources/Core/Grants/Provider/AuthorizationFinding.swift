/// The result of an authorization request that was sent without a user.
public struct AuthorizationFinding: Sendable, Equatable {
  /// What the provider most likely does not accept.
  public enum Cause: String, Sendable {
    case clientID = "client_id"
    case redirectURI = "redirect_uri"
    case scopes
  }

  public var result: Finding.Result
  /// Nil: unknown, or the request was accepted.
  public var cause: Cause?
  public var message: String
  /// Whether the request was pushed (RFC 9126).
  public var isPushed: Bool

  public init(_ result: Finding.Result, cause: Cause? = nil, _ message: String, isPushed: Bool = false) {
    self.result = result
    self.cause = cause
    self.message = message
    self.isPushed = isPushed
  }
}
