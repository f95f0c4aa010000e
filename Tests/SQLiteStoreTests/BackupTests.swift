import Broker
import Foundation
import GRDB
import Grants
import OAuth
import Testing

@testable import SQLiteStore

@Suite("A backup", .timeLimit(.minutes(3)))
struct BackupTests {
  let folder = TemporaryFolder()

  private static let cheap = BackupFile.Scrypt(log2Rounds: 4, blockSize: 1, parallelism: 1)
  private static let passphrase = BackupSecret.passphrase(Secret("correct horse battery"))
  private static let otherPassphrase = BackupSecret.passphrase(Secret("correct horse batterY"))
  private static let key = BackupSecret.key(Array(Sample.keyText.utf8))
  private static let otherKey = BackupSecret.key(Array(String(Sample.keyText.reversed()).utf8))

  private static func seal(_ body: Data, _ secret: BackupSecret = passphrase) throws(BackupError) -> [UInt8] {
    try BackupFile.seal(body, with: secret, scrypt: cheap)
  }

  private static func failure(_ file: [UInt8], _ secret: BackupSecret = passphrase) -> BackupError? {
    do throws(BackupError) {
      _ = try BackupFile.open(file, with: secret)
      return nil
    } catch {
      return error
    }
  }

  private static let lengths = [
    0, 1, BackupFile.chunkLength - 1, BackupFile.chunkLength, BackupFile.chunkLength + 1, 3 * BackupFile.chunkLength,
  ]

  @Test("opens with what it was made with, whatever its length", arguments: lengths)
  func opens(length: Int) throws {
    let body = Data((0..<length).map { UInt8(truncatingIfNeeded: $0 &* 31) })
    for secret in [Self.passphrase, Self.key] {
      let file = try Self.seal(body, secret)
      #expect(try BackupFile.open(file, with: secret) == body)
      #expect(try Self.seal(body, secret) != file)
    }
  }

  @Test("with any one byte changed is refused")
  func flipped() throws {
    let file = try Self.seal(Data("the whole state".utf8))
    for index in file.indices {
      for bit in [UInt8(1), 0x80] {
        var changed = file
        changed[index] ^= bit
        #expect(Self.failure(changed) != nil, "byte \(index)")
      }
    }
  }

  @Test("whose end is missing is refused, wherever it was cut, and so is one with more at its end")
  func truncated() throws {
    let body = Data(count: 2 * BackupFile.chunkLength + 10)
    let file = try Self.seal(body)
    for cut in stride(from: 0, to: file.count, by: 7919) { #expect(Self.failure(Array(file[..<cut])) != nil, "\(cut)") }
    for chunk in 0...2 {
      let cut = BackupFile.headerLength + chunk * (BackupFile.chunkLength + BackupFile.tagLength)
      #expect(Self.failure(Array(file[..<cut])) == .truncated, "\(chunk) chunks")
    }
    #expect(Self.failure(file + [0]) != nil)
    #expect(Self.failure(file + file.suffix(BackupFile.tagLength + 10)) != nil)
  }

  @Test("whose parts were exchanged, doubled or left out is refused")
  func order() throws {
    let file = try Self.seal(Data(count: 3 * BackupFile.chunkLength))
    let length = BackupFile.chunkLength + BackupFile.tagLength
    let head = Array(file[..<BackupFile.headerLength])
    let chunks = (0..<3).map { Array(file[(BackupFile.headerLength + $0 * length)...].prefix(length)) }
    #expect(Self.failure(head + chunks.flatMap(\.self)) == nil)
    for order in [[1, 0, 2], [0, 2], [0, 0, 1, 2], [0, 1, 1, 2], [2], [0, 1, 2, 2]] {
      #expect(Self.failure(head + order.flatMap { chunks[$0] }) != nil, "\(order)")
    }
    // Another file's chunks, under the same secret.
    let other = try Self.seal(Data(count: 3 * BackupFile.chunkLength), Self.passphrase)
    #expect(Self.failure(head + other[BackupFile.headerLength...]) != nil)
  }

  @Test("says what is wrong: another secret, another kind of secret, another program's file, a later form")
  func reasons() throws {
    let body = Data("state".utf8)
    let byPassphrase = try Self.seal(body)
    let byKey = try Self.seal(body, Self.key)
    #expect(Self.failure(byPassphrase, Self.otherPassphrase) == .wrongPassphrase)
    #expect(Self.failure(byKey, Self.otherKey) == .wrongKey)
    #expect(Self.failure(byPassphrase, Self.key) == .needsPassphrase)
    #expect(Self.failure(byKey, Self.passphrase) == .needsKey)
    for file in [Array("SQLite format 3\0".utf8), Array("{}".utf8), [], [UInt8](repeating: 7, count: 500)] {
      #expect(Self.failure(file) == .foreign)
    }
    var later = byPassphrase
    later[BackupFile.magic.count] = 2
    #expect(Self.failure(later) == .newer("form 2"))
    var head = byPassphrase
    head[BackupFile.magic.count + 6] ^= 1
    #expect(Self.failure(head) == .damaged("its head was changed"))
    #expect(Self.failure(byKey, .key([1, 2, 3])).map { if case .unusableSecret = $0 { true } else { false } } == true)
    for short in ["", "seven77"] {
      #expect(throws: BackupError.self) { try Self.seal(body, .passphrase(Secret(short))) }
    }
  }

  @Test("may not ask for more memory or work than a backup does")
  func insane() throws {
    for scrypt in [
      BackupFile.Scrypt(log2Rounds: 24, blockSize: 255, parallelism: 1),
      .init(log2Rounds: 63, blockSize: 1, parallelism: 1),
      .init(log2Rounds: 16, blockSize: 8, parallelism: 255), .init(log2Rounds: 0, blockSize: 1, parallelism: 1),
      .init(log2Rounds: 4, blockSize: 0, parallelism: 1), .init(log2Rounds: 4, blockSize: 1, parallelism: 0),
    ] {
      #expect(!scrypt.isSane, "\(scrypt)")
    }
    #expect(BackupFile.Scrypt.standard.isSane && Self.cheap.isSane)
  }

  @Test("larger than the limit is not made")
  func tooLarge() {
    #expect(throws: BackupError.tooLarge(limit: BackupFile.limit)) { try Self.seal(Data(count: BackupFile.limit)) }
    #expect(Self.failure([UInt8](repeating: 0, count: BackupFile.limit + 1)) == .tooLarge(limit: BackupFile.limit))
  }

  // MARK: With a state in it

  private func backup(_ state: StoredState = Sample.state) -> Backup {
    Backup(host: "a.example", madeAt: Sample.time(1_700_000_000_000), version: "1.2.3", state: state)
  }

  @Test("holds the whole state, opens in a store under another key, and leaves nothing beside it")
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
    await #expect(throws: BackupError.wrongPassphrase) { try await second.unpack(file, with: Self.otherPassphrase) }
    #expect(try await second.load() == StoredState())
    await second.close()
    for place in [folder, other] {
      #expect(
        Set(try FileManager.default.contentsOfDirectory(atPath: place.state)) == ["grantd.db", "grantd.lock"])
    }
  }

  @Test("made by a later version is refused, by an earlier one brought to this one's form")
  func versions() async throws {
    let store = try folder.open()
    let body = try BackupBody(backup(), in: StateFolder(path: folder.state)).encoded()
    let start = try #require(body.range(of: Data("SQLite format 3\0".utf8))).lowerBound
    func changed(_ sql: String) throws -> [UInt8] {
      let path = folder.path + "/changed.db"
      try folder.write(Data(body[start...]), to: path)
      let database = try DatabaseQueue(path: path)
      try database.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = DELETE; \(sql)") }
      try database.close()
      return try Self.seal(body[..<start] + folder.contents(path), Self.key)
    }
    await #expect(throws: BackupError.newer("schema 99; this one knows up to \(Schema.version)")) {
      try await store.unpack(changed("PRAGMA user_version = 99"), with: Self.key)
    }
    let damaged = try changed("UPDATE tokens SET access_token = x'01'")
    let error = await #expect(throws: BackupError.self) { try await store.unpack(damaged, with: Self.key) }
    #expect(error.map { if case .damaged = $0 { true } else { false } } == true)
    let old = try changed(
      """
      ALTER TABLE logins DROP COLUMN progress; ALTER TABLE revocations DROP COLUMN context;
      ALTER TABLE grants DROP COLUMN source_fingerprint;
      DELETE FROM grdb_migrations WHERE identifier IN ('v4', 'v5'); PRAGMA user_version = 3
      """)
    let state = try await store.unpack(old, with: Self.key).state
    var grants = Sample.state.grants
    for index in grants.indices { grants[index].sourceFingerprint = nil }
    #expect(state.grants == grants && state.tokens == Sample.state.tokens)
    await store.close()
  }

  @Test("that a process left half done is gone with the next start")
  func leftOver() async throws {
    try await folder.fill([])
    try folder.write(Data("x".utf8), to: folder.state + "/grantd.workplace-1/grantd.db")
    try await folder.fill([])
    #expect(Set(try FileManager.default.contentsOfDirectory(atPath: folder.state)) == ["grantd.db", "grantd.lock"])
  }
}
