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

  /// What stood in the way, as far as it shows: it decides what a person looks at.
  public enum Cause: String, Sendable, Equatable {
    case nameLookup
    /// Nobody listens there.
    case refused
    /// No road to there: the network is down, or a firewall says no.
    case unreachable
    case silence
    /// The server's certificate is not to be trusted: expired, for another name, of an unknown authority.
    case certificate
    /// No secure connection, for another reason.
    case tls
    case other
  }

  public var kind: Kind
  public var message: String
  public var cause: Cause

  public init(_ kind: Kind, _ message: String, cause: Cause = .other) {
    self.kind = kind
    self.message = message
    self.cause = cause
  }
}
