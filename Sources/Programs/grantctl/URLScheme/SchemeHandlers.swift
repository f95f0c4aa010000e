import BrokerAPI

/// Which programs take the addresses of a scheme, as the desktop's own record has it.
struct SchemeHandlers: Sendable {
  /// xdg-mime is a script that asks other programs.
  static let patience = Duration.seconds(10)

  let terminal: Terminal

  /// The desktop file of the program; nil where there is none, or where nobody can say.
  func handler(of scheme: URLScheme) async -> String? {
    guard let program = terminal.programs.find("xdg-mime"),
      let answer = await terminal.machine.run([program, "query", "default", scheme.mimeType], Self.patience),
      answer.status == 0, let name = answer.out.split(separator: "\n").first.map(String.init), !name.isEmpty
    else { return nil }
    // The record outlives the file.
    guard name != scheme.desktopFile || terminal.files.exists("\(terminal.applications)/\(name)") else { return nil }
    return name
  }
}

extension Terminal {
  /// Where the person's own desktop files are (XDG Base Directory Specification).
  var applications: String {
    let data = environment["XDG_DATA_HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil }
    return (data ?? (environment["HOME"] ?? "") + "/.local/share") + "/applications"
  }

  /// Something can be opened in a window.
  var hasDisplay: Bool { ["DISPLAY", "WAYLAND_DISPLAY"].contains { environment[$0]?.isEmpty == false } }
}
