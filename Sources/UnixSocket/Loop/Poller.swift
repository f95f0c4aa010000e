import CLinux
import Glibc

/// epoll(7), level-triggered: what was not taken is told of again at the next turn.
struct Poller: ~Copyable {
  struct Readiness: OptionSet {
    var rawValue: UInt32

    static let input = Self(rawValue: CLINUX_INPUT)
    static let output = Self(rawValue: CLINUX_OUTPUT)
    /// Nobody reads any more what is written. The kernel tells this unasked.
    static let end = Self(rawValue: CLINUX_HUNG_UP | CLINUX_ERROR)
    /// Told once after each change.
    static let edge = Self(rawValue: CLINUX_EDGE)
  }

  /// Descriptors that one wait tells of; the others' turn is the next one.
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

  /// Until something is ready, or for so many milliseconds at most (negative: without end).
  func wait(milliseconds: Int32) -> UnsafeBufferPointer<clinux_ready> {
    let count = clinux_poller_wait(descriptor, ready.baseAddress, Int32(ready.count), milliseconds)
    // The descriptor is our own and the memory too: nothing else can fail.
    precondition(count >= 0, "epoll_wait: \(String(cString: strerror(errno)))")
    return UnsafeBufferPointer(rebasing: ready[..<Int(count)])
  }
}

/// A descriptor, and which of those that had its number: after a close(2), an event of the one before may still come
/// while a child process that is being started has a copy of it.
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
