/// How a provider refreshes access tokens (RFC 6749 §6).
public struct RefreshTraits: Sendable, Equatable {
  /// False: there are no refresh tokens, and a person signs in again when the session ends.
  public var isSupported: Bool
  public var rotation: Rotation
  /// Of a refresh token, where its responses do not say; nil: unknown.
  public var lifetime: Duration?
  /// The lifetime begins anew at each use, also where the refresh token stays the same.
  public var isSliding: Bool
  /// A refresh may ask for fewer scopes or another resource (RFC 6749 §6, RFC 8707 §2.2).
  public var narrowsTokens: Bool

  public static let unsupported = RefreshTraits(isSupported: false, rotation: .none, narrowsTokens: false)

  public init(
    isSupported: Bool = true, rotation: Rotation, lifetime: Duration? = nil, isSliding: Bool = false,
    narrowsTokens: Bool = true
  ) {
    self.isSupported = isSupported
    self.rotation = rotation
    self.lifetime = lifetime
    self.isSliding = isSliding
    self.narrowsTokens = narrowsTokens
  }
}
