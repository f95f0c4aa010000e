/// The bytes that the front handles.
enum Plain {
  /// Printable ASCII, and not empty.
  static func isText(_ text: String) -> Bool {
    for byte in text.utf8 where byte < 0x20 || byte > 0x7E { return false }
    return !text.isEmpty
  }

  /// The name of an account. The broker refuses others, with the full program's message.
  static func isAccount(_ text: String) -> Bool {
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): continue
      case UInt8(ascii: "0")...UInt8(ascii: "9"): continue
      case UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "@"), UInt8(ascii: "+"), UInt8(ascii: "-"): continue
      default: return false
      }
    }
    return !text.isEmpty
  }

  /// Whole seconds; the parser of the full program also takes fractions, signs and exponents.
  static func seconds(_ text: String) -> Int64? {
    var value: Int64 = 0
    guard !text.isEmpty, text.utf8.count <= longestNumber else { return nil }
    for byte in text.utf8 {
      guard byte >= 0x30, byte <= 0x39 else { return nil }
      value = value * 10 + Int64(byte - 0x30)
    }
    return value
  }

  private static let longestNumber = 9
}
