public import OAuth

/// Sends requests to providers. Redirects are never followed; bodies and times are bounded by the request's purpose.
public protocol Transport: Sendable {
  func send(_ request: HTTPRequest) async throws(TransportError) -> HTTPResponse
}

/// No answer came. The text is for people and names no secret.
public struct TransportError: Error, Sendable, Equatable {
  public enum Kind: String, Sendable, Equatable {
    /// Nothing was sent: name look-up, connect, TLS.
    case notSent
    /// It may have been sent and acted on.
    case lost
    case timedOut
    case tooLarge
  }

  public var kind: Kind
  public var message: String

  public init(_ kind: Kind, _ message: String) {
    self.kind = kind
    self.message = message
  }
}
