import Dispatch
import Glibc
import Synchronization
import Testing

@testable import Systemd

@Suite struct NotifierTests {
  @Test("Each message is the assignment that sd_notify(3) documents")
  func messages() {
    let cases: [((Notifier) -> Void, String)] = [
      ({ $0.ready(status: "12 ok, 1 needs login") }, "READY=1\nSTATUS=12 ok, 1 needs login"),
      ({ $0.status("refreshing") }, "STATUS=refreshing"),
      ({ $0.status("a\nREADY=1") }, "STATUS=a\\nREADY=1"),
      ({ $0.reloading(monotonic: .milliseconds(1500)) }, "RELOADING=1\nMONOTONIC_USEC=1500000"),
      ({ $0.stopping(status: "closing") }, "STOPPING=1\nSTATUS=closing"),
      ({ $0.watchdog() }, "WATCHDOG=1"),
      ({ $0.extendTimeout(by: .seconds(3)) }, "EXTEND_TIMEOUT_USEC=3000000"),
    ]
    for (action, expected) in cases {
      let sent = Sent<String>()
      action(Notifier { sent.append($0) })
      #expect(sent.all == [expected])
    }
  }

  @Test("A reload that ends once the service stops does not say that it is ready")
  func readyAfterStopping() {
    let sent = Sent<String>()
    let notifier = Notifier { sent.append($0) }
    notifier.reloading(monotonic: .seconds(1))
    notifier.stopping(status: "closing")
    notifier.ready(status: "12 ok")
    #expect(sent.all.last == "STOPPING=1\nSTATUS=closing" && sent.all.count == 2)
  }

  @Test("A long status is cut")
  func longStatus() {
    let sent = Sent<String>()
    Notifier { sent.append($0) }.status(String(repeating: "x", count: 5000))
    #expect(sent.all[0].utf8.count < 300)
  }

  @Test("Messages reach the datagram socket that NOTIFY_SOCKET names, and nothing without it")
  func realSocket() async throws {
    let path = "/tmp/grantd-notify-\(getpid())"
    let descriptor = try boundDatagramSocket(path)
    defer {
      close(descriptor)
      unlink(path)
    }
    let notifier = Notifier()
    notifier.watchdog()
    await notifier.settle(within: .seconds(20))
    // Set for as short as it can be: another test may start a process that would inherit it.
    setenv("NOTIFY_SOCKET", path, 1)
    notifier.status("hello")
    await notifier.settle(within: .seconds(20))
    unsetenv("NOTIFY_SOCKET")
    notifier.watchdog()
    await notifier.settle(within: .seconds(20))
    #expect(receive(descriptor) == "STATUS=hello")
    #expect(receive(descriptor) == nil)
  }

  @Test(
    "Entries that cannot be sent now delay no caller, keep their order, and are limited",
    .timeLimit(.minutes(5)))
  func heldUp() async {
    let queue = BoundedQueue(label: "test")
    let gate = DispatchSemaphore(value: 0)
    let sent = Sent<Int>()
    for number in 1...5 {
      let isTaken = queue.add(atMost: 3) {
        gate.wait()
        sent.append(number)
      }
      #expect(isTaken == (number <= 3))
    }
    await queue.settle(within: .milliseconds(50))
    #expect(sent.all.isEmpty)
    for _ in 1...5 { gate.signal() }
    await queue.settle(within: .seconds(20))
    #expect(sent.all == [1, 2, 3])
    queue.add(atMost: 3) { sent.append(6) }
    await queue.settle(within: .seconds(20))
    #expect(sent.all == [1, 2, 3, 6])
  }

  @Test("Without WATCHDOG_USEC there is no interval")
  func noWatchdog() {
    #expect(WatchdogInterval.current() == nil)
  }

  private func boundDatagramSocket(_ path: String) throws -> Int32 {
    unlink(path)
    let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_NONBLOCK.rawValue), 0)
    try #require(descriptor >= 0)
    try #require(withUnixAddress(path) { bind(descriptor, $0, $1) } == 0)
    return descriptor
  }

  private func receive(_ descriptor: Int32) -> String? {
    var buffer = [UInt8](repeating: 0, count: 1024)
    let count = recv(descriptor, &buffer, buffer.count, 0)
    return count < 0 ? nil : String(decoding: buffer[..<count], as: UTF8.self)
  }
}

/// What a seam was handed, in order.
final class Sent<Element: Sendable>: Sendable {
  private let elements = Mutex<[Element]>([])
  var all: [Element] { elements.withLock { $0 } }
  func append(_ element: Element) { elements.withLock { $0.append(element) } }
}

func withUnixAddress<Result>(_ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
  var address = sockaddr_un()
  address.sun_family = sa_family_t(AF_UNIX)
  withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix($0.count - 1)) }
  return withUnsafePointer(to: &address) {
    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
  }
}
