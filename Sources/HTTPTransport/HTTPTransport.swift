import AsyncHTTPClient
public import Broker
import FoundationEssentials
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

  let clients: Clients
  let names: NameLookups
  private let userAgent: String
  private let deadline: Duration

  /// - Parameter deadline: from the request's first byte to the response's last.
  public convenience init(userAgent: String, deadline: Duration = HTTPTransport.deadline) {
    self.init(userAgent: userAgent, deadline: deadline, clients: Clients(), names: NameLookups())
  }

  init(
    userAgent: String, deadline: Duration = HTTPTransport.deadline, clients: Clients = Clients(), names: NameLookups
  ) {
    self.deadline = deadline
    self.names = names
    self.userAgent = userAgent
    self.clients = clients
  }

  public func close() async {
    await clients.close()
  }

  public func send(
    _ request: HTTPRequest, over pool: ConnectionPool, late: LateAnswer?
  ) async throws(TransportError) -> HTTPResponse {
    var message = HTTPClientRequest(url: request.url.absoluteString)
    message.method = .RAW(value: request.method)
    for header in request.headers { message.headers.add(name: header.name, value: header.value) }
    message.headers.replaceOrAdd(name: "User-Agent", value: userAgent)
    if let body = request.body { message.body = .bytes(body) }
    let limit = request.purpose == .revocation ? min(Self.revocationDeadline, deadline) : deadline
    let (sent, arrived) = (message, ArrivedAnswer(limit: Self.largestBody))
    do {
      // The client's own deadline would also count time in which the process was stopped.
      return try await withThrowingTaskGroup(of: HTTPResponse.self) { group in
        group.addTask { try await self.exchange(request, sent, over: pool, into: arrived) }
        group.addTask {
          try await RunningTime().sleep(for: limit)
          if let answer = arrived.whole { return answer }
          if let late {
            late.isOverdue(TransportError(HTTPClientError.deadlineExceeded, request))
            try await RunningTime().sleep(for: late.limit - limit)
            if let answer = arrived.whole { return answer }
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

  /// Tries the addresses of the name in their order, until something was sent to one.
  private func exchange(
    _ request: HTTPRequest, _ message: HTTPClientRequest, over pool: ConnectionPool, into arrived: ArrivedAnswer
  ) async throws -> HTTPResponse {
    let places = try await places(of: request)
    var first: TransportError?
    for place in places {
      let key = Clients.Key(pool: pool, tls: request.tls, place: place)
      let client = try clients.take(key)
      defer { clients.giveBack(key) }
      do {
        let response = try await arrived.read(client.execute(message, deadline: .distantFuture))
        if let place { names.works(place.address, of: place.host) }
        return response
      } catch {
        let failure = error as? TransportError ?? TransportError(error, request)
        guard failure.isOfAddress else { throw failure }
        // It speaks for all.
        first = first ?? failure
      }
    }
    throw first ?? TransportError(.notSent, "no connection to \(request.url.host ?? "the provider")")
  }

  func places(of request: HTTPRequest) async throws(TransportError) -> [Clients.Key.Place?] {
    let host = (request.url.host ?? "").filter { $0 != "[" && $0 != "]" }
    // The client says what is wrong with an address without a name.
    guard !host.isEmpty, !SystemResolver.isAddress(host) else { return [nil] }
    let addresses = try await names.addresses(of: host)
    return addresses.map { .init(host: host, address: $0, isOneOfMany: addresses.count > 1) }
  }
}
