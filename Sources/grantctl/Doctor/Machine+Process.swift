import Foundation
@preconcurrency import Glibc
import Synchronization

extension Machine {
  /// This one.
  static let own = Machine(
    look: look,
    names: { try? FileManager.default.contentsOfDirectory(atPath: $0) },
    freeBytes: { path in
      var disk = statvfs()
      guard statvfs(path, &disk) == 0 else { return nil }
      return Int64(clamping: UInt64(disk.f_bavail) * UInt64(disk.f_frsize))
    },
    run: { command, limit in await Child.run(command, limit) },
    ask: { command, input, limit in await Child.run(command, limit, input: input) })

  private static func look(_ path: String) -> Look {
    var entry = stat()
    guard lstat(path, &entry) == 0 else { return errno == ENOENT || errno == ENOTDIR ? .absent : .hidden }
    let kind: File.Kind =
      switch entry.st_mode & S_IFMT {
      case S_IFREG: .file
      case S_IFDIR: .folder
      case S_IFSOCK: .socket
      default: .other
      }
    return .found(
      File(
        kind: kind, mode: entry.st_mode & 0o7777, uid: entry.st_uid, modifiedAt: Int64(entry.st_mtim.tv_sec)))
  }
}

/// A program that is asked something and may not keep us.
private enum Child {
  /// Bytes of each stream; what is beyond is not read.
  private static let longestOutput = 64 * 1024
  private static let pause = Duration.milliseconds(10)

  static func run(_ command: [String], _ limit: Duration, input: [UInt8]? = nil) async -> Machine.Ended? {
    guard let program = command.first else { return nil }
    let process = Process()
    process.executableURL = URL(fileURLWithPath: program)
    process.arguments = Array(command.dropFirst())
    // The words of its answers are read.
    process.environment = ProcessInfo.processInfo.environment.merging(["LC_ALL": "C"]) { $1 }
    let given = input.map { _ in Pipe() }
    process.standardInput = given ?? FileHandle.nullDevice
    let (out, err) = (Pipe(), Pipe())
    process.standardOutput = out
    process.standardError = err
    guard (try? process.run()) != nil else { return nil }
    if let input, let given {
      // What it does not read is no failure: its status says what it is.
      try? given.fileHandleForWriting.write(contentsOf: input)
      try? given.fileHandleForWriting.close()
    }
    let (text, errors) = (Stream(out.fileHandleForReading), Stream(err.fileHandleForReading))
    let end = ContinuousClock.now + limit
    while process.isRunning || !(text.isWhole && errors.isWhole) {
      guard ContinuousClock.now < end else {
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
        return nil
      }
      try? await Task.sleep(for: pause)
    }
    return Machine.Ended(status: process.terminationStatus, out: text.text, err: errors.text)
  }

  /// Read on a thread of its own: a full pipe would keep the program from its end.
  private final class Stream: Sendable {
    private let state = Mutex<(bytes: Data, isWhole: Bool)>((Data(), false))

    var isWhole: Bool { state.withLock { $0.isWhole } }
    var text: String { state.withLock { String(decoding: $0.bytes, as: UTF8.self) } }

    init(_ handle: FileHandle) {
      let descriptor = dup(handle.fileDescriptor)
      Thread.detachNewThread { [self] in
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
          let count = read(descriptor, &buffer, buffer.count)
          if count < 0, errno == EINTR { continue }
          guard count > 0 else { break }
          state.withLock { state in
            if state.bytes.count < longestOutput { state.bytes += buffer[..<count] }
          }
        }
        close(descriptor)
        state.withLock { $0.isWhole = true }
      }
    }
  }
}
