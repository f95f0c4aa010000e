import CLinux
@preconcurrency import Glibc
import Platform
import Synchronization

extension Terminal {
  /// This process's own.
  static func ofProcess() -> Terminal {
    let environment = Environment.own
    return Terminal(
      write: { stream, text in ProcessStreams.write(Array(text.utf8), to: stream) },
      writeBytes: { ProcessStreams.write($0, to: .out) }, isOutTTY: isatty(1) == 1,
      isErrTTY: isatty(2) == 1, isInTTY: isatty(0) == 1, canAsk: isatty(0) == 1 && tcgetpgrp(0) == getpgrp(),
      width: ProcessStreams.screen(1)?.columns, screen: ProcessStreams.screen(2),
      files: TerminalFiles(
        text: ProcessFiles.text, bytes: ProcessFiles.bytes, replace: ProcessFiles.replace, save: ProcessFiles.save,
        obstacle: ProcessFiles.obstacle, rewrite: ProcessFiles.rewrite, remove: ProcessFiles.remove,
        privateFolder: { ProcessExec.privateFolder(environment) }, removeFolder: ProcessFiles.removeFolder,
        exists: { access($0, F_OK) == 0 }),
      programs: TerminalPrograms(
        launch: launch, become: ProcessExec.become, startKeeper: ProcessExec.startKeeper,
        isKeeper: ProcessExec.isKeeper, watch: ProcessExec.programEnds,
        startService: { ProcessService.start($0, log: $1) },
        find: { find($0, path: environment["PATH"] ?? "/usr/local/bin:/usr/bin:/bin") }),
      environment: environment, uid: getuid(), now: { Int64(time(nil)) },
      lines: ProcessStreams.lines, input: ProcessStreams.input, inputUntil: ProcessStreams.input,
      hideEcho: { TerminalSettings.hideEcho(0) },
      users: UserNames(name: { UserDatabase.user($0)?.name }, group: groupName),
      services: ServiceManagers(environment: environment, uid: getuid()) { access($0, F_OK) == 0 },
      ownPath: ProcessFront.path ?? "grantctl",
      leftConnection: ProcessFront.connection, interrupts: ProcessSignals.interrupts, machine: .own)
  }

  /// A program that fails does so within this time; one that opens something may run on as long as that is open.
  private static let settling = Duration.seconds(2)
  private static let pause = Duration.milliseconds(20)

  private static func launch(_ command: [String]) async -> Bool {
    guard !Task.isCancelled else { return false }
    var pid = pid_t()
    guard ChildProgram(command, environment: Environment.list(Environment.own)).start(&pid) == 0 else { return false }
    let end = ContinuousClock.now + settling
    while clinux_has_ended(pid) == 0 {
      guard ContinuousClock.now < end, !Task.isCancelled else {
        // Whenever it ends: nobody else takes its status.
        _ = OwnThread.start("opened") { [pid] in _ = ChildProgram.reap(pid) }
        return true
      }
      try? await Task.sleep(for: pause)
    }
    return (ChildProgram.reap(pid) ?? 0) == 0
  }

  private static func groupName(_ gid: UInt32) -> String? {
    var entry = group()
    var found: UnsafeMutablePointer<group>?
    var buffer = [CChar](repeating: 0, count: 1 << 16)
    guard getgrgid_r(gid, &entry, &buffer, buffer.count, &found) == 0, found != nil else { return nil }
    return String(cString: entry.gr_name)
  }

  private static func find(_ program: String, path: String) -> String? {
    let folders = program.contains("/") ? [""] : path.split(separator: ":").map { $0 + "/" }
    return folders.map { $0 + program }.first { access($0, X_OK) == 0 }
  }
}

enum ProcessStreams {
  /// Bytes of one line of standard input; the rest of a longer one is a line of its own.
  static let longestLine = 256 * 1024

  /// By write(2): nothing is left in a buffer when the process ends.
  static func write(_ bytes: [UInt8], to stream: Terminal.Stream) {
    let descriptor: Int32 = stream == .out ? 1 : 2
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
      if count >= 0 {
        rest = rest.dropFirst(count)
      } else if errno == EAGAIN {
        var ready = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        poll(&ready, 1, -1)
      } else if errno != EINTR {
        guard stream == .out else { return }
        // The reader went away (`| head`): that is no error worth a message.
        if errno != EPIPE {
          write(Array("grantctl: cannot write: \(String(cString: strerror(errno)))\n".utf8), to: .err)
        }
        exit(ExitStatus.failure.rawValue)
      }
    }
  }

  static func screen(_ descriptor: Int32) -> Terminal.Screen? {
    var size = winsize()
    guard isatty(descriptor) == 1, ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
    return Terminal.Screen(columns: Int(size.ws_col), rows: Int(size.ws_row))
  }

  /// A thread of its own, because a read cannot be cancelled; it ends with the input or the process. By read(2): a lock
  /// of stdio would be held when the process exits.
  static func lines() -> AsyncStream<String> {
    let (stream, feed) = AsyncStream.makeStream(of: String.self)
    let editor = TypedLine.begin()
    let code = OwnThread.start("input") {
      var line: [UInt8] = []
      var buffer = [UInt8](repeating: 0, count: 4096)
      reading: while true {
        let count = Glibc.read(0, &buffer, buffer.count)
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { break }
        for byte in buffer[..<count] {
          switch editor?.edit(&line, byte) {
          case .taken: continue
          case .end: break reading
          case .text, nil: break
          }
          if byte == UInt8(ascii: "\n") || line.count == longestLine {
            feed.yield(String(decoding: line, as: UTF8.self))
            line = []
          }
          if byte != UInt8(ascii: "\n") { line.append(byte) }
        }
      }
      if !line.isEmpty { feed.yield(String(decoding: line, as: UTF8.self)) }
      feed.finish()
    }
    if code != 0 { feed.finish() }
    return stream
  }

  /// On a thread of its own too.
  static func input(limit: Int) async -> [UInt8]? {
    await withCheckedContinuation { waiter in
      let code = OwnThread.start("input") { waiter.resume(returning: read(0, limit: limit)) }
      if code != 0 { waiter.resume(returning: nil) }
    }
  }

  /// Blocks: a program that asks for a credential waits, and nothing else is to be done.
  static func input(
    limit: Int, within patience: Duration?, until isComplete: @escaping @Sendable ([UInt8]) -> Bool
  ) async -> Terminal.BoundedInput {
    let clock = ContinuousClock()
    let end = patience.map { clock.now + $0 }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    while !isComplete(bytes) {
      guard bytes.count <= limit else { return .tooLong }
      let left = end.map { max(Int32(0), Int32(($0 - clock.now) / .milliseconds(1))) } ?? -1
      var ready = pollfd(fd: 0, events: Int16(POLLIN), revents: 0)
      let events = poll(&ready, 1, left)
      if events < 0, errno == EINTR { continue }
      guard events > 0 else { return .stopped }
      let count = Glibc.read(0, &buffer, buffer.count)
      if count < 0, errno == EINTR || errno == EAGAIN { continue }
      guard count > 0 else { break }
      bytes += buffer[..<count]
    }
    return bytes.count <= limit ? .bytes(bytes) : .tooLong
  }

  /// What is left of a descriptor; nil where that is more than so many bytes, or cannot be read (`errno`).
  static func read(_ descriptor: Int32, limit: Int) -> [UInt8]? {
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    while bytes.count <= limit {
      let count = Glibc.read(descriptor, &buffer, buffer.count)
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { return nil }
      guard count > 0 else { return bytes }
      bytes += buffer[..<count]
    }
    errno = EFBIG
    return nil
  }
}

/// SIGINT and SIGTERM. A handler writes to a pipe from the moment that the signal no longer ends the process, so none is
/// lost; a dispatch source ignores the signals that come before it listens.
private enum ProcessSignals {
  private static let feeds = Mutex<[AsyncStream<Void>.Continuation]>([])
  private static let pipe: (read: Int32, write: Int32) = {
    var ends: [Int32] = [-1, -1]
    guard clinux_pipe(&ends, 1) == 0 else { return (-1, -1) }
    return (ends[0], ends[1])
  }()
  /// False: the signals end the process as usual.
  private static let isListening: Bool = {
    guard pipe.read >= 0, OwnThread.start("signals", { listen() }) == 0 else { return false }
    for number in [SIGINT, SIGTERM] {
      signal(number) { _ in
        let error = errno
        var byte: UInt8 = 0
        _ = Glibc.write(ProcessSignals.pipe.write, &byte, 1)
        errno = error
      }
    }
    return true
  }()

  /// Each stream gets each signal.
  static func interrupts() -> AsyncStream<Void> {
    let (stream, feed) = AsyncStream.makeStream(of: Void.self)
    feeds.withLock { $0.append(feed) }
    _ = isListening
    return stream
  }

  private static func listen() {
    var byte: UInt8 = 0
    var count = 0
    while true {
      let length = Glibc.read(pipe.read, &byte, 1)
      if length < 0, errno == EINTR { continue }
      guard length > 0 else { return }
      count += 1
      // Who insists does not wait for the broker.
      if count > 1 { exit(ExitStatus.interrupted.rawValue) }
      for feed in feeds.withLock({ $0 }) { feed.yield() }
    }
  }
}
