import Broker
import Foundation
import GRDB
import Grants
import OAuth
import SQLiteStore
import Testing

/// The helper program, beside the tests.
private final class Fixture {
  private(set) var pid: pid_t = 0
  private let output: FileHandle
  /// Held open: its end ends the helper that owns a store.
  private let input: FileHandle
  private var status: Int32?

  init(_ mode: String, _ folder: TemporaryFolder) throws {
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
    let words = [program, mode, folder.state, Sample.keyText]
    var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
    var environment: [UnsafeMutablePointer<CChar>?] = [nil]
    defer { for argument in arguments { free(argument) } }
    let code = posix_spawn(&pid, program, &actions, &attributes, &arguments, &environment)
    guard code == 0 else { throw POSIXError(POSIXErrorCode(rawValue: code) ?? .EIO) }
    // So that the end of the helper ends the output.
    try output.fileHandleForWriting.close()
    try input.fileHandleForReading.close()
    self.output = output.fileHandleForReading
    self.input = input.fileHandleForWriting
  }

  deinit { end(SIGKILL) }

  /// What it prints until `count` lines are there, or it ends.
  func lines(_ count: Int) throws -> [String] {
    var text = Data()
    var found = 0
    while found < count, let byte = try output.read(upToCount: 1), !byte.isEmpty {
      text += byte
      if byte.first == UInt8(ascii: "\n") { found += 1 }
    }
    return String(decoding: text, as: UTF8.self).split(separator: "\n").map(String.init)
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

// One after the other: a helper that starts meanwhile would inherit the pipe of another, and hold it open.
@Suite("Processes", .serialized, .timeLimit(.minutes(2)))
struct ProcessTests {
  let folder = TemporaryFolder()

  @Test("a second owner is refused in this process, and told which has it")
  func secondOwner() async throws {
    let store = try folder.open()
    #expect(throws: StoreError.owned(path: folder.state, pid: getpid())) { try folder.open() }
    await store.close()
    let again = try folder.open()
    await again.close()
  }

  @Test("a store that is let go without being closed has no owner")
  func letGo() async throws {
    do { _ = try folder.open() }
    let store = try folder.open()
    await store.close()
  }

  @Test("another process's store is refused until that process ends, however it ends", arguments: [SIGTERM, SIGKILL])
  func otherProcess(signal: Int32) async throws {
    let other = try Fixture("own", folder)
    #expect(try other.lines(1) == ["open"])
    #expect(throws: StoreError.owned(path: folder.state, pid: other.pid)) { try folder.open() }
    let third = try Fixture("own", folder)
    #expect(try third.lines(1) == ["another grantd (pid \(other.pid)) owns \(folder.state)"])
    third.end(SIGKILL)
    other.end(signal)
    let store = try folder.open()
    await store.close()
  }

  @Test("every commit that returned is there after the process was killed", arguments: [1, 40, 150])
  func killed(after count: Int) async throws {
    let writer = try Fixture("commit", folder)
    var printed = try writer.lines(count)
    writer.end(SIGKILL)
    printed += try writer.lines(.max)
    let last = try #require(printed.compactMap { Int($0) }.max())
    #expect(last >= count)
    let store = try folder.open()
    let state = try await store.load()
    let found = try #require(state.values["last"].flatMap { Int($0) })
    // One more may have been committed and not printed.
    #expect(last...(last + 1) ~= found)
    #expect(Set(state.grants.map(\.account.rawValue)) == Set((1...found).map { "a\($0)" }))
    #expect(Set(state.tokens.map(\.accessToken.exposed)) == Set((1...found).map { "access-\($0)" }))
    await store.close()
  }

  @Test(
    "a process that is killed within a commit leaves all of it or nothing",
    arguments: [("die-applied", [:]), ("die-committed", ["one": "1", "two": "2"])])
  func killedWithin(mode: String, values: [String: String]) async throws {
    try await folder.fill([])
    let writer = try Fixture(mode, folder)
    #expect(writer.wait() == SIGKILL)
    let store = try folder.open()
    #expect(try await store.load().values == values)
    await store.close()
  }

  @Test("a newer store is not touched even where a killed process left a log")
  func newerWithLog() async throws {
    let writer = try Fixture("commit", folder)
    _ = try writer.lines(5)
    writer.end(SIGKILL)
    // Another connection keeps the log from being taken in when the first one closes.
    let reader = try DatabaseQueue(path: folder.database)
    let database = try DatabaseQueue(path: folder.database)
    try await database.writeWithoutTransaction { try $0.execute(sql: "PRAGMA user_version = 2") }
    let contents = try folder.contents(folder.database)
    let log = try folder.contents(folder.database + "-wal")
    #expect(throws: StoreError.newer(path: folder.database, found: 2, known: 1)) { try folder.open() }
    #expect(try folder.contents(folder.database) == contents)
    #expect(try folder.contents(folder.database + "-wal") == log)
    try database.close()
    try reader.close()
  }

  @Test("all files are closed to others, whatever they were", arguments: [true, false])
  func permissions(existing: Bool) async throws {
    if existing {
      try await folder.fill(Sample.everything)
      for file in ["grantd.db", "grantd.lock"] { chmod("\(folder.state)/\(file)", 0o644) }
    }
    let store = try folder.open()
    try await store.commit(Sample.everything)
    #expect(try folder.mode(folder.state) == 0o700)
    let files = try FileManager.default.contentsOfDirectory(atPath: folder.state)
    #expect(Set(files) == ["grantd.db", "grantd.db-wal", "grantd.db-shm", "grantd.lock"])
    for file in files { #expect(try folder.mode("\(folder.state)/\(file)") == 0o600, "\(file)") }
    await store.close()
    #expect(
      Set(try FileManager.default.contentsOfDirectory(atPath: folder.state)) == ["grantd.db", "grantd.lock"])
  }
}
