import OAuth

/// One key of a section: its decoding, its documentation, and the list of known keys.
struct Key<Target>: Sendable {
  var name: String
  var expected: String
  /// The default, as the reference prints it; empty: none.
  var standard: String
  var meaning: String
  fileprivate var set: @Sendable (inout Target, Item.Value) throws(Unfit) -> Void

  init<Output>(
    _ name: String, _ form: Form<Output>, _ member: any WritableKeyPath<Target, Output> & Sendable,
    standard: String = "",
    _ meaning: String
  ) {
    self.init(name, expected: form.expected, standard: standard, meaning) { target, value throws(Unfit) in
      target[keyPath: member] = try form.read(value)
    }
  }

  init<Output>(
    _ name: String, _ form: Form<Output>, _ member: any WritableKeyPath<Target, Output?> & Sendable,
    standard: String = "",
    _ meaning: String
  ) {
    self.init(name, expected: form.expected, standard: standard, meaning) { target, value throws(Unfit) in
      target[keyPath: member] = try form.read(value)
    }
  }

  init(
    _ name: String, expected: String, standard: String = "", _ meaning: String,
    set: @escaping @Sendable (inout Target, Item.Value) throws(Unfit) -> Void
  ) {
    self.name = name
    self.expected = expected
    self.standard = standard
    self.meaning = meaning
    self.set = set
  }
}

/// A table of the configuration, as a table.
struct Section<Target>: Sendable {
  /// As its header is written: `[provider.NAME]`.
  var header: String
  var meaning: String
  var keys: [Key<Target>]

  /// Sets the table's values; invalid ones are reported and left unchanged.
  ///
  /// - Parameter title: the section's name in errors.
  /// - Parameter others: valid keys outside the table of keys.
  /// - Parameter misplaced: the message for a key that belongs elsewhere; completes its name.
  func read(
    _ table: [String: Item], into target: inout Target, title: String, others: [String] = [],
    misplaced: (String) -> String? = { _ in nil }, report: inout ConfigurationReport
  ) {
    for (name, item) in table.inOrder where !others.contains(name) {
      guard let key = keys.first(where: { $0.name == name }) else {
        if let why = misplaced(name) {
          report.problem("\(quoted(name)) in \(title) \(why)", at: item.place, suggestion: "remove it")
          continue
        }
        let suggestion = didYouMean(name, keys.map(\.name) + others)
        report.problem("unknown key \(quoted(name)) in \(title)", at: item.place, suggestion: suggestion)
        continue
      }
      do throws(Unfit) {
        try key.set(&target, item.value)
      } catch {
        report.problem(error, key: key, in: title, at: item.place)
      }
    }
  }
}

extension ConfigurationReport {
  fileprivate mutating func problem<Target>(_ error: Unfit, key: Key<Target>, in title: String, at place: FileLocation)
  {
    switch error {
    case .found(let found, let suggestion):
      problem("\"\(key.name)\" in \(title) must be \(key.expected), not \(found)", at: place, suggestion: suggestion)
    case .because(let message, let suggestion):
      problem("\"\(key.name)\" in \(title): \(message)", at: place, suggestion: suggestion)
    }
  }
}
