/// Whether every server reads a request's path in the same way. The one judge for rules, `request.send` and `/forward`.
public enum PlainPath {
  /// How often a server may decode a path, at most, before it reads it.
  private static let decodings = 4

  /// The refusal of another path, and the next step.
  public static let refusal = "the path has a step “.” or “..”, or characters that servers read differently"
  public static let hint = "Write it without such steps and characters."

  /// False if the path has steps upwards, control characters or other separators, in any encoding: it may lead to another
  /// resource than the one that was allowed.
  ///
  /// - Parameter allowsEmptySteps: `//`, which some servers read as `/`.
  public static func isPlain(_ path: String, allowsEmptySteps: Bool = false) -> Bool {
    var bytes = Array(path.utf8)
    for _ in 0..<decodings {
      guard bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }), !hasOverlong(bytes),
        hasNoSteps(withoutLookalikes(bytes), allowsEmptySteps)
      else { return false }
      let decoded = unescaped(bytes)
      if decoded == bytes { return true }
      bytes = decoded
    }
    return false
  }

  /// Whether the path of a request target is plain (RFC 9112 §3.2.1); a query may follow it. Empty steps are allowed.
  public static func isPlain(target: String) -> Bool {
    isCertainlyPlain(target: target)
      || isPlain(
        String(decoding: target.utf8.prefix { $0 != UInt8(ascii: "?") }, as: UTF8.self), allowsEmptySteps: true)
  }

  // MARK: One pass over the bytes

  // Most paths need no more, and neither check copies one. If either answers true, ``isPlain(_:allowsEmptySteps:)`` does
  // for the path without the query; a test compares them.

  /// False if a step of the path may be "." or "..", or if any character could hide one. Empty steps are allowed.
  static func isCertainlyPlain(target: String) -> Bool {
    guard target.utf8.first == UInt8(ascii: "/") else { return false }
    var previous: UInt8 = 0
    for byte in target.utf8 {
      switch byte {
      case UInt8(ascii: "?"): return true
      case 0..<0x20, UInt8(ascii: "%"), UInt8(ascii: "\\"), 0x7F...: return false
      case UInt8(ascii: "."): if previous == UInt8(ascii: "/") { return false }
      default: break
      }
      previous = byte
    }
    return true
  }

  /// Whether a request target is also sent unchanged: path and query of permitted characters (RFC 3986 §3.3, §3.4), and no
  /// empty or encoded step in the path.
  static func isVerbatim(target: String) -> Bool {
    var previous: UInt8 = 0
    var isQuery = false
    for byte in target.utf8 {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "~"),
        UInt8(ascii: "&"), UInt8(ascii: "="), UInt8(ascii: "+"), UInt8(ascii: ","), UInt8(ascii: ":"),
        UInt8(ascii: "@"), UInt8(ascii: "!"), UInt8(ascii: "$"), UInt8(ascii: "*"), UInt8(ascii: "("),
        UInt8(ascii: ")"), UInt8(ascii: "'"):
        break
      case UInt8(ascii: "?"): isQuery = true
      case UInt8(ascii: "/"), UInt8(ascii: "."):
        // A step that begins with a dot, or an empty one.
        guard isQuery || previous != UInt8(ascii: "/") else { return false }
      default: return false
      }
      previous = byte
    }
    return target.utf8.first == UInt8(ascii: "/")
  }

  // MARK: The whole examination

  /// UTF-8 that is longer than it must be (RFC 3629 §3): `C0 AE` is a dot to some servers.
  private static func hasOverlong(_ bytes: [UInt8]) -> Bool {
    bytes.indices.contains { index in
      let next = index + 1 < bytes.count ? bytes[index + 1] : 0
      return switch bytes[index] {
      case 0xC0, 0xC1: true
      case 0xE0: (0x80...0x9F).contains(next)
      case 0xF0: (0x80...0x8F).contains(next)
      default: false
      }
    }
  }

  /// Characters that some servers normalise to a dot or a separator (Unicode compatibility, NFKC).
  private static let lookalikes: [(bytes: [UInt8], plain: UInt8)] = [
    ([0xEF, 0xBC, 0x8E], UInt8(ascii: ".")), ([0xE2, 0x80, 0xA4], UInt8(ascii: ".")),
    ([0xEF, 0xBC, 0x8F], UInt8(ascii: "/")), ([0xE2, 0x81, 0x84], UInt8(ascii: "/")),
    ([0xE2, 0x88, 0x95], UInt8(ascii: "/")), ([0xEF, 0xBC, 0xBC], UInt8(ascii: "\\")),
  ]

  private static func withoutLookalikes(_ bytes: [UInt8]) -> [UInt8] {
    guard bytes.contains(where: { $0 >= 0xE2 }) else { return bytes }
    var result: [UInt8] = []
    var index = 0
    while index < bytes.count {
      if let found = lookalikes.first(where: { bytes[index...].starts(with: $0.bytes) }) {
        result.append(found.plain)
        index += found.bytes.count
      } else {
        result.append(bytes[index])
        index += 1
      }
    }
    return result
  }

  private static func hasNoSteps(_ path: [UInt8], _ allowsEmptySteps: Bool) -> Bool {
    let separators: Set<UInt8> = [UInt8(ascii: "/"), UInt8(ascii: "\\")]
    let steps = path.dropFirst().split(omittingEmptySubsequences: false, whereSeparator: separators.contains)
    return steps.enumerated().allSatisfy { index, step in
      // Some servers take the text after a semicolon for parameters, and some ignore spaces at the end.
      var name = Array(step.prefix { $0 != UInt8(ascii: ";") })
      while name.last == 0x20 { name.removeLast() }
      guard name != Array(".".utf8), name != Array("..".utf8) else { return false }
      return !step.isEmpty || allowsEmptySteps || index == steps.count - 1
    }
  }

  private static func unescaped(_ text: [UInt8]) -> [UInt8] {
    func digit(_ byte: UInt8) -> UInt8? { Character(UnicodeScalar(byte)).hexDigitValue.map(UInt8.init) }
    var result: [UInt8] = []
    var index = 0
    while index < text.count {
      if text[index] == UInt8(ascii: "%"), index + 2 < text.count, let high = digit(text[index + 1]),
        let low = digit(text[index + 2])
      {
        result.append(high << 4 | low)
        index += 3
      } else {
        result.append(text[index])
        index += 1
      }
    }
    return result
  }
}
