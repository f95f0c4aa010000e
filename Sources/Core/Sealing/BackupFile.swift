import Crypto
import CryptoExtras
public import FoundationEssentials
public import OAuth

/// The form of a backup: a header in clear, then the body in chunks of AES-256-GCM (NIST SP 800-38D).
///
/// The header has the derivation of the key from the secret. The file's own key is derived from that and from the whole
/// header (HKDF, RFC 5869), so a changed header opens nothing. Each chunk's nonce is its number and whether it is the
/// last (the STREAM construction of Hoang, Reyhanitabar, Rogaway and Vizár): chunks cannot be changed, moved or
/// omitted, and the end cannot be cut off. The caller defines the body.
public enum BackupFile {
  static let magic = Array("grantd-backup\n".utf8)
  static let version: UInt8 = 1
  static let saltLength = 32
  static let chunkLength = 64 << 10
  static let tagLength = 16
  /// Bytes of a whole file.
  public static let limit = 256 << 20
  /// Bytes of a passphrase.
  static let shortestPassphrase = 8
  static let longestPassphrase = 1024

  static let checkLength = 8
  static let proofLength = 32
  /// Magic, version, way, three parameters, salt, check, proof.
  static let headerLength = magic.count + 5 + saltLength + checkLength + proofLength

  /// The secret that opens a file.
  public enum Secret: Sendable {
    case passphrase(OAuth.Secret)
    /// The contents of a key file, in one of the forms that ``SealingKey`` takes.
    case key([UInt8])
  }

  /// Why a file is not made, or does not open.
  public enum Failure: Error, Sendable, Equatable {
    /// It begins like nothing that this program wrote.
    case foreign
    /// Its form, or the state in it, is of a later version.
    case newer(String)
    case wrongPassphrase
    case wrongKey
    /// Made with the other kind of secret.
    case needsPassphrase
    case needsKey
    /// Its end is missing.
    case truncated
    case damaged(String)
    /// Not a key, or too short a passphrase.
    case unusableSecret(String)
    /// More bytes than the limit.
    case tooLarge(limit: Int)
  }

  /// How the secret becomes a key.
  enum KeyDerivation: Equatable {
    /// It is one.
    case key
    case scrypt(Scrypt)
  }

  /// The parameters of scrypt (RFC 7914 §2).
  struct Scrypt: Equatable {
    var log2Rounds: UInt8
    var blockSize: UInt8
    var parallelism: UInt8

    /// 64 MiB and about half a second.
    static let standard = Scrypt(log2Rounds: 16, blockSize: 8, parallelism: 2)
    static let mostMemory = 256 << 20
    /// Sixteen times the standard.
    static let mostWork = 1 << 24

    var memory: Int { 128 * Int(blockSize) << Int(log2Rounds) }

    /// Whether a file may ask for it: it is not yet known who wrote it.
    var isSane: Bool {
      (1...24).contains(log2Rounds) && blockSize > 0 && parallelism > 0 && memory <= Self.mostMemory
        && (Int(blockSize) * Int(parallelism)) << Int(log2Rounds) <= Self.mostWork
    }
  }

  // MARK: Writing

  /// The whole file. Takes half a second and 64 MiB where the secret is a passphrase.
  public static func seal(_ body: Data, with secret: Secret) throws(Failure) -> [UInt8] {
    try seal(body, with: secret, scrypt: .standard)
  }

  static func seal(_ body: Data, with secret: Secret, scrypt: Scrypt) throws(Failure) -> [UInt8] {
    let chunks = max(1, (body.count + chunkLength - 1) / chunkLength)
    guard headerLength + body.count + chunks * tagLength <= limit else { throw .tooLarge(limit: limit) }
    let way: KeyDerivation
    switch secret {
    case .key: way = .key
    case .passphrase(let passphrase):
      // Exposed to be measured.
      guard passphrase.exposed.utf8.count >= shortestPassphrase else {
        throw .unusableSecret("the passphrase is shorter than \(shortestPassphrase) characters")
      }
      way = .scrypt(scrypt)
    }
    let salt = SymmetricKey(size: .bits256).withUnsafeBytes { Array($0) }
    var header = magic + [version] + parameters(of: way) + salt
    header += SHA256.hash(data: header).prefix(checkLength)
    let keys = try Keys(secret, way, salt: salt, header: header)
    var file = header + keys.proof(of: header)
    file.reserveCapacity(file.count + body.count + chunks * tagLength)
    for number in 0..<chunks {
      let start = body.startIndex + number * chunkLength
      let chunk = body[start..<min(start + chunkLength, body.endIndex)]
      file += try keys.seal(chunk, number: number, isLast: number == chunks - 1)
    }
    return file
  }

  private static func parameters(of way: KeyDerivation) -> [UInt8] {
    switch way {
    case .key: [0, 0, 0, 0]
    case .scrypt(let scrypt): [1, scrypt.log2Rounds, scrypt.blockSize, scrypt.parallelism]
    }
  }

  // MARK: Reading

  /// The complete body as it was sealed. No data of the file are used before authentication, and it cannot require more
  /// than 256 MiB or sixteen times the usual work.
  public static func open(_ file: [UInt8], with secret: Secret) throws(Failure) -> Data {
    guard file.count <= limit else { throw .tooLarge(limit: limit) }
    guard file.starts(with: magic.prefix(file.count)), !file.isEmpty else { throw .foreign }
    guard file.count > headerLength else { throw .truncated }
    let header = Array(file[..<(headerLength - proofLength)])
    guard header[magic.count] <= version else { throw .newer("form \(header[magic.count])") }
    // Distinguished from a wrong passphrase before that is tried: any program can compute it, and it proves nothing.
    let checked = header.dropLast(checkLength)
    guard SHA256.hash(data: checked).prefix(checkLength).elementsEqual(header.suffix(checkLength)) else {
      throw .damaged("its head was changed")
    }
    let way = try way(header)
    let salt = Array(checked.suffix(saltLength))
    let keys = try Keys(secret, way, salt: salt, header: header)
    guard keys.proves(header, file[(headerLength - proofLength)..<headerLength]) else {
      throw way == .key ? .wrongKey : .wrongPassphrase
    }
    return try chunks(file[headerLength...], keys)
  }

  private static func way(_ header: [UInt8]) throws(Failure) -> KeyDerivation {
    let bytes = header[(magic.count + 1)..<(magic.count + 5)]
    switch bytes.first {
    case 0: return .key
    case 1:
      let numbers = Array(bytes)
      let scrypt = Scrypt(log2Rounds: numbers[1], blockSize: numbers[2], parallelism: numbers[3])
      guard scrypt.isSane else { throw .damaged("it asks for more memory or work than any backup does") }
      return .scrypt(scrypt)
    default: throw .newer("a way to the key that this version does not know")
    }
  }

  private static func chunks(_ rest: ArraySlice<UInt8>, _ keys: Keys) throws(Failure) -> Data {
    var body = Data(capacity: rest.count)
    var rest = rest
    var number = 0
    while true {
      let chunk = rest.prefix(chunkLength + tagLength)
      rest = rest.dropFirst(chunk.count)
      if let opened = keys.open(chunk, number: number, isLast: rest.isEmpty) {
        body += opened
      } else if rest.isEmpty, chunk.isEmpty || keys.open(chunk, number: number, isLast: false) != nil {
        throw .truncated
      } else {
        // A chunk that was cut in its middle looks the same as one that was changed.
        throw rest.isEmpty && chunk.count < chunkLength + tagLength
          ? .damaged("its end was cut off or changed") : .damaged("it was changed after it was made")
      }
      if rest.isEmpty { return body }
      number += 1
    }
  }
}

/// The key that seals a file.
private struct Keys {
  typealias Failure = BackupFile.Failure

  private let sealing: SymmetricKey
  private let proving: SymmetricKey

  init(
    _ secret: BackupFile.Secret, _ way: BackupFile.KeyDerivation, salt: [UInt8], header: [UInt8]
  ) throws(Failure) {
    let key = try Self.key(from: secret, way, salt: salt)
    func derived(_ purpose: String) -> SymmetricKey {
      HKDF<SHA256>.deriveKey(
        inputKeyMaterial: key, salt: salt, info: Array("grantd backup, \(purpose)".utf8) + header,
        outputByteCount: 32)
    }
    sealing = derived("sealing")
    proving = derived("proving")
  }

  private static func key(
    from secret: BackupFile.Secret, _ way: BackupFile.KeyDerivation, salt: [UInt8]
  ) throws(Failure) -> SymmetricKey {
    switch (way, secret) {
    case (.key, .passphrase): throw .needsKey
    case (.scrypt, .key): throw .needsPassphrase
    case (.key, .key(let contents)):
      do throws(SealingError) {
        return try SealingKey(Data(contents), source: "the key file").key
      } catch {
        throw .unusableSecret(error.detail)
      }
    case (.scrypt(let scrypt), .passphrase(let passphrase)):
      // Exposed to be made a key of.
      let bytes = Array(passphrase.exposed.utf8)
      guard !bytes.isEmpty, bytes.count <= BackupFile.longestPassphrase else {
        throw .unusableSecret("the passphrase is empty, or longer than \(BackupFile.longestPassphrase) bytes")
      }
      do {
        return try KDF.Scrypt.deriveKey(
          from: bytes, salt: salt, outputByteCount: 32, rounds: 1 << Int(scrypt.log2Rounds),
          blockSize: Int(scrypt.blockSize), parallelism: Int(scrypt.parallelism), maxMemory: scrypt.memory + (32 << 20))
      } catch {
        throw .unusableSecret("there is no memory for the way from the passphrase to the key")
      }
    }
  }

  func proof(of header: [UInt8]) -> [UInt8] { Array(HMAC<SHA256>.authenticationCode(for: header, using: proving)) }

  func proves(_ header: [UInt8], _ proof: ArraySlice<UInt8>) -> Bool {
    HMAC<SHA256>.isValidAuthenticationCode(Array(proof), authenticating: header, using: proving)
  }

  /// For a key that seals only one file: numbers are unique.
  private static func nonce(_ number: Int, isLast: Bool) throws -> AES.GCM.Nonce {
    let count = withUnsafeBytes(of: UInt64(number).bigEndian) { Array($0) }
    return try AES.GCM.Nonce(data: [0, 0, 0] + count + [isLast ? 1 : 0])
  }

  func seal(_ chunk: Data, number: Int, isLast: Bool) throws(Failure) -> [UInt8] {
    do {
      let box = try AES.GCM.seal(chunk, using: sealing, nonce: Self.nonce(number, isLast: isLast))
      return Array(box.ciphertext) + Array(box.tag)
    } catch {
      throw .damaged("a part of it cannot be sealed")
    }
  }

  /// Nil: not the value that was sealed in this place.
  func open(_ chunk: ArraySlice<UInt8>, number: Int, isLast: Bool) -> Data? {
    guard chunk.count >= BackupFile.tagLength, let nonce = try? Self.nonce(number, isLast: isLast),
      let box = try? AES.GCM.SealedBox(
        nonce: nonce, ciphertext: chunk.dropLast(BackupFile.tagLength), tag: chunk.suffix(BackupFile.tagLength))
    else { return nil }
    return try? AES.GCM.open(box, using: sealing)
  }
}
