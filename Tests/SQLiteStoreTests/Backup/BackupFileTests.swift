import Broker
import Foundation
import Grants
import OAuth
import SQLite
import Sealing
import Testing

@testable import SQLiteStore

@Suite("A backup", .timeLimit(.minutes(5)))
struct BackupFileTests {
  let folder = TemporaryFolder()

  private static let passphrase = BackupFile.Secret.passphrase(Secret("correct horse battery"))
  private static let otherPassphrase = BackupFile.Secret.passphrase(Secret("correct horse batterY"))
  private static let key = BackupFile.Secret.key(Array(Sample.keyText.utf8))

  private func backup(_ state: StoredState = Sample.state) -> Backup {
    Backup(host: "a.example", madeAt: Sample.time(1_700_000_000_000), version: "1.2.3", state: state)
  }

  @Test("holds the whole state, opens in a store under another key, and leaves no temporary file")
  func whole() async throws {
    let store = try folder.open()
    let file = try await store.pack(backup(), with: Self.passphrase)
    await store.close()
    for secret in ["refresh-of-", "a.example", "@example", "SQLite"] {
      #expect(Data(file).range(of: Data(secret.utf8)) == nil, "\(secret)")
    }
    let other = TemporaryFolder()
    let second = try other.open(Sample.otherKey)
    #expect(try await second.unpack(file, with: Self.passphrase) == backup())
    await #expect(throws: BackupError.file(.wrongPassphrase)) {
      try await second.unpack(file, with: Self.otherPassphrase)
    }
    #expect(try await second.load() == StoredState())
    await second.close()
    for place in [folder, other] {
      #expect(
        Set(try FileManager.default.contentsOfDirectory(atPath: place.state))
          == ["grantd.commits", "grantd.db", "grantd.lock"])
    }
  }

  @Test("reports the fault in it, or in its passphrase")
  func reasons() async throws {
    let store = try folder.open()
    let file = try await store.pack(backup(), with: Self.key)
    let byPassphrase = try await store.pack(backup(), with: Self.passphrase)
    var (changed, later) = (file, file)
    changed[file.count - 1] ^= 1
    later[14] = 2
    let reasons: [([UInt8], BackupFile.Secret, BackupFile.Failure)] = [
      (Array("SQLite format 3\0".utf8), Self.key, .foreign),
      (later, Self.key, .newer("form 2")),
      (byPassphrase, Self.otherPassphrase, .wrongPassphrase),
      (file, .key(Array(String(Sample.keyText.reversed()).utf8)), .wrongKey),
      (byPassphrase, Self.key, .needsPassphrase),
      (file, Self.passphrase, .needsKey),
      (Array(file[..<20]), Self.key, .truncated),
      (changed, Self.key, .damaged("its end was cut off or changed")),
      (
        file, .key([1, 2, 3]), .unusableSecret("it is neither 32 bytes nor the hexadecimal or base64 text of 32 bytes")
      ),
      ([UInt8](repeating: 0, count: (256 << 20) + 1), Self.key, .tooLarge(limit: 256 << 20)),
    ]
    for (file, secret, reason) in reasons {
      await #expect(throws: BackupError.file(reason)) { try await store.unpack(file, with: secret) }
    }
    await #expect(throws: BackupError.file(.unusableSecret("the passphrase is shorter than 8 characters"))) {
      try await store.pack(backup(), with: .passphrase(Secret("seven77")))
    }
    await store.close()
  }

  @Test("made by a later version is refused, by an earlier one brought to this one's form")
  func versions() async throws {
    let store = try folder.open()
    let body = try BackupBody(backup(), in: StateFolder(path: folder.state)).encoded()
    let start = try #require(body.range(of: Data("SQLite format 3\0".utf8))).lowerBound
    func changed(_ sql: String) throws -> [UInt8] {
      let path = folder.path + "/changed.db"
      try folder.write(Data(body[start...]), to: path)
      let database = try SQLiteConnection(path: path)
      try database.use { try $0.execute("PRAGMA journal_mode = DELETE; \(sql)") }
      try database.close()
      return try BackupFile.seal(body[..<start] + folder.contents(path), with: .key(Array(Sample.keyText.utf8)))
    }
    await #expect(throws: BackupError.file(.newer("schema 99; this one knows up to \(SQLiteSchema.version)"))) {
      try await store.unpack(changed("PRAGMA user_version = 99; CREATE TABLE later (x)"), with: Self.key)
    }
    let damaged = try changed("UPDATE tokens SET access_token = x'01'")
    let error = await #expect(throws: BackupError.self) { try await store.unpack(damaged, with: Self.key) }
    #expect(error.map { if case .file(.damaged) = $0 { true } else { false } } == true)
    let old = try changed(
      """
      ALTER TABLE logins DROP COLUMN progress; ALTER TABLE revocations DROP COLUMN context;
      ALTER TABLE grants DROP COLUMN source_fingerprint; ALTER TABLE tokens DROP COLUMN reports;
      \(Self.tables.map { "ALTER TABLE \($0) DROP COLUMN code;" }.joined(separator: " "))
      PRAGMA user_version = 3
      """)
    let state = try await store.unpack(old, with: Self.key).state
    var grants = Sample.state.grants
    for index in grants.indices { grants[index].sourceFingerprint = nil }
    #expect(state.grants == grants && state.tokens == Sample.state.tokens)
    await store.close()
  }

  private static let tables = [
    "grants", "tokens", "refresh_intents", "logins", "revocations", "registrations", "settings",
  ]

  @Test("that a process left half done is gone with the next start")
  func leftOver() async throws {
    try await folder.fill([])
    try folder.write(Data("x".utf8), to: folder.state + "/grantd.workplace-1/grantd.db")
    try await folder.fill([])
    let files = try FileManager.default.contentsOfDirectory(atPath: folder.state)
    #expect(Set(files) == ["grantd.db", "grantd.lock", "grantd.commits"])
  }
}
