import Broker
import Foundation
import OAuth
import Principals
import Synchronization

/// A clock that only a test moves. The wall clock and the timers differ only after a test steps the wall clock.
final class ManualClock: Sendable {
  private struct Sleeper {
    var id: UInt64
    var wakesAt: Duration
    var continuation: CheckedContinuation<Void, Never>
  }

  private struct State {
    var wall: Timestamp
    var elapsed = Duration.zero
    var sleepers: [Sleeper] = []
    var cancelled: Set<UInt64> = []
    var next: UInt64 = 0
    var random: UInt64 = 0
  }

  static let start = Timestamp(seconds: 1_800_000_000)

  private let state = Mutex(State(wall: ManualClock.start))
  private let holder: @Sendable (UInt32) -> Holder

  init(holder: @escaping @Sendable (UInt32) -> Holder = { Holder(uid: $0) }) { self.holder = holder }

  var now: Timestamp { state.withLock { $0.wall } }
  var elapsed: Duration { state.withLock { $0.elapsed } }
  var sleepers: Int { state.withLock { $0.sleepers.count } }

  /// Time passes: both the wall and the timers move.
  func advance(_ duration: Duration) {
    let due = state.withLock { state in
      state.wall = state.wall + duration
      state.elapsed += duration
      let due = state.sleepers.filter { $0.wakesAt <= state.elapsed }
      state.sleepers.removeAll { $0.wakesAt <= state.elapsed }
      return due
    }
    for sleeper in due { sleeper.continuation.resume() }
  }

  /// Sets the wall clock; timers do not change.
  func step(_ duration: Duration) {
    state.withLock { $0.wall = $0.wall + duration }
  }

  func sleep(_ duration: Duration) async {
    let id = state.withLock { state in
      state.next += 1
      return state.next
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let wakesNow = state.withLock { state in
          guard duration > .zero, state.cancelled.remove(id) == nil else { return true }
          state.sleepers.append(Sleeper(id: id, wakesAt: state.elapsed + duration, continuation: continuation))
          return false
        }
        if wakesNow { continuation.resume() }
      }
    } onCancel: {
      let sleeper = state.withLock { state -> Sleeper? in
        guard let index = state.sleepers.firstIndex(where: { $0.id == id }) else {
          state.cancelled.insert(id)
          return nil
        }
        return state.sleepers.remove(at: index)
      }
      sleeper?.continuation.resume()
    }
  }

  /// Different bytes each time, the same in each run.
  func randomBytes(_ count: Int) -> [UInt8] {
    state.withLock { state in
      (0..<count).map { _ in
        state.random = state.random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return UInt8(state.random >> 56)
      }
    }
  }

  var system: SystemDependencies {
    SystemDependencies(
      now: { self.now }, uptime: { self.elapsed }, sleep: { await self.sleep($0) },
      randomBytes: { self.randomBytes($0) }, holder: holder)
  }
}

extension ManualClock {
  /// More steps are a wait for an event that does not depend on time.
  static let mostSteps = 100_000

  /// Does the work while time passes: one step whenever all tasks wait for it.
  func passes<Value: Sendable>(
    isolation: isolated (any Actor)? = #isolation, by step: Duration = .seconds(1), while work: () async -> Value
  ) async -> Value {
    let passing = Task {
      for _ in 0..<Self.mostSteps {
        await settle()
        guard !Task.isCancelled else { return }
        advance(step)
      }
      fatalError("the work does not end within \(Self.mostSteps) steps of \(step)")
    }
    defer { passing.cancel() }
    return await work()
  }

  /// Lets time pass, one step whenever all tasks wait for it, until a condition holds; false if not within `steps`.
  func reaches(
    isolation: isolated (any Actor)? = #isolation, by step: Duration, steps: Int = 2000,
    _ condition: () async throws -> Bool
  ) async rethrows -> Bool {
    for _ in 0..<steps {
      await settle()
      if try await condition() { return true }
      advance(step)
    }
    return false
  }
}
