import BrokerAPI
import Foundation

@testable import OAuth
@testable import grantctl

extension Target {
  /// Untrusted texts on their way to a terminal or a log, and the small codings: base64url, forms, HTTP's dates.
  static let texts = Target(name: "texts", longest: 1024) { bytes in
    let text = decoded(bytes)
    try checkTerminal(text)
    for limit in [1, 2, 16, 512] {
      let printable = text.printable(limit: limit)
      try expect(!printable.unicodeScalars.contains(where: steers), "a log line can be controlled")
      try expect(printable.unicodeScalars.count <= limit, "\(printable.unicodeScalars.count) characters, not \(limit)")
    }
    try expect(decodeBase64URL(base64URL(bytes)) == Data(bytes), "base64url loses bytes")
    if let data = decodeBase64URL(text) { try expect(base64URL(data) == text, "two texts are the same in base64url") }
    let parameters = [Parameter(text, text), Parameter("", text)]
    try expect(FormEncoding.decode(FormEncoding.encode(parameters)) == parameters, "a form loses a parameter")
    try expect(FormEncoding.decode(FormEncoding.query(parameters)) == parameters, "a query loses a parameter")
    if let date = Timestamp(httpDate: text) { _ = date + .seconds(86_400) }
    if let uri = URI(text) { try checkParts(uri, text) }
  }

  private static func checkTerminal(_ text: String) throws {
    let line = SafeText.line(text)
    try expect(!line.unicodeScalars.contains(where: steers), "a terminal can be controlled: \(line.debugDescription)")
    try expect(SafeText.line(line) == line, "a safe text changes")
    for line in SafeText.lines(text) {
      try expect(!line.unicodeScalars.contains(where: steers), "a terminal can be controlled: \(line.debugDescription)")
    }
    for columns in [1, 7, 80] {
      let fitted = SafeText.fitted(line, columns: columns)
      try expect(SafeText.width(fitted) <= columns, "\(SafeText.width(fitted)) columns, not \(columns)")
      let words = SafeText.wrapped(line, columns: columns).flatMap { $0.split(separator: " ") }
      try expect(words == line.split(separator: " "), "words are lost as lines are broken")
    }
    let json = JSON.object([.init(name: text, value: .string(text))])
    let safe = SafeText.json(decoded(json.serialized()))
    try expect(!safe.unicodeScalars.contains(where: steers), "JSON controls the terminal: \(safe.debugDescription)")
    try expect(try JSON.parse(safe.utf8) == json, "safe JSON says something else")
  }

  /// The parts make the text again.
  private static func checkParts(_ uri: URI, _ text: String) throws {
    var whole = uri.scheme + ":"
    if let host = uri.host { whole += "//" + (uri.user.map { $0 + "@" } ?? "") + host }
    if let port = uri.port { whole += ":\(port)" }
    whole += uri.path + (uri.query.map { "?" + $0 } ?? "") + (uri.fragment.map { "#" + $0 } ?? "")
    // A port may be written with zeros in front, or not at all.
    let hasOddPort = uri.host != nil && whole.utf8.count < text.utf8.count
    try expect(Array(whole.utf8) == Array(text.utf8) || hasOddPort, "the parts are of \(whole), not of \(text)")
  }
}
