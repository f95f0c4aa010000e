import Foundation
public import NIOCore
public import NIOHTTP1
import NIOPosix

/// A request to a server under test, over a separate connection. Redirects are not followed.
public struct TestRequest: Sendable {
  public struct Answer: Sendable {
    public var status: Int
    public var headers: HTTPHeaders
    /// Nil if the connection ended before the promised length.
    public var body: String?
  }

  public struct Failed: Error, CustomStringConvertible {
    public let description: String
  }

  public var method: HTTPMethod
  public var url: String
  public var headers = HTTPHeaders()
  public var body = ""

  /// Bytes.
  private static let largestAnswer = 64 << 20

  public init(_ method: HTTPMethod = .GET, _ url: String) {
    (self.method, self.url) = (method, url)
  }

  /// A form of pairs that are encoded already.
  public static func form(_ url: String, _ pairs: String) -> TestRequest {
    var request = TestRequest(.POST, url)
    request.headers.add(name: "Content-Type", value: "application/x-www-form-urlencoded")
    request.body = pairs
    return request
  }

  /// - Throws: if the connection fails, or ends without a head.
  public func send(within deadline: TimeAmount = .seconds(60)) async throws -> Answer {
    guard let parts = URLComponents(string: url), parts.scheme == "http", let host = parts.host, let port = parts.port
    else { throw Failed(description: "not a URL of http with a port: \(url)") }
    let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
      .connect(host: host.trimmingCharacters(in: CharacterSet(charactersIn: "[]")), port: port) { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHTTPClientHandlers()
          return try NIOAsyncChannel<HTTPClientResponsePart, HTTPClientRequestPart>(
            wrappingChannelSynchronously: channel)
        }
      }
    let hangUp = channel.channel.eventLoop.scheduleTask(in: deadline) { channel.channel.close(promise: nil) }
    defer { hangUp.cancel() }
    let head = head(host: "\(host):\(port)", path: parts)
    return try await channel.executeThenClose { inbound, outbound in
      let content = body.isEmpty ? [] : [HTTPClientRequestPart.body(.byteBuffer(ByteBuffer(string: body)))]
      // The server may answer, and close the connection, before all is written.
      try? await outbound.write(contentsOf: [.head(head)] + content + [.end(nil)])
      return try await Self.read(inbound)
    }
  }

  private func head(host: String, path: URLComponents) -> HTTPRequestHead {
    let query = path.percentEncodedQuery.map { "?\($0)" } ?? ""
    let uri = (path.percentEncodedPath.isEmpty ? "/" : path.percentEncodedPath) + query
    var all = headers
    if !all.contains(name: "Host") { all.add(name: "Host", value: host) }
    if method == .POST || !body.isEmpty { all.add(name: "Content-Length", value: String(body.utf8.count)) }
    all.add(name: "Connection", value: "close")
    return HTTPRequestHead(version: .http1_1, method: method, uri: uri, headers: all)
  }

  private static func read(_ inbound: NIOAsyncChannelInboundStream<HTTPClientResponsePart>) async throws -> Answer {
    var (answer, body) = (Answer?.none, ByteBuffer())
    do {
      for try await part in inbound where body.readableBytes <= largestAnswer {
        switch part {
        case .head(let head): answer = Answer(status: Int(head.status.code), headers: head.headers, body: nil)
        case .body(let bytes): body.writeImmutableBuffer(bytes)
        case .end:
          answer?.body = String(buffer: body)
          if let answer { return answer }
        }
      }
    } catch {
      // The connection ended early.
      guard answer != nil else { throw error }
    }
    guard let answer else { throw Failed(description: "the connection ended without an answer") }
    return answer
  }
}
