public import Broker
public import NIOCore
public import OAuth

/// Sends requests whose bodies and answers are of any size.
public protocol Upstream: Sendable {
  /// - Parameters:
  ///   - body: nil: there is none.
  ///   - use: called with the answer's head; the answer ends when it returns.
  func exchange(
    _ request: HTTPRequest, over pool: ConnectionPool, body: UpstreamBody?,
    _ use: @Sendable (UpstreamAnswer) async throws -> Void
  ) async throws
  /// A request with a small answer.
  func send(_ request: HTTPRequest, over pool: ConnectionPool) async throws(TransportError) -> HTTPResponse
}

public struct UpstreamBody: Sendable {
  /// Bytes; nil: it is sent in chunks.
  public var length: Int?
  /// The next part; nil: it is over.
  public var next: @Sendable () async throws -> ByteBuffer?
}

public struct UpstreamAnswer: Sendable {
  public var status: Int
  public var headers: [HTTPRequest.Header]
  /// Hands on the body in its parts.
  public var parts: @Sendable (_ take: (ByteBuffer) async throws -> Void) async throws -> Void

  public init(
    status: Int, headers: [HTTPRequest.Header],
    parts: @escaping @Sendable (_ take: (ByteBuffer) async throws -> Void) async throws -> Void
  ) {
    self.status = status
    self.headers = headers
    self.parts = parts
  }
}
