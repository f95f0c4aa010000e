import OAuth

/// One key of a section: what decodes it, what documents it and what makes other keys unknown.
struct Key<Target>: Sendable {
  var name: String
  var expected: String
  /// What holds without it, as the reference prints it; empty: nothing.
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

  /// Sets what the table says; what it says wrongly is reported and left as it was.
  ///
  /// - Parameter title: the section as errors call it.
  /// - Parameter others: keys that are not in the table of keys, and right nevertheless.
  /// - Parameter misplaced: what is said of a key that is right elsewhere; completes its name.
  func read(
    _ table: [String: Item], into target: inout Target, title: String, others: [String] = [],
    misplaced: (String) -> String? = { _ in nil }, report: inout Report
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

extension Report {
  fileprivate mutating func problem<Target>(_ error: Unfit, key: Key<Target>, in title: String, at place: Place) {
    switch error {
    case .found(let found, let suggestion):
      problem("\"\(key.name)\" in \(title) must be \(key.expected), not \(found)", at: place, suggestion: suggestion)
    case .because(let message, let suggestion):
      problem("\"\(key.name)\" in \(title): \(message)", at: place, suggestion: suggestion)
    }
  }
}
