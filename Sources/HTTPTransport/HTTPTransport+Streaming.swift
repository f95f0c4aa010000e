import AsyncHTTPClient
public import Broker
import FoundationEssentials
public import NIOCore
import NIOHTTP1
public import OAuth

/// An answer whose body is still coming in.
public struct StreamedAnswer: Sendable {
  public let status: Int
  public let headers: [HTTPRequest.Header]
  let response: HTTPClientResponse

  /// In the parts in which it comes, read no faster than they are taken.
  public func parts(_ take: (ByteBuffer) async throws -> Void) async throws {
    for try await part in response.body { try await take(part) }
  }
}

/// A body that is sent as it comes in.
public struct StreamedBody: Sendable {
  /// Bytes; nil: unknown, it is sent in chunks.
  public var length: Int?
  /// The next part; nil: it is over.
  public var next: @Sendable () async throws -> ByteBuffer?

  public init(length: Int?, next: @escaping @Sendable () async throws -> ByteBuffer?) {
    self.length = length
    self.next = next
  }
}

extension HTTPTransport {
  /// Sends a request whose body and answer may be of any size and take any time; the caller bounds what it has to.
  ///
  /// - Parameters:
  ///   - body: nil: there is none.
  ///   - use: called with the answer's head. The connection is given back when it returns.
  public func exchange<Output: Sendable>(
    _ request: HTTPRequest, over pool: ConnectionPool, body: StreamedBody?,
    _ use: (StreamedAnswer) async throws -> Output
  ) async throws -> Output {
    var message = HTTPClientRequest(url: request.url.absoluteString)
    // Of the usual ones the client knows whether they have a body.
    let usual: [String: HTTPMethod] = [
      "GET": .GET, "HEAD": .HEAD, "POST": .POST, "PUT": .PUT, "DELETE": .DELETE, "PATCH": .PATCH, "OPTIONS": .OPTIONS,
    ]
    message.method = usual[request.method] ?? .RAW(value: request.method)
    for header in request.headers { message.headers.add(name: header.name, value: header.value) }
    if let body {
      message.body = .stream(
        StreamedParts(next: body.next), length: body.length.map { .known(Int64($0)) } ?? .unknown)
    }
    let places: [Clients.Key.Place?]
    places = try await self.places(of: request)
    var first: TransportError?
    for place in places {
      let key = Clients.Key(pool: pool, tls: request.tls, place: place)
      let client = try clients.take(key)
      defer { clients.giveBack(key) }
      let response: HTTPClientResponse
      do {
        response = try await client.execute(message, deadline: .distantFuture)
      } catch {
        let failure = error as? TransportError ?? TransportError(error, request)
        guard failure.isOfAddress else { throw failure }
        first = first ?? failure
        continue
      }
      if let place { names.works(place.address, of: place.host) }
      return try await use(
        StreamedAnswer(
          status: Int(response.status.code), headers: response.headers.map { .init($0.name, $0.value) },
          response: response))
    }
    throw first ?? TransportError(.notSent, "no connection to \(request.url.host ?? "the provider")")
  }
}

private struct StreamedParts: AsyncSequence, Sendable {
  typealias Element = ByteBuffer
  let next: @Sendable () async throws -> ByteBuffer?

  struct AsyncIterator: AsyncIteratorProtocol {
    let part: @Sendable () async throws -> ByteBuffer?
    mutating func next() async throws -> ByteBuffer? { try await part() }
  }

  func makeAsyncIterator() -> AsyncIterator { AsyncIterator(part: next) }
}
