import Logging
import PlainText

/// Text from outside, made fit for one line of a log or a terminal.
enum LogText {
  /// `text` with control and invisible formatting characters escaped, and cut to at most `limit` bytes with `…` at
  /// the end where something is missing. A cut never splits an escape or a character.
  static func escaped(_ text: String, limit: Int, quoted: Bool = false) -> String {
    var result = ""
    var length = 0
    for scalar in text.unicodeScalars {
      let piece = escape(scalar, quoted: quoted)
      guard length + piece.utf8.count <= limit else { return result + "…" }
      result += piece
      length += piece.utf8.count
    }
    return result
  }

  /// `text` with the same characters escaped but line feeds and tabs.
  static func lines(_ text: String) -> String {
    func isKept(_ scalar: Unicode.Scalar) -> Bool { scalar == "\n" || scalar == "\t" || scalar.isSafe }
    guard !text.unicodeScalars.allSatisfy(isKept) else { return text }
    return text.unicodeScalars.map { isKept($0) ? String($0) : escape($0, quoted: false) }.joined()
  }

  /// A metadata value for `key=value`: bare where that is unambiguous, else in double quotes.
  static func value(_ text: String, limit: Int) -> String {
    let bare =
      !text.isEmpty
      && text.unicodeScalars.allSatisfy { !$0.properties.isWhitespace && $0 != "\"" && $0 != "=" && $0 != "\\" }
    return bare ? escaped(text, limit: limit) : "\"\(escaped(text, limit: limit, quoted: true))\""
  }

  private static func escape(_ scalar: Unicode.Scalar, quoted: Bool) -> String {
    switch scalar {
    case "\n": return "\\n"
    case "\r": return "\\r"
    case "\t": return "\\t"
    case "\"" where quoted, "\\" where quoted: return "\\\(scalar)"
    default: break
    }
    return scalar.isSafe ? String(scalar) : "\\u{\(String(scalar.value, radix: 16))}"
  }
}

/// An event's metadata from all its sources, the most specific winning: event, then provider, then logger.
func mergedMetadata(
  of event: LogEvent, logger: Logger.Metadata, provider: Logger.MetadataProvider?
) -> [(key: String, value: String)] {
  var all = logger
  if let provider { all.merge(provider.get()) { $1 } }
  if let own = event.metadata { all.merge(own) { $1 } }
  if let error = event.error, all["error"] == nil { all["error"] = "\(error)" }
  return all.sorted { $0.key < $1.key }.map { ($0.key, "\($0.value)") }
}
