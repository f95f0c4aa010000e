import Glibc

/// A connection that asks for a credential as systemd does: bound to an abstract name, connected, and nothing sent.
public final class CredentialReader: Sendable {
  private static let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
  public let descriptor: Int32

  /// - Parameter name: without the zero byte that it begins with; nil: none.
  public init(_ path: String, as name: String?) throws {
    descriptor = socket(AF_UNIX, Self.kind, 0)
    if let name {
      let bytes = [0] + Array(name.utf8)
      var address = sockaddr_un()
      address.sun_family = sa_family_t(AF_UNIX)
      withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
      let length = (MemoryLayout<sockaddr_un>.offset(of: \.sun_path) ?? 0) + bytes.count
      guard call(bind, &address, length) == 0 else { throw RawClient.Ended() }
    }
    var address = RawClient.address(of: path)
    guard call(connect, &address, MemoryLayout<sockaddr_un>.size) == 0 else { throw RawClient.Ended() }
  }

  deinit { close(descriptor) }

  private func call(
    _ function: (Int32, UnsafePointer<sockaddr>?, socklen_t) -> Int32, _ address: inout sockaddr_un, _ length: Int
  ) -> Int32 {
    withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { function(descriptor, $0, socklen_t(length)) }
    }
  }

  /// Says, as systemd does, that nothing will be sent.
  public func closeOutput() { shutdown(descriptor, Int32(SHUT_WR)) }

  public func send(_ text: String) {
    _ = Array(text.utf8).withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
  }

  /// All that there is until the other end closes. A broken connection is ``RawClient/Ended``.
  public func readToEnd(within limit: Duration = .seconds(60)) async throws -> [UInt8] {
    var received: [UInt8] = []
    return try await eventually("the end of the credential", within: limit, every: .milliseconds(1)) {
      var chunk = [UInt8](repeating: 0, count: 1 << 17)
      while true {
        let count = recv(self.descriptor, &chunk, chunk.count, 0)
        if count == 0 { return received }
        guard count > 0 else {
          guard errno == EAGAIN else { throw RawClient.Ended() }
          return nil
        }
        received += chunk[..<count]
      }
    }
  }
}

/// Whether systemd would fail the unit with this: an end without data is an empty credential to it, and 1 MiB too much.
public func isRefusedBySystemd(_ credential: [UInt8]) -> Bool { credential.count >= 1 << 20 }
