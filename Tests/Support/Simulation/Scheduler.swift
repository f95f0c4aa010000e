import CSimulation
import Dispatch
@preconcurrency import Glibc
import Synchronization

/// Every job of Swift's global executor runs on the one thread that drives the simulation, in an order that the seed
/// chooses: the same seed gives the same run.
final class Scheduler: Sendable {
  static let shared = Scheduler()

  /// This number of jobs at one moment of virtual time is a loop that never waits.
  static let mostJobsAtOnce = 50_000
  /// How long the real disk may take for one transaction.
  static let realPatience = DispatchTimeInterval.seconds(60)

  private struct State {
    var jobs: [Job] = []
    /// From the database's thread.
    var foreign: [Job] = []
    /// Real transactions under way.
    var outside = 0
  }

  /// The runtime's own pointer: it is run once, here.
  private struct Job: @unchecked Sendable {
    let pointer: UnsafeMutableRawPointer
  }

  private let state = Mutex(State())
  private let arrived = DispatchSemaphore(value: 0)
  private let driver = pthread_self()

  /// Before the first task is made, on the thread that will call ``drain(_:)``.
  static func takeOver() {
    _ = shared
    simulation_take_over { pointer in
      guard let pointer else { return }
      Scheduler.shared.take(Job(pointer: pointer))
    }
  }

  private func take(_ job: Job) {
    if pthread_self() == driver {
      state.withLock { $0.jobs.append(job) }
    } else {
      state.withLock { $0.foreign.append(job) }
      arrived.signal()
    }
  }

  /// Around an `await` that another thread answers: no other job runs during it, so its real duration has no effect.
  func goesOutside() { state.withLock { $0.outside += 1 } }
  func isBack() { state.withLock { $0.outside -= 1 } }

  enum Drained {
    /// All runnable jobs have run: their number.
    case done(Int)
    /// The process was stopped after the requested number of jobs.
    case stopped
    case endless
  }

  /// Runs all runnable jobs. Transactions of the real disk return before a stop.
  func drain(_ random: inout Randomness, atMost most: Int? = nil) -> Drained {
    var count = 0
    while true {
      if let most, count >= most, state.withLock({ $0.outside == 0 }) { return .stopped }
      guard let job = next(&random) else { return .done(count) }
      simulation_run(job.pointer)
      count += 1
      if count > Self.mostJobsAtOnce {
        // Jobs that never run: an endless job is left there.
        state.withLock { $0.jobs = [] }
        return .endless
      }
    }
  }

  private func next(_ random: inout Randomness) -> Job? {
    if state.withLock({ $0.outside > 0 }) {
      guard arrived.wait(timeout: .now() + Self.realPatience) == .success else {
        fatalError("the database does not answer")
      }
      return state.withLock { $0.foreign.removeFirst() }
    }
    return state.withLock { state in
      guard !state.jobs.isEmpty else { return nil }
      let index = random.below(state.jobs.count)
      state.jobs.swapAt(index, state.jobs.count - 1)
      return state.jobs.removeLast()
    }
  }
}
