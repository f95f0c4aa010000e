/// How a sign-in address gets in front of a person.
enum Browser: Equatable, Sendable {
  /// The command and its arguments; never through a shell.
  case open([String])
  case show

  /// A browser opens only where the environment has a place for one: `$BROWSER`, or a display and `xdg-open`.
  static func choose(
    for url: String, isWanted: Bool, environment: [String: String], find: (String) -> String?
  ) -> Browser {
    guard isWanted, isWebAddress(url) else { return .show }
    if let browser = environment["BROWSER"], let command = command(browser, url, find) { return .open(command) }
    let hasDisplay = ["DISPLAY", "WAYLAND_DISPLAY"].contains { environment[$0]?.isEmpty == false }
    guard hasDisplay, let opener = find("xdg-open") else { return .show }
    return .open([opener, url])
  }

  /// What is no web address could start anything.
  static func isWebAddress(_ url: String) -> Bool { url.hasPrefix("https://") || url.hasPrefix("http://") }

  /// `$BROWSER` is a list of commands separated by colons; `%s` stands for the address, which else comes last.
  private static func command(_ list: String, _ url: String, _ find: (String) -> String?) -> [String]? {
    for entry in list.split(separator: ":") {
      let words = entry.split(separator: " ").map(String.init)
      guard let program = words.first, let path = find(program) else { continue }
      let arguments = words.dropFirst().map { $0 == "%s" ? url : $0 }
      return [path] + (arguments.contains(url) ? arguments : arguments + [url])
    }
    return nil
  }
}
