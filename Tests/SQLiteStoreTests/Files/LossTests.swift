import Broker
import Foundation
import Grants
import OAuth
import SQLite
import SQLiteStore
import Sealing
import Synchronization
import TestSupport
import Testing

@Suite("A database that is lost while it is open", .serialized, .timeLimit(.minutes(5)))
struct LossTests {
  let folder = TemporaryFolder()

  enum Loss: CaseIterable {
    case databaseRemoved, databaseMoved, databaseReplaced, logRemoved, indexRemoved, folderRemoved, folderMoved
    case folderEmptied, emptied, halved, logEmptied
  }

  private func inflict(_ loss: Loss) throws {
    let files = FileManager.default
    switch loss {
    case .databaseRemoved: try files.removeItem(atPath: folder.database)
    case .databaseMoved: try files.moveItem(atPath: folder.database, toPath: folder.path + "/elsewhere")
    case .databaseReplaced:
      try files.moveItem(atPath: folder.database, toPath: folder.path + "/elsewhere")
      try files.copyItem(atPath: folder.path + "/elsewhere", toPath: folder.database)
    case .logRemoved: try files.removeItem(atPath: folder.database + "-wal")
    case .indexRemoved: try files.removeItem(atPath: folder.database + "-shm")
    case .folderRemoved: try files.removeItem(atPath: folder.state)
    case .folderMoved: try files.moveItem(atPath: folder.state, toPath: folder.path + "/elsewhere")
    case .folderEmptied:
      for file in try files.contentsOfDirectory(atPath: folder.state) {
        try files.removeItem(atPath: "\(folder.state)/\(file)")
      }
    case .emptied: truncate(folder.database, 0)
    case .halved: truncate(folder.database, off_t(try folder.contents(folder.database).count / 2))
    case .logEmptied: truncate(folder.database + "-wal", 0)
    }
  }

  private func isLoss(_ error: StoreError?) -> Bool {
    switch error {
    case .missing, .corrupt: true
    default: false
    }
  }

  @Test("is found by a check, accepts no commit, and is rebuilt from memory", arguments: Loss.allCases)
  func lost(_ loss: Loss) async throws {
    let store = try folder.open()
    try await store.commit(Sample.everything)
    // Read on the writer's queue: it has ended, and the look is not left out for its sake.
    #expect(try await store.load() == Sample.state)
    try await store.examine()
    try inflict(loss)
    let seen = await #expect(throws: StoreError.self) { try await store.examine() }
    #expect(isLoss(seen), "\(String(describing: seen))")
    let refused = await #expect(throws: StoreError.self) { try await store.commit([.putValue("x", "1")]) }
    #expect(refused == seen)
    try await store.rebuild(from: Sample.state)
    try await store.examine()
    #expect(try await store.load() == Sample.state)
    try await store.commit([.putValue("after", "1")])
    #expect(throws: StoreError.owned(path: folder.state, pid: getpid())) { try folder.open() }
    for file in try FileManager.default.contentsOfDirectory(atPath: folder.state) {
      #expect(try folder.mode("\(folder.state)/\(file)") == 0o600, "\(file)")
    }
    await store.close()
    let again = try folder.open()
    #expect(try await again.load().values["after"] == "1")
    #expect(try await again.load().grants == Sample.state.grants)
    await again.close()
  }

  @Test("keeps its owner over a restart where the log was removed: the next start finds all that was committed")
  func logIsNotNeeded() async throws {
    let store = try folder.open()
    try await store.commit(Sample.everything)
    try inflict(.logRemoved)
    try await store.rebuild(from: Sample.state)
    await store.close()
    let again = try folder.open()
    #expect(try await again.load() == Sample.state)
    await again.close()
  }

  @Test(
    "by damage differs from a disk that refuses writes, and the rest is kept", arguments: [true, false])
  func damaged(isSeen: Bool) async throws {
    try await folder.fill(Sample.everything)
    let store = try folder.open()
    var contents = try folder.contents(folder.database)
    contents.replaceSubrange(4096..., with: Data(repeating: 0xa5, count: contents.count - 4096))
    // In place: it stays the same file.
    let file = try #require(FileHandle(forWritingAtPath: folder.database))
    try file.write(contentsOf: contents)
    try file.close()
    let seen = isSeen ? await #expect(throws: StoreError.self) { try await store.examine() } : nil
    let error = await #expect(throws: StoreError.self) { try await store.commit(Sample.everything) }
    #expect(seen == nil || seen == error)
    guard case .corrupt(folder.database, _) = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    try await store.rebuild(from: Sample.state)
    try await store.commit([.putValue("after", "1")])
    let aside = try folder.aside().filter { !$0.hasSuffix("-wal") && !$0.hasSuffix("-shm") }
    #expect(aside.count == 1)
    #expect(try folder.contents(folder.state + "/" + #require(aside.first)).prefix(contents.count) == contents)
    await store.close()
    let again = try folder.open()
    #expect(try await again.load().values["after"] == "1")
    await again.close()
  }

  @Test("by another program's write during a commit is found by that commit")
  func damagedDuringCommit() async throws {
    try await folder.fill(Sample.everything)
    let damages = Mutex(false)
    let path = folder.database
    let store = try folder.open { point in
      guard point == .applied, damages.withLock({ $0 }), let file = FileHandle(forUpdatingAtPath: path) else { return }
      try? file.seek(toOffset: 8192)
      try? file.write(contentsOf: Data(repeating: 0xa5, count: 4096))
      try? file.close()
    }
    try await store.commit([.putValue("before", "1")])
    damages.withLock { $0 = true }
    let error = await #expect(throws: StoreError.self) { try await store.commit([.putValue("x", "1")]) }
    #expect(isLoss(error))
    damages.withLock { $0 = false }
    // The next look as well: it was not taken for this program's own writing.
    let seen = await #expect(throws: StoreError.self) { try await store.examine() }
    #expect(seen == error)
    try await store.rebuild(from: Sample.state)
    try await store.commit([.putValue("after", "1")])
    await store.close()
    let again = try folder.open()
    #expect(try await again.load().values["after"] == "1")
    await again.close()
  }

  @Test("is nothing that happens when the log is taken in, which does not grow for ever")
  func logTakenIn() async throws {
    let store = try folder.open()
    let size = try folder.contents(folder.database).count
    let text = String(repeating: "x", count: 100_000)
    for number in 0..<120 {
      try await store.commit([.putValue("large-\(number)", text)])
      try await store.examine()
    }
    // 12 MB were written.
    #expect(try folder.contents(folder.database + "-wal").count < 6 << 20)
    #expect(try folder.contents(folder.database).count > size + (6 << 20))
    await store.close()
  }

  @Test("with its folder gets its key back, where the key was in the folder", arguments: [true, false])
  func key(inside: Bool) async throws {
    // As a user may write it.
    let file = inside ? folder.state + "//grantd.key" : folder.key
    let store = try folder.open(keyFile: file)
    let contents = try folder.contents(file)
    unlink(file)
    // The key was moved elsewhere, and the database was lost later.
    try inflict(.databaseRemoved)
    try await store.rebuild(from: Sample.state)
    #expect(FileManager.default.fileExists(atPath: file) == inside)
    try inflict(.folderRemoved)
    try await store.rebuild(from: Sample.state)
    await store.close()
    #expect(FileManager.default.fileExists(atPath: file) == inside)
    guard inside else { return }
    #expect(try folder.contents(file) == contents)
    #expect(try folder.mode(file) == 0o600)
    #expect(try await folder.nextState(keyFile: file) == Sample.state)
  }

  @Test("needs its lock and its key: either is made again where it was removed")
  func lockAndKey() async throws {
    let file = folder.innerKey
    let store = try folder.open(keyFile: file)
    try await store.commit(Sample.everything)
    #expect(try await store.examine() == [])
    let contents = try folder.contents(file)
    unlink(file)
    unlink(folder.state + "/grantd.lock")
    let notices = try await store.examine()
    #expect(notices.count == 2 && notices[0].contains("grantd.lock was removed") && notices[1].contains(file))
    #expect(try folder.contents(file) == contents && folder.mode(file) == 0o600)
    #expect(throws: StoreError.owned(path: folder.state, pid: getpid())) { try folder.open() }
    #expect(try await store.examine() == [])
    await store.close()
  }

  @Test("keeps its owner while the lock's file is missing")
  func lockFileGone() async throws {
    let store = try folder.open()
    unlink(folder.state + "/grantd.lock")
    #expect(throws: StoreError.owned(path: folder.state, pid: nil)) { try folder.open() }
    await store.close()
    let again = try folder.open()
    await again.close()
  }

  @Test("has another owner where its lock was removed and taken: it is not touched again")
  func lockTaken() async throws {
    let store = try folder.open()
    try await store.commit(Sample.everything)
    unlink(folder.state + "/grantd.lock")
    let other = open(folder.state + "/grantd.lock", O_RDWR | O_CREAT, 0o600)
    #expect(flock(other, LOCK_EX | LOCK_NB) == 0)
    await #expect(throws: StoreError.owned(path: folder.state, pid: nil)) { try await store.examine() }
    close(other)
    #expect(try await store.examine().count == 1)
    await store.close()
  }

  @Test("may have any time of its last change")
  func farFuture() async throws {
    let store = try folder.open()
    try await store.commit(Sample.everything)
    let times = [timespec(tv_sec: 10_413_792_000, tv_nsec: 0), timespec(tv_sec: 10_413_792_000, tv_nsec: 0)]
    await store.close()
    #expect(utimensat(AT_FDCWD, folder.database, times, 0) == 0)
    let again = try folder.open()
    #expect(try await again.examine() == [])
    await again.close()
  }

  @Test(
    "is damaged where another program took its log in, or put an older copy in its place", arguments: [false, true])
  func replacedContents(byCopy: Bool) async throws {
    let store = try folder.open()
    try await store.commit(Sample.everything)
    let older = try folder.contents(folder.database)
    let other = try SQLiteConnection(path: folder.database)
    try other.use { try $0.execute("PRAGMA wal_checkpoint(FULL)") }
    try other.close()
    if byCopy {
      // Into the same file, of the same size or a smaller one that was made larger.
      let size = try folder.contents(folder.database).count
      let handle = try #require(FileHandle(forWritingAtPath: folder.database))
      try handle.write(contentsOf: older + Data(repeating: 0, count: max(0, size - older.count)))
      try handle.close()
    }
    await #expect {
      try await store.examine()
    } throws: { error in
      if case StoreError.corrupt(folder.database, _) = error { true } else { false }
    }
    await #expect(throws: StoreError.self) { try await store.commit([.putValue("after", "1")]) }
    try await store.rebuild(from: Sample.state)
    #expect(try await store.examine() == [])
    await store.close()
    let again = try folder.open()
    #expect(try await again.load() == Sample.state)
    await again.close()
  }

  @Test("goes with its key, and both are written again before anything ends")
  func withItsKey() async throws {
    let file = folder.innerKey
    let store = try folder.open(keyFile: file)
    try await store.commit(Sample.everything)
    for path in [folder.database, file] { try FileManager.default.removeItem(atPath: path) }
    await #expect(throws: StoreError.self) { try await store.examine() }
    try await store.rebuild(from: Sample.state)
    await store.close()
    #expect(try await folder.nextState(keyFile: file) == Sample.state)
  }

  @Test("saves its data other than accounts in the emergency copy, which the next run reads")
  func saveRest() async throws {
    let path = folder.path + "/grantd.unsaved.db"
    var rest = Sample.state
    (rest.grants, rest.tokens, rest.intents, rest.values) = ([], [], [], [:])
    try #require(!rest.registrations.isEmpty && !rest.revocations.isEmpty && !rest.logins.isEmpty)
    // More than there is room for.
    rest.registrations[0].clientSecret = Secret(String(repeating: "n", count: 20_000))
    let store = try folder.open()
    try await store.writeEmergencySave([], with: rest, to: path, id: "1")
    await store.close()
    let full = try SQLiteStore.open(folder: folder.state, key: Sample.key, pageLimit: 1, onWritePoint: nil)
    #expect(try await full.loadEmergencySave(from: path).failure != nil)
    #expect(try await full.loadRest().registrations == rest.registrations)
    await full.close()
    let next = try folder.open()
    #expect(try await next.loadEmergencySave(from: path).failure == nil)
    let found = try await next.loadRest()
    #expect((found.registrations, found.revocations) == (rest.registrations, rest.revocations))
    #expect(found.logins == rest.logins)
    await next.close()
    #expect(!FileManager.default.fileExists(atPath: path))
  }

  @Test("that an older copy replaced is not sealed under a new key")
  func rotatedOverOlder() async throws {
    let file = folder.innerKey
    let store = try folder.open(keyFile: file)
    try await store.commit(Sample.everything)
    let handle = try #require(FileHandle(forWritingAtPath: folder.database))
    try handle.write(contentsOf: try folder.contents(folder.database))
    try handle.close()
    await #expect(throws: KeyRotationError.self) { try await store.rotateKey() }
    await store.close()
  }

  enum Overwriting: CaseIterable { case page, log, rows }

  /// What stays the same file of the same size.
  @Test(
    "that another program has written to is damaged, even if a commit comes first",
    arguments: Overwriting.allCases, [true, false])
  func overwritten(_ what: Overwriting, commits: Bool) async throws {
    try await folder.fill(Sample.everything)
    let store = try folder.open()
    if what != .page { try await store.commit([.putValue("before", "1")]) }
    #expect(try await store.load().values["before"] == (what == .page ? nil : "1"))
    switch what {
    case .page, .log:
      let file = folder.database + (what == .log ? "-wal" : "")
      let size = try folder.contents(file).count
      let handle = try #require(FileHandle(forWritingAtPath: file))
      try handle.seek(toOffset: what == .log ? 0 : 4096)
      try handle.write(contentsOf: Data(repeating: 0xa5, count: size - (what == .log ? 0 : 4096)))
      try handle.close()
    case .rows:
      let other = try SQLiteConnection(path: folder.database)
      try other.write { try $0.execute("UPDATE grants SET created_at = created_at + 1") }
      try other.close()
    }
    if commits { try? await store.commit([.putValue("store.tried", "1")]) }
    var seen: StoreError?
    // The look is left out while a commit ends.
    for _ in 0..<100 where seen == nil {
      do throws(StoreError) { try await store.examine() } catch { seen = error }
      _ = try? await store.countAccounts()
    }
    guard case .corrupt = seen else {
      Issue.record("\(String(describing: seen))")
      return
    }
    try await store.rebuild(from: Sample.state)
    try await store.examine()
    await store.close()
    let again = try folder.open()
    #expect(try await again.load() == Sample.state)
    await again.close()
  }

  @Test("that is overwritten at the last moment is not taken into the database by the end")
  func logAtEnd() async throws {
    try await folder.fill(Sample.everything)
    let store = try folder.open()
    try await store.commit([.putValue("after", "1")])
    let log = folder.database + "-wal"
    let handle = try #require(FileHandle(forWritingAtPath: log))
    try handle.write(contentsOf: Data(repeating: 0xa5, count: folder.contents(log).count))
    try handle.close()
    await store.close()
    let again = try folder.open()
    #expect(try await again.load() == Sample.state)
    await again.close()
  }

  @Test(
    "and what it does not take at the end is kept in memory and in the file while the next run's disk is full as well",
    arguments: [true, false])
  func saveOnFullDisk(endsFull: Bool) async throws {
    let path = folder.path + "/grantd.unsaved.db"
    let old = Sample.grant("b", refresh: "the older")
    var new = old
    new.generation += 1
    // More than there is room for.
    new.refreshToken = Secret(String(repeating: "n", count: 20_000))
    let store = try folder.open()
    try await store.commit(["a", "c"].map { .putGrant(Sample.grant($0, refresh: $0)) } + [.putGrant(old)])
    try await store.writeEmergencySave(
      [store.pack(StoredAccount(grant: new, tokens: [], intent: nil))], to: path, id: "1")
    await store.close()
    let full = try SQLiteStore.open(folder: folder.state, key: Sample.key, pageLimit: 1, onWritePoint: nil)
    let taken = try await full.loadEmergencySave(from: path)
    #expect(taken.accounts == [new.account])
    guard case .unwritable = taken.failure else {
      Issue.record("\(String(describing: taken.failure))")
      return
    }
    for most in [1, 2, 3, 10] {
      var names: [String] = []
      var tokens: [Secret?] = []
      var last: AccountName?
      while case let page = try await full.accounts(after: last, most: most), let end = page.last {
        names += page.map(\.account.rawValue)
        tokens += try page.map { try $0.read(.whole).grant.refreshToken }
        last = end.account
      }
      #expect(names == ["a", "b", "c"] && tokens == [Secret("a"), new.refreshToken, Secret("c")])
    }
    await #expect(throws: StoreError.self) { try await full.load() }
    // It has nothing to save of its own, and leaves what is not saved yet.
    if endsFull {
      try await full.writeEmergencySave(
        [full.pack(StoredAccount(grant: Sample.grant("c", refresh: "c"), tokens: [], intent: nil))], to: path, id: "2")
    }
    await full.close()
    #expect(FileManager.default.fileExists(atPath: path))
    let again = try folder.open()
    #expect(try await again.loadEmergencySave(from: path).failure == nil)
    #expect(!FileManager.default.fileExists(atPath: path))
    #expect(try await again.load().grants.first { $0.account == new.account } == new)
    await again.close()
  }

  @Test("and a copy that was merged once is not merged again, even if its file could not be removed")
  func saveOnce() async throws {
    let path = folder.path + "/grantd.unsaved.db"
    let store = try folder.open()
    let grant = Sample.grant("a", refresh: "the newest")
    try await store.writeEmergencySave(
      [store.pack(StoredAccount(grant: grant, tokens: [], intent: nil))], to: path, id: "3")
    let copy = try folder.contents(path)
    #expect(try await store.loadEmergencySave(from: path).accounts == [grant.account])
    try await store.commit([.removeGrant(grant.account)])
    #expect(FileManager.default.createFile(atPath: path, contents: copy, attributes: [.posixPermissions: 0o600]))
    #expect(try await store.loadEmergencySave(from: path).accounts.isEmpty)
    #expect(try await store.load().grants.isEmpty)
    await store.close()
  }

  @Test("and of several files the newest form of each account counts, in memory and on disk", arguments: [false, true])
  func saveTwice(isOtherSignIn: Bool) async throws {
    let paths = [folder.path + "/one.unsaved.db", folder.path + "/other.unsaved.db"]
    let old = Sample.grant("a", refresh: "0")
    var forms = [old, old]
    for number in forms.indices {
      forms[number].generation += Int64(isOtherSignIn ? number + 1 : 2 - number)
      if isOtherSignIn { forms[number].loggedInAt = old.loggedInAt + .seconds(2 - number) }
      forms[number].refreshToken = Secret(String(repeating: "\(2 - number)", count: 20_000))
    }
    let store = try folder.open()
    try await store.commit([.putGrant(old)])
    for (number, path) in paths.enumerated() {
      let packed = store.pack(StoredAccount(grant: forms[number], tokens: [], intent: nil))
      try await store.writeEmergencySave([packed], to: path, id: "\(number)")
    }
    await store.close()
    let full = try SQLiteStore.open(folder: folder.state, key: Sample.key, pageLimit: 1, onWritePoint: nil)
    for path in paths { #expect(try await full.loadEmergencySave(from: path).accounts == [old.account]) }
    let page = try await full.accounts(after: nil, most: 10)
    #expect(try page.map { try $0.read(.whole).grant } == [forms[0]])
    // All of it is in the one file then.
    try await full.writeEmergencySave([], to: paths[1], id: "2")
    #expect(!FileManager.default.fileExists(atPath: paths[0]))
    await full.close()
    let again = try folder.open()
    #expect(try await again.loadEmergencySave(from: paths[1]).failure == nil)
    #expect(try await again.load().grants == [forms[0]])
    await again.close()
  }

  @Test("and a later sign-in than that of a database that an older copy replaced is taken over")
  func saveAfterCopy() async throws {
    let path = folder.path + "/grantd.unsaved.db"
    let old = Sample.grant("a", refresh: "the older sign-in")
    var new = Sample.grant("a", refresh: "the newer sign-in")
    let store = try folder.open()
    try await store.commit([.putGrant(old)])
    for (later, id) in [(Duration.seconds(-60), "1"), (.seconds(60), "2")] {
      new.loggedInAt = old.loggedInAt + later
      new.generation = old.generation - 1
      try await store.writeEmergencySave(
        [store.pack(StoredAccount(grant: new, tokens: [], intent: nil))], to: path, id: id)
      #expect(try await store.loadEmergencySave(from: path).accounts == (later > .zero ? [new.account] : []))
    }
    #expect(try await store.load().grants == [new])
    await store.close()
  }

  @Test("and an account whose secrets cannot be opened does not keep the others, and is kept itself, stop by stop")
  func saveDamage() async throws {
    let path = folder.path + "/grantd.unsaved.db"
    let store = try folder.open()
    for stop in 1...12 {
      let accounts = ["a\(stop)", "b"].map { name in
        var grant = Sample.grant(name, refresh: "\(name)-\(stop)")
        grant.generation = Int64(stop)
        grant.loggedInAt = grant.loggedInAt + .seconds(stop)
        return store.pack(StoredAccount(grant: grant, tokens: [], intent: nil))
      }
      try await store.writeEmergencySave(accounts, to: path, id: "\(stop)")
      try SQLiteConnection(path: path).write {
        try $0.execute("UPDATE grants SET refresh_token = x'00112233' WHERE account <> 'b'")
      }
      let taken = try await store.loadEmergencySave(from: path)
      #expect(taken.accounts == [accounts[1].account] && taken.unreadable == [accounts[0].account])
      #expect(try await store.load().grants.map(\.account) == [accounts[1].account])
    }
    let kept = [""] + (2...9).map { ".\($0)" }
    for (age, suffix) in kept.enumerated() {
      let stop = try SQLiteConnection(path: path + ".unreadable" + suffix).read {
        try $0.value("SELECT account FROM grants WHERE account <> 'b'")?.text
      }
      #expect(stop == "a\(12 - age)")
    }
    await store.close()
  }

  @Test("and such an account stays in a file while the disk refuses writes, even if another replaces it")
  func saveDamageOnFullDisk() async throws {
    let path = folder.path + "/grantd.unsaved.db"
    let store = try folder.open()
    let accounts = ["a", "b"].map { name in
      let token = String(repeating: name, count: 20_000)
      return store.pack(StoredAccount(grant: Sample.grant(name, refresh: token), tokens: [], intent: nil))
    }
    try await store.writeEmergencySave(accounts, to: path, id: "1")
    await store.close()
    try SQLiteConnection(path: path).write {
      try $0.execute("UPDATE grants SET refresh_token = x'00112233' WHERE account = 'a'")
    }
    let full = try SQLiteStore.open(folder: folder.state, key: Sample.key, pageLimit: 1, onWritePoint: nil)
    let taken = try await full.loadEmergencySave(from: path)
    #expect(taken.unreadable == [accounts[0].account] && taken.failure != nil)
    #expect(!FileManager.default.fileExists(atPath: path + ".unreadable"))
    try await full.writeEmergencySave([], to: path, id: "2")
    await full.close()
    let kept = try SQLiteConnection(path: path + ".unreadable").read {
      try $0.rows("SELECT account FROM grants").compactMap { $0[0].text }
    }
    #expect(kept.contains("a"))
    let again = try folder.open()
    #expect(try await again.loadEmergencySave(from: path).accounts == [accounts[1].account])
    #expect(try await again.load().grants.map(\.account) == [accounts[1].account])
    await again.close()
  }

  @Test("and a commit that ends after the file was rewritten leaves it there")
  func saveBeforeLateCommit() async throws {
    let path = folder.path + "/grantd.unsaved.db"
    let first = try folder.open()
    let b = first.pack(StoredAccount(grant: Sample.grant("b", refresh: "b"), tokens: [], intent: nil))
    try await first.writeEmergencySave([b], to: path, id: "1")
    await first.close()
    let isLate = Mutex(false)
    let hangs = Mutex(false)
    let release = DispatchSemaphore(value: 0)
    let store = try SQLiteStore.open(
      folder: folder.state, key: Sample.key, pageLimit: nil,
      onWritePoint: { _ in
        guard hangs.withLock({ $0 }) else { return }
        hangs.withLock { $0 = false }
        isLate.withLock { $0 = true }
        release.wait()
      })
    hangs.withLock { $0 = true }
    async let taken = store.loadEmergencySave(from: path)
    #expect(await eventually { isLate.withLock { $0 } })
    let c = store.pack(StoredAccount(grant: Sample.grant("c", refresh: "c"), tokens: [], intent: nil))
    try await store.writeEmergencySave([c], to: path, id: "2")
    release.signal()
    #expect(try await taken.failure == nil)
    #expect(FileManager.default.fileExists(atPath: path))
    await store.close()
    let again = try folder.open()
    #expect(try await again.loadEmergencySave(from: path).accounts.contains(c.account))
    await again.close()
  }

  @Test("and another user's file is left alone")
  func saveForeign() async throws {
    let path = folder.path + "/grantd.unsaved.db"
    let store = try folder.open()
    #expect(
      FileManager.default.createFile(atPath: path, contents: Data("x".utf8), attributes: [.posixPermissions: 0o644]))
    let taken = try await store.loadEmergencySave(from: path)
    #expect(taken.isForeign && taken.accounts.isEmpty && FileManager.default.fileExists(atPath: path))
    await store.close()
  }

  @Test("and an unreadable copy is moved aside, and none is read from a folder that others may write")
  func saveElsewhere() async throws {
    let path = folder.path + "/grantd.unsaved.db"
    let store = try folder.open()
    #expect(
      FileManager.default.createFile(
        atPath: path, contents: Data("no database".utf8), attributes: [.posixPermissions: 0o600]))
    await #expect(throws: StoreError.self) { try await store.loadEmergencySave(from: path) }
    #expect(FileManager.default.fileExists(atPath: path + ".unreadable"))
    #expect(try await store.loadEmergencySave(from: path).accounts.isEmpty)
    let shared = folder.path + "/shared"
    mkdir(shared, 0o777)
    chmod(shared, 0o777)
    await #expect(throws: StoreError.self) {
      try await store.writeEmergencySave([], to: shared + "/grantd.unsaved.db", id: "4")
    }
    #expect(try FileManager.default.contentsOfDirectory(atPath: shared).isEmpty)
    await store.close()
  }

  @Test("and what it does not take at the end of a run is taken from elsewhere by the next", arguments: [true, false])
  func mergedSave(isNewer: Bool) async throws {
    let path = folder.path + "/grantd.unsaved.db"
    let store = try folder.open()
    let old = Sample.grant("a", refresh: "the older")
    var new = old
    new.generation += isNewer ? 1 : -1
    new.refreshToken = Secret("the newest")
    try await store.commit([.putGrant(old)])
    let packed = store.pack(StoredAccount(grant: new, tokens: [Sample.token("a", access: "late")], intent: nil))
    try await store.writeEmergencySave([packed], to: path, id: "5")
    try await store.writeEmergencySave([packed], to: path, id: "6")
    await store.close()
    #expect(try folder.mode(path) == 0o600)
    #expect(try folder.contents(path).range(of: Data("the newest".utf8)) == nil)
    let again = try folder.open()
    #expect(try await again.loadEmergencySave(from: path).accounts == (isNewer ? [new.account] : []))
    #expect(try await again.loadEmergencySave(from: path).accounts.isEmpty)
    let found = try #require(try await again.load().accounts.first)
    #expect(found.grant == (isNewer ? new : old) && found.tokens.count == (isNewer ? 1 : 0))
    #expect(try await again.examine() == [])
    await again.close()
    #expect(!FileManager.default.fileExists(atPath: path))
  }

  @Test("is not rebuilt if another process has taken the store in the interim")
  func ownedByAnother() async throws {
    let store = try folder.open()
    try await store.commit([.putValue("mine", "1")])
    try inflict(.folderRemoved)
    let other = try folder.open()
    try await other.commit([.putValue("other", "1")])
    await #expect(throws: StoreError.owned(path: folder.state, pid: getpid())) {
      try await store.rebuild(from: StoredState())
    }
    await store.close()
    #expect(try await other.load().values == ["other": "1"])
    try await other.examine()
    await other.close()
  }
}
