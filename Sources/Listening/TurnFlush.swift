public import NIOCore

/// What is written in one turn of an event loop is sent at the turn's end. The reader at the other end of the first
/// socket is awake by the time that the others are written, and need not be woken for each. Lives on its loop.
public final class TurnFlush {
  private let loop: any EventLoop
  private var waiting: [ChannelHandlerContext] = []

  public init(_ loop: any EventLoop) { self.loop = loop }

  public func add(_ context: ChannelHandlerContext) {
    if waiting.isEmpty {
      let own = NIOLoopBound(self, eventLoop: loop)
      loop.execute { own.value.flush() }
    }
    waiting.append(context)
  }

  private func flush() {
    let contexts = waiting
    waiting.removeAll(keepingCapacity: true)
    for context in contexts { context.flush() }
  }
}
