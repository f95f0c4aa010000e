internal import CSimulation
public import Dispatch
@preconcurrency internal import Glibc
internal import Synchronization

/// Runs jobs of Swift's global executor on one thread, in an order that its caller chooses, until no job can run.
public final class Scheduler: Sendable {
  public static let shared = Scheduler()

  public enum Reach: Sendable {
    /// The jobs of all threads.
    case process
    /// The jobs that are enqueued on the driving thread. Other threads keep Swift's own executor.
    case driver
  }

  /// How long the real disk may take for one transaction.
  public static let realPatience = DispatchTimeInterval.seconds(60)

  private struct State {
    var reach = Reach.process
    var driver: pthread_t?
    var jobs: [Job] = []
    /// From the database's thread.
    var foreign: [Job] = []
    /// The number of real transactions under way.
    var outside = 0

    var takesCaller: Bool { reach == .process || driver == pthread_self() }
  }

  /// The runtime's own pointer: it is run once, here.
  private struct Job: @unchecked Sendable {
    let pointer: UnsafeMutableRawPointer
  }

  private let state = Mutex(State())
  private let arrived = DispatchSemaphore(value: 0)

  private init() {}

  /// Called before the first task that it runs is made, on the thread that calls ``drain(atMost:limit:choose:)``; once in a
  /// process.
  public static func takeOver(_ reach: Reach) {
    shared.state.withLock { state in
      precondition(state.driver == nil, "a second thread would drive the scheduler")
      state.reach = reach
      state.driver = pthread_self()
    }
    simulation_take_over({ Scheduler.shared.state.withLock(\.takesCaller) }) { pointer in
      guard let pointer else { return }
      Scheduler.shared.take(Job(pointer: pointer))
    }
  }

  /// Whether the caller is on the thread that drives it.
  public var isDriver: Bool { state.withLock { $0.driver == pthread_self() } }

  private func take(_ job: Job) {
    let isForeign = state.withLock { state in
      let isForeign = state.driver != pthread_self()
      if isForeign { state.foreign.append(job) } else { state.jobs.append(job) }
      return isForeign
    }
    if isForeign { arrived.signal() }
  }

  /// Around an `await` that another thread answers: no other job runs during it, so its real duration has no effect.
  public func goesOutside() { state.withLock { $0.outside += 1 } }
  public func isBack() { state.withLock { $0.outside -= 1 } }

  public enum Drained: Sendable {
    /// All runnable jobs have run: their number.
    case done(Int)
    /// The process was stopped after the requested number of jobs.
    case stopped
    case endless
  }

  /// Runs all runnable jobs. Transactions of the real disk return before a stop.
  ///
  /// - Parameters:
  ///   - limit: more jobs at one moment of virtual time are a loop that never waits.
  ///   - choose: the index of the next job of this number; nil: the job that came first.
  public func drain(atMost most: Int? = nil, limit: Int, choose: (Int) -> Int?) -> Drained {
    var count = 0
    while true {
      if let most, count >= most, state.withLock({ $0.outside == 0 }) { return .stopped }
      guard let job = next(choose) else { return .done(count) }
      simulation_run(job.pointer)
      count += 1
      if count > limit {
        // Jobs that never run: an endless job is left there.
        state.withLock { $0.jobs = [] }
        return .endless
      }
    }
  }

  private func next(_ choose: (Int) -> Int?) -> Job? {
    if state.withLock({ $0.outside > 0 }) {
      guard arrived.wait(timeout: .now() + Self.realPatience) == .success else {
        fatalError("the database does not answer")
      }
      return state.withLock { $0.foreign.removeFirst() }
    }
    return state.withLock { state in
      guard !state.jobs.isEmpty else { return nil }
      guard let index = choose(state.jobs.count) else { return state.jobs.removeFirst() }
      state.jobs.swapAt(index, state.jobs.count - 1)
      return state.jobs.removeLast()
    }
  }
}
