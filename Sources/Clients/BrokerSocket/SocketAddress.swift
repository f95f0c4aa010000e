import Glibc

/// A `sockaddr_un` with a path (unix(7)).
struct SocketAddress {
  private var raw = sockaddr_un()

  /// Nil where no socket can have that path.
  init?(_ path: String) {
    let bytes = Array(path.utf8)
    // One byte is the terminating zero.
    guard !bytes.isEmpty, !bytes.contains(0), bytes.count < MemoryLayout.size(ofValue: raw.sun_path) else { return nil }
    raw.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &raw.sun_path) { $0.copyBytes(from: bytes) }
  }

  /// False with `errno`.
  func connect(_ descriptor: Int32) -> Bool {
    withUnsafePointer(to: raw) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
      }
    }
  }
}
