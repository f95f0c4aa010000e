/// The forms in which a server may repeat a secret: unchanged, with the escapes of JSON, HTML, URLs and forms, or in
/// UTF-16. This is the only list for all searches of responses for a token.
public enum SecretForms {
  /// Each form once, longest first: one may be part of another.
  public static func of(_ secret: String) -> [[UInt8]] {
    var forms: Set<[UInt8]> = [Array(secret.utf8), Array(secret.replacing("/", with: "\\/").utf8)]
    forms.insert(Array(FormEncoding.encode(secret).utf8))
    for escape in escapes {
      forms.insert(secret.utf8.flatMap { isUnreserved($0) ? [$0] : Array(escape($0).utf8) })
    }
    let units = Array(secret.utf16)
    forms.insert(units.flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] })
    forms.insert(units.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xFF)] })
    return forms.sorted { $0.count > $1.count }
  }

  private static let escapes: [@Sendable (UInt8) -> String] = [
    { "%" + hex($0) }, { "%" + hex($0).lowercased() },
    { "\\u00" + hex($0) }, { "\\u00" + hex($0).lowercased() },
    { "&#x" + hex($0) + ";" }, { "&#x" + hex($0).lowercased() + ";" }, { "&#\($0);" },
  ]

  private static func hex(_ byte: UInt8) -> String {
    (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
  }

  /// Characters that no encoding escapes (RFC 3986 §2.3).
  private static func isUnreserved(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: true
    default: false
    }
  }
}
