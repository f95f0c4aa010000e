import Glibc

/// Standard output.
enum Output {
  /// False if nothing could be written. A later failure ends the process, as in the full program.
  static func write(_ text: String) -> Bool {
    // A closed reader is an error of write(2).
    let before = signal(SIGPIPE, SIG_IGN)
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Glibc.write(1, $0.baseAddress, $0.count) }
      if count > 0 {
        rest = rest.dropFirst(count)
      } else if rest.count == text.utf8.count {
        if count < 0, errno == EINTR { continue }
        signal(SIGPIPE, before)
        return false
      } else if errno == EAGAIN {
        var ready = pollfd(fd: 1, events: Int16(POLLOUT), revents: 0)
        poll(&ready, 1, -1)
      } else if errno != EINTR {
        if errno != EPIPE { fail("cannot write: \(String(cString: strerror(errno)))") }
        exit(1)
      }
    }
    return true
  }

  static func fail(_ message: String) -> Never {
    let bytes = Array("grantctl: \(message)\n".utf8)
    _ = bytes.withUnsafeBytes { Glibc.write(2, $0.baseAddress, $0.count) }
    exit(1)
  }
}
