public import Broker
import FoundationEssentials
import Glibc
public import Grants
import OAuth
import SQLite
import Sealing
import StoreRows
import Synchronization

/// Accounts that the state folder did not take at the end of a run, and that this run has in memory until it does.
struct EmergencySave: Sendable {
  /// The file that they are in.
  let path: String
  /// For the file: merged data are not merged again.
  let id: String
  let accounts: [AccountName: StoredAccount]
  /// Accounts in the file whose secrets cannot be opened.
  let unreadable: [AccountName]
  /// The rest of a lost state: registrations, revocations and logins.
  var rest = StoredState()

  /// The value of the file that has its ``id``, and of the state that has the latest ones.
  static let value = "rescue"
  private static let remembered = 8

  static func ids(_ values: [String: String]) -> [Substring] { values[value, default: ""].split(separator: " ") }

  /// The state's record after these are in it.
  static func ids(_ values: [String: String], with saves: [EmergencySave]) -> String {
    (ids(values) + saves.map { $0.id[...] }).suffix(remembered).joined(separator: " ")
  }
}

extension [EmergencySave] {
  /// Each account in its newest form.
  var newest: [AccountName: StoredAccount] {
    reduce(into: [:]) { all, one in
      all.merge(one.accounts) { $1.isNewer(than: $0.grant.loggedInAt, $0.grant.generation) ? $1 : $0 }
    }
  }
}

/// The data that a start merged.
public struct RecoveredState: Sendable, Equatable {
  public let accounts: [AccountName]
  /// Accounts whose secrets cannot be opened: the state keeps its own.
  public var unreadable: [AccountName] = []
  /// There is a file, and another user wrote it.
  public var isForeign = false
  /// Why they are not in the state yet; nil: they are. Until then they are in memory and in the file.
  public var failure: StoreError?

  static let nothing = RecoveredState(accounts: [])
}

// Accounts that the state folder refuses at the end of a run are written into a database next to the socket, sealed
// under the same key. The next start merges them. If the state folder still refuses writes, they are used as if they
// were in the state, and saved with the first commit.
extension SQLiteStore {
  /// Writes the accounts into a file, with those of an earlier one, and replaces that one.
  ///
  /// - Parameters:
  ///   - rest: further data to keep, if the whole state was lost.
  ///   - path: in a folder of this user, on another file system than the state.
  ///   - id: unique: merged data are not merged again.
  public func writeEmergencySave(
    _ accounts: [any PackedAccount], with rest: StoredState = StoredState(), to path: String, id: String
  ) async throws(StoreError) {
    let (key, saves) = home.withLock { ($0.key, $0.emergencySaves) }
    let names = Set(accounts.map(\.account))
    let all = accounts + saves.newest.values.filter { !names.contains($0.grant.account) }.map { pack($0) }
    try await queues.emergency.run { () throws(StoreError) in
      try Self.prepareFolder(of: path)
      let draft = path + ".new"
      Self.remove(draft)
      let descriptor = Glibc.open(draft, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
      guard descriptor >= 0 else { throw .unwritable(path: draft, detail: systemError(errno)) }
      Glibc.close(descriptor)
      var state = StoredState()
      for one in saves { state.merge(one.rest) }
      state.merge(rest)
      state.values[EmergencySave.value] = id
      do {
        try Opening.write(state, all, under: key, to: draft, Opening.writing)
      } catch {
        Self.remove(draft)
        throw .writing(error, at: path)
      }
      try self.emergencyFiles.withLock { _ throws(StoreError) in
        // The new one lacks a part of the existing one.
        if saves.contains(where: { $0.path == path && !$0.unreadable.isEmpty }) { Self.putAside(path, keeping: true) }
        guard rename(draft, path) == 0 else { throw .unwritable(path: path, detail: systemError(errno)) }
        // A commit that ends only now finds nothing to dispose of.
        self.home.withLock { $0.emergencySaves = [] }
        for one in saves where one.path != path { Self.dispose(of: one) }
      }
    }
  }

  /// Merges the file of ``writeEmergencySave(_:with:to:id:)``, if the state has an older form of the same sign-in, or none. The
  /// file is removed once its data are in the state.
  ///
  /// - Throws: if the file cannot be read. One that is permanently unreadable is moved aside first.
  public func loadEmergencySave(from path: String) async throws(StoreError) -> RecoveredState {
    var status = stat()
    guard lstat(path, &status) == 0 else { return .nothing }
    guard status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid(), status.st_mode & 0o077 == 0 else {
      return RecoveredState(accounts: [], isForeign: true)
    }
    try Self.prepareFolder(of: path)
    return try await queues.commits.run { () throws(StoreError) in
      let save: EmergencySave
      do throws(StoreError) {
        save = try self.emergencySave(at: path)
      } catch {
        if error.isForGood { Self.putAside(path) }
        throw error
      }
      guard !save.accounts.isEmpty || !save.rest.changes.isEmpty else {
        Self.dispose(of: save)
        return RecoveredState(accounts: [], unreadable: save.unreadable)
      }
      self.home.withLock { $0.emergencySaves.append(save) }
      var taken = RecoveredState(accounts: save.accounts.keys.sorted(), unreadable: save.unreadable)
      do { try self.transaction([]) } catch { taken.failure = .writing(error, at: self.location) }
      return taken
    }
  }

  // MARK: On the queue

  /// More could not have been unsaved, unless the whole state was lost.
  private static let accountsAtMost = 10_000_000

  /// The part of the file that is newer than the state.
  private func emergencySave(at path: String) throws(StoreError) -> EmergencySave {
    let database = try database()
    do {
      let file = try SQLiteConnection(path: path, Opening.writing)
      defer { try? file.close() }
      try file.read { try SchemaHeader(of: $0, at: path) }.correct(file)
      try SQLiteSchema.migrate(file)
      var unreadable: [AccountName] = []
      let (id, accounts, rest): (String, [StoredAccount], StoredState) = try file.read { db in
        let note = try db.value("SELECT value FROM meta WHERE name = ?", [.text(Keyring.noteName)])?.blob
        let sealer = try self.sealer(of: note, at: path)
        var rest = try StoredState.readRest(db, sealer: sealer)
        let id = rest.values.removeValue(forKey: EmergencySave.value)
        let accounts = try PackedRows.page(
          of: db, after: nil, most: Self.accountsAtMost, sealer: sealer, in: PackedMemory()
        ).compactMap {
          packed throws(StoreError) -> StoredAccount? in
          do throws(StoreError) {
            return try packed.read(.whole)
          } catch .unreadableAccount {
            unreadable.append(packed.account)
            return nil
          }
        }
        if accounts.isEmpty, let one = unreadable.first {
          throw StoreError.unreadableAccount(one, detail: "as is every other account in \(path)")
        }
        return (id ?? "", accounts, rest)
      }
      let sealer = sealer
      let newer: [StoredAccount]? = try database.read { db in
        let taken = try EmergencySave.ids(StoredState.readRest(db, sealer: sealer).values)
        guard !taken.contains(id[...]) else { return nil }
        return try accounts.filter { try $0.isNewer(than: db) }
      }
      return EmergencySave(
        path: path, id: id, accounts: Dictionary((newer ?? []).map { ($0.grant.account, $0) }) { $1 },
        unreadable: unreadable,
        rest: newer == nil ? StoredState() : rest)
    } catch {
      throw .reading(error, at: path)
    }
  }

  private func sealer(of note: Data?, at path: String) throws(StoreError) -> Sealer {
    guard let note else { throw .corrupt(path: path, detail: "it does not say what key it is sealed under") }
    let key = home.withLock { $0.key }
    do throws(Sealer.Failure) {
      switch try Keyring(key, previous: [opening.keyring.key] + opening.keyring.previous).find(note) {
      case .key: return key.sealer
      case .next(let other), .previous(let other): return other.sealer
      }
    } catch {
      throw error == .otherKey
        ? .wrongKey(path: path, keySource: key.source)
        : .corrupt(path: path, detail: "the note of its key is damaged")
    }
  }

  /// Within the transaction of a commit, before its changes.
  func put(_ saves: [EmergencySave], in db: Database, _ sealer: Sealer) throws {
    guard !saves.isEmpty else { return }
    for account in saves.newest.values where try account.isNewer(than: db) {
      try Change.removeTokens(account.grant.account).apply(to: db, sealer: sealer)
      try account.put(in: db, sealer: sealer)
    }
    for one in saves { for change in one.rest.changes { try change.apply(to: db, sealer: sealer) } }
    let ids = try EmergencySave.ids(StoredState.readRest(db, sealer: sealer).values, with: saves)
    try Change.putValue(EmergencySave.value, ids).apply(to: db, sealer: sealer)
  }

  /// They are on disk.
  func removeEmergencySaves(_ saves: [EmergencySave]) {
    guard !saves.isEmpty else { return }
    emergencyFiles.withLock { _ in
      let current = home.withLock { home in
        defer { home.emergencySaves = [] }
        return home.emergencySaves
      }
      for one in current { Self.dispose(of: one) }
    }
  }

  private static func dispose(of one: EmergencySave) {
    if one.unreadable.isEmpty { remove(one.path) } else { putAside(one.path) }
  }

  /// Those that were put aside before are kept as well, under a number: the newest has none.
  /// - Parameter keeping: `path` stays as well, until something is renamed to it.
  private static func putAside(_ path: String, keeping: Bool = false) {
    guard access(path, F_OK) == 0 else { return }
    let names = [path + ".unreadable"] + (2...mostPutAside).map { "\(path).unreadable.\($0)" }
    let free = names.firstIndex { access($0, F_OK) != 0 } ?? names.count - 1
    for index in (0..<free).reversed() { rename(names[index], names[index + 1]) }
    if keeping, link(path, names[0]) == 0 { return }
    rename(path, names[0])
  }

  private static let mostPutAside = 9

  /// The accounts as they will be once the state takes a commit: a page, where `most` are wanted after a name.
  func withEmergencySaves(
    _ page: [any PackedAccount], after account: AccountName?, most: Int
  ) -> [any PackedAccount] {
    let saves = home.withLock { $0.emergencySaves }
    guard !saves.isEmpty else { return page }
    var all = Dictionary(page.map { ($0.account, $0) }) { $1 }
    for (name, stored) in saves.newest where account.map({ name > $0 }) ?? true {
      if page.count == most, let last = page.last?.account, name > last { continue }
      all[name] = pack(stored)
    }
    return Array(all.values.sorted { $0.account < $1.account }.prefix(most))
  }

  private static func prepareFolder(of path: String) throws(StoreError) {
    do throws(SealingError) {
      try PrivateFiles.prepareFolder(PrivateFiles.folder(of: path))
    } catch {
      throw StoreError(error)
    }
  }

  private static func remove(_ path: String) {
    for suffix in [""] + StateFolder.companions { unlink(path + suffix) }
  }
}

extension StoredState {
  /// The other data of a newer file.
  mutating func merge(_ newer: StoredState) {
    let providers = Set(newer.registrations.map(\.provider))
    registrations = registrations.filter { !providers.contains($0.provider) } + newer.registrations
    let tokens = Set(newer.revocations.map(\.id))
    revocations = revocations.filter { !tokens.contains($0.id) } + newer.revocations
    let ids = Set(newer.logins.map(\.id))
    logins = logins.filter { !ids.contains($0.id) } + newer.logins
  }
}

extension StoredAccount {
  /// An account with unreadable secrets does not replace a sealed one.
  fileprivate func isNewer(than db: Database) throws -> Bool {
    let sql = "SELECT generation, logged_in_at FROM grants WHERE account = ?"
    guard let row = try db.rows(sql, [.text(grant.account.rawValue)]).first else { return true }
    guard let generation = row[0].integer, let loggedInAt = row[1].integer else {
      throw DamagedRow(table: "grants", column: "generation")
    }
    return isNewer(than: Timestamp(milliseconds: loggedInAt), generation)
  }

  /// The later sign-in is used, regardless of its generation: an older copy of a database has an earlier one.
  fileprivate func isNewer(than loggedInAt: Timestamp, _ generation: Int64) -> Bool {
    guard loggedInAt == grant.loggedInAt else { return loggedInAt < grant.loggedInAt }
    return generation < grant.generation || generation == grant.generation && !grant.isUnreadable
  }
}

extension StoreError {
  /// Another attempt finds the same.
  fileprivate var isForGood: Bool {
    switch self {
    case .newer, .corrupt, .wrongKey, .unreadableAccount: true
    case .owned, .missing, .unusableKey, .unreadable, .unwritable, .conflict, .shared, .unknown, .closed: false
    }
  }
}
