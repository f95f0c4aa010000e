import Pages

extension Page {
  /// The visible content.
  var notice: Notice {
    Notice(
      tone: tone, heading: heading, lead: lead, facts: facts, detail: detail, hint: hint,
      onward: location.map { goesOnByItself ? .automatic($0) : .link($0) })
  }

  /// A document without scripts and without anything to load.
  var html: String { notice.document }
}
