import CSystemd
import Synchronization

/// Reports this service's state to the service manager (sd_notify(3)).
///
/// Without `NOTIFY_SOCKET` libsystemd drops each message, so callers need not check. Messages may be sent from any
/// thread; each is one datagram. A manager that does not read delays no caller: its datagrams wait in a separate queue,
/// in order. If many wait, a later message of the same kind replaces them.
public struct Notifier: Sendable {
  /// `STATUS=` longer than this is cut: `systemctl status` shows one line of it.
  static let statusLimit = 256

  /// The maximum number of waiting repeated messages; the others are limited by the process itself.
  private static let pendingLimits = (passing: 64, others: 1024)

  private let send: @Sendable (String, _ isPassing: Bool) -> Void
  private let queue: BoundedQueue?
  private let end = End()

  /// Whether the end has begun. Held while something is sent that must not come after that.
  private final class End: Sendable {
    let hasBegun = Mutex(false)
  }

  /// Speaks to the manager that `NOTIFY_SOCKET` names, if any.
  public init() {
    // sd_notify(3) blocks while the manager's queue is full, which is after some ten datagrams.
    let queue = BoundedQueue(label: "grantd.notify")
    send = { state, isPassing in
      let limits = Self.pendingLimits
      queue.add(atMost: isPassing ? limits.passing : limits.others) { _ = sd_notify(0, state) }
    }
    self.queue = queue
  }

  /// Hands each message to `send` instead.
  public init(send: @escaping @Sendable (String) -> Void) {
    self.send = { state, _ in send(state) }
    queue = nil
  }

  /// Waits until the manager has all messages, but no longer than `limit`: before the process ends.
  public func settle(within limit: Duration) async {
    await queue?.settle(within: limit)
  }

  /// The service answers its clients now. Also ends a `reloading`. Ignored after `stopping`: a reload may end late.
  public func ready(status: String) { sendBeforeEnd("READY=1\nSTATUS=\(Self.line(status))") }

  private func sendBeforeEnd(_ state: String) {
    end.hasBegun.withLock { hasBegun in
      if !hasBegun { send(state, false) }
    }
  }

  /// One line for people, shown by `systemctl status`.
  public func status(_ text: String) {
    send("STATUS=\(Self.line(text))", true)
  }

  /// A reload began; `ready(status:)` ends it with any result. Ignored after `stopping`.
  ///
  /// - Parameter monotonic: the `CLOCK_MONOTONIC` time, which `Type=notify-reload` requires with the message.
  public func reloading(monotonic: Duration) {
    sendBeforeEnd("RELOADING=1\nMONOTONIC_USEC=\(Self.microseconds(monotonic))")
  }

  /// An orderly end has begun.
  public func stopping(status: String) {
    end.hasBegun.withLock { $0 = true }
    send("STOPPING=1\nSTATUS=\(Self.line(status))", false)
  }

  /// The loop that serves is alive. To be sent by that loop, at half the interval that `WatchdogInterval` names.
  public func watchdog() {
    send("WATCHDOG=1", true)
  }

  /// Starting, reloading or stopping takes longer than usual: asks for `time` more from now on.
  public func extendTimeout(by time: Duration) {
    send("EXTEND_TIMEOUT_USEC=\(Self.microseconds(time))", true)
  }

  /// A newline would begin another assignment, so foreign text could forge messages.
  private static func line(_ text: String) -> String {
    LogText.escaped(text, limit: statusLimit)
  }

  private static func microseconds(_ time: Duration) -> Int64 {
    let (seconds, attoseconds) = time.components
    return max(0, seconds * 1_000_000 + attoseconds / 1_000_000_000_000)
  }
}

/// How often the manager wants to hear `Notifier.watchdog()` (`WatchdogSec=`).
public enum WatchdogInterval {
  /// The manager's limit for this process, nil if none. Feed it twice per interval.
  public static func current() -> Duration? {
    var microseconds: UInt64 = 0
    guard sd_watchdog_enabled(0, &microseconds) > 0, microseconds > 0 else { return nil }
    return .microseconds(Int64(clamping: microseconds))
  }
}
