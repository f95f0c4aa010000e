public import BrokerAPI
public import Glibc
import Synchronization

/// A client of the socket that sends exactly the bytes it is told to, without blocking a thread. For one task at a time.
public final class RawClient: Sendable {
  /// There is no connection, or it has ended.
  public struct Ended: Error {
    public init() {}
  }

  private static let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
  private static let pause = Duration.milliseconds(1)
  public let descriptor: Int32
  private let received = Mutex<[UInt8]>([])

  public init(_ path: String) throws {
    descriptor = socket(AF_UNIX, Self.kind, 0)
    var address = Self.address(of: path)
    let code = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    // The end of this object closes the descriptor.
    guard code == 0 else { throw Ended() }
  }

  deinit { close(descriptor) }

  // MARK: Sending

  public func send(_ text: String) async throws { try await send(Array(text.utf8)) }

  public func send(_ bytes: [UInt8]) async throws {
    var rest = bytes[...]
    while !rest.isEmpty {
      rest = try await eventually("the socket takes more", every: Self.pause) {
        let sent = rest.withUnsafeBytes { Glibc.send(self.descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
        guard sent <= 0 else { return rest.dropFirst(sent) }
        guard errno == EAGAIN else { throw Ended() }
        return nil
      }
    }
  }

  /// As much as the kernel takes at once; -1 where it takes nothing.
  public func sendSome(_ bytes: [UInt8]) -> Int {
    bytes.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
  }

  /// Half-closes.
  public func closeOutput() { shutdown(descriptor, Int32(SHUT_WR)) }

  // MARK: Receiving

  /// The next line without its newline; throws ``Ended`` where the server closed the connection.
  public func line(within limit: Duration = .seconds(60)) async throws -> String {
    try await eventually("a line on the socket", within: limit, every: Self.pause) {
      if let line = self.takeLine() { return line }
      var chunk = [UInt8](repeating: 0, count: 65536)
      let count = recv(self.descriptor, &chunk, chunk.count, 0)
      guard count > 0 else {
        guard count < 0, errno == EAGAIN else { throw Ended() }
        return nil
      }
      self.received.withLock { $0 += chunk[..<count] }
      return self.takeLine()
    }
  }

  public func json(within limit: Duration = .seconds(60)) async throws -> JSON {
    try JSON.parse(Array(try await line(within: limit).utf8))
  }

  public func lines(_ count: Int) async throws -> [String] {
    var lines: [String] = []
    for _ in 0..<count { lines.append(try await line()) }
    return lines
  }

  /// Everything until the server closes.
  public func linesToEnd(within limit: Duration = .seconds(60)) async throws -> [String] {
    var lines: [String] = []
    while true {
      do { lines.append(try await line(within: limit)) } catch is Ended { return lines }
    }
  }

  /// Sends a line, and reads the next.
  public func ask(_ text: String) async throws -> JSON {
    try await send(text + "\n")
    return try await json()
  }

  private func takeLine() -> String? {
    received.withLock { bytes in
      // Looked at again with each read: for a long line an unoptimised loop over its bytes takes many seconds.
      let found = bytes.withUnsafeBytes { all in
        all.baseAddress.flatMap { start in
          memchr(start, 0x0A, all.count).map { UnsafeRawPointer($0) - start }
        }
      }
      guard let newline = found else { return nil }
      defer { bytes.removeFirst(newline + 1) }
      return String(decoding: bytes[..<newline], as: UTF8.self)
    }
  }

  /// As the kernel takes it.
  public static func address(of path: String) -> sockaddr_un {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(path.utf8)
    precondition(bytes.count < MemoryLayout.size(ofValue: address.sun_path), "the socket path \(path) is too long")
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
    return address
  }
}
