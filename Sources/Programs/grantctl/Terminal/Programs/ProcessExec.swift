import CLinux
@preconcurrency import Glibc
import Platform

/// Another program in the place of this one, and the process that keeps its token's file.
enum ProcessExec {
  /// The descriptor at which the keeper finds the pidfd of the program.
  static let watched: Int32 = 3

  /// Returns why the program could not be started.
  static func become(_ start: ProgramStart) -> String {
    if let descriptor = start.descriptor {
      guard let reason = install(descriptor) else { return execute(start) }
      return reason
    }
    return execute(start)
  }

  /// The content fits a pipe, so that nobody has to write while the program reads.
  private static func install(_ descriptor: ProgramStart.Descriptor) -> String? {
    var ends: [Int32] = [0, 0]
    guard pipe(&ends) == 0 else { return words(errno) }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
    let count = descriptor.content.withUnsafeBytes { write(ends[1], $0.baseAddress, $0.count) }
    guard count == descriptor.content.count else { return "the token is longer than a pipe holds" }
    close(ends[1])
    if ends[0] == descriptor.number {
      _ = fcntl(ends[0], F_SETFD, 0)
    } else {
      guard dup2(ends[0], descriptor.number) >= 0 else { return words(errno) }
      close(ends[0])
    }
    return nil
  }

  private static func execute(_ start: ProgramStart) -> String {
    // What this process did to itself is not the program's.
    signal(SIGPIPE, SIG_DFL)
    var none = sigset_t()
    sigemptyset(&none)
    pthread_sigmask(SIG_SETMASK, &none, nil)
    CoreDumps.restore()
    for (name, value) in start.variables { setenv(name, value, 1) }
    execv(start.path, (ownWords(start.arguments) ?? start.arguments.map { strdup($0) }) + [nil])
    return words(errno)
  }

  /// The last words of this process's command line, where they are these: as strings they lose what is not UTF-8.
  private static func ownWords(_ arguments: [String]) -> [UnsafeMutablePointer<CChar>?]? {
    let count = Int(CommandLine.argc)
    guard arguments.count <= count else { return nil }
    let words = (count - arguments.count..<count).map { CommandLine.unsafeArgv[$0] }
    let isSame = zip(words, arguments).allSatisfy { $0.map { String(cString: $0) } == $1 }
    return isSame ? words : nil
  }

  /// A folder for its owner alone.
  static func privateFolder(_ environment: [String: String]) -> String? {
    let places = [environment["XDG_RUNTIME_DIR"], environment["TMPDIR"], "/tmp"].compactMap { $0 }
    guard let place = places.first(where: { $0.hasPrefix("/") && access($0, W_OK) == 0 }) else { return nil }
    var template = Array("\(place)/grantd-exec-XXXXXX".utf8CString)
    return mkdtemp(&template) == nil
      ? nil : String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// Starts it in a session of its own, as nobody's child: the program does not find it among its children. Twice, since
  /// the first process ends at once.
  static func startKeeper(_ command: [String]) -> Bool {
    let own = clinux_pidfd_open(getpid())
    guard own >= 0 else { return false }
    defer { close(own) }
    guard let first = spawn(command, watching: own, orphan: true) else { return false }
    return ChildProgram.reap(first) == 0
  }

  private static let orphanVariable = "GRANTD_KEEPER_ORPHAN"

  /// In the first process: starts the second and ends.
  static func leaveOrphan() {
    guard let value = getenv(orphanVariable), value.pointee != 0 else { return }
    unsetenv(orphanVariable)
    let second = spawn(CommandLine.arguments, watching: watched, orphan: false)
    _exit(second == nil ? 1 : 0)
  }

  private static func spawn(_ command: [String], watching descriptor: Int32, orphan: Bool) -> pid_t? {
    var environment = Environment.own
    environment[orphanVariable] = orphan ? "1" : nil
    let program = ChildProgram(
      command, environment: Environment.list(environment), descriptors: [nil, nil, nil, descriptor], group: .ownSession)
    var pid = pid_t()
    return program.start(&pid) == 0 ? pid : nil
  }

  /// Whether this is a process that ``startKeeper(_:)`` started.
  static func isKeeper() -> Bool {
    // What the kernel says of a pidfd (pidfd_open(2)).
    guard case .text(let about, _) = ProcessFiles.text("/proc/self/fdinfo/\(watched)") else { return false }
    return about.split(separator: "\n").contains { $0.hasPrefix("Pid:") }
  }

  /// Whether the program ends within so many seconds.
  static func programEnds(within seconds: Int64) -> Bool {
    var ready = pollfd(fd: watched, events: Int16(POLLIN), revents: 0)
    return poll(&ready, 1, Int32(seconds * 1000)) != 0
  }

  private static func words(_ number: Int32) -> String { String(cString: strerror(number)) }
}

/// Passphrases and tokens are in this process's memory for a while, and in no dump of it.
enum CoreDumps {
  private nonisolated(unsafe) static var before = rlimit()

  /// - Parameter isFinal: no limit that the caller could lift again. A program that takes the place of this one gets its
  ///   own back.
  static func forbid(isFinal: Bool) {
    getrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &before)
    let limit = rlimit(rlim_cur: 0, rlim_max: isFinal ? 0 : before.rlim_max)
    _ = withUnsafePointer(to: limit) { setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), $0) }
  }

  static func restore() { _ = setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &before) }
}
