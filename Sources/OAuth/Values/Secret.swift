import Crypto

/// A token, client secret, code or verifier. It cannot print: interpolation, `dump`, a debugger's summary and `Mirror`
/// all show `‹redacted›`. Each use of ``exposed`` must have a reason.
///
/// Its memory is overwritten when the last copy goes. What ``exposed`` gives is a text like any other: keep none. In the
/// daemon the heap overwrites that too when it goes (`CHeap`).
public struct Secret: Sendable, Hashable {
  /// Not used as a key: it is the kind of memory that swift-crypto clears at its end.
  private let bytes: SymmetricKey

  public init(_ text: String) {
    var text = text
    bytes = text.withUTF8 { SymmetricKey(data: UnsafeRawBufferPointer($0)) }
  }

  /// The secret itself, for the wire and for sealing.
  public var exposed: String { withExposedBytes { String(decoding: $0, as: UTF8.self) } }

  /// The same without a copy, in UTF-8.
  public func withExposedBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
    try bytes.withUnsafeBytes(body)
  }

  public var isEmpty: Bool { bytes.bitCount == 0 }

  /// Whether both are the same, in time that depends on the lengths alone.
  public static func == (lhs: Secret, rhs: Secret) -> Bool { lhs.bytes == rhs.bytes }

  public func hash(into hasher: inout Hasher) {
    withExposedBytes { hasher.combine(bytes: $0) }
  }
}

extension Secret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { "‹redacted›" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: [:]) }
}

/// Compares in time that depends on the lengths alone (RFC 6749 §10.12: the attacker may measure).
public func constantTimeEqual(_ lhs: String, _ rhs: String) -> Bool {
  let left = Array(lhs.utf8)
  let right = Array(rhs.utf8)
  var difference: UInt8 = left.count == right.count ? 0 : 1
  for index in left.indices {
    difference |= left[index] ^ (right.isEmpty ? 0xff : right[index % right.count])
  }
  return difference == 0
}
