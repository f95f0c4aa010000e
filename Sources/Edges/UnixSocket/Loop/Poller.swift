import CLinux
import Glibc

/// epoll(7), level-triggered: a descriptor that was not read to its end is reported again at the next turn.
struct Poller: ~Copyable {
  struct Readiness: OptionSet {
    var rawValue: UInt32

    static let input = Self(rawValue: CLINUX_INPUT)
    static let output = Self(rawValue: CLINUX_OUTPUT)
    /// The peer has closed, or the socket failed. Reported whether it was asked for or not.
    static let end = Self(rawValue: CLINUX_HUNG_UP | CLINUX_ERROR)
    /// Reported once per change.
    static let edge = Self(rawValue: CLINUX_EDGE)
  }

  /// Descriptors reported by one wait; the rest are reported by the next.
  static let readyAtOnce = Int(CLINUX_READY_AT_ONCE)

  private let descriptor: Int32
  private let ready: UnsafeMutableBufferPointer<clinux_ready>

  init() throws(SocketLoop.Failure) {
    descriptor = clinux_poller()
    guard descriptor >= 0 else { throw SocketLoop.Failure(call: "epoll_create1", code: errno) }
    ready = .allocate(capacity: Self.readyAtOnce)
    ready.initialize(repeating: clinux_ready())
  }

  deinit {
    close(descriptor)
    ready.deallocate()
  }

  func add(_ descriptor: Int32, _ token: LoopToken, for wanted: Readiness) -> Bool {
    clinux_poller_set(self.descriptor, descriptor, 1, wanted.rawValue, token.rawValue) == 0
  }

  func change(_ descriptor: Int32, _ token: LoopToken, to wanted: Readiness) -> Bool {
    clinux_poller_set(self.descriptor, descriptor, 0, wanted.rawValue, token.rawValue) == 0
  }

  /// Until an event is ready, or for this number of milliseconds (negative: without end).
  func wait(milliseconds: Int32) -> UnsafeBufferPointer<clinux_ready> {
    let count = clinux_poller_wait(descriptor, ready.baseAddress, Int32(ready.count), milliseconds)
    // EINTR is handled; the other errors of epoll_wait(2) are bad arguments.
    precondition(count >= 0, "epoll_wait: \(String(cString: strerror(errno)))")
    return UnsafeBufferPointer(rebasing: ready[..<Int(count)])
  }
}

/// A descriptor with a generation. While a child process is being started it has copies of all descriptors, so epoll can
/// report an event of a closed connection after its number was reused.
struct LoopToken: Hashable, Sendable {
  let rawValue: UInt64

  /// - Parameter generation: 0: not a connection.
  init(_ descriptor: Int32, generation: UInt32) {
    rawValue = UInt64(generation) << 32 | UInt64(UInt32(bitPattern: descriptor))
  }

  init(rawValue: UInt64) { self.rawValue = rawValue }

  var descriptor: Int32 { Int32(truncatingIfNeeded: rawValue) }
  var isConnection: Bool { rawValue >> 32 != 0 }
}
