import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix

/// A form posted to a program on this machine, and its answer.
enum LoopbackPost {
  /// An `http` URL on a loopback address.
  struct Target: Sendable {
    var host: String
    var port: Int
    var path: String
    var authority: String

    init(_ text: String) throws(ControlFailure) {
      guard let url = URLComponents(string: text), url.scheme == "http", let host = url.host,
        ["127.0.0.1", "::1", "[::1]"].contains(host)
      else { throw ControlFailure("url is http on 127.0.0.1 or [::1]") }
      self.host = host.trimmingCharacters(in: ["[", "]"])
      port = url.port ?? 80
      authority = "\(host.contains(":") && !host.hasPrefix("[") ? "[\(host)]" : host):\(port)"
      path =
        (url.percentEncodedPath.isEmpty ? "/" : url.percentEncodedPath)
        + (url.percentEncodedQuery.map { "?\($0)" } ?? "")
    }
  }

  struct Answer: Sendable {
    var status: Int
    var headers: [String: String]
    var body: String
  }

  /// Nil where nobody answers in time, or not with HTTP.
  static func send(_ form: Form, to target: Target) async -> Answer? {
    try? await withThrowingTaskGroup(of: Answer?.self) { group in
      group.addTask { try await exchange(form, target) }
      group.addTask {
        try await Task.sleep(for: Limits.logoutWait)
        return nil
      }
      defer { group.cancelAll() }
      return try await group.next() ?? nil
    }
  }

  private static func exchange(_ form: Form, _ target: Target) async throws -> Answer? {
    let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
      .connect(host: target.host, port: target.port) { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHTTPClientHandlers()
          try channel.pipeline.syncOperations.addHandler(RequestParts())
          return try NIOAsyncChannel<HTTPClientResponsePart, HTTPConnection.RequestPart>(
            wrappingChannelSynchronously: channel)
        }
      }
    return try await channel.executeThenClose { inbound, outbound in
      let body = ByteBuffer(string: form.encoded)
      let headers: HTTPHeaders = [
        "Host": target.authority, "Content-Type": "application/x-www-form-urlencoded",
        "Content-Length": String(body.readableBytes), "Connection": "close",
      ]
      try await outbound.write(.head(.init(version: .http1_1, method: .POST, uri: target.path, headers: headers)))
      try await outbound.write(.body(body))
      try await outbound.write(.end(nil))
      var answer: Answer?
      for try await part in inbound {
        switch part {
        case .head(let head):
          let fields = head.headers.map { ($0.name.lowercased(), $0.value) }
          answer = Answer(
            status: Int(head.status.code), headers: Dictionary(fields) { "\($0), \($1)" }, body: "")
        case .body(let bytes):
          guard (answer?.body.utf8.count ?? 0) + bytes.readableBytes <= Limits.logoutAnswerBytes else { return nil }
          answer?.body += String(buffer: bytes)
        case .end: return answer
        }
      }
      return nil
    }
  }
}

extension HTTPConnection {
  typealias RequestPart = HTTPPart<HTTPRequestHead, ByteBuffer>
}

/// Lets request parts be written from any thread: `IOData`, which may be a file, is not Sendable; a buffer is.
private final class RequestParts: ChannelOutboundHandler {
  typealias OutboundIn = HTTPConnection.RequestPart
  typealias OutboundOut = HTTPClientRequestPart

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    switch unwrapOutboundIn(data) {
    case .head(let head): context.write(wrapOutboundOut(.head(head)), promise: promise)
    case .body(let buffer): context.write(wrapOutboundOut(.body(.byteBuffer(buffer))), promise: promise)
    case .end(let trailers): context.write(wrapOutboundOut(.end(trailers)), promise: promise)
    }
  }
}
