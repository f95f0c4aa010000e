/// A token, client secret, code or verifier. It cannot print: interpolation, `dump`, a debugger's summary and `Mirror`
/// all show `‹redacted›`. Each use of ``exposed`` must have a reason.
public struct Secret: Sendable, Hashable {
  private let text: String

  public init(_ text: String) {
    self.text = text
  }

  /// The secret itself, for the wire and for sealing.
  public var exposed: String { text }

  public var isEmpty: Bool { text.isEmpty }

  /// Whether both are the same, in time that depends on the lengths alone.
  public static func == (lhs: Secret, rhs: Secret) -> Bool {
    constantTimeEqual(lhs.text, rhs.text)
  }

  public func hash(into hasher: inout Hasher) {
    hasher.combine(text)
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
