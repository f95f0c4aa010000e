import Foundation
import Glibc
import Synchronization
import TestSupport

/// A program started by a test, identified only by its process id.
final class Child: Sendable {
  struct CannotStart: Error, CustomStringConvertible {
    let description: String
  }

  let pid: pid_t
  private let ended = Mutex<Int32?>(nil)

  /// - Parameter output: standard error and output are appended to this file.
  init(_ program: String, _ arguments: [String], environment: [String: String], output: String) throws {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_APPEND, 0o600)
    posix_spawn_file_actions_adddup2(&actions, 1, 2)
    // What this process has open must not live on in there: a connection that a test closes would stay open.
    guard let closeFrom = Self.closeFrom, closeFrom(&actions, 3) == 0 else {
      throw CannotStart(description: "posix_spawn_file_actions_addclosefrom_np is missing: glibc 2.34 has it")
    }
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var signals = sigset_t()
    sigemptyset(&signals)
    posix_spawnattr_setsigmask(&attributes, &signals)
    sigfillset(&signals)
    posix_spawnattr_setsigdefault(&attributes, &signals)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
    var argv: [UnsafeMutablePointer<CChar>?] = ([program] + arguments).map { strdup($0) } + [nil]
    var envp: [UnsafeMutablePointer<CChar>?] = environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
    defer { for text in argv + envp { free(text) } }
    var pid = pid_t()
    let code = posix_spawn(&pid, program, &actions, &attributes, &argv, &envp)
    guard code == 0 else { throw CannotStart(description: "\(program): \(String(cString: strerror(code)))") }
    self.pid = pid
  }

  deinit { kill9() }

  /// Swift's overlay of the C library does not show it.
  private static let closeFrom: CloseFrom? = {
    dlsym(dlopen(nil, RTLD_NOW), "posix_spawn_file_actions_addclosefrom_np").map {
      unsafeBitCast($0, to: CloseFrom.self)
    }
  }()
  private typealias CloseFrom = @convention(c) (UnsafeMutablePointer<posix_spawn_file_actions_t>, CInt) -> CInt

  /// The exit status, or the negative number of the signal that ended it; nil while it runs.
  var status: Int32? {
    ended.withLock { ended in
      if let ended { return ended }
      var raw: Int32 = 0
      guard waitpid(pid, &raw, WNOHANG) == pid else { return nil }
      ended = raw & 0x7f == 0 ? raw >> 8 & 0xff : -(raw & 0x7f)
      return ended
    }
  }

  /// Signals it, unless its end has been seen: a process id that was reaped may be another's.
  func signal(_ number: Int32) {
    ended.withLock { ended in
      if ended == nil { kill(pid, number) }
    }
  }

  /// Ends it at once and reaps it.
  func kill9() {
    ended.withLock { ended in
      guard ended == nil else { return }
      kill(pid, SIGKILL)
      var raw: Int32 = 0
      waitpid(pid, &raw, 0)
      ended = -SIGKILL
    }
  }

  func end(within limit: Duration = .seconds(60)) async throws -> Int32 {
    try await eventually("process \(pid) ends", within: limit) { self.status }
  }
}

/// A port that was free a moment ago. It is below the ports that the kernel chooses from (ip(7),
/// `ip_local_port_range`).
func freePort() throws -> Int {
  for _ in 0..<100 {
    let port = UInt16.random(in: 20_000..<32_000)
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    defer { close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    let code = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    if code == 0 { return Int(port) }
  }
  throw POSIXError(.EADDRINUSE)
}

/// Whether this machine has ::1.
let hasIPv6: Bool = {
  let descriptor = socket(AF_INET6, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
  guard descriptor >= 0 else { return false }
  defer { close(descriptor) }
  var address = sockaddr_in6()
  address.sin6_family = sa_family_t(AF_INET6)
  address.sin6_addr = in6addr_loopback
  return withUnsafePointer(to: &address) { pointer in
    pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
      bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in6>.size)) == 0
    }
  }
}()

/// Texts in the order in which they came.
final class Heard: Sendable {
  private let texts = Mutex<[String]>([])

  var all: [String] { texts.withLock { $0 } }

  func add(_ text: String) { texts.withLock { $0.append(text) } }
}
