import NIOCore
import Synchronization
import Testing

@testable import HTTPTransport

/// A clock whose sleeps end as late as a test says, each in its turn.
private final class ScriptedClock: Sendable {
  private let state: Mutex<(passed: Duration, delays: [Duration])>

  init(late delays: [Duration]) { state = Mutex((.zero, delays)) }

  var passed: Duration { state.withLock { $0.passed } }

  var time: RunningTime {
    RunningTime(
      now: { .uptimeNanoseconds(0) + TimeAmount(self.passed) },
      pause: { duration in
        self.state.withLock { $0.passed += duration + ($0.delays.isEmpty ? .zero : $0.delays.removeFirst()) }
      })
  }
}

@Suite("Time in which this process ran")
struct RunningTimeTests {
  private func passed(_ duration: Duration, late delays: [Duration] = []) async throws -> Duration {
    let clock = ScriptedClock(late: delays)
    try await clock.time.sleep(for: duration)
    return clock.passed
  }

  @Test(
    "Without a freeze it is time that passes",
    arguments: [Duration.zero, .milliseconds(500), .seconds(1), .milliseconds(2500), .seconds(30)])
  func steady(_ duration: Duration) async throws {
    #expect(try await passed(duration) == duration)
  }

  @Test("A tick that is late by less than a tick is not a freeze")
  func slow() async throws {
    #expect(try await passed(.seconds(3), late: [.milliseconds(900), .zero]) == .seconds(3))
  }

  @Test(
    "A freeze counts as the tick that it fell into, and at the end another tick follows it",
    arguments: [
      ([Duration.seconds(40)], Duration.seconds(43)),
      ([.zero, .seconds(3600)], .seconds(3603)),
      // In the last tick: the received data must still be read.
      ([.zero, .zero, .seconds(40)], .seconds(44)),
      ([.zero, .zero, .seconds(40), .seconds(40)], .seconds(85)),
    ])
  func frozen(late delays: [Duration], expected: Duration) async throws {
    #expect(try await passed(.seconds(3), late: delays) == expected)
  }

  @Test("A cancelled caller does not sleep on")
  func cancelled() async throws {
    let sleep = Task { try await RunningTime().sleep(for: .seconds(3600)) }
    sleep.cancel()
    await #expect(throws: CancellationError.self) { try await sleep.value }
  }
}
