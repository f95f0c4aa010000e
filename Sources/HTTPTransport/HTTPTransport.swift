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

extension TransportError {
  /// Whether anything was sent is what matters: a request that was not may be repeated freely.
  init(_ error: any Error, _ request: HTTPRequest) {
    let host = request.url.host ?? "the provider"
    switch error {
    case let error as HTTPClientError where error == .connectTimeout:
      self.init(.notSent, "no connection to \(host) within 10 s")
    case let error as HTTPClientError where error == .deadlineExceeded || error == .readTimeout:
      self.init(.timedOut, "\(host) did not answer in time")
    case let error as HTTPClientError where error == .getConnectionFromPoolTimeout || error == .alreadyShutdown:
      self.init(.notSent, "no connection to \(host) was free")
    case let error as HTTPClientError where error == .tlsHandshakeTimeout:
      self.init(.notSent, "no secure connection to \(host) in time")
    case is HTTPClientError:
      self.init(.lost, "the connection to \(host) ended before the answer (\(error))")
    case is NIOConnectionError, is SocketAddressError:
      self.init(.notSent, "no connection to \(host): \(Self.reason(error))")
    case let error as IOError where Self.connectFailures.contains(error.errnoCode):
      self.init(.notSent, "no connection to \(host): \(String(cString: strerror(error.errnoCode)))")
    case NIOSSLError.handshakeFailed, is NIOSSLExtraError:
      self.init(.notSent, "no secure connection to \(host): \(error)")
    default:
      self.init(.lost, "the connection to \(host) failed: \(error)")
    }
  }

  /// What connect(2) fails with, and no read or write does.
  private static let connectFailures: Set<CInt> = [
    ECONNREFUSED, ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL, EACCES, EPERM, ENETDOWN, EHOSTDOWN,
  ]

  private static func reason(_ error: any Error) -> String {
    guard let error = error as? NIOConnectionError else { return "the name cannot be resolved" }
    if error.connectionErrors.isEmpty { return "the name cannot be resolved" }
    return error.connectionErrors.map { "\($0.error)" }.first ?? "refused"
  }
}
