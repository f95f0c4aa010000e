import Broker
import FoundationEssentials
import Glibc
import Sealing

/// How a new database replaces the existing one, so that an end of the process at any instant leaves the old or the new
/// one: the new one is complete and on disk under its own name; from then on it is the store, and the next start
/// finishes the rest. The old one is moved aside, never removed.
extension StateFolder {
  /// Sets of files that were put aside; the oldest are removed when there are more.
  static let keptSets = 3

  private static let asidePrefix = "grantd.db.damaged-"

  /// The rest of a process that ended in the middle, for a database that was not requested since.
  func removeDraft() {
    for suffix in [""] + Self.companions { unlink(draft + suffix) }
  }

  /// Makes the closed draft the successor. From here on it is the store.
  func announceDraft() throws(StoreError) {
    for suffix in Self.companions where size(of: draft + suffix) > 0 {
      throw .unwritable(path: draft, detail: "its log was not taken in")
    }
    guard syncFile(draft) else { throw .unwritable(path: draft, detail: systemError(errno)) }
    guard rename(draft, successor) == 0 else { throw .unwritable(path: draft, detail: systemError(errno)) }
    guard PrivateFiles.syncFolder(path) else { throw withdrawn(systemError(errno)) }
  }

  /// Moves the old database aside, and the successor to its place. After a failure all is as it was before the
  /// successor was announced.
  func installSuccessor(onStep: (RebuildStep) -> Void = { _ in }) throws(StoreError) {
    // The old database's files are moved first: SQLite would use its log for the new one.
    let names = (Self.companions.map { database + $0 } + [database]).filter(exists)
    let aside = freeSetName(for: names)
    var moved: [(from: String, to: String)] = []
    for name in names {
      let target = aside + name.dropFirst(database.count)
      guard rename(name, target) == 0 else { throw undone(moved, systemError(errno)) }
      moved.append((name, target))
    }
    guard PrivateFiles.syncFolder(path) else { throw undone(moved, systemError(errno)) }
    onStep(.putAside)
    guard rename(successor, database) == 0 else { throw undone(moved, systemError(errno)) }
    // The name is final; if this fails, the next start finds the successor or the database, which are equal.
    _ = PrivateFiles.syncFolder(path)
    onStep(.installed)
    prune()
  }

  /// A successor that could not be installed must not come back later, over commits that were made since.
  func withdrawSuccessor() throws(StoreError) {
    guard exists(successor) else { return }
    guard unlink(successor) == 0, PrivateFiles.syncFolder(path) else {
      throw .unwritable(path: successor, detail: "it is in the way and cannot be removed: \(systemError(errno))")
    }
  }

  private func undone(_ moved: [(from: String, to: String)], _ detail: String) -> StoreError {
    for move in moved.reversed() { rename(move.to, move.from) }
    return withdrawn(detail)
  }

  private func withdrawn(_ detail: String) -> StoreError {
    unlink(successor)
    _ = PrivateFiles.syncFolder(path)
    return .unwritable(path: database, detail: "a new one cannot take its place: \(detail)")
  }

  // MARK: Sets that were put aside

  /// By the time of the successor, which a start that continues with it finds again.
  private func freeSetName(for names: [String]) -> String {
    var status = stat()
    var second = stat(successor, &status) == 0 ? Int(status.st_mtim.tv_sec) : 0
    func set() -> String { "\(path)/\(Self.asidePrefix)\(second)" }
    while names.contains(where: { exists(set() + $0.dropFirst(database.count)) }) { second += 1 }
    return set()
  }

  /// Databases that were put aside: under the keys that they had.
  var putAside: [String] {
    sets().map(\.name).filter { name in !Self.companions.contains { name.hasSuffix($0) } }.sorted().map {
      "\(path)/\($0)"
    }
  }

  private func prune() {
    let old = Set(sets().map(\.second)).sorted().dropLast(Self.keptSets)
    for set in sets() where old.contains(set.second) { unlink("\(path)/\(set.name)") }
  }

  /// Only names of this program: a user's files stay.
  private func sets() -> [(name: String, second: Int)] {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []
    return names.compactMap { name in
      guard name.hasPrefix(Self.asidePrefix) else { return nil }
      var number = name.dropFirst(Self.asidePrefix.count)
      for suffix in Self.companions where number.hasSuffix(suffix) { number = number.dropLast(suffix.count) }
      return Int(number).map { (name, $0) }
    }
  }

  /// Also a link that leads nowhere.
  private func exists(_ file: String) -> Bool {
    var status = stat()
    return lstat(file, &status) == 0
  }
}

/// Makes a file's contents durable. Never of a database that SQLite has open: closing it would take its locks away.
private func syncFile(_ path: String) -> Bool {
  let descriptor = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW)
  guard descriptor >= 0 else { return false }
  defer { close(descriptor) }
  return fsync(descriptor) == 0
}
