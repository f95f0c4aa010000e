/// RFC 4648 §4.
public enum Base64 {
  private static let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
  private static let padding = UInt8(ascii: "=")

  public static func encoded(_ bytes: some Sequence<UInt8>) -> String {
    let digits = digits
    var output: [UInt8] = []
    var (bits, count) = (0, 0)
    for byte in bytes {
      (bits, count) = (bits << 8 | Int(byte), count + 1)
      guard count == 3 else { continue }
      for shift in [18, 12, 6, 0] { output.append(digits[bits >> shift & 63]) }
      (bits, count) = (0, 0)
    }
    if count > 0 {
      bits <<= 8 * (3 - count)
      for place in 0..<4 { output.append(place <= count ? digits[bits >> (18 - 6 * place) & 63] : padding) }
    }
    return String(decoding: output, as: UTF8.self)
  }

  /// Nil: it has other characters, or lacks padding.
  public static func decoded(_ text: String) -> [UInt8]? {
    var values = [UInt8?](repeating: nil, count: 256)
    for (value, digit) in digits.enumerated() { values[Int(digit)] = UInt8(value) }
    let letters = Array(text.utf8)
    guard letters.count % 4 == 0 else { return nil }
    let padded = letters.suffix(2).reversed().prefix { $0 == padding }.count
    var output: [UInt8] = []
    output.reserveCapacity(letters.count / 4 * 3)
    var (bits, count) = (0, 0)
    for letter in letters.dropLast(padded) {
      guard let value = values[Int(letter)] else { return nil }
      (bits, count) = (bits << 6 | Int(value), count + 6)
      guard count >= 8 else { continue }
      count -= 8
      output.append(UInt8(truncatingIfNeeded: bits >> count))
      bits &= 1 << count - 1
    }
    return output
  }
}
