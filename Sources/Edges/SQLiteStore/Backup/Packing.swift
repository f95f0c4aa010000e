public import Broker
import FoundationEssentials
import Glibc
import OAuth
import SQLite
public import Sealing

// A backup's body is a separate database, so that an older one is migrated like any other, and a newer one refused. It
// is sealed under a key that is only in the same body: on disk it is protected like the store.
extension SQLiteStore: StoreAdministration {
  public func checkSize() async throws(BackupError) {
    // A backup's database has the same rows, without this one's free pages.
    let bytes: Int
    do throws(StoreError) {
      bytes = try await databaseBytes()
    } catch {
      throw .store(error)
    }
    guard bytes <= BackupFile.limit else { throw .file(.tooLarge(limit: BackupFile.limit)) }
  }

  public func pack(_ backup: Backup, with secret: BackupFile.Secret) async throws(BackupError) -> [UInt8] {
    try await queues.packing.run { () throws(BackupError) in
      let body = try BackupBody(backup, in: self.opening.folder).encoded()
      do throws(BackupFile.Failure) {
        return try BackupFile.seal(body, with: secret)
      } catch {
        throw .file(error)
      }
    }
  }

  public func unpack(_ file: [UInt8], with secret: BackupFile.Secret) async throws(BackupError) -> Backup {
    try await queues.packing.run { () throws(BackupError) in
      let body: Data
      do throws(BackupFile.Failure) {
        body = try BackupFile.open(file, with: secret)
      } catch {
        throw .file(error)
      }
      return try BackupBody(decoding: body).backup(in: self.opening.folder)
    }
  }
}

/// The sealed content of a backup: its origin, and a database with its key.
struct BackupBody {
  private struct Head: Codable {
    var host: String
    var madeAt: Int64
    var version: String
    /// In base64.
    var key: String

    enum CodingKeys: String, CodingKey {
      case host, version, key
      case madeAt = "made_at"
    }
  }

  private static let source = "the backup"

  private let head: Head
  private let database: Data

  init(_ backup: Backup, in folder: StateFolder) throws(BackupError) {
    let key = SealingKey.random(source: Self.source)
    head = Head(
      host: backup.host, madeAt: backup.madeAt.milliseconds, version: backup.version,
      // Exposed to be sealed.
      key: key.exposedText)
    database = try folder.inWorkplace { place throws(BackupError) in
      do throws(StoreError) {
        try Self.opening(place, key).draft(backup.state, under: key)
      } catch {
        throw .store(error)
      }
      guard let bytes = FileManager.default.contents(atPath: place.draft) else {
        throw .store(.unreadable(path: place.draft, detail: systemError(errno)))
      }
      return bytes
    }
  }

  func encoded() -> Data {
    let head = JSON(encoding: head).serialized(sorted: true)
    return withUnsafeBytes(of: UInt32(head.count).bigEndian) { Data($0) } + head + database
  }

  init(decoding body: Data) throws(BackupError) {
    let length = body.prefix(4).reduce(0) { $0 << 8 | Int($1) }
    guard body.count > 4 + length,
      let head = try? JSON.parse(body.dropFirst(4).prefix(length)).decode(Head.self)
    else { throw .file(.damaged("what is in it has no head")) }
    self.head = head
    database = body.dropFirst(4 + length)
  }

  func backup(in folder: StateFolder) throws(BackupError) -> Backup {
    let state = try folder.inWorkplace { place throws(BackupError) in
      do throws(StoreError) {
        return try read(in: place)
      } catch .newer(_, let found, let known) {
        throw .file(.newer("schema \(found); this one knows up to \(known)"))
      } catch .corrupt(_, let detail) {
        throw .file(.damaged(detail))
      } catch {
        throw .store(error)
      }
    }
    return Backup(
      host: head.host, madeAt: Timestamp(milliseconds: head.madeAt), version: head.version, state: state)
  }

  private func read(in place: StateFolder) throws(StoreError) -> StoredState {
    guard let bytes = Data(base64Encoded: head.key) else {
      throw .corrupt(path: Self.source, detail: "it has no key")
    }
    let key: SealingKey
    do throws(SealingError) {
      key = try SealingKey(bytes, source: Self.source)
    } catch {
      throw .corrupt(path: Self.source, detail: "it has no key")
    }
    guard PrivateFiles.create(place.database, contents: database) else {
      throw .unwritable(path: place.path, detail: systemError(errno))
    }
    let opened = try Self.opening(place, key).database()
    defer { try? opened.database.close() }
    let state: StoredState
    do {
      state = try opened.database.read { try StoredState.read($0, sealer: key.sealer) }
    } catch {
      throw .reading(error, at: Self.source)
    }
    // A backup is sealed as a whole: damage to a part of it was made before.
    if let row = state.setAside.first { throw .corrupt(path: Self.source, detail: row.detail) }
    return state
  }

  private static func opening(_ place: StateFolder, _ key: SealingKey) -> Opening {
    Opening(folder: place, keyring: Keyring(key), pageLimit: nil, onWritePoint: nil)
  }
}

extension StateFolder {
  private static let workplacePrefix = "grantd.workplace-"

  /// A folder within this one for the time of `work`.
  func inWorkplace<Value>(
    _ work: (StateFolder) throws(BackupError) -> Value
  ) throws(BackupError) -> Value {
    let place: StateFolder
    do throws(StoreError) {
      place = try StateFolder.prepare("\(path)/\(Self.workplacePrefix)\(UUID().uuidString)")
    } catch .unreadable(let path, let detail) {
      throw .store(.unwritable(path: path, detail: detail))
    } catch {
      throw .store(error)
    }
    defer { try? FileManager.default.removeItem(atPath: place.path) }
    return try work(place)
  }

  /// The rest of a process that ended in the middle.
  func removeWorkplaces() {
    for name in (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []
    where name.hasPrefix(Self.workplacePrefix) {
      try? FileManager.default.removeItem(atPath: "\(path)/\(name)")
    }
  }
}
