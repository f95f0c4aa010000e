import CLinux
import Glibc
import Platform
import Synchronization

/// Tells of networks that come up, of the end of a suspend and of a wall clock that is set. One thread that sleeps.
public final class SystemEvents: Sendable {
  /// Those that were not read yet; the oldest go first.
  private static let unread = 16
  private static let stackSize = 256 << 10

  /// Ends with ``close()``. For one reader.
  public let events: AsyncStream<SystemEvent>
  /// Missing sources, for the log, such as the network if the sandbox has no netlink.
  public let limitation: String?

  /// Closing it ends the thread.
  private let end: Mutex<Int32>

  /// - Parameters:
  ///   - read: reads the clocks.
  ///   - settling: for tests that have less time, as the next one; nil: that of ``Watch/Pace``.
  package init(
    reading read: @escaping @Sendable () -> ClockSample, settling: Duration? = nil, networkInterval: Duration? = nil
  ) {
    var pace = Watch.Pace()
    pace.settling = settling ?? pace.settling
    pace.networkInterval = networkInterval ?? pace.networkInterval
    let (events, continuation) = AsyncStream.makeStream(
      of: SystemEvent.self, bufferingPolicy: .bufferingNewest(Self.unread))
    self.events = events
    var missing: [String] = []
    var ends: [Int32] = [-1, -1]
    if pipe(&ends) != 0 { missing.append("anything: \(Self.error())") }
    for descriptor in ends where descriptor >= 0 { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
    end = Mutex(ends[1])
    let network = NetworkListener()
    if network == nil { missing.append("a network that comes up: \(Self.error())") }
    let timer = clinux_clock_timer()
    if timer < 0 { missing.append("a clock that is set, at once: \(Self.error())") }
    let loop = Loop(end: ends[0], network: network, timer: timer, pace: pace, read: read)
    let code = OwnThread.start("system-events", stack: Self.stackSize) {
      var loop = loop
      loop.run { continuation.yield($0) }
      continuation.finish()
    }
    if code != 0 {
      continuation.finish()
      missing.append("anything: \(String(cString: strerror(code)))")
    }
    limitation = missing.isEmpty ? nil : "not noticed: " + missing.joined(separator: "; ")
  }

  deinit { close() }

  /// Ends the thread and the stream. Once is enough.
  public func close() {
    end.withLock { end in
      guard end >= 0 else { return }
      _ = Glibc.close(end)
      end = -1
    }
  }

  private static func error() -> String { String(cString: strerror(errno)) }
}

/// The thread's work.
private struct Loop: Sendable {
  let end: Int32
  var network: NetworkListener?
  var timer: Int32
  let pace: Watch.Pace
  let read: @Sendable () -> ClockSample

  mutating func run(_ tell: (SystemEvent) -> Void) {
    defer { closeAll() }
    guard end >= 0 else { return }
    var watch = Watch(pace: pace, at: read())
    while true {
      var entries = [end, network?.descriptor ?? -1, timer].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
      let count = poll(&entries, nfds_t(entries.count), milliseconds(watch.pause))
      guard count >= 0 || errno == EINTR else { return }
      if count > 0, entries[0].revents != 0 { return }
      let sawNetwork = count > 0 && entries[1].revents != 0 && network?.read() == true
      // It is readable, and reading it says that it was cancelled: arming it again does away with that.
      if count > 0, entries[2].revents != 0, clinux_clock_timer_arm(timer) != 0, errno != ECANCELED { closeTimer() }
      for event in watch.looked(sawNetwork: sawNetwork, at: read()) { tell(event) }
    }
  }

  /// Rounded up, so that it does not wake before there is something to do.
  private func milliseconds(_ pause: Duration) -> Int32 {
    let (seconds, attoseconds) = pause.components
    return Int32(clamping: seconds * 1000 + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
  }

  private mutating func closeTimer() {
    guard timer >= 0 else { return }
    close(timer)
    timer = -1
  }

  private mutating func closeAll() {
    if end >= 0 { close(end) }
    network?.close()
    closeTimer()
  }
}
