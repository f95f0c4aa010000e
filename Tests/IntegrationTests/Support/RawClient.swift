import BrokerAPI
import Foundation
import Glibc
import Synchronization

/// A client of the socket that sends exactly the bytes it is told to. For one task.
final class RawClient: Sendable {
  struct Ended: Error {}

  private static let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
  private let descriptor: Int32
  private let received = Mutex<[UInt8]>([])

  init(_ path: String) throws {
    descriptor = socket(AF_UNIX, Self.kind, 0)
    var address = sockaddr_un(path)
    let code = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard code == 0 else {
      close(descriptor)
      throw Ended()
    }
  }

  deinit { close(descriptor) }

  func send(_ text: String) async throws { try await send(Array(text.utf8)) }

  func send(_ bytes: [UInt8]) async throws {
    var rest = bytes[...]
    let end = ContinuousClock.now + .seconds(10)
    while !rest.isEmpty {
      let sent = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
      if sent > 0 {
        rest = rest.dropFirst(sent)
      } else {
        guard errno == EAGAIN, ContinuousClock.now < end else { throw Ended() }
        try await Task.sleep(for: .milliseconds(2))
      }
    }
  }

  func closeOutput() { shutdown(descriptor, Int32(SHUT_WR)) }

  /// The next line; throws `Ended` where the daemon closed the connection.
  func line(within limit: Duration = .seconds(20)) async throws -> String {
    try await eventually("a line on the socket", within: limit) {
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

  func json(within limit: Duration = .seconds(20)) async throws -> JSON {
    try JSON.parse(Array(try await line(within: limit).utf8))
  }

  func ask(_ text: String) async throws -> JSON {
    try await send(text + "\n")
    return try await json()
  }

  private func takeLine() -> String? {
    received.withLock { bytes in
      guard let newline = bytes.firstIndex(of: 0x0A) else { return nil }
      defer { bytes.removeFirst(newline + 1) }
      return String(decoding: bytes[..<newline], as: UTF8.self)
    }
  }
}

extension sockaddr_un {
  init(_ path: String) {
    self.init()
    sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(path.utf8)
    precondition(bytes.count < MemoryLayout.size(ofValue: sun_path), "the socket path \(path) is too long")
    withUnsafeMutableBytes(of: &sun_path) { $0.copyBytes(from: bytes) }
  }
}
