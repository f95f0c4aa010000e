import Crypto
import Foundation
import OAuth
import Testing

@testable import Sealing

@Suite("A backup's file", .timeLimit(.minutes(5)))
struct BackupFileTests {
  private static let cheap = BackupFile.Scrypt(log2Rounds: 4, blockSize: 1, parallelism: 1)
  private static let passphrase = BackupFile.Secret.passphrase(Secret("correct horse battery"))
  private static let otherPassphrase = BackupFile.Secret.passphrase(Secret("correct horse batterY"))
  private static let key = BackupFile.Secret.key(Array(Sample.keyText.utf8))
  private static let otherKey = BackupFile.Secret.key(Array(String(Sample.keyText.reversed()).utf8))

  private static func seal(_ body: Data, _ secret: BackupFile.Secret = passphrase) throws(BackupFile.Failure) -> [UInt8]
  {
    try BackupFile.seal(body, with: secret, scrypt: cheap)
  }

  private static func failure(_ file: [UInt8], _ secret: BackupFile.Secret = passphrase) -> BackupFile.Failure? {
    do throws(BackupFile.Failure) {
      _ = try BackupFile.open(file, with: secret)
      return nil
    } catch {
      return error
    }
  }

  private static let lengths = [
    0, 1, BackupFile.chunkLength - 1, BackupFile.chunkLength, BackupFile.chunkLength + 1, 3 * BackupFile.chunkLength,
  ]

  @Test("opens with its passphrase of any length", arguments: lengths)
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
      #expect(throws: BackupFile.Failure.self) { try Self.seal(body, .passphrase(Secret(short))) }
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

  @Test("that asks for more work than a backup does is refused before the work")
  func insaneFile() throws {
    var file = try Self.seal(Data("the whole state".utf8))
    // Four times the permitted work, with the check that any program can compute.
    let parameters = BackupFile.magic.count + 2
    file.replaceSubrange(parameters..<(parameters + 3), with: [10, 255, 255])
    let checked = BackupFile.headerLength - BackupFile.proofLength - BackupFile.checkLength
    file.replaceSubrange(
      checked..<(checked + BackupFile.checkLength),
      with: Array(SHA256.hash(data: Array(file[..<checked]))).prefix(BackupFile.checkLength))
    #expect(Self.failure(file) == .damaged("it asks for more memory or work than any backup does"))
  }

  @Test("larger than the limit is not made")
  func tooLarge() {
    #expect(throws: BackupFile.Failure.tooLarge(limit: BackupFile.limit)) {
      try Self.seal(Data(count: BackupFile.limit))
    }
    #expect(Self.failure([UInt8](repeating: 0, count: BackupFile.limit + 1)) == .tooLarge(limit: BackupFile.limit))
  }

  @Test(
    "of an earlier version opens",
    arguments: [
      (
        passphrase,
        """
        Z3JhbnRkLWJhY2t1cAoBAQQBAYVwVx8GOhtcnCVvM8zIYdiX/DxHtGti8pSTaOu7lk8JiOfEW6ka6pGoO3IoGbC9hDIQr77MtvEh\
        cttFD8DoQIy0dN6mrfqyFmkm+4RHvf664MXKfk33KvLoN24Ty/j5x7KHQWvT1Kw=
        """
      ),
      (
        key,
        """
        Z3JhbnRkLWJhY2t1cAoBAAAAAKvt2s3gefAm8tg0ZBkdixDVLWMDrLcVkvl7nB4mQCEqLFrZwL5OTlGkSMnWFKXDiQGNSk8uIP6a\
        3EUHVQWW3bDP0cYE2dArwfOqZ2aAH3akE5IC6xXs/Ohf3erw3VWbCf7PchEZwZ8=
        """
      ),
    ])
  func earlier(secret: BackupFile.Secret, text: String) throws {
    let file = try #require(Data(base64Encoded: text))
    #expect(try BackupFile.open(Array(file), with: secret) == Data("the whole state".utf8))
  }
}
