public import OAuth

/// The short address on the callback endpoint that leads the browser to the authorization request, once. The request
/// itself would show its `state` to everyone who sees the browser's command line.
public struct LoginLink: Sendable, Equatable {
  /// The address's last segment, of 128 random bits or more.
  public let token: Secret
  /// The address of the authorization request; nil: the link was opened, or the login has ended.
  public var request: Secret?

  public init(token: Secret, request: Secret?) {
    self.token = token
    self.request = request
  }
}
