import AsyncHTTPClient
public import Broker
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
public import OAuth

/// Sends the broker's requests by AsyncHTTPClient: one client, no redirects, every body and time bounded.
public final class HTTPTransport: Transport {
  /// The largest body that is read.
  static let largestBody = 1 << 20
  static let connectTimeout = TimeAmount.seconds(10)
  /// From the request's first byte to the response's last.
  public static let deadline = Duration.seconds(30)
  /// Revocations hold up a person's logout.
  static let revocationDeadline = Duration.seconds(10)

  private let client: HTTPClient
  private let userAgent: String
  private let deadline: Duration

  /// - Parameter deadline: from the request's first byte to the response's last.
  public init(userAgent: String, deadline: Duration = HTTPTransport.deadline) {
    self.deadline = deadline
    var configuration = HTTPClient.Configuration(
      redirectConfiguration: .disallow,
      timeout: .init(connect: Self.connectTimeout),
      decompression: .disabled)
    // A pooled connection that the server has closed would make a request look lost that was never taken.
    configuration.connectionPool.idleTimeout = .seconds(5)
    // The broker has its own pace for trying again.
    configuration.connectionPool.retryConnectionEstablishment = false
    configuration.httpVersion = .automatic
    client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    self.userAgent = userAgent
  }

  public func close() async {
    try? await client.shutdown()
  }

  public func send(_ request: HTTPRequest) async throws(TransportError) -> HTTPResponse {
    var message = HTTPClientRequest(url: request.url.absoluteString)
    message.method = .RAW(value: request.method)
    for header in request.headers { message.headers.add(name: header.name, value: header.value) }
    message.headers.replaceOrAdd(name: "User-Agent", value: userAgent)
    if let body = request.body { message.body = .bytes(body) }
    let limit = request.purpose == .revocation ? min(Self.revocationDeadline, deadline) : deadline
    let sent = message
    do {
      // The client's own deadline ends with the response's head; a body that stalls must end as well.
      return try await withThrowingTaskGroup(of: HTTPResponse.self) { group in
        group.addTask { try await self.read(self.client.execute(sent, deadline: .now() + TimeAmount(limit))) }
        group.addTask {
          try await Task.sleep(for: limit)
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
