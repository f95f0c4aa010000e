public import FoundationEssentials
import PlainText

/// base64url without padding (RFC 7515 §2).
public func base64URL(_ bytes: some Sequence<UInt8>) -> String {
  let standard = Data(bytes).base64EncodedData().prefix { $0 != UInt8(ascii: "=") }
  let letters = standard.map { byte in
    switch byte {
    case UInt8(ascii: "+"): UInt8(ascii: "-")
    case UInt8(ascii: "/"): UInt8(ascii: "_")
    default: byte
    }
  }
  return String(decoding: letters, as: UTF8.self)
}

/// Decodes base64url; nil if the text contains padding, white space or other characters outside the alphabet (RFC 7515
/// §2), or nonzero spare bits: two texts never decode to the same bytes (RFC 4648 §3.5).
public func decodeBase64URL(_ text: some StringProtocol) -> Data? {
  var standard: [UInt8] = []
  for byte in text.utf8 {
    switch byte {
    case UInt8(ascii: "-"): standard.append(UInt8(ascii: "+"))
    case UInt8(ascii: "_"): standard.append(UInt8(ascii: "/"))
    case 0x30...0x39, 0x41...0x5a, 0x61...0x7a: standard.append(byte)
    default: return nil
    }
  }
  guard standard.count % 4 != 1, hasNoSpareBits(standard) else { return nil }
  standard += Array(repeating: UInt8(ascii: "="), count: (4 - standard.count % 4) % 4)
  return Data(base64Encoded: Data(standard))
}

/// Whether the unused bits of the last character are zero.
private func hasNoSpareBits(_ letters: [UInt8]) -> Bool {
  switch letters.count % 4 {
  case 2: "AQgw".utf8.contains(letters[letters.count - 1])
  case 3: "AEIMQUYcgkosw048".utf8.contains(letters[letters.count - 1])
  default: true
  }
}

/// Two digits in lower case for each byte.
package func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
  let digits = Array("0123456789abcdef".utf8)
  return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
}

/// A parameter of a query or a form.
public struct Parameter: Sendable, Hashable, Codable {
  public var name: String
  public var value: String

  public init(_ name: String, _ value: String) {
    self.name = name
    self.value = value
  }
}

/// `application/x-www-form-urlencoded` (RFC 6749 appendix B), also the format of queries.
package enum FormEncoding {
  private static let hexadecimal = Array("0123456789ABCDEF".utf8)

  private static func escape(_ text: String, kept: (UInt8) -> Bool) -> [UInt8] {
    var result: [UInt8] = []
    for byte in text.utf8 {
      switch byte {
      case 0x30...0x39, 0x41...0x5a, 0x61...0x7a: result.append(byte)
      case _ where kept(byte): result.append(byte)
      default: result += [UInt8(ascii: "%"), hexadecimal[Int(byte >> 4)], hexadecimal[Int(byte & 15)]]
      }
    }
    return result
  }

  /// One name or value for a form body: a space becomes `+`.
  package static func encode(_ text: String) -> String {
    let escaped = escape(text) { " *-._".utf8.contains($0) }
    return String(decoding: escaped.map { $0 == 0x20 ? UInt8(ascii: "+") : $0 }, as: UTF8.self)
  }

  /// A form body.
  static func encode(_ parameters: [Parameter]) -> String {
    parameters.map { "\(encode($0.name))=\(encode($0.value))" }.joined(separator: "&")
  }

  /// A query: a space becomes `%20`, since some readers take `+` literally.
  static func query(_ parameters: [Parameter]) -> String {
    func encode(_ text: String) -> String {
      String(decoding: escape(text) { "-._~".utf8.contains($0) }, as: UTF8.self)
    }
    return parameters.map { "\(encode($0.name))=\(encode($0.value))" }.joined(separator: "&")
  }

  /// The parameters of a query or form, with `+` as a space; nil if an escape is invalid or the result is not UTF-8.
  package static func decode(_ text: some StringProtocol) -> [Parameter]? {
    var parameters: [Parameter] = []
    for pair in text.utf8.split(separator: UInt8(ascii: "&")) {
      let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
      guard let name = unescape(parts[0]), let value = parts.count == 2 ? unescape(parts[1]) : "" else { return nil }
      parameters.append(Parameter(name, value))
    }
    return parameters
  }

  /// The parameters of a query from another program. A name or value with an invalid escape or invalid UTF-8 is decoded
  /// as far as possible and marked as inexact.
  package static func decodeLeniently(_ text: some StringProtocol) -> [(parameter: Parameter, isExact: Bool)] {
    text.utf8.split(separator: UInt8(ascii: "&")).map { pair in
      let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
      let exactName = unescape(parts[0])
      let exactValue = parts.count == 2 ? unescape(parts[1]) : ""
      let parameter = Parameter(
        exactName ?? lenientText(parts[0]), exactValue ?? (parts.count == 2 ? lenientText(parts[1]) : ""))
      return (parameter, exactName != nil && exactValue != nil)
    }
  }

  /// A percent sign without two hexadecimal digits is kept, and invalid UTF-8 becomes U+FFFD.
  private static func lenientText(_ text: some Collection<UInt8>) -> String {
    var result: [UInt8] = []
    let bytes = Array(text)
    var index = 0
    while index < bytes.count {
      let byte = bytes[index]
      index += 1
      if byte == UInt8(ascii: "%"), index + 1 < bytes.count, let high = hexDigit(bytes[index]),
        let low = hexDigit(bytes[index + 1])
      {
        result.append(high << 4 | low)
        index += 2
      } else {
        result.append(byte == UInt8(ascii: "+") ? 0x20 : byte)
      }
    }
    return String(decoding: result, as: UTF8.self)
  }

  /// - Parameter plus: the character for `+`: a space in a form, itself in the other parts of a URI.
  package static func unescape(_ text: some Collection<UInt8>, plus: UInt8 = 0x20) -> String? {
    var result: [UInt8] = []
    var rest = Array(text)[...]
    while let byte = rest.popFirst() {
      switch byte {
      case UInt8(ascii: "+"): result.append(plus)
      case UInt8(ascii: "%"):
        guard let high = rest.popFirst().flatMap(hexDigit), let low = rest.popFirst().flatMap(hexDigit) else {
          return nil
        }
        result.append(high << 4 | low)
      default: result.append(byte)
      }
    }
    return String(validating: result, as: UTF8.self)
  }
}

extension String {
  /// Untrusted text made safe for a log line or a terminal: at most `limit` Unicode scalars, with control,
  /// line-separating and direction-changing characters written as `\u{…}`.
  public func printable(limit: Int) -> String {
    var result = ""
    var length = 0
    for scalar in unicodeScalars {
      let piece = scalar.isSafe ? String(Character(scalar)) : "\\u{\(String(scalar.value, radix: 16))}"
      length += piece.unicodeScalars.count
      if length > limit { return String(result.unicodeScalars.prefix(max(limit - 1, 0))) + "…" }
      result += piece
    }
    return result
  }

  /// The text of an untrusted server for users: control and line-separating characters become spaces, and the rest is
  /// ``printable(limit:)``.
  public func asSentence(limit: Int) -> String {
    let scalars = unicodeScalars.map { scalar -> Unicode.Scalar in
      switch scalar.properties.generalCategory {
      case .control, .lineSeparator, .paragraphSeparator: " "
      default: scalar
      }
    }
    return String(String.UnicodeScalarView(scalars)).printable(limit: limit)
  }
}

/// The value of a hexadecimal digit.
private func hexDigit(_ byte: UInt8) -> UInt8? {
  switch byte {
  case 0x30...0x39: byte - 0x30
  case 0x41...0x46: byte - 0x41 + 10
  case 0x61...0x66: byte - 0x61 + 10
  default: nil
  }
}
