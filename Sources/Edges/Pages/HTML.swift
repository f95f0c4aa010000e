import PlainText

/// Markup. Text that is interpolated into it is escaped; only literals and other markup stay unchanged.
public struct HTML: Sendable, Equatable, ExpressibleByStringInterpolation {
  /// Characters of an interpolated text.
  public static let textLimit = 600

  public private(set) var markup: String

  public init(stringLiteral literal: StaticString) { markup = literal.description }

  public init(stringInterpolation: Interpolation) { markup = stringInterpolation.markup }

  private init(markup: String) { self.markup = markup }

  public static func + (left: HTML, right: HTML) -> HTML { HTML(markup: left.markup + right.markup) }

  public static func += (left: inout HTML, right: HTML) { left.markup += right.markup }

  public var isEmpty: Bool { markup.isEmpty }

  public struct Interpolation: StringInterpolationProtocol {
    fileprivate var markup = ""

    public init(literalCapacity: Int, interpolationCount: Int) {
      markup.reserveCapacity(literalCapacity + 32 * interpolationCount)
    }

    public mutating func appendLiteral(_ literal: StaticString) { markup += literal.description }

    public mutating func appendInterpolation(_ html: HTML) { markup += html.markup }

    public mutating func appendInterpolation(_ html: HTML?) { if let html { markup += html.markup } }

    public mutating func appendInterpolation(_ parts: [HTML]) { for part in parts { markup += part.markup } }

    public mutating func appendInterpolation(_ number: some BinaryInteger) { markup += number.description }

    /// - Parameter limit: characters; the rest is replaced by an ellipsis.
    public mutating func appendInterpolation(_ text: some StringProtocol, limit: Int = HTML.textLimit) {
      markup += HTML.escaped(text, limit: limit)
    }

    /// Text in which parts between backticks are commands.
    public mutating func appendInterpolation(words text: String, limit: Int = HTML.textLimit) {
      markup += HTML.withCode(HTML.escaped(text, limit: limit))
    }

    /// A value of a URL's query.
    public mutating func appendInterpolation(query text: String) { markup += HTML.percentEncoded(text) }
  }
}

extension HTML {
  /// For text and quoted attributes: nothing in it can end either, nor reorder the text around it.
  public static func escaped(_ text: some StringProtocol, limit: Int) -> String {
    var result = ""
    var count = 0
    for scalar in text.unicodeScalars {
      guard count < limit else { return result + "…" }
      count += 1
      switch scalar {
      case "&": result += "&amp;"
      case "<": result += "&lt;"
      case ">": result += "&gt;"
      case "\"": result += "&quot;"
      case "'": result += "&#39;"
      case "\n", "\t": result += " "
      default: result.unicodeScalars.append(scalar.isSafe ? scalar : "\u{fffd}")
      }
    }
    return result
  }

  /// Lines of a file, to be shown in `<pre>`.
  public static func lines(_ text: String, limit: Int = 16 * 1024) -> HTML {
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
      line.split(separator: "\t", omittingEmptySubsequences: false).map { escaped($0, limit: limit) }
        .joined(separator: "\t")
    }
    return HTML(markup: String(lines.joined(separator: "\n").prefix(8 * limit)))
  }

  /// In bytes of escaped text.
  private static func withCode(_ text: String) -> String {
    let parts = text.split(separator: "`", omittingEmptySubsequences: false)
    guard parts.count % 2 == 1 else { return text }
    return parts.enumerated().map { $0 % 2 == 1 ? "<code>\($1)</code>" : "\($1)" }.joined()
  }

  private static let hexadecimal = Array("0123456789ABCDEF".utf8)

  /// RFC 3986 §2.1, with only the unreserved characters unencoded.
  public static func percentEncoded(_ text: String) -> String {
    var bytes: [UInt8] = []
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
        UInt8(ascii: "~"):
        bytes.append(byte)
      default: bytes += [UInt8(ascii: "%"), hexadecimal[Int(byte >> 4)], hexadecimal[Int(byte & 15)]]
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
