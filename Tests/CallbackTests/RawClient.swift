import Foundation
import NIOCore
import NIOPosix
import Synchronization

/// Sends bytes as they are, and reads until the server ends the connection.
struct RawClient {
  /// A test that waits longer has failed.
  static let patience = TimeAmount.seconds(60)

  struct Response: Sendable {
    var raw: String

    var status: Int {
      let parts = raw.split(separator: " ", maxSplits: 2)
      return parts.count > 1 ? Int(parts[1]) ?? 0 : 0
    }

    var headers: [String: String] {
      var result: [String: String] = [:]
      for line in head.components(separatedBy: "\r\n").dropFirst() {
        guard let colon = line.firstIndex(of: ":") else { continue }
        result[line[..<colon].lowercased()] = line[line.index(after: colon)...].trimmingCharacters(in: .whitespaces)
      }
      return result
    }

    var head: String { raw.components(separatedBy: "\r\n\r\n").first ?? "" }

    var body: String { String(raw.dropFirst(head.count).drop { $0 == "\r\n" }) }
  }

  var host = "127.0.0.1"
  var port: Int

  /// One request with a right `Host`, unless `headers` has one.
  func request(
    _ method: String = "GET", _ target: String, headers: [String] = [], body: String = ""
  ) async throws -> Response {
    let hasHost = headers.contains { $0.lowercased().hasPrefix("host:") }
    let host = hasHost ? [] : ["Host: \(self.host.contains(":") ? "[\(self.host)]" : self.host):\(port)"]
    let lines = ["\(method) \(target) HTTP/1.1"] + host + headers
    return try await send(lines.joined(separator: "\r\n") + "\r\n\r\n" + body)
  }

  func send(_ text: String, endOutput: Bool = false) async throws -> Response {
    let connection = try await open()
    try? await connection.write(text)
    if endOutput { try? await connection.endOutput() }
    return try await connection.response()
  }

  /// As ``send(_:endOutput:)``, to a server whose clients have little time. Where this machine was too slow to send
  /// anything before the server ended the silent connection, again.
  func sendInTime(_ text: String) async throws -> Response {
    try await inTime { try await send(text) }
  }

  /// The same with this piece after the text, again and again until the server ends the connection.
  func drip(_ text: String, piece: String, every pause: TimeAmount) async throws -> Response {
    try await inTime {
      let connection = try await open()
      try? await connection.write(text)
      let channel = connection.channel
      let drip = channel.eventLoop.scheduleRepeatedTask(initialDelay: .zero, delay: pause) { _ in
        channel.writeAndFlush(ByteBuffer(string: piece), promise: nil)
      }
      defer { drip.cancel() }
      return try await connection.response()
    }
  }

  private func inTime(_ attempt: () async throws -> Response) async throws -> Response {
    for _ in 0..<10 {
      let response = try await attempt()
      if !response.raw.isEmpty { return response }
    }
    return try await attempt()
  }

  /// - Parameter staysOpen: keep this side open when the server has ended its own.
  func open(staysOpen: Bool = false) async throws -> Connection {
    let loop = MultiThreadedEventLoopGroup.singleton.next()
    let collector = Collector(ended: loop.makePromise())
    let channel = try await ClientBootstrap(group: loop)
      .channelOption(.allowRemoteHalfClosure, value: staysOpen)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(collector.handler()) }
      }
      .connect(host: host, port: port)
      .flatMapErrorThrowing { error in
        collector.ended.fail(error)
        throw error
      }.get()
    return Connection(channel: channel, collector: collector)
  }

  struct Connection: Sendable {
    let channel: any Channel
    fileprivate let collector: Collector

    func write(_ text: String) async throws {
      try await channel.writeAndFlush(ByteBuffer(string: text)).get()
    }

    /// Half-closes.
    func endOutput() async throws {
      try await channel.close(mode: .output).get()
    }

    func close() async {
      try? await channel.close().get()
    }

    /// Returns once this came, or the server ended the connection.
    func received(_ text: String) async throws {
      let timeout = channel.eventLoop.scheduleTask(in: RawClient.patience) { channel.close(promise: nil) }
      await collector.received(text)
      timeout.cancel()
    }

    /// What came until the end.
    func response() async throws -> Response {
      let timeout = channel.eventLoop.scheduleTask(in: RawClient.patience) { channel.close(promise: nil) }
      try await collector.ended.futureResult.get()
      timeout.cancel()
      return Response(raw: collector.text)
    }
  }
}

private final class Collector: Sendable {
  private struct State {
    var bytes: [UInt8] = []
    var isOver = false
    var awaited: (text: String, continuation: CheckedContinuation<Void, Never>)?

    var text: String { String(decoding: bytes, as: UTF8.self) }

    mutating func arrived() -> CheckedContinuation<Void, Never>? {
      guard let awaited, isOver || text.contains(awaited.text) else { return nil }
      self.awaited = nil
      return awaited.continuation
    }
  }

  private let state = Mutex(State())
  let ended: EventLoopPromise<Void>

  init(ended: EventLoopPromise<Void>) {
    self.ended = ended
  }

  var text: String { state.withLock { $0.text } }

  func append(_ more: [UInt8]) {
    change { $0.bytes += more }
  }

  func end() {
    change { $0.isOver = true }
    ended.succeed()
  }

  func received(_ text: String) async {
    await withCheckedContinuation { continuation in change { $0.awaited = (text, continuation) } }
  }

  private func change(_ change: (inout State) -> Void) {
    let arrived = state.withLock { state in
      change(&state)
      return state.arrived()
    }
    arrived?.resume()
  }

  func handler() -> Handler { Handler(self) }

  final class Handler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let collector: Collector

    init(_ collector: Collector) {
      self.collector = collector
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      collector.append(Array(unwrapInboundIn(data).readableBytesView))
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
      if case ChannelEvent.inputClosed = event { collector.end() }
    }

    func channelInactive(context: ChannelHandlerContext) {
      collector.end()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
      context.close(promise: nil)
    }
  }
}
