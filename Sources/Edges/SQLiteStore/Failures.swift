public import Broker
import Glibc
import SQLite
public import Sealing
import StoreRows

extension StoreError {
  static func opening(_ error: any Error, at path: String) -> StoreError { reading(error, at: path) }

  static func reading(_ error: any Error, at path: String) -> StoreError {
    // The statements are right: the database has other tables or columns than it must have.
    if let error = error as? DatabaseError, error.code == .error {
      return .corrupt(path: path, detail: "its schema is damaged: \(error.detail)")
    }
    return translated(error, at: path) { .unreadable(path: path, detail: $0) }
  }

  /// An unreadable open database is damaged: a new one may work.
  static func writing(_ error: any Error, at path: String) -> StoreError {
    if let error = error as? DatabaseError, unreadable.contains(error.extendedCode) {
      return .corrupt(path: path, detail: "a part of it cannot be read (SQLite \(error.extendedCode.rawValue))")
    }
    return translated(error, at: path) { .unwritable(path: path, detail: $0) }
  }

  private static let unreadable: [ResultCode] = [
    .read, .shortRead, .damagedFileSystem, .damagedData,
  ]

  private static func translated(
    _ error: any Error, at path: String, otherwise: (String) -> StoreError
  ) -> StoreError {
    switch error {
    case let error as StoreError: error
    case let error as DamagedRow: .corrupt(path: path, detail: error.detail)
    case let error as DatabaseError: translated(error, at: path, otherwise: otherwise)
    default: otherwise("unexpected: \(type(of: error))")
    }
  }

  private static func translated(
    _ error: DatabaseError, at path: String, otherwise: (String) -> StoreError
  ) -> StoreError {
    let disk = DiskTrouble.at(PrivateFiles.folder(of: path))
    switch error.code {
    case .corrupt, .notADatabase: return .corrupt(path: path, detail: error.detail)
    case .full: return otherwise("the disk is full")
    case .inputOutput:
      return otherwise(disk ?? "an input/output error (SQLite \(error.extendedCode.rawValue))")
    case .readOnly: return otherwise(disk ?? "the file, its folder or the file system is read-only")
    case .busy, .locked:
      return otherwise("it was locked by another program for \(Opening.patience.components.seconds) s")
    case .cannotOpen, .permission, .unauthorized:
      return otherwise(disk ?? "a file cannot be opened: \(error.detail)")
    case .constraint: return otherwise("the change conflicts with the stored data: \(error.detail)")
    default: return otherwise(error.detail)
    }
  }
}

extension DatabaseError {
  /// SQLite's message has names of tables and columns, but no values.
  fileprivate var detail: String { message ?? "SQLite \(extendedCode.rawValue)" }
}

extension StoreError {
  /// A key's error as the store's.
  public init(_ error: SealingError) {
    self =
      switch error {
      case .unusableKey(let source, let detail): .unusableKey(source: source, detail: detail)
      case .unusableFolder(let path, let detail): .unreadable(path: path, detail: detail)
      case .unwritable(let path, let detail): .unwritable(path: path, detail: detail)
      }
  }
}

extension KeyRotationError {
  init(_ error: SealingError) {
    self =
      switch error {
      case .unwritable(let path, let detail): .unwritable(file: path, detail: detail)
      case .unusableKey, .unusableFolder: .store(StoreError(error))
      }
  }
}

extension Error {
  /// Whether another commit may still be written after this. Damage and failing hardware concern all.
  var mayConcernOneCommit: Bool {
    guard let error = self as? DatabaseError else { return !(self is StoreError) }
    return switch error.code {
    case .corrupt, .notADatabase, .inputOutput, .readOnly, .busy, .cannotOpen: false
    default: true
    }
  }
}

/// The file system's reason if SQLite has none.
enum DiskTrouble {
  /// Less is as good as nothing: SQLite's log, its index and a page of the database.
  private static let least: UInt64 = 64 << 10

  static func at(_ folder: String) -> String? {
    var status = statvfs()
    guard statvfs(folder, &status) == 0 else { return nil }
    // ST_RDONLY
    if status.f_flag & 1 != 0 { return "its file system is mounted read-only" }
    if UInt64(status.f_bavail) * UInt64(status.f_frsize) < least { return "the disk is full" }
    if status.f_files > 0, status.f_favail == 0 { return "the disk has room, but no inode, for a file" }
    return nil
  }
}
