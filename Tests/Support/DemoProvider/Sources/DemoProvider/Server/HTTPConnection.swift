import Foundation
import NIOCore
import NIOHTTP1
import Synchronization

/// One client's connection: its requests one after another, each answered as its faults allow.
struct HTTPConnection: Sendable {
  typealias Part = HTTPPart<HTTPResponseHead, ByteBuffer>
  typealias Channel = NIOAsyncChannel<HTTPServerRequestPart, Never>

  let provider: Provider
  let channel: any NIOCore.Channel

  /// Prepares an accepted channel for HTTP/1.1.
  static func configure(_ channel: any NIOCore.Channel) throws -> Channel {
    try channel.pipeline.syncOperations.configureHTTPServerPipeline(withPipeliningAssistance: false)
    try channel.pipeline.syncOperations.addHandler(SendableParts())
    return try Channel(wrappingChannelSynchronously: channel)
  }

  /// Serves until the client leaves, a fault cuts the connection, or the server stops.
  static func serve(_ wrapped: Channel, _ provider: Provider) async {
    let connection = Self(provider: provider, channel: wrapped.channel)
    await withTaskCancellationHandler {
      // A client that breaks the protocol or leaves in the middle is not this server's error.
      try? await wrapped.executeThenClose { inbound in
        var parts = inbound.makeAsyncIterator()
        while let (request, keepAlive) = try await Self.next(&parts) {
          guard let request else {
            try await connection.write(
              Response(status: 413), Delivery(date: 0, faults: []), close: true, bodiless: false)
            return
          }
          guard try await connection.serve(request, keepAlive: keepAlive) else { return }
        }
      }
    } onCancel: {
      connection.channel.close(promise: nil)
    }
  }

  /// The next request, nil in its place where it is too large; nil at the end of the connection.
  private static func next(
    _ parts: inout NIOAsyncChannelInboundStream<HTTPServerRequestPart>.AsyncIterator
  ) async throws -> (request: Request?, keepAlive: Bool)? {
    guard case .head(let head)? = try await parts.next() else { return nil }
    var body = ByteBuffer()
    while let part = try await parts.next() {
      switch part {
      case .head: return nil
      case .body(var bytes):
        guard body.readableBytes + bytes.readableBytes <= Limits.requestBytes else { return (nil, false) }
        body.writeBuffer(&bytes)
      case .end: return (Request(head: head, body: String(buffer: body)), head.isKeepAlive)
      }
    }
    return nil
  }

  /// Whether the connection stays open.
  private func serve(_ request: Request, keepAlive: Bool) async throws -> Bool {
    let flight = Flight(provider, grant: provider.refreshArrived(request))
    defer { flight.end() }
    switch try await provider.outcome(of: request) {
    case .dropped: return false
    case .answered(let response, let delivery):
      let close = !keepAlive || delivery.truncated
      try await write(response, delivery, close: close, bodiless: request.method == .HEAD, flight)
      return !close
    }
  }

  private func write(
    _ response: Response, _ delivery: Delivery, close: Bool, bodiless: Bool, _ flight: Flight? = nil
  ) async throws {
    var body = ByteBuffer(string: response.body.text)
    var head = HTTPResponseHead(version: .http1_1, status: HTTPResponseStatus(statusCode: response.status))
    head.headers.add(name: "Date", value: HTTPDate.text(of: delivery.date))
    for (name, value) in response.headers where !delivery.hidden.contains(name.lowercased()) {
      head.headers.add(name: name, value: value)
    }
    if let type = response.body.type { head.headers.add(name: "Content-Type", value: type) }
    head.headers.add(name: "Content-Length", value: String(body.readableBytes + delivery.padding))
    if close { head.headers.add(name: "Connection", value: "close") }
    try await channel.writeAndFlush(Part.head(head)).get()
    if !bodiless {
      if delivery.truncated {
        body.moveWriterIndex(to: body.readerIndex + body.readableBytes / 2)
        flight?.end()
        return try await channel.writeAndFlush(Part.body(body)).get()
      }
      try await write(body, delivery, flight)
    }
    try await channel.writeAndFlush(Part.end(nil)).get()
  }

  /// The client has the answer with the last byte, and may ask again before this side has done more.
  private func write(_ body: ByteBuffer, _ delivery: Delivery, _ flight: Flight?) async throws {
    var body = body
    func mayBeLast(_ isLast: Bool) { if isLast { flight?.end() } }
    if let rate = delivery.rate {
      let steps = Int(Limits.slowBodyDuration / Limits.slowBodyStep)
      let step = max(1, Int(Double(rate) * Limits.slowBodyStep.asSeconds))
      for _ in 0..<steps {
        guard let slice = body.readSlice(length: min(step, body.readableBytes)), slice.readableBytes > 0 else { break }
        mayBeLast(body.readableBytes == 0 && delivery.padding == 0)
        try await channel.writeAndFlush(Part.body(slice)).get()
        // A rate below one byte a step is kept by a longer pause.
        try await Task.sleep(for: max(Limits.slowBodyStep, .seconds(Double(step) / Double(rate))))
      }
    }
    if body.readableBytes > 0 {
      mayBeLast(delivery.padding == 0)
      try await channel.writeAndFlush(Part.body(body)).get()
    }
    let spaces = ByteBuffer(repeating: UInt8(ascii: " "), count: min(delivery.padding, Limits.writeChunk))
    var left = delivery.padding
    while left > 0, let slice = spaces.getSlice(at: 0, length: min(left, spaces.readableBytes)) {
      mayBeLast(left == slice.readableBytes)
      try await channel.writeAndFlush(Part.body(slice)).get()
      left -= slice.readableBytes
    }
  }
}

extension Provider {
  /// The refresh token's grant, counted as having one more refresh in flight; nil for any other request.
  fileprivate func refreshArrived(_ request: Request) -> Int? {
    guard route(of: request) == .endpoint(.tokenRefresh), let token = request.form["refresh_token"] else { return nil }
    return ledger.withLock { $0.refreshArrived(with: token) }
  }

  fileprivate func refreshLeft(_ grant: Int?) {
    guard let grant else { return }
    ledger.withLock { $0.refreshLeft(grant) }
  }
}

/// One request that counts as a refresh in flight until its answer's last byte is on its way.
private final class Flight: Sendable {
  private let provider: Provider
  private let grant: Mutex<Int?>

  init(_ provider: Provider, grant: Int?) {
    self.provider = provider
    self.grant = Mutex(grant)
  }

  func end() { provider.refreshLeft(grant.withLock { $0.take() }) }
}

/// Lets response parts be written from any thread: `IOData`, which may be a file, is not Sendable; a buffer is.
private final class SendableParts: ChannelOutboundHandler {
  typealias OutboundIn = HTTPConnection.Part
  typealias OutboundOut = HTTPServerResponsePart

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    switch unwrapOutboundIn(data) {
    case .head(let head): context.write(wrapOutboundOut(.head(head)), promise: promise)
    case .body(let buffer): context.write(wrapOutboundOut(.body(.byteBuffer(buffer))), promise: promise)
    case .end(let trailers): context.write(wrapOutboundOut(.end(trailers)), promise: promise)
    }
  }
}

/// IMF-fixdate (RFC 9110 §5.6.7).
enum HTTPDate {
  static func text(of seconds: Double) -> String {
    var time = time_t(seconds)
    var parts = tm()
    gmtime_r(&time, &parts)
    let day = days[Int(parts.tm_wday)]
    let month = months[Int(parts.tm_mon)]
    let clock = [parts.tm_hour, parts.tm_min, parts.tm_sec].map { $0 < 10 ? "0\($0)" : "\($0)" }.joined(separator: ":")
    let date = parts.tm_mday < 10 ? "0\(parts.tm_mday)" : "\(parts.tm_mday)"
    return "\(day), \(date) \(month) \(Int(parts.tm_year) + 1900) \(clock) GMT"
  }

  private static let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
  private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
}
