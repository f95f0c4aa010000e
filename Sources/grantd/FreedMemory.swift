import CLinux
import Dispatch
import Glibc

/// Gives freed memory back to the kernel. glibc keeps what a busy moment took: after a storm of refreshes a third more
/// than is in use.
enum FreedMemory {
  private static let interval = Duration.seconds(5)
  /// It is looked at again when the process has grown by so much.
  private static let growth = 4 << 20
  private static let queue = DispatchQueue(label: "grantd.memory", qos: .utility)

  /// Until the task is cancelled.
  static func keepGivingBack() async {
    var least = resident()
    while (try? await Task.sleep(for: interval)) != nil {
      guard resident() > least + growth else { continue }
      await withCheckedContinuation { continuation in
        queue.async {
          clinux_give_memory_back()
          continuation.resume()
        }
      }
      least = resident()
    }
  }

  private static func resident() -> Int { (Measuring.residentPages() ?? 0) * Int(getpagesize()) }
}
