public import NIOCore
public import NIOHTTP1
import Synchronization

/// One request and its answer. It may be answered at once from anywhere with ``reply(_:)``, or in parts on its event loop
/// with ``begin(_:)``, ``write(_:)``, ``flush()`` and ``end()``.
public final class HTTPExchange: Sendable {
  private struct State {
    var isOpen = true
    var actions: [@Sendable () -> Void] = []
  }

  public let head: HTTPRequestHead
  let channel: any Channel
  private let handler: NIOLoopBound<HTTPConnectionHandler>
  private let state = Mutex(State())

  init(
    _ handler: NIOLoopBound<HTTPConnectionHandler>, _ channel: any Channel, _ head: HTTPRequestHead
  ) {
    self.handler = handler
    self.channel = channel
    self.head = head
  }

  /// Whether a client still waits for the answer.
  public var isOpen: Bool { state.withLock { $0.isOpen } }

  /// Runs once when it is answered, or the client hangs up; at once where that was before.
  public func onEnd(_ action: @escaping @Sendable () -> Void) {
    let isOpen = state.withLock { state in
      if state.isOpen { state.actions.append(action) }
      return state.isOpen
    }
    if !isOpen { action() }
  }

  /// Answers, once.
  public func reply(_ reply: HTTPReply) {
    guard !channel.eventLoop.inEventLoop else { return handler.value.reply(reply, to: self) }
    channel.eventLoop.execute { self.handler.value.reply(reply, to: self) }
  }

  func ended() {
    let actions = state.withLock { state in
      state.isOpen = false
      defer { state.actions = [] }
      return state.actions
    }
    for action in actions { action() }
  }
}

// An answer in parts. All of it on the connection's event loop.
extension HTTPExchange {
  public var loop: any EventLoop { channel.eventLoop }

  /// Begins an answer, framed as its headers say: by `Content-Length`, by `Transfer-Encoding`, or to the end of the connection.
  public func begin(_ answer: HTTPResponseHead) { handler.value.begin(answer, of: self) }

  public func write(_ bytes: ByteBuffer) { handler.value.write(bytes, of: self) }

  /// Sends the written output.
  public func flush() { handler.value.flush(self) }

  /// Whether the client's side takes more now.
  public var isWritable: Bool { channel.isWritable }

  /// Runs each time the client's side takes more again, until the answer is over.
  public func onWritable(_ action: @escaping () -> Void) { handler.value.onWritable(self, action) }

  public func end() { handler.value.end(self) }

  /// Cuts an answer off that cannot be completed.
  public func abort() { handler.value.abort(self) }
}
