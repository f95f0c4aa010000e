import Glibc
import Logging
import Platform
import Systemd

/// Executes this program again in this process: with the sockets of the service manager, and with nothing of its memory.
struct StartingAgain: Sendable {
  private let sockets: [ListenFDs.Listener]

  /// Below it are the places of passed descriptors.
  private static let lowest: Int32 = 64

  /// - Parameter inherited: by socket units. The copies stay open when the servers close theirs.
  init(_ inherited: [ListenFDs.Listener]) {
    sockets = inherited.compactMap { one in
      let copy = fcntl(one.descriptor, F_DUPFD_CLOEXEC, Self.lowest)
      return copy < 0 ? nil : .init(descriptor: copy, name: one.name)
    }
  }

  /// Returns only if it failed. No other thread may need the environment any more.
  func perform(_ logger: Logger) {
    LogQueue.shared.flush()
    passSockets()
    // The program begins as at its first start: threads of libraries block signals, and trapped signals are ignored.
    for number in [SIGTERM, SIGINT, SIGHUP, SIGPIPE] { signal(number, SIG_DFL) }
    var none = sigset_t()
    sigemptyset(&none)
    pthread_sigmask(SIG_SETMASK, &none, nil)
    let arguments = CommandLine.arguments.map { strdup($0) } + [nil]
    // An update may have replaced the file; its path gives the process its name.
    if let path = Environment.ownProgram { execv(path, arguments) }
    execv("/proc/self/exe", arguments)
    logger.critical("grantd cannot be executed again: \(String(cString: strerror(errno)))")
    LogQueue.shared.flush()
  }

  /// As a service manager passes them (sd_listen_fds(3)): from descriptor 3 on, which belong to nothing that is still used.
  private func passSockets() {
    for name in ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"] { unsetenv(name) }
    guard !sockets.isEmpty else { return }
    for (number, socket) in sockets.enumerated() { dup2(socket.descriptor, 3 + Int32(number)) }
    setenv("LISTEN_FDS", "\(sockets.count)", 1)
    setenv("LISTEN_PID", "\(getpid())", 1)
    setenv("LISTEN_FDNAMES", sockets.map(\.name).joined(separator: ":"), 1)
  }
}
