import NIOCore

/// How many connections may still be opened. Lives on one loop.
final class Permits {
  private var left: Int
  private var waiting: [() -> Void] = []
  /// Called when somebody waits for a permit: it may have one given back.
  var onShortage: (() -> Void)?

  init(_ count: Int) {
    left = count
  }

  /// True: one was taken. False: `resume` is called once when one may be there.
  func take(orWait resume: @escaping () -> Void) -> Bool {
    guard left > 0 else {
      waiting.append(resume)
      onShortage?()
      return false
    }
    left -= 1
    return true
  }

  /// Whether somebody waits for a permit.
  var isShort: Bool { left == 0 && !waiting.isEmpty }

  func give() {
    left += 1
    wake()
  }

  /// Whoever was woken and does not take a permit passes the call on.
  func wake() {
    if left > 0, !waiting.isEmpty { waiting.removeFirst()() }
  }
}

/// Accepts a connection only when there is a permit for it, so that a burst waits in the kernel and nobody is cut off.
///
/// Each read of the server socket takes a permit before and passes it to the connection that it brings; with one
/// accept a read the limit is exact.
final class AcceptGate: ChannelDuplexHandler {
  typealias InboundIn = any Channel
  typealias InboundOut = any Channel
  typealias OutboundIn = Never
  typealias OutboundOut = Never

  private enum State {
    case idle
    case accepting
    case waiting
    case closed
  }

  private let permits: Permits
  private var state = State.idle

  init(_ permits: Permits) {
    self.permits = permits
  }

  func read(context: ChannelHandlerContext) {
    switch state {
    case .idle:
      if permits.take(orWait: { [self] in resume(context) }) {
        state = .accepting
        context.read()
      } else {
        state = .waiting
      }
    case .accepting: context.read()
    case .waiting, .closed: break
    }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let child = unwrapInboundIn(data)
    state = .idle
    child.closeFuture.assumeIsolated().whenComplete { [permits] _ in permits.give() }
    context.fireChannelRead(data)
  }

  func channelInactive(context: ChannelHandlerContext) {
    if case .accepting = state { permits.give() }
    state = .closed
    context.fireChannelInactive()
  }

  private func resume(_ context: ChannelHandlerContext) {
    switch state {
    case .waiting:
      state = .idle
      read(context: context)
    case .idle, .accepting, .closed: permits.wake()
    }
  }
}
