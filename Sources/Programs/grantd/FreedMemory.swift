import CLinux
import Dispatch

/// Returns memory to the kernel after the start, after busy times and after a web page: the program's unused pages, and
/// freed heap. glibc keeps the memory of a busy time: after a burst of refreshes as much again as is in use.
enum FreedMemory {
  /// After the start.
  private static let settling = Duration.milliseconds(200)
  private static let interval = Duration.seconds(5)
  /// Bytes by which its own memory grew since the last time.
  private static let worthwhile = 4 << 20
  /// The usual difference in bytes between two checks in quiet times. In busy times freed memory is used again at once,
  /// and returning it delays allocations.
  private static let calm = 1 << 20
  /// The number of checks after which it is returned in busy times too.
  private static let longestBusy = 24
  private static let idleThreads = Duration.seconds(12)
  private static let queue = DispatchQueue(label: "grantd.memory", qos: .utility)

  /// Until the task is cancelled.
  static func keepGivingBack() async {
    try? await Task.sleep(for: settling)
    await onQueue { giveBack() }
    var (known, last, busy) = (own(), own(), 0)
    while (try? await Task.sleep(for: interval)) != nil {
      let now = own()
      let isCalm = abs(now - last) < calm
      last = now
      known = min(known, now)
      busy = isCalm ? 0 : busy + 1
      guard now > known + worthwhile, isCalm || busy > longestBusy else { continue }
      await onQueue { giveBack() }
      (known, last, busy) = (own(), own(), 0)
    }
  }

  /// After the listener of the web page has closed: too little for ``keepGivingBack()``.
  static func afterPage() async {
    await onQueue { giveBack() }
    // libdispatch ends idle threads after five seconds, with the small blocks that it keeps for each.
    try? await Task.sleep(for: idleThreads)
    await onQueue { giveBack() }
  }

  private static func giveBack() {
    clinux_give_memory_back()
    clinux_forget_program_pages()
  }

  private static func onQueue(_ work: @escaping @Sendable () -> Void) async {
    await withCheckedContinuation { continuation in
      queue.async {
        work()
        continuation.resume()
      }
    }
  }

  private static func own() -> Int { MetricsSources.ownMemory() ?? 0 }
}
