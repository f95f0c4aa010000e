import Crypto

/// A token, client secret, code or verifier. It cannot print: interpolation, `dump`, a debugger's summary and `Mirror`
/// all show `‹redacted›`. Each use of ``exposed`` must have a reason.
///
/// Its memory is overwritten when the last copy is released. ``exposed`` returns an ordinary string: do not store it.
/// In the daemon the heap overwrites that memory too when it is freed (`CHeap`).
public struct Secret: Sendable, Hashable {
  /// Not used as a key: swift-crypto clears this type's memory on deallocation.
  private let bytes: SymmetricKey

  public init(_ text: String) {
    var text = text
    bytes = text.withUTF8 { SymmetricKey(data: UnsafeRawBufferPointer($0)) }
  }

  /// The secret itself, for messages and for encryption.
  public var exposed: String { withExposedBytes { String(decoding: $0, as: UTF8.self) } }

  /// The same as UTF-8 bytes, without a copy.
  public func withExposedBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
    try bytes.withUnsafeBytes(body)
  }

  public var isEmpty: Bool { bytes.bitCount == 0 }

  /// Whether both are equal, in time that depends only on the lengths.
  public static func == (lhs: Secret, rhs: Secret) -> Bool { lhs.bytes == rhs.bytes }

  public func hash(into hasher: inout Hasher) {
    withExposedBytes { hasher.combine(bytes: $0) }
  }
}

extension Secret: Redacted {}

/// Compares in time that depends only on the lengths (RFC 6749 §10.12: the attacker may measure).
public func constantTimeEqual(_ lhs: String, _ rhs: String) -> Bool {
  let left = Array(lhs.utf8)
  let right = Array(rhs.utf8)
  var difference: UInt8 = left.count == right.count ? 0 : 1
  for index in left.indices {
    difference |= left[index] ^ (right.isEmpty ? 0xff : right[index % right.count])
  }
  return difference == 0
}
