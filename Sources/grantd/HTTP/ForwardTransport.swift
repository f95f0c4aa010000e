import Broker
import HTTPTransport
import Loopback
import NIOCore
import OAuth

/// The HTTP client as the loopback listener uses it.
struct ForwardTransport: Upstream {
  private let transport: HTTPTransport

  init(_ transport: HTTPTransport) { self.transport = transport }

  func exchange(
    _ request: HTTPRequest, over pool: ConnectionPool, body: UpstreamBody?,
    _ use: @Sendable (UpstreamAnswer) async throws -> Void
  ) async throws {
    let body = body.map { StreamedBody(length: $0.length, next: $0.next) }
    try await transport.exchange(request, over: pool, body: body) { answer in
      try await use(
        UpstreamAnswer(status: answer.status, headers: answer.headers) { take in try await answer.parts(take) })
    }
  }

  func send(_ request: HTTPRequest, over pool: ConnectionPool) async throws(TransportError) -> HTTPResponse {
    try await transport.send(request, over: pool, late: nil)
  }
}
