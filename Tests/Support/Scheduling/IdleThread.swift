internal import Dispatch
internal import Foundation
internal import Synchronization

/// A thread that runs tests and all tasks that they start, one job after the other. A test that waits here continues when
/// no other job can run: the remaining tasks wait for the test, such as for its clock.
public final class IdleThread: Sendable {
  public static let shared = IdleThread()

  /// More jobs without an idle moment are a loop that never waits.
  public static let mostJobs = 5_000_000
  public static let stackSize = 8 << 20

  private let waiting = Mutex<[CheckedContinuation<Void, Never>]>([])
  private let arrived = DispatchSemaphore(value: 0)
  /// The seed of the order of jobs; nil: the order of their arrival.
  private let seed = ProcessInfo.processInfo.environment["GRANTD_TEST_ORDER"].flatMap { UInt64($0) }

  private init() {
    let thread = Thread { Self.shared.drive() }
    thread.stackSize = Self.stackSize
    thread.name = "idle"
    thread.start()
  }

  /// Continues on this thread when it is idle. Of several callers one continues at a time, in their order.
  public func idle() async {
    // A task of another thread that is continued before it has suspended stays on its thread.
    repeat {
      await withCheckedContinuation { continuation in
        waiting.withLock { $0.append(continuation) }
        arrived.signal()
      }
    } while !Scheduler.shared.isDriver
  }

  /// Continues on a thread of Swift's own executor.
  public func leave() async {
    repeat {
      await withCheckedContinuation { continuation in DispatchQueue.global().async { continuation.resume() } }
    } while Scheduler.shared.isDriver
  }

  private func drive() {
    Scheduler.takeOver(.driver)
    var random = seed
    while true {
      let drained = Scheduler.shared.drain(limit: Self.mostJobs) { count in
        guard let last = random else { return nil }
        random = last &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return Int((last >> 33) % UInt64(count))
      }
      if case .endless = drained { fatalError("the tasks of a test run without an idle moment") }
      arrived.wait()
      waiting.withLock { $0.isEmpty ? nil : $0.removeFirst() }?.resume()
    }
  }
}
