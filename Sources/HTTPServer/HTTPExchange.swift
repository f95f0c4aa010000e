public import BrokerAPI
public import NIOCore
public import NIOHTTP1
import Synchronization

/// One request and its answer. It may be answered from anywhere: at once with ``reply(_:)``, or in parts with
/// ``begin(_:)``, ``write(_:)`` and ``end()``.
public final class HTTPExchange: Sendable {
  private struct State {
    var isOpen = true
    var actions: [@Sendable () -> Void] = []
  }

  /// Who asks; nil: the application does not want to know.
  public let caller: Caller?
  public let head: HTTPRequestHead
  let channel: any Channel
  private let handler: NIOLoopBound<ConnectionHandler>
  private let state = Mutex(State())
  /// Whether the connection ends with the answer. Used on the loop alone.
  private let last = Atomic(false)

  init(_ handler: NIOLoopBound<ConnectionHandler>, _ channel: any Channel, _ head: HTTPRequestHead, _ caller: Caller?) {
    self.handler = handler
    self.channel = channel
    self.head = head
    self.caller = caller
  }

  var isLast: Bool {
    get { last.load(ordering: .relaxed) }
    set { last.store(newValue, ordering: .relaxed) }
  }

  /// Whether somebody still waits for the answer.
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

  /// Begins an answer, framed as its headers say: by `Content-Length`, by `Transfer-Encoding`, or to the end of the connection.
  public func begin(_ answer: HTTPResponseHead) async throws {
    try await channel.eventLoop.flatSubmit { self.handler.value.begin(answer, of: self) }.get()
  }

  /// Returns when the client's side took it.
  public func write(_ bytes: ByteBuffer) async throws {
    try await channel.eventLoop.flatSubmit { self.handler.value.write(bytes, of: self) }.get()
  }

  public func end() { channel.eventLoop.execute { self.handler.value.end(self) } }

  /// Cuts an answer off that cannot be completed.
  public func abort() { channel.eventLoop.execute { self.handler.value.abort(self) } }

  func ended() {
    let actions = state.withLock { state in
      state.isOpen = false
      defer { state.actions = [] }
      return state.actions
    }
    for action in actions { action() }
  }
}
