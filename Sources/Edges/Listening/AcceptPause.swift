import Glibc
public import Logging
public import NIOCore

/// For listening sockets: where accept(2) fails, as it does where no descriptor is left (EMFILE, ENFILE), clients wait in
/// the kernel for a time. NIO alone would try again at once, and keep a processor busy.
public final class AcceptPause: ChannelInboundHandler {
  public typealias InboundIn = any Channel

  static let pause = TimeAmount.milliseconds(500)
  /// Between two lines of the log.
  static let quiet = TimeAmount.seconds(10)

  private let logger: Logger
  private var quietUntil = NIODeadline.uptimeNanoseconds(0)
  private var end: Scheduled<Void>?

  public init(_ logger: Logger) {
    self.logger = logger
  }

  public func errorCaught(context: ChannelHandlerContext, error: any Error) {
    guard let error = error as? IOError else { return context.fireErrorCaught(error) }
    // A client that hung up; others may be waiting.
    guard end == nil, error.errnoCode != ECONNABORTED else { return }
    log(error.errnoCode)
    let channel = context.channel
    // A socket whose accept failed is still waited for, whether or not anybody asks to read.
    try? channel.syncOptions?.setOption(.autoRead, value: false)
    end = context.eventLoop.assumeIsolated().scheduleTask(in: Self.pause) { [self] in
      end = nil
      try? channel.syncOptions?.setOption(.autoRead, value: true)
    }
  }

  public func handlerRemoved(context: ChannelHandlerContext) {
    end?.cancel()
    end = nil
  }

  private func log(_ code: CInt) {
    let now = NIODeadline.now()
    guard now >= quietUntil else { return }
    quietUntil = now + Self.quiet
    logger.warning(
      "connections have to wait: \(String(cString: strerror(code)))",
      metadata: ["hint": "See what holds so many files open, or raise LimitNOFILE= of the service."])
  }
}
