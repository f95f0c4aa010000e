import BrokerSocket

extension SocketChoice.Wish {
  /// The options that reach the same broker.
  var arguments: [String] {
    if let socket { return ["--socket", socket] }
    return isSystem ? ["--system"] : isUser ? ["--user"] : []
  }

  /// The same, to be repeated in a command that is printed.
  var options: String { arguments.map { " " + ShellWord.quoted($0) }.joined() }
}

extension SocketChoice {
  init(_ wish: Wish, environment: [String: String], uid: UInt32, exists: (String) -> Bool) {
    self.init(wish, environment: { environment[$0] }, uid: uid, exists: exists)
  }

  static func userPath(environment: [String: String], uid: UInt32) -> String {
    userPath(environment: { environment[$0] }, uid: uid)
  }

  /// The broker that was named; where none was, the user's own where its socket exists, then the system's.
  static func all(
    _ wish: Wish, environment: [String: String], uid: UInt32, system: String = systemPath, exists: (String) -> Bool
  ) -> [SocketChoice] {
    let first = SocketChoice(wish, environment: environment, uid: uid, exists: exists)
    guard wish == Wish(), environment["GRANTD_SOCKET"]?.isEmpty != false, first.path != systemPath else {
      return [first]
    }
    return [first, SocketChoice(path: system, starts: [startSystem])]
  }

  /// No process listens.
  func notRunning(_ services: ServiceManagers) -> Failure {
    let tried = passedOver + [path]
    let message = "grantd is not running: no broker answers at \(tried.joined(separator: " or "))"
    if let source {
      return Failure(
        .notRunning, message,
        hints: ["The path is from \(source): is it right? Without \(source) the usual paths are tried."])
    }
    let others = services.states(starts) + ["grantctl doctor"]
    return Failure(
      .notRunning, message,
      hints: [
        "Start it with " + services.starts(starts).map { "`\($0)`" }.joined(separator: " or ") + ".",
        "If that does not help: " + others.map { "`\($0)`" }.joined(separator: ", ") + ".",
      ])
  }
}

/// A word of a command line for people to copy.
enum ShellWord {
  private static let plain = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-")

  static func quoted(_ word: String) -> String {
    if !word.isEmpty, word.allSatisfy(plain.contains) { return word }
    return "'" + word.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
  }
}
