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
}
