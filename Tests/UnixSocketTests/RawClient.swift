import BrokerAPI
import Glibc
import Synchronization
import Testing

@testable import UnixSocket

/// A client that sends exactly the bytes it is told to, without blocking a thread.
final class RawClient: Sendable {
  struct Ended: Error {}
  struct TimedOut: Error {}

  private static let step = Duration.milliseconds(1)
  let descriptor: Int32
  private let received = Buffer()

  init(path: String) throws {
    descriptor = socket(AF_UNIX, Address.streamType, 0)
    let code = try Address(path).withPointer { connect(descriptor, $0, $1) == 0 ? 0 : errno }
    try #require(code == 0, "connect: \(String(cString: strerror(code)))")
  }

  deinit { close(descriptor) }

  func send(_ text: String) async throws { try await send(Array(text.utf8)) }

  func send(_ bytes: [UInt8], timeout: Duration = .seconds(20)) async throws {
    var rest = bytes[...]
    let end = ContinuousClock.now + timeout
    while !rest.isEmpty {
      let sent = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
      if sent > 0 {
        rest = rest.dropFirst(sent)
      } else {
        guard errno == EAGAIN else { throw Ended() }
        guard ContinuousClock.now < end else { throw TimedOut() }
        try await Task.sleep(for: Self.step)
      }
    }
  }

  /// As much as the kernel takes at once.
  func sendSome(_ bytes: [UInt8]) -> Int {
    bytes.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
  }

  func shutdownOutput() { shutdown(descriptor, Int32(SHUT_WR)) }

  /// The next line without its newline.
  func line(timeout: Duration = .seconds(20)) async throws -> String {
    let end = ContinuousClock.now + timeout
    while true {
      if let line = received.takeLine() { return line }
      var chunk = [UInt8](repeating: 0, count: 65536)
      let count = recv(descriptor, &chunk, chunk.count, 0)
      if count > 0 {
        received.append(chunk[..<count])
      } else {
        guard count < 0, errno == EAGAIN else { throw Ended() }
        guard ContinuousClock.now < end else { throw TimedOut() }
        try await Task.sleep(for: Self.step)
      }
    }
  }

  func json(timeout: Duration = .seconds(20)) async throws -> JSON {
    try JSON.parse(Array(try await line(timeout: timeout).utf8))
  }

  func lines(_ count: Int) async throws -> [String] {
    var lines: [String] = []
    for _ in 0..<count { lines.append(try await line()) }
    return lines
  }

  /// Everything until the server closes.
  func linesToEnd(timeout: Duration = .seconds(20)) async throws -> [String] {
    var lines: [String] = []
    while true {
      do { lines.append(try await line(timeout: timeout)) } catch is Ended { return lines }
    }
  }
}

/// Used by one test at a time, but checked by the compiler as if it were not.
private final class Buffer: Sendable {
  private let bytes = Mutex<[UInt8]>([])

  func append(_ chunk: ArraySlice<UInt8>) { bytes.withLock { $0 += chunk } }

  func takeLine() -> String? {
    bytes.withLock { bytes in
      guard let newline = bytes.firstIndex(of: 0x0A) else { return nil }
      defer { bytes.removeFirst(newline + 1) }
      return String(decoding: bytes[..<newline], as: UTF8.self)
    }
  }
}
