import Broker
import FoundationEssentials
import Glibc
import OAuth
import SQLite
import Sealing

/// How many transactions the database has taken, in the database, in a file beside it, and in another folder. A database
/// that has fewer than a file says is older than that of the last run: its log was damaged, or a copy was put back. The
/// file in the other folder shows that for a state folder that was put back as a whole.
///
/// The files are written after each transaction and not synchronised: after a power cut it may have a lower count, which
/// is harmless, and never a higher one.
struct CommitCount {
  /// The row of `meta`.
  private static let row = "commits"

  /// The files' paths.
  private let paths: [String]
  private(set) var count: Int64 = 0

  /// - Parameter elsewhere: a file in another folder; nil: there is none.
  init(in folder: StateFolder, elsewhere: String? = nil) {
    paths = [folder.path + "/grantd.commits"] + (elsewhere.map { [$0] } ?? [])
  }

  /// Takes over the highest count.
  ///
  /// - Parameter sealer: the store's.
  /// - Returns: the commits that the database lacks; nil: none known.
  mutating func compare(_ db: SQLiteConnection, _ sealer: Sealer) throws -> LostCommits? {
    let own = try db.read(Self.count)
    let file = paths.compactMap { Self.read($0, sealer) }.max { $0.count < $1.count }
    count = max(own ?? 0, file?.count ?? 0)
    // A damaged count does not show the state of the other rows.
    guard let own, let file, file.count > own else {
      write(sealer)
      return nil
    }
    return LostCommits(count: file.count - own, last: file.at)
  }

  /// Within a transaction, at its end.
  func putNext(in db: Database) throws { try Self.put(count + 1, in: db) }

  static func put(_ count: Int64, in db: Database) throws {
    try db.statement(
      "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    )
    .run([.text(row), .blob(withUnsafeBytes(of: count.bigEndian) { Data($0) })])
  }

  /// The transaction is on disk.
  mutating func committed(_ sealer: Sealer) {
    count += 1
    write(sealer)
  }

  /// A failure is harmless: the next transaction writes a higher count.
  func write(_ sealer: Sealer) {
    for path in paths { write(to: path, sealer) }
  }

  private func write(to path: String, _ sealer: Sealer) {
    let descriptor = Glibc.open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else { return }
    defer { Glibc.close(descriptor) }
    let text = Self.line(count, sealer)
    _ = text.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, 0) }
  }

  /// Nil: the count is damaged.
  private static func count(_ db: Database) throws -> Int64? {
    guard let found = try db.value("SELECT value FROM meta WHERE name = ?", [.text(row)]) else { return 0 }
    guard let value = found.blob, value.count == 8 else { return nil }
    return value.reduce(0) { $0 << 8 | Int64($1) }
  }

  /// The count and its code, in 53 bytes.
  private static func line(_ count: Int64, _ sealer: Sealer) -> [UInt8] {
    let digits = String(count)
    let text = String(repeating: "0", count: max(0, 19 - digits.utf8.count)) + digits
    return Array("\(text) \(hexadecimal(sealer.code(of: Array(text.utf8), in: "commits")))\n".utf8)
  }

  /// Nil: there is no file, or it is damaged or of another key.
  private static func read(_ path: String, _ sealer: Sealer) -> (count: Int64, at: Timestamp)? {
    let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else { return nil }
    defer { Glibc.close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: 64)
    var status = stat()
    let length = Glibc.read(descriptor, &bytes, bytes.count)
    guard length > 19, fstat(descriptor, &status) == 0,
      let count = Int64(String(decoding: bytes.prefix(19), as: UTF8.self)),
      bytes.prefix(length).elementsEqual(line(count, sealer))
    else { return nil }
    return (count, Timestamp(seconds: Int64(status.st_mtim.tv_sec)))
  }
}
