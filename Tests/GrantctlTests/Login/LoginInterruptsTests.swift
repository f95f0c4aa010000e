import Synchronization
import TestSupport
import Testing

@testable import grantctl

@Suite(.timeLimit(.minutes(1))) struct LoginInterruptsTests {
  private final class Counter: Sendable {
    let count = Mutex(0)
    func add() { count.withLock { $0 += 1 } }
    var value: Int { count.withLock { $0 } }
  }

  @Test("An interrupt is for the part of the login that runs")
  func during() async {
    let (stream, feed) = AsyncStream.makeStream(of: Void.self)
    let (interrupts, first, second) = (LoginInterrupts(stream), Counter(), Counter())
    interrupts.handle { first.add() }
    interrupts.handle { second.add() }
    feed.yield()
    #expect(await eventually { second.value == 1 })
    #expect(first.value == 0)
  }

  @Test("An interrupt before a part, between two parts, or that an earlier part did not act on is for the next one")
  func between() async {
    let (stream, feed) = AsyncStream.makeStream(of: Void.self)
    let (interrupts, before, first, next) = (LoginInterrupts(stream), Counter(), Counter(), Counter())
    interrupts.handle { before.add() }
    interrupts.handle(by: nil)
    feed.yield()
    #expect(
      await eventually {
        interrupts.handle { first.add() }
        return first.value > 0
      })
    interrupts.handle(by: nil)
    interrupts.handle { next.add() }
    #expect(before.value == 0 && next.value == 1)
  }

  @Test("The end of a login ends its stream")
  func end() async {
    let (stream, feed) = AsyncStream.makeStream(of: Void.self)
    let ended = Counter()
    feed.onTermination = { _ in ended.add() }
    var interrupts: LoginInterrupts? = LoginInterrupts(stream)
    interrupts?.handle {}
    interrupts = nil
    #expect(await eventually { ended.value == 1 })
  }
}
