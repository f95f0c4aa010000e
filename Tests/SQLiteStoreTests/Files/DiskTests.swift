import Broker
import Dispatch
import Foundation
import SQLite
import SQLiteStore
import Synchronization
import Testing

@Suite("A disk that takes nothing", .serialized, .timeLimit(.minutes(5)))
struct DiskTests {
  let folder = TemporaryFolder()

  private static let noDisk: Comment = "a mount of its own, for a small disk, is not to be had here"

  /// A store process on a disk of its own. The script says what is done with `"$@"`, the process.
  private func onDisk(kilobytes: Int, _ script: String = #""$@""#) throws -> Fixture {
    try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
    let mount = #"mount -t tmpfs -o size="# + "\(kilobytes)k" + #",mode=700 none "$0" && { "# + script + "; }"
    return try Fixture("serve", folder, within: (Fixture.ownMounts ?? []) + ["sh", "-c", mount, folder.path])
  }

  @Test(
    "because it is full: saved data stay, and the next commit works once there is space",
    .enabled(if: Fixture.ownMounts != nil, noDisk))
  func full() throws {
    let store = try onDisk(kilobytes: 2000)
    #expect(try store.lines(1) == ["open"])
    #expect(try store.ask("put a 1000") == "ok")
    #expect(try store.ask("fill") == "ok")
    for _ in 0..<3 {
      #expect(try store.ask("put b 300000") == "unwritable: \(folder.database) could not be written: the disk is full")
    }
    #expect(try store.ask("get") == "a=1000")
    #expect(try store.ask("examine") == "ok")
    #expect(try store.ask("free") == "ok")
    #expect(try store.ask("put b 300000") == "ok")
    #expect(try store.ask("get") == "a=1000 b=300000")
  }

  @Test(
    "during a checkpoint: the log keeps its data, even across the end of the process",
    .enabled(if: Fixture.ownMounts != nil, noDisk))
  func fullAtCheckpoint() throws {
    let store = try onDisk(kilobytes: 16_000, #""$@"; "$@""#)
    #expect(try store.lines(1) == ["open"])
    // A log with room for more than the database has: it was filled once and is written from its beginning again.
    #expect(try store.ask("put a 4500000") == "ok")
    #expect(try store.ask("put a 10") == "ok")
    #expect(try store.ask("fill") == "ok")
    var saved = ["a=10"]
    var isFull = false
    for number in 100..<500 {
      let answer = try store.ask("put n\(number) 50000")
      isFull = answer.contains("the disk is full")
      if isFull { break }
      #expect(answer == "ok")
      saved.append("n\(number)=50000")
    }
    #expect(isFull)
    #expect(try store.ask("get") == saved.joined(separator: " "))
    // The process is killed, and another one finds all of it on the full disk, or once there is room.
    #expect(try store.ask("die free") == "open")
    #expect(try store.ask("get") == saved.joined(separator: " "))
    #expect(try store.ask("put last 300000") == "ok")
  }

  @Test(
    "at the start is said, and the store opens once there is room",
    .enabled(if: Fixture.ownMounts != nil, noDisk))
  func fullAtStart() throws {
    let store = try onDisk(
      kilobytes: 2000,
      #""$@"; cat /dev/zero >"$0/filler" 2>/dev/null; "$@"; rm "$0/filler"; "$@""#)
    #expect(try store.lines(1) == ["open"])
    #expect(try store.ask("put a 1000") == "ok")
    let answer = try store.ask("quit")
    #expect(answer.hasPrefix("\(folder.state)/grantd") && answer.contains("the disk is full"), "\(answer)")
    #expect(try store.lines(1) == ["open"])
    #expect(try store.ask("get") == "a=1000")
  }

  @Test(
    "because it is mounted read-only at the start: the store opens, and writes once it is not",
    .enabled(if: Fixture.ownMounts != nil, noDisk))
  func readOnlyAtStart() throws {
    let store = try onDisk(
      kilobytes: 2000, #""$@"; mount -o remount,ro "$0"; "$@"; mount -o remount,rw "$0"; "$@""#)
    #expect(try store.lines(1) == ["open"])
    #expect(try store.ask("put a 1000") == "ok")
    // The next process opens it, and writes nothing.
    #expect(try store.ask("quit") == "open")
    let answer = try store.ask("put b 1000")
    #expect(answer.hasPrefix("unwritable") && answer.contains("read-only"), "\(answer)")
    #expect(try store.ask("quit") == "open")
    #expect(try store.ask("get") == "a=1000")
  }

  @Test(
    "during a rebuild: the old database continues, and the rebuild works once there is space",
    .enabled(if: Fixture.ownMounts != nil, noDisk))
  func fullAtRebuild() throws {
    let store = try onDisk(kilobytes: 3000)
    #expect(try store.lines(1) == ["open"])
    #expect(try store.ask("put a 300000") == "ok")
    #expect(try store.ask("fill") == "ok")
    for _ in 0..<3 {
      #expect(try store.ask("rebuild") == "unwritable: \(folder.database) could not be written: the disk is full")
      #expect(try store.ask("examine") == "ok")
      #expect(try store.ask("files") == "filler grantd.commits grantd.db grantd.db-shm grantd.db-wal grantd.lock")
    }
    #expect(try store.ask("get") == "a=300000")
    #expect(try store.ask("free") == "ok")
    #expect(try store.ask("put b 1000") == "ok")
    #expect(try store.ask("rebuild") == "ok")
    #expect(try store.ask("get") == "a=300000 b=1000")
  }

  @Test(
    "because its folder is read-only, during a rebuild: the old database continues",
    .enabled(if: Fixture.ownMounts != nil, noDisk))
  func readOnlyAtRebuild() throws {
    let store = try onDisk(kilobytes: 3000)
    #expect(try store.lines(1) == ["open"])
    #expect(try store.ask("put a 1000") == "ok")
    #expect(try store.ask("readonly") == "ok")
    #expect(try store.ask("rebuild").lowercased().contains("read-only"))
    #expect(try store.ask("examine") == "ok")
    #expect(try store.ask("put b 1000") == "ok")
    #expect(try store.ask("writable") == "ok")
    #expect(try store.ask("rebuild") == "ok")
    #expect(try store.ask("get") == "a=1000 b=1000")
  }

  @Test("because of an input/output error: the next commit works once it is over")
  func inputOutputError() throws {
    let store = try Fixture("serve", folder)
    #expect(try store.lines(1) == ["open"])
    #expect(try store.ask("put a 1000") == "ok")
    #expect(try store.ask("limit 200000") == "ok")
    for _ in 0..<3 {
      let answer = try store.ask("put b 600000")
      #expect(answer.hasPrefix("unwritable: ") && answer.contains("an input/output error"), "\(answer)")
    }
    #expect(try store.ask("rebuild") == "ok")
    #expect(try store.ask("put c 1000") == "ok")
    #expect(try store.ask("limit none") == "ok")
    #expect(try store.ask("put b 600000") == "ok")
    #expect(try store.ask("get") == "a=1000 b=600000 c=1000")
  }

  @Test("because another program has locked the database: reported, reads continue, and later commits work")
  func locked() async throws {
    let store = try folder.open()
    try await store.commit([.putValue("x", "1")])
    let other = try SQLiteConnection(path: folder.database)
    try other.use { try $0.execute("BEGIN EXCLUSIVE") }
    let error = await #expect(throws: StoreError.self) { try await store.commit([.putValue("x", "2")]) }
    guard case .unwritable(folder.database, let detail) = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(detail == "it was locked by another program for 5 s")
    #expect(try await store.load().values == ["x": "1"])
    try await store.examine()
    try other.use { try $0.execute("ROLLBACK") }
    try await store.commit([.putValue("x", "3")])
    #expect(try await store.load().values == ["x": "3"])
    try other.close()
    await store.close()
  }

  @Test("for long: checks continue, and waiting commits are limited")
  func slow() async throws {
    let (taken, goOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let isFirst = Atomic(true)
    let store = try SQLiteStore.open(folder: folder.state, key: Sample.key, pageLimit: nil) { point in
      guard case .taken = point, isFirst.exchange(false, ordering: .relaxed) else { return }
      taken.signal()
      goOn.wait()
    }
    async let first: Void = store.commit([.putValue("first", "1")])
    await withCheckedContinuation { continuation in
      DispatchQueue.global().async {
        taken.wait()
        continuation.resume()
      }
    }
    let refused = await withTaskGroup(of: StoreError?.self) { group in
      for number in 0..<5000 {
        group.addTask {
          do throws(StoreError) {
            try await store.commit([.putValue("v\(number)", "1")])
            return nil
          } catch {
            return error
          }
        }
      }
      // Those that are refused are answered at once.
      var refused: [StoreError] = []
      while refused.count < 5000 - 4096, let error = await group.next() { if let error { refused.append(error) } }
      _ = try? await store.examine()
      #expect(store.waiting.commits == 4096)
      goOn.signal()
      while let error = await group.next() { if let error { refused.append(error) } }
      return refused
    }
    try await first
    #expect(refused.count == 5000 - 4096)
    #expect(refused.allSatisfy { $0.message.contains("4096 changes wait") })
    #expect(try await store.load().values.count == 4097)
    await store.close()
  }
}
