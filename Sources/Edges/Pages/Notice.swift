/// One result for the user: what happened, and what to do next.
public struct Notice: Sendable, Equatable {
  /// Characters of a name, and of a message.
  public static let factLimit = 128
  public static let detailLimit = 600

  public struct Fact: Sendable, Equatable {
    public var label: String
    public var value: String

    public init(label: String, value: String) {
      self.label = label
      self.value = value
    }
  }

  public enum Onward: Sendable, Equatable {
    /// The browser follows the location without the user.
    case automatic(Location)
    case link(Location)
  }

  public var tone: Tone
  public var heading: String
  public var lead: String
  public var facts: [Fact]
  /// What the provider or the broker reported.
  public var detail: String?
  /// The next step.
  public var hint: String?
  public var onward: Onward?

  public init(
    tone: Tone, heading: String, lead: String, facts: [Fact] = [], detail: String? = nil, hint: String? = nil,
    onward: Onward? = nil
  ) {
    self.tone = tone
    self.heading = heading
    self.lead = lead
    self.facts = facts
    self.detail = detail
    self.hint = hint
    self.onward = onward
  }

  public var content: HTML {
    """
    <p class="mark" aria-hidden="true">\(mark)</p>
    <h1>\(heading, limit: Self.factLimit)</h1>
    <p class="lead">\(words: lead, limit: Self.detailLimit)</p>
    \(factsHTML)\(detailHTML)\(hintHTML)\(onwardHTML)
    """
  }

  /// A page of its own, without scripts and without anything to load.
  public var document: String {
    Document.html(title: heading, tone: tone, style: .inline, bodyClass: "notice", body: Self.card(tone, content))
  }

  public static func card(_ tone: Tone, _ content: HTML) -> HTML {
    """
    <main class="\(tone.name)">
    \(content)<p class="by">grantd</p>
    </main>

    """
  }

  private var mark: HTML {
    switch tone {
    case .good: "✓"
    case .neutral: "i"
    case .bad: "!"
    }
  }

  private var factsHTML: HTML {
    let rows: [HTML] = facts.filter { !$0.value.isEmpty }.map { fact in
      """
      <div><dt>\(fact.label, limit: Self.factLimit)</dt><dd><bdi>\(fact.value, limit: Self.factLimit)</bdi></dd></div>

      """
    }
    return rows.isEmpty ? "" : "<dl>\n\(rows)</dl>\n"
  }

  private var detailHTML: HTML {
    guard let detail, !detail.isEmpty else { return "" }
    return "<blockquote><bdi>\(detail, limit: Self.detailLimit)</bdi></blockquote>\n"
  }

  private var hintHTML: HTML {
    guard let hint, !hint.isEmpty else { return "" }
    return "<p class=\"hint\"><strong>What to do:</strong> \(words: hint, limit: Self.detailLimit)</p>\n"
  }

  private var onwardHTML: HTML {
    switch onward {
    case nil: ""
    case .automatic(let location)?: "<p class=\"hint\">If it does not: \(link(location))go on</a>.</p>\n"
    case .link(let location)?: "<p class=\"hint\">\(link(location))Go on</a></p>\n"
    }
  }

  private func link(_ location: Location) -> HTML {
    "<a rel=\"noreferrer\" href=\"\(location.text, limit: Location.limit)\">"
  }
}

/// A URL that is fit for a `Location` header and a link: `http` or `https`, and only the characters of RFC 3986.
public struct Location: Sendable, Equatable {
  public static let limit = 32 * 1024

  public let text: String

  public init?(_ text: String) {
    let scheme = text.lowercased()
    guard scheme.hasPrefix("https://") || scheme.hasPrefix("http://"), text.utf8.count <= Self.limit,
      text.utf8.allSatisfy({ (0x21...0x7e).contains($0) && !Self.excluded.contains($0) })
    else { return nil }
    self.text = text
  }

  /// Printable, and in no URI (RFC 3986 appendix C, RFC 2396 §2.4.3).
  private static let excluded = Set(#"<>"\^`{}|"#.utf8)
}
