import Foundation
import SQLiteStore

/// The helper program, beside the tests.
final class Fixture {
  /// What gives a command mounts of its own; nil where that is not allowed.
  static let ownMounts: [String]? = {
    let mounts = ["unshare", "--mount", "--propagation", "private"]
    return [mounts, mounts + ["--user", "--map-root-user"]].first { prefix in
      let process = Process()
      process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
      process.arguments = prefix + ["mount", "-t", "tmpfs", "none", "/tmp"]
      process.standardInput = FileHandle.nullDevice
      process.standardError = FileHandle.nullDevice
      guard (try? process.run()) != nil else { return false }
      process.waitUntilExit()
      return process.terminationStatus == 0
    }
  }()

  private(set) var pid: pid_t = 0
  private let output: FileHandle
  /// Held open: its end ends the helper that owns a store.
  private let input: FileHandle
  private var status: Int32?

  /// - Parameter within: a command that ends by running what is appended to it.
  init(_ mode: String, _ folder: TemporaryFolder, within: [String] = []) throws {
    let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    let program = (tests as NSString).deletingLastPathComponent + "/store-fixture"
    let (output, input) = (Pipe(), Pipe())
    for handle in [output.fileHandleForReading, input.fileHandleForWriting] {
      _ = fcntl(handle.fileDescriptor, F_SETFD, FD_CLOEXEC)
    }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_adddup2(&actions, input.fileHandleForReading.fileDescriptor, STDIN_FILENO)
    posix_spawn_file_actions_adddup2(&actions, output.fileHandleForWriting.fileDescriptor, STDOUT_FILENO)
    // The threads of the concurrency pool block signals, and a new process inherits that.
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var noSignals = sigset_t()
    sigemptyset(&noSignals)
    posix_spawnattr_setsigmask(&attributes, &noSignals)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
    let words = within + [program, mode, folder.state, Sample.keyText]
    var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
    var environment: [UnsafeMutablePointer<CChar>?] = [strdup("PATH=/usr/sbin:/usr/bin:/sbin:/bin"), nil]
    defer { for text in arguments + environment { free(text) } }
    let code = posix_spawnp(&pid, words[0], &actions, &attributes, &arguments, &environment)
    guard code == 0 else { throw POSIXError(POSIXErrorCode(rawValue: code) ?? .EIO) }
    // So that the end of the helper ends the output.
    try output.fileHandleForWriting.close()
    try input.fileHandleForReading.close()
    self.output = output.fileHandleForReading
    self.input = input.fileHandleForWriting
  }

  deinit { end(SIGKILL) }

  /// Its output until it has `count` lines, or it ends.
  func lines(_ count: Int) throws -> [String] {
    var text = Data()
    var found = 0
    while found < count, let byte = try output.read(upToCount: 1), !byte.isEmpty {
      text += byte
      if byte.first == UInt8(ascii: "\n") { found += 1 }
    }
    return String(decoding: text, as: UTF8.self).split(separator: "\n").map(String.init)
  }

  /// What it answers to a command of mode `serve`.
  func ask(_ command: String) throws -> String {
    try input.write(contentsOf: Data("\(command)\n".utf8))
    return try lines(1).first ?? "it has ended"
  }

  func end(_ signal: Int32) {
    guard status == nil, pid > 0 else { return }
    kill(pid, signal)
    wait()
  }

  /// The signal that ended it; 0: it ended by itself.
  @discardableResult
  func wait() -> Int32 {
    var status: Int32 = 0
    while waitpid(pid, &status, 0) < 0, errno == EINTR {}
    self.status = status
    return status & 0x7f
  }
}
