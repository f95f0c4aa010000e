extension Page {
  /// Characters of a name, and of what somebody said.
  static let factLimit = 128
  static let detailLimit = 600

  /// A document without scripts and without anything to load.
  var html: String { Self.document(title: heading, tone: tone, main: content) }

  /// - Parameters:
  ///   - head, main: markup.
  static func document(title: String, tone: Tone, head: String = "", main: String) -> String {
    """
    <!DOCTYPE html>
    <html lang="en">
    <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <meta name="robots" content="noindex">
    \(head)<title>\(escaped(title, limit: factLimit)) – grantd</title>
    <link rel="icon" href="data:image/svg+xml,\(icon(tone))">
    <style>\(Stylesheet.text)</style>
    </head>
    <body>
    <main class="\(tone.rawValue)">
    \(main)<p class="by">grantd</p>
    </main>
    </body>
    </html>

    """
  }

  /// Markup.
  var content: String {
    """
    <p class="mark" aria-hidden="true">\(mark)</p>
    <h1>\(Self.escaped(heading, limit: Self.factLimit))</h1>
    <p class="lead">\(Self.escaped(lead, limit: Self.detailLimit))</p>
    \(factsHTML)\(detailHTML)\(hintHTML)\(locationHTML)
    """
  }

  private var mark: String {
    switch tone {
    case .good: "✓"
    case .neutral: "i"
    case .bad: "!"
    }
  }

  /// A dot in the tone's colour; also keeps browsers from asking for `/favicon.ico`.
  private static func icon(_ tone: Tone) -> String {
    let color =
      switch tone {
      case .good: "1a7f4b"
      case .neutral: "3b6fb5"
      case .bad: "b3452c"
      }
    return "%3Csvg xmlns=%27http://www.w3.org/2000/svg%27 viewBox=%270 0 16 16%27%3E"
      + "%3Ccircle cx=%278%27 cy=%278%27 r=%277%27 fill=%27%23\(color)%27/%3E%3C/svg%3E"
  }

  private var factsHTML: String {
    let rows = facts.filter { !$0.value.isEmpty }.map { fact in
      "<div><dt>\(Self.escaped(fact.label, limit: Self.factLimit))</dt>"
        + "<dd><bdi>\(Self.escaped(fact.value, limit: Self.factLimit))</bdi></dd></div>\n"
    }
    return rows.isEmpty ? "" : "<dl>\n\(rows.joined())</dl>\n"
  }

  private var detailHTML: String {
    guard let detail, !detail.isEmpty else { return "" }
    return "<blockquote><bdi>\(Self.escaped(detail, limit: Self.detailLimit))</bdi></blockquote>\n"
  }

  private var hintHTML: String {
    guard let hint, !hint.isEmpty else { return "" }
    let text = Self.withCode(Self.escaped(hint, limit: Self.detailLimit))
    return "<p class=\"hint\"><strong>What to do:</strong> \(text)</p>\n"
  }

  private var locationHTML: String {
    guard let location else { return "" }
    let address = Self.escaped(location.text, limit: Location.limit)
    let link = "<a rel=\"noreferrer\" href=\"\(address)\">"
    let text = goesOnByItself ? "If it does not: \(link)go on</a>." : "\(link)Go on</a>"
    return "<p class=\"hint\">\(text)</p>\n"
  }

  /// Hints quote commands in backticks, as the rest of the program's texts do. Of escaped text.
  private static func withCode(_ text: String) -> String {
    let parts = text.split(separator: "`", omittingEmptySubsequences: false)
    guard parts.count % 2 == 1 else { return text }
    return parts.enumerated().map { $0 % 2 == 1 ? "<code>\($1)</code>" : "\($1)" }.joined()
  }

  /// For text and quoted attributes: nothing in it can end either, nor reorder what is around it.
  static func escaped(_ text: String, limit: Int) -> String {
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
      default: result.unicodeScalars.append(isInvisible(scalar) ? "\u{fffd}" : scalar)
      }
    }
    return result
  }

  /// Control characters, and those that turn the reading direction or hide.
  private static func isInvisible(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned, .surrogate: true
    default: false
    }
  }
}
