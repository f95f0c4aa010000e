import Foundation

/// Parameters in `application/x-www-form-urlencoded` (RFC 6749 Appendix B), in their order.
struct Form: Sendable {
  private(set) var pairs: [(name: String, value: String)]

  init(_ pairs: [(name: String, value: String)] = []) {
    self.pairs = pairs
  }

  init(encoded: some StringProtocol) {
    pairs = encoded.split(separator: "&").map { pair in
      let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      return (Self.decode(parts[0]), parts.count > 1 ? Self.decode(parts[1]) : "")
    }
  }

  /// The first value; a parameter without one counts as omitted (RFC 6749 §3.1).
  subscript(name: String) -> String? {
    pairs.first { $0.name == name }.map(\.value).flatMap { $0.isEmpty ? nil : $0 }
  }

  /// Every value of a parameter that may repeat.
  func all(_ name: String) -> [String] {
    pairs.filter { $0.name == name && !$0.value.isEmpty }.map(\.value)
  }

  /// The words of a parameter that is a list of them, nil where it is omitted.
  func words(_ name: String) -> [String]? {
    self[name].map { $0.split(separator: " ").map(String.init) }
  }

  /// A name that occurs twice, which RFC 6749 §3.1 forbids. `resource` and `audience` may repeat (RFC 8707 §2,
  /// RFC 8693 §2.1).
  var repeated: String? {
    var seen: Set<String> = []
    return pairs.map(\.name).first { !["resource", "audience"].contains($0) && !seen.insert($0).inserted }
  }

  var encoded: String {
    pairs.map { "\(Self.encode($0.name))=\(Self.encode($0.value))" }.joined(separator: "&")
  }

  static func decode(_ text: some StringProtocol) -> String {
    let spaced = text.replacingOccurrences(of: "+", with: " ")
    return spaced.removingPercentEncoding ?? spaced
  }

  static func encode(_ text: String) -> String {
    text.addingPercentEncoding(withAllowedCharacters: unreserved) ?? ""
  }

  private static let unreserved = CharacterSet(
    charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
}

/// Unpadded base64url (RFC 7515 §2).
enum Base64URL {
  static func encode(_ bytes: some Sequence<UInt8>) -> String {
    Data(bytes).base64EncodedString()
      .replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_")
      .replacingOccurrences(of: "=", with: "")
  }

  static func decode(_ text: some StringProtocol) -> Data? {
    let standard = text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
    return Data(base64Encoded: standard + String(repeating: "=", count: (4 - standard.utf8.count % 4) % 4))
  }

  /// 256 random bits.
  static func random() -> String {
    var generator = SystemRandomNumberGenerator()
    return encode((0..<32).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
  }
}
