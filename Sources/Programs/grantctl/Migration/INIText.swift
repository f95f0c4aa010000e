/// Sections of `name = value` lines, as Python's configparser and rclone write them.
struct INIText {
  struct Section {
    var name: String
    var values: [String: String] = [:]

    /// Nil if it is absent or empty.
    subscript(name: String) -> String? { values[name].flatMap { $0.isEmpty ? nil : $0 } }
  }

  private(set) var sections: [Section] = []

  init(_ bytes: [UInt8]) {
    var last: String?
    for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false) {
      let text = line.trimmed
      guard let first = text.first, first != "#", first != ";" else { continue }
      if first == "[", text.last == "]" {
        sections.append(Section(name: String(text.dropFirst().dropLast()).trimmed))
        last = nil
      } else if let name = last, line.first == " " || line.first == "\t" {
        // A continued value.
        sections[sections.count - 1].values[name]?.append("\n" + text)
      } else if !sections.isEmpty, let sign = text.firstIndex(where: { $0 == "=" || $0 == ":" }) {
        let name = text[..<sign].trimmed.lowercased()
        sections[sections.count - 1].values[name] = text[text.index(after: sign)...].trimmed
        last = name
      }
    }
  }
}
