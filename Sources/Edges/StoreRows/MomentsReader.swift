import Broker
import Grants
import OAuth

/// Reads of packed rows what is due when, for the usual account: at a start that is done for each of them.
///
/// An unusual row (a refresh that failed, narrowed tokens, an intent, a user's name with escapes) is left to the
/// reader of everything.
struct MomentsReader {
  private let bytes: UnsafeRawBufferPointer
  private var offset = 0
  /// A column is of another type than it must be.
  private var isDamaged = false

  /// Nil: it is not usual.
  static func read(_ account: AccountName, _ bytes: UnsafeRawBufferPointer) -> StoredAccount? {
    var reader = MomentsReader(bytes: bytes)
    return reader.read(account)
  }

  private mutating func read(_ account: AccountName) -> StoredAccount? {
    // In the order of the tables' columns.
    _ = text()
    guard let provider = text().flatMap({ ProviderName(rawValue: String(decoding: $0, as: UTF8.self)) }) else {
      return nil
    }
    var identity: Identity?
    if let json = text() {
      guard let subject = SubjectText.find(in: json) else { return nil }
      identity = Identity(subject: subject)
    }
    for _ in 0..<3 { _ = text() }
    guard let generation = integer(), text().map({ $0.elementsEqual("good".utf8) }) == true else { return nil }
    _ = text()
    guard let createdAt = time(), let loggedInAt = time() else { return nil }
    let (expiresAt, issuedAt, announcedAt) = (time(), time(), time())
    guard let kind = text().flatMap({ GrantKind(rawValue: String(decoding: $0, as: UTF8.self)) }) else { return nil }
    _ = text()
    let (refreshToken, previous, idToken) = (secret(), secret(), secret())
    _ = text()
    let dpopKey = secret()
    // The row's code.
    _ = text()
    let grant = SavedGrant(
      account: account, provider: provider, identity: identity, requestedScopes: [], grantedScopes: [],
      refreshToken: refreshToken, previousRefreshToken: previous, refreshTokenExpiresAt: expiresAt,
      refreshTokenIssuedAt: issuedAt, expiryAnnouncedAt: announcedAt, idToken: idToken, generation: generation,
      createdAt: createdAt, loggedInAt: loggedInAt, kind: kind, dpopKey: dpopKey)
    guard let count = byte(), count <= 1 else { return nil }
    var tokens: [SavedToken] = []
    if count == 1 {
      guard let token = token(of: account) else { return nil }
      tokens = [token]
    }
    return offset == bytes.count && !isDamaged ? StoredAccount(grant: grant, tokens: tokens, intent: nil) : nil
  }

  /// For the login's own token.
  private mutating func token(of account: AccountName) -> SavedToken? {
    _ = text()
    guard text()?.isEmpty == true, text()?.isEmpty == true else { return nil }
    _ = (text(), text())
    guard let generation = integer(), let issuedAt = time() else { return nil }
    let (expiresAt, refreshAt) = (time(), time())
    // Reports of it are read with the rest.
    guard let token = secret(), text() == nil else { return nil }
    // The row's code.
    _ = text()
    return SavedToken(
      account: account, accessToken: token, type: "", scopes: [], generation: generation, issuedAt: issuedAt,
      expiresAt: expiresAt, refreshAt: refreshAt)
  }

  // MARK: Columns

  private mutating func byte() -> UInt8? {
    guard offset < bytes.count else { return nil }
    defer { offset += 1 }
    return bytes[offset]
  }

  /// The bytes of a text or a blob; nil for NULL.
  private mutating func text() -> UnsafeRawBufferPointer.SubSequence? {
    guard let kind = byte(), kind >= 2 else {
      if offset > 0, bytes[offset - 1] == 1 { isDamaged = true }
      return nil
    }
    var (count, shift) = (0, 0)
    while let byte = byte() {
      count |= Int(byte & 0x7f) << shift
      shift += 7
      if byte & 0x80 == 0 || shift > 49 { break }
    }
    guard count <= bytes.count - offset else { return nil }
    defer { offset += count }
    return bytes[offset..<(offset + count)]
  }

  private mutating func integer() -> Int64? {
    guard let kind = byte(), kind == 1, bytes.count - offset >= 8 else {
      if offset > 0, bytes[offset - 1] > 1 { isDamaged = true }
      return nil
    }
    defer { offset += 8 }
    return bytes.loadUnaligned(fromByteOffset: offset, as: Int64.self)
  }

  private mutating func time() -> Timestamp? { integer().map(Timestamp.init(milliseconds:)) }

  private mutating func secret() -> Secret? { text() == nil ? nil : RowReader.leftOut }
}
