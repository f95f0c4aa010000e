public import OAuth

/// The short URL on the callback endpoint that redirects the browser to the authorization request, once. The request
/// URL itself would reveal its `state` to any process that can read the browser's command line.
public struct LoginLink: Sendable, Equatable {
  /// The last path segment, of at least 128 random bits.
  public let token: Secret
  /// The URL of the authorization request; nil: the link was opened, or the login has ended.
  public var request: Secret?

  public init(token: Secret, request: Secret?) {
    self.token = token
    self.request = request
  }
}
