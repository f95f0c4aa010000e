/// How an address gets in front of a person.
enum Browser {
  /// The commands that can open a web address, the first first; never through a shell. None where there is no place for
  /// a browser: it takes `$BROWSER`, or a display and `xdg-open`.
  static func commands(for url: String, on terminal: Terminal) -> [[String]] {
    guard isWebAddress(url) else { return [] }
    let own = terminal.environment["BROWSER"].map { commands(in: $0, url, terminal.programs.find) } ?? []
    return own + (opener(for: url, on: terminal).map { [$0] } ?? [])
  }

  /// The programs of `$BROWSER`, if none of them exists.
  static func absent(on terminal: Terminal) -> [String] {
    let entries = (terminal.environment["BROWSER"] ?? "").split(separator: ":")
    let programs = entries.compactMap { $0.split(separator: " ").first.map(String.init) }
    return programs.contains { terminal.programs.find($0) != nil } ? [] : programs
  }

  /// The desktop's own way to open an address of any kind.
  static func opener(for url: String, on terminal: Terminal) -> [String]? {
    terminal.hasDisplay ? terminal.programs.find("xdg-open").map { [$0, url] } : nil
  }

  /// What is no web address could start anything.
  static func isWebAddress(_ url: String) -> Bool { url.hasPrefix("https://") || url.hasPrefix("http://") }

  /// `$BROWSER` is a list of commands separated by colons; `%s` stands for the address, which else comes last.
  private static func commands(in list: String, _ url: String, _ find: (String) -> String?) -> [[String]] {
    list.split(separator: ":").compactMap { entry in
      let words = entry.split(separator: " ").map(String.init)
      guard let program = words.first, let path = find(program) else { return nil }
      let arguments = words.dropFirst().map { $0 == "%s" ? url : $0 }
      return [path] + (arguments.contains(url) ? arguments : arguments + [url])
    }
  }
}
