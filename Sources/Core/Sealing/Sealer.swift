import Crypto
public import FoundationEssentials

/// Seals single columns with AES-256-GCM (NIST SP 800-38D).
///
/// A sealed value is a version byte, four bytes that name the key, a random nonce of 12 bytes, the ciphertext and a tag
/// of 16. Table, row and column are authenticated with it: a value that is moved to another place does not open.
public struct Sealer: Sendable {
  /// Why a value does not open.
  public enum Failure: Error, Equatable {
    /// Not sealed under this key.
    case otherKey
    /// Changed, moved, or of no known form.
    case damaged
  }

  static let version: UInt8 = 1
  static let keyIDLength = 4
  private static let headerLength = 1 + keyIDLength

  private let key: SymmetricKey
  /// The key for the codes of rows: a key has one purpose.
  private let codeKey: SymmetricKey
  private let header: [UInt8]

  init(key: SymmetricKey) {
    self.key = key
    codeKey = SymmetricKey(data: HMAC<SHA256>.authenticationCode(for: Data("grantd row code".utf8), using: key))
    header = [Self.version] + Self.id(of: key)
  }

  /// Bytes of a row's code: half of SHA-256's.
  public static let codeLength = 16

  /// The authentication code of a row (HMAC, RFC 2104, cut to 16 bytes). A changed column has another one.
  public func code(of row: some DataProtocol, in table: String) -> Data {
    var hmac = HMAC<SHA256>(key: codeKey)
    hmac.update(data: Array(table.utf8) + [0])
    hmac.update(data: row)
    return Data(hmac.finalize().prefix(Self.codeLength))
  }

  /// The sealed value; another one each time, for the nonce is random. What Crypto throws is a fault of the program.
  public func seal(_ value: some DataProtocol, at place: Place, column: String) throws -> Data {
    let box = try AES.GCM.seal(value, using: key, authenticating: place.authenticated(header: header, column: column))
    guard let combined = box.combined else { throw Failure.damaged }
    return Data(header) + combined
  }

  /// The value that was sealed under this key for the same place and column.
  public func open(_ sealed: Data, at place: Place, column: String) throws(Failure) -> Data {
    guard sealed.count >= Self.headerLength, sealed.first == Self.version else { throw .damaged }
    guard sealed.prefix(Self.headerLength).elementsEqual(header) else { throw .otherKey }
    do {
      let box = try AES.GCM.SealedBox(combined: sealed.dropFirst(Self.headerLength))
      return try AES.GCM.open(box, using: key, authenticating: place.authenticated(header: header, column: column))
    } catch {
      throw .damaged
    }
  }

  /// Tells keys apart, and nothing of them.
  var name: [UInt8] { Array(header.dropFirst()) }

  /// Whether the other one has the same key, as far as their names tell.
  public func isSame(as other: Sealer) -> Bool { header == other.header }

  /// Tells keys apart without telling anything of them.
  private static func id(of key: SymmetricKey) -> [UInt8] {
    let tag = HMAC<SHA256>.authenticationCode(for: Data("grantd key id".utf8), using: key)
    return Array(tag.prefix(keyIDLength))
  }
}

/// A row that has sealed columns: its table, and the values that it is bound to.
public struct Place: Sendable {
  private var bytes: [UInt8] = []

  /// - Parameter row: the binding of the values: the row's key, and the destination of its secrets.
  public init(table: String, row: [String]) {
    bytes.reserveCapacity(96)
    append(table)
    for part in row { append(part) }
  }

  func authenticated(header: [UInt8], column: String) -> [UInt8] {
    var place = self
    place.append(column)
    place.bytes += header
    return place.bytes
  }

  /// With its length, so that no two places have the same bytes.
  private mutating func append(_ part: String) {
    withUnsafeBytes(of: UInt32(part.utf8.count).bigEndian) { bytes += $0 }
    bytes += part.utf8
  }
}
