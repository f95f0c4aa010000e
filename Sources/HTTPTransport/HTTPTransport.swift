import AsyncHTTPClient
public import Broker
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
public import OAuth

/// Sends the broker's requests by AsyncHTTPClient: no redirects, every body and time bounded, and a client of its own for
/// each pool of connections and choice of certificates.
public final class HTTPTransport: Transport {
  /// The largest body that is read.
  static let largestBody = 1 << 20
  /// From the request's first byte to the response's last, in time in which this process ran.
  public static let deadline = Duration.seconds(30)
  /// Revocations hold up a person's logout.
  static let revocationDeadline = Duration.seconds(10)

  private let clients: Clients
  private let userAgent: String
  private let deadline: Duration

  /// - Parameter deadline: from the request's first byte to the response's last.
  public convenience init(userAgent: String, deadline: Duration = HTTPTransport.deadline) {
    self.init(userAgent: userAgent, deadline: deadline, clients: Clients())
  }

  init(userAgent: String, deadline: Duration = HTTPTransport.deadline, clients: Clients) {
    self.deadline = deadline
    self.userAgent = userAgent
    self.clients = clients
  }

  public func close() async {
    await clients.close()
  }

  public func send(
    _ request: HTTPRequest, over pool: ConnectionPool, late: LateAnswer?
  ) async throws(TransportError) -> HTTPResponse {
    let key = Clients.Key(pool: pool, tls: request.tls)
    let client = try clients.take(key)
    defer { clients.giveBack(key) }
    var message = HTTPClientRequest(url: request.url.absoluteString)
    message.method = .RAW(value: request.method)
    for header in request.headers { message.headers.add(name: header.name, value: header.value) }
    message.headers.replaceOrAdd(name: "User-Agent", value: userAgent)
    if let body = request.body { message.body = .bytes(body) }
    let limit = request.purpose == .revocation ? min(Self.revocationDeadline, deadline) : deadline
    let sent = message
    do {
      // The client's own deadline would also count time in which the process was stopped.
      return try await withThrowingTaskGroup(of: HTTPResponse.self) { group in
        group.addTask { try await self.read(client.execute(sent, deadline: .distantFuture)) }
        group.addTask {
          try await RunningTime().sleep(for: limit)
          if let late {
            late.isOverdue(TransportError(HTTPClientError.deadlineExceeded, request))
            try await RunningTime().sleep(for: late.limit - limit)
          }
          throw HTTPClientError.deadlineExceeded
        }
        defer { group.cancelAll() }
        guard let response = try await group.next() else { throw HTTPClientError.cancelled }
        return response
      }
    } catch let error as TransportError {
      throw error
    } catch {
      throw TransportError(error, request)
    }
  }

  private func read(_ response: HTTPClientResponse) async throws -> HTTPResponse {
    do {
      let body = try await response.body.collect(upTo: Self.largestBody)
      return HTTPResponse(
        status: Int(response.status.code), headers: response.headers.map { .init($0.name, $0.value) },
        body: Data(body.readableBytesView))
    } catch is NIOTooManyBytesError {
      throw TransportError(.tooLarge, "the answer is larger than \(Self.largestBody) bytes")
    }
  }
}
