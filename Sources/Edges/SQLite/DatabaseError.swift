import CSQLite

/// What SQLite answered instead of doing it.
public struct DatabaseError: Error, Equatable {
  /// With SQLite's reason, if any (SQLite, "Extended Result Codes").
  public let extendedCode: ResultCode
  /// SQLite's: it has names of tables and columns, but no values.
  public let message: String?

  public init(_ code: ResultCode, message: String? = nil) {
    extendedCode = code
    self.message = message
  }

  /// - Parameter database: where the call was made just now.
  init(_ code: Int32, in database: OpaquePointer?) {
    self.init(ResultCode(rawValue: code), message: database.flatMap(sqlite3_errmsg).map { String(cString: $0) })
  }

  public var code: ResultCode { extendedCode.primary }
}

/// SQLite's result codes, with names for the ones that this project distinguishes.
public struct ResultCode: RawRepresentable, Hashable, Sendable {
  public let rawValue: Int32

  public init(rawValue: Int32) { self.rawValue = rawValue }

  /// Without SQLite's reason.
  public var primary: ResultCode { ResultCode(rawValue: rawValue & 0xff) }

  public static let error = Self(rawValue: SQLITE_ERROR)
  public static let permission = Self(rawValue: SQLITE_PERM)
  public static let busy = Self(rawValue: SQLITE_BUSY)
  public static let locked = Self(rawValue: SQLITE_LOCKED)
  public static let outOfMemory = Self(rawValue: SQLITE_NOMEM)
  public static let readOnly = Self(rawValue: SQLITE_READONLY)
  public static let inputOutput = Self(rawValue: SQLITE_IOERR)
  public static let corrupt = Self(rawValue: SQLITE_CORRUPT)
  public static let full = Self(rawValue: SQLITE_FULL)
  public static let cannotOpen = Self(rawValue: SQLITE_CANTOPEN)
  public static let constraint = Self(rawValue: SQLITE_CONSTRAINT)
  public static let misuse = Self(rawValue: SQLITE_MISUSE)
  public static let unauthorized = Self(rawValue: SQLITE_AUTH)
  public static let notADatabase = Self(rawValue: SQLITE_NOTADB)

  public static let read = Self(rawValue: SQLITE_IOERR | 1 << 8)
  public static let shortRead = Self(rawValue: SQLITE_IOERR | 2 << 8)
  public static let damagedData = Self(rawValue: SQLITE_IOERR | 32 << 8)
  public static let damagedFileSystem = Self(rawValue: SQLITE_IOERR | 33 << 8)
}
