import FoundationEssentials
import OAuth

/// The shipped settings of a well-known provider, such as `google.toml`. It has the keys of a provider section, and
/// under `[variables]` the texts for `{name}` in them, with their defaults.
struct Template {
  var keys: [String: Item]
  var variables: [String: Item]

  init(_ root: [String: Item]) {
    keys = root
    variables = keys.removeValue(forKey: "variables")?.table ?? [:]
  }

  /// The section of a user with this template under it: the user's keys take precedence, tables of parameters are
  /// merged. Nil, and a report, if a variable has no valid value.
  func applied(to section: [String: Item], title: String, at place: FileLocation, report: inout ConfigurationReport)
    -> [String: Item]?
  {
    var values: [String: String] = [:]
    for (name, standard) in variables.inOrder where section[name] != nil || isUsed(name, besides: section) {
      let found = value(of: name, standard, in: section, title: title, at: place, report: &report)
      guard let found else { return nil }
      values[name] = found
    }
    // The issuer is a key of every section and no variable; a template may repeat it, such as for `api_base`.
    let issuer = section["issuer"]?.text
    values["issuer"] = issuer
    var merged = keys.filter { issuer != nil || !$0.value.mentions("{issuer}") }.mapValues { $0.replacing(values) }
    for (key, item) in section where variables[key] == nil {
      if let table = item.table, let below = merged[key]?.table {
        merged[key] = Item(value: .table(below.merging(table) { _, new in new }), place: item.place)
      } else {
        merged[key] = item
      }
    }
    // A section with its own scopes has no others.
    if section["scopes"] != nil, section["optional_scopes"] == nil { merged["optional_scopes"] = nil }
    return merged
  }

  /// Whether any key that the user leaves alone has the variable in it.
  private func isUsed(_ name: String, besides section: [String: Item]) -> Bool {
    keys.contains { section[$0.key] == nil && $0.value.mentions("{\(name)}") }
  }

  private func value(
    of name: String, _ standard: Item, in section: [String: Item], title: String, at place: FileLocation,
    report: inout ConfigurationReport
  ) -> String? {
    guard let item = section[name] else {
      guard let text = standard.text, !text.isEmpty else {
        report.problem("\(title) has no \(quoted(name)), which its profile needs", at: place)
        return nil
      }
      return text
    }
    // A part of URLs: no character may end the part.
    guard let text = item.text, !text.isEmpty,
      text.utf8.allSatisfy({ byte in
        byte < 0x7f && (Character(Unicode.Scalar(byte)).isLetter || byte.isDigit || "._:-".utf8.contains(byte))
      })
    else {
      report.problem(
        "\(quoted(name)) in \(title) must be a text of letters, digits and . _ : -, not "
          + (item.text.map(quoted) ?? item.value.kind), at: item.place)
      return nil
    }
    return text
  }
}

extension UInt8 {
  fileprivate var isDigit: Bool { (0x30...0x39).contains(self) }
}

extension Item {
  fileprivate func mentions(_ text: String) -> Bool {
    switch value {
    case .text(let own): own.contains(text)
    case .list(let items): items.contains { $0.mentions(text) }
    case .table(let table): table.values.contains { $0.mentions(text) }
    case .number, .fraction, .flag, .time: false
    }
  }

  fileprivate func replacing(_ values: [String: String]) -> Item {
    var copy = self
    switch value {
    case .text(let text):
      copy.value = .text(values.reduce(text) { $0.replacing("{\($1.key)}", with: $1.value) })
    case .list(let items): copy.value = .list(items.map { $0.replacing(values) })
    case .table(let table): copy.value = .table(table.mapValues { $0.replacing(values) })
    case .number, .fraction, .flag, .time: break
    }
    return copy
  }
}

/// The templates of the given folders: the first found of each name is used.
struct Templates {
  private var paths: [String: String] = [:]
  private let folders: [String]

  init(folders: [String]) {
    self.folders = folders
    for folder in folders {
      for file in Settings.Sources.tomlFiles(in: folder) {
        let name = String(file.dropLast(".toml".count))
        if paths[name] == nil { paths[name] = "\(folder)/\(file)" }
      }
    }
  }

  var names: [String] { paths.keys.sorted() }

  /// The template; nil, and a report, if it does not exist or cannot be read.
  func find(_ name: String, title: String, at place: FileLocation, report: inout ConfigurationReport) -> Template? {
    guard let path = paths[name] else {
      reportUnknown(name, title: title, at: place, report: &report)
      return nil
    }
    return Loader.readTable(path, report: &report).map(Template.init)
  }

  private func reportUnknown(_ name: String, title: String, at place: FileLocation, report: inout ConfigurationReport) {
    let subject = "unknown profile \(quoted(name)) in \(title)"
    guard names.isEmpty else {
      let known = "known are \(names.joined(separator: ", "))"
      return report.problem("\(subject); \(known)", at: place, suggestion: didYouMean(name, names))
    }
    let places = folders.map { $0.printable(limit: 256) }.joined(separator: ", ")
    report.problem(
      "\(subject); there are no templates in \(places.isEmpty ? "any folder" : places)", at: place,
      suggestion: "install them there, or name their folder with --templates")
  }
}
