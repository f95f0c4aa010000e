import CLinux
import Dispatch

/// Gives freed memory back to the kernel. glibc keeps what a busy moment took: after a storm of refreshes a third more
/// than is in use.
enum FreedMemory {
  private static let interval = Duration.seconds(5)
  /// Bytes that were freed since the last time, and not used again.
  private static let worthwhile = 4 << 20
  private static let queue = DispatchQueue(label: "grantd.memory", qos: .utility)

  /// Until the task is cancelled.
  static func keepGivingBack() async {
    var known = clinux_freed_memory()
    while (try? await Task.sleep(for: interval)) != nil {
      let freed = clinux_freed_memory()
      known = min(known, freed)
      guard freed > known + worthwhile else { continue }
      await withCheckedContinuation { continuation in
        queue.async {
          clinux_give_memory_back()
          continuation.resume()
        }
      }
      known = clinux_freed_memory()
    }
  }
}
