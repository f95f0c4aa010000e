import Foundation
@preconcurrency import Glibc
import Synchronization

extension Terminal {
  /// This process's own.
  static func ofProcess() -> Terminal {
    let environment = ProcessInfo.processInfo.environment
    return Terminal(
      write: { stream, text in ProcessStreams.write(text, to: stream) }, isOutTTY: isatty(1) == 1,
      isErrTTY: isatty(2) == 1, isInTTY: isatty(0) == 1, canAsk: isatty(0) == 1 && tcgetpgrp(0) == getpgrp(),
      width: ProcessStreams.screen(1)?.columns, screen: ProcessStreams.screen(2), environment: environment,
      uid: getuid(), now: { Int64(Date().timeIntervalSince1970) }, lines: ProcessStreams.lines,
      hideEcho: { ProcessStreams.hideEcho(0) }, file: ProcessStreams.file, interrupts: ProcessSignals.interrupts,
      launch: launch, fileExists: { access($0, F_OK) == 0 },
      find: { find($0, path: environment["PATH"] ?? "/usr/local/bin:/usr/bin:/bin") }, machine: .own)
  }

  private static func launch(_ command: [String]) -> Bool {
    guard let program = command.first else { return false }
    let process = Process()
    process.executableURL = URL(fileURLWithPath: program)
    process.arguments = Array(command.dropFirst())
    process.standardInput = FileHandle.nullDevice
    process.standardOutput = FileHandle.nullDevice
    process.standardError = FileHandle.nullDevice
    return (try? process.run()) != nil
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
  static func write(_ text: String, to stream: Terminal.Stream) {
    let descriptor: Int32 = stream == .out ? 1 : 2
    var rest = Array(text.utf8)[...]
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
        if errno != EPIPE { write("grantctl: cannot write: \(String(cString: strerror(errno)))\n", to: .err) }
        exit(ExitStatus.failure.rawValue)
      }
    }
  }

  static func screen(_ descriptor: Int32) -> Terminal.Screen? {
    var size = winsize()
    guard isatty(descriptor) == 1, ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
    return Terminal.Screen(columns: Int(size.ws_col), rows: Int(size.ws_row))
  }

  static func hideEcho(_ descriptor: Int32) -> (@Sendable () -> Void)? {
    var settings = termios()
    guard tcgetattr(descriptor, &settings) == 0 else { return nil }
    let before = settings
    settings.c_lflag &= ~tcflag_t(ECHO)
    // The newline that ends the line may show.
    settings.c_lflag |= tcflag_t(ECHONL)
    guard tcsetattr(descriptor, TCSAFLUSH, &settings) == 0 else { return nil }
    return {
      var before = before
      tcsetattr(descriptor, TCSADRAIN, &before)
    }
  }

  /// Bytes of a file; a longer one is refused.
  private static let longestFile = 64 * 1024

  static func file(_ path: String) -> Terminal.FileText {
    func reason() -> Terminal.FileText { .unreadable(String(cString: strerror(errno))) }
    // A pipe without a writer must not keep us.
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { return reason() }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return reason() }
    guard status.st_mode & S_IFMT == S_IFREG else { return .unreadable("it is no file") }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    while bytes.count <= longestFile {
      let count = read(descriptor, &buffer, buffer.count)
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { return reason() }
      guard count > 0 else {
        return .text(String(decoding: bytes, as: UTF8.self), isOpenToOthers: status.st_mode & S_IROTH != 0)
      }
      bytes += buffer[..<count]
    }
    return .unreadable("it is longer than \(longestFile / 1024) KiB")
  }

  /// A thread of its own, because a read cannot be cancelled; it ends with the input or the process. By read(2): a lock
  /// of stdio would be held when the process exits.
  static func lines() -> AsyncStream<String> {
    let (stream, feed) = AsyncStream.makeStream(of: String.self)
    Thread.detachNewThread {
      var line: [UInt8] = []
      var buffer = [UInt8](repeating: 0, count: 4096)
      while true {
        let count = read(0, &buffer, buffer.count)
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { break }
        for byte in buffer[..<count] {
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
    return stream
  }
}

private enum ProcessSignals {
  private static let seen = Atomic(0)

  static func interrupts() -> AsyncStream<Void> {
    let (stream, feed) = AsyncStream.makeStream(of: Void.self)
    for number in [SIGINT, SIGTERM] {
      signal(number, SIG_IGN)
      let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
      source.setEventHandler {
        // Whoever insists does not wait for the broker.
        if seen.add(1, ordering: .relaxed).newValue > 1 { exit(ExitStatus.interrupted.rawValue) }
        feed.yield()
      }
      source.resume()
      // It lives as long as the process.
      _ = Unmanaged.passRetained(source as AnyObject)
    }
    return stream
  }
}
