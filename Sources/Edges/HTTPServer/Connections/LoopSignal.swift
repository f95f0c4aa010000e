import Glibc
import NIOCore
import NIOPosix

/// Runs an action on an event loop between its sockets. A loop runs submitted work before it examines its sockets
/// again, as long as there is more; a signal is a socket too. Used on its loop.
final class LoopSignal: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private let action: () -> Void
  private let sender: CInt
  private var isSent = false
  private(set) var isClosed = false
  private var context: ChannelHandlerContext?

  /// Nil: there are no descriptors, or the loop has no sockets.
  init?(_ loop: any EventLoop, _ action: @escaping () -> Void) {
    guard let bootstrap = ClientBootstrap(validatingGroup: loop) else { return nil }
    var ends: [CInt] = [-1, -1]
    let kind = CInt(SOCK_STREAM.rawValue) | CInt(SOCK_NONBLOCK.rawValue) | CInt(SOCK_CLOEXEC.rawValue)
    guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { return nil }
    self.action = action
    sender = ends[1]
    let own = NIOLoopBound(self, eventLoop: loop)
    bootstrap.channelInitializer { channel in
      channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(own.value) }
    }.withConnectedSocket(ends[0]).assumeIsolated().whenFailure { [self] _ in
      close()
      action()
    }
  }

  /// Has the action run once.
  func send() {
    guard !isSent, !isClosed else { return }
    isSent = true
    var byte: UInt8 = 0
    _ = write(sender, &byte, 1)
  }

  func close() {
    guard !isClosed else { return }
    isClosed = true
    Glibc.close(sender)
    context?.close(promise: nil)
  }

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    if isClosed { context.close(promise: nil) }
  }

  func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    isSent = false
    if !isClosed { action() }
  }
}
