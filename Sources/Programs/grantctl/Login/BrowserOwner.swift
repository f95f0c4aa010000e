/// Whose browser a login is for.
enum BrowserOwner {
  /// What sudo(8) and pkexec(1) set to the user id of the person who ran them.
  private static let variables = ["SUDO_UID", "PKEXEC_UID"]

  /// The user who had root run this program; nil: root, or nobody else.
  static func invoker(_ terminal: Terminal) -> UInt32? {
    guard terminal.uid == 0 else { return nil }
    // The highest number is no user's (chown(2)).
    return variables.compactMap { terminal.environment[$0].flatMap { UInt32($0) } }.first { $0 != .max }
  }

  /// The command as the user who had root run this program by sudo(8), in that user's session; nil where it cannot be
  /// started so. As root's it would be root's browser, with the address in root's history.
  static func command(_ command: [String], as user: UInt32, on terminal: Terminal) -> [String]? {
    let environment = terminal.environment
    guard terminal.uid == 0, environment["SUDO_UID"] == String(user), let group = environment["SUDO_GID"],
      UInt32(group) != nil, let setpriv = terminal.programs.find("setpriv"), let env = terminal.programs.find("env")
    else { return nil }
    let display = ["DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"].compactMap { name in
      environment[name].map { "\(name)=\($0)" }
    }
    let folder = "/run/user/\(user)"
    let session = ["XDG_RUNTIME_DIR=\(folder)", "DBUS_SESSION_BUS_ADDRESS=unix:path=\(folder)/bus"]
    return [setpriv, "--reuid=\(user)", "--regid=\(group)", "--init-groups", "--reset-env", env] + display + session
      + command
  }
}
