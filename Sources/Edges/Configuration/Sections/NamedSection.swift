/// A section of the file, for problems with its keys.
struct NamedSection {
  /// The section's name in messages.
  var title: String
  /// A provider's has its template merged in.
  var table: [String: Item]
  var place: FileLocation

  subscript(key: String) -> Item? { table[key] }

  func location(of key: String) -> FileLocation { table[key]?.place ?? place }
}

extension ConfigurationReport {
  /// A problem with a key's value: `rest` completes `"KEY" in SECTION`.
  mutating func problem(at section: NamedSection, _ key: String, _ rest: String, suggestion: String? = nil) {
    problem("\"\(key)\" in \(section.title) \(rest)", at: section.location(of: key), suggestion: suggestion)
  }

  /// Reports each of the keys that the section does not have.
  mutating func require(_ keys: [String], in section: NamedSection, suggestion: String? = nil) {
    for key in keys where section[key] == nil {
      problem("\(section.title) has no \"\(key)\"", at: section.place, suggestion: suggestion)
    }
  }
}
