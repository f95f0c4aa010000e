public import NIOCore

/// Flushes all channels written to in one turn of the loop at its end, so that readers are woken less often. Lives on its
/// loop.
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
