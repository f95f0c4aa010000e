import Crypto
public import FoundationEssentials
public import OAuth

/// The 256-bit key that seals secrets, and its source. Prints without the key.
public struct SealingKey: Sendable, Redacted {
  static let length = 32

  let key: SymmetricKey
  /// For people, such as the path of a credential or of a key file.
  public let source: String
  /// The file that it is kept in, if it is one of this program's; nil: it was given from outside.
  public private(set) var file: KeyFile?
  /// The rest of an interrupted rotation next to the file: a store may already be under this one.
  private(set) var next: SymmetricKey?

  public var sealer: Sealer { Sealer(key: key) }

  public var description: String { "‹redacted key from \(source)›" }

  /// The key in base64 (RFC 4648 §4), as a key file has it.
  public var exposedText: String { key.withUnsafeBytes { Data($0) }.base64EncodedString() }

  /// A new key from the kernel's entropy.
  /// - Parameter source: where it will be, for people.
  public static func random(source: String) -> SealingKey { SealingKey(SymmetricKey(size: .bits256), source: source) }

  /// Accepts 32 raw bytes, or text: 64 hexadecimal digits, or base64 (RFC 4648 §4, §5).
  ///
  /// Throws only ``SealingError/unusableKey(source:detail:)``.
  /// - Parameter source: its source, for messages.
  public init(_ contents: Data, source: String) throws(SealingError) {
    let bytes = try Self.bytes(of: contents, source: source)
    guard Set(bytes).count > 1 else {
      throw .unusableKey(source: source, detail: "all its bytes are the same")
    }
    self.init(SymmetricKey(data: bytes), source: source)
  }

  init(_ key: SymmetricKey, source: String) {
    self.key = key
    self.source = source
  }

  func kept(in file: KeyFile, next: SymmetricKey? = nil) -> SealingKey {
    var key = self
    key.file = file
    key.next = next
    return key
  }

  /// Another key in the same place; nil: this one unchanged, without another next to it.
  func replaced(by new: SymmetricKey? = nil) -> SealingKey {
    var key = SealingKey(new ?? key, source: source)
    key.file = file
    return key
  }

  private static func bytes(of contents: Data, source: String) throws(SealingError) -> Data {
    if contents.count == length {
      // Random bytes never look so: this is the text of a shorter key.
      guard !contents.allSatisfy({ (0x20...0x7e).contains($0) }) else {
        throw .unusableKey(source: source, detail: "it is a text of 32 characters, which is too short for a key")
      }
      return contents
    }
    guard contents.count <= 256, let text = String(data: contents, encoding: .utf8) else {
      throw .unusableKey(source: source, detail: "it has \(contents.count) bytes, not 32")
    }
    // One word, with white space around it.
    let words = text.split(whereSeparator: \.isWhitespace).map(String.init)
    guard words.count == 1, let bytes = hex(words[0]) ?? base64(words[0]), bytes.count == length else {
      throw .unusableKey(
        source: source, detail: "it is neither 32 bytes nor the hexadecimal or base64 text of 32 bytes")
    }
    return bytes
  }

  private static func hex(_ text: String) -> Data? {
    guard text.utf8.count == 2 * length, text.allSatisfy({ $0.isASCII && $0.isHexDigit }) else { return nil }
    let digits = text.compactMap { $0.hexDigitValue.map(UInt8.init) }
    return Data(stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] })
  }

  private static func base64(_ text: String) -> Data? {
    let standard = text.replacing("-", with: "+").replacing("_", with: "/")
    return Data(base64Encoded: standard.hasSuffix("=") ? standard : standard + "=")
  }
}
