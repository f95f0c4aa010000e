/// The frame of every page.
public enum Document {
  /// Characters of a title.
  static let titleLimit = 128

  public enum Style {
    /// In the page itself; a policy allows it by ``Stylesheet/hash``.
    case inline
    /// Sources of the page's own origin.
    case linked(path: String)
  }

  /// - Parameters:
  ///   - tone: the colour of the icon.
  ///   - head: further elements of the head.
  public static func html(
    title: String, tone: Tone, style: Style, head: HTML = "", bodyClass: HTML = "", body: HTML
  ) -> String {
    let sheet: HTML =
      switch style {
      case .inline: Stylesheet.element
      case .linked(let path): "<link rel=\"stylesheet\" href=\"\(path)\">"
      }
    let page: HTML = """
      <!DOCTYPE html>
      <html lang="en">
      <head>
      <meta charset="utf-8">
      <meta name="viewport" content="width=device-width, initial-scale=1">
      <meta name="color-scheme" content="light dark">
      <meta name="robots" content="noindex">
      \(head)<title>\(title, limit: titleLimit) – grantd</title>
      <link rel="icon" href="data:image/svg+xml,\(icon(tone))">
      \(sheet)
      </head>
      <body class="\(bodyClass)">
      \(body)</body>
      </html>

      """
    return page.markup
  }

  /// A dot in the tone's colour; also keeps browsers from requesting `/favicon.ico`.
  private static func icon(_ tone: Tone) -> HTML {
    let color: HTML =
      switch tone {
      case .good: "1a7f4b"
      case .neutral: "2456c7"
      case .bad: "b3452c"
      }
    return """
      %3Csvg xmlns=%27http://www.w3.org/2000/svg%27 viewBox=%270 0 16 16%27%3E\
      %3Ccircle cx=%278%27 cy=%278%27 r=%277%27 fill=%27%23\(color)%27/%3E%3C/svg%3E
      """
  }
}

public enum Tone: Sendable, Equatable {
  case good, neutral, bad

  public var name: HTML {
    switch self {
    case .good: "good"
    case .neutral: "neutral"
    case .bad: "bad"
    }
  }
}

/// The value of `Content-Security-Policy`: nothing is loaded, run or framed except what is named here.
public enum ContentPolicy {
  private static let closed = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

  /// For a page with the inline stylesheet and nothing to load.
  public static let still = "default-src 'none'; style-src '\(Stylesheet.hash)'; img-src data:; \(closed)"

  /// The same with one inline script, which may reach its own origin.
  public static func running(scriptHash: String) -> String {
    still + "; script-src '\(scriptHash)'; connect-src 'self'"
  }

  /// For a page whose stylesheet, script, forms and events are of its own origin.
  public static let application =
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    + "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
}
