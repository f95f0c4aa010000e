/// Which broker's socket to use, and why.
struct SocketChoice: Equatable, Sendable {
  /// What the command line said.
  struct Wish: Equatable, Sendable {
    var socket: String?
    var isSystem = false
    var isUser = false

    /// The options that reach the same broker.
    var arguments: [String] {
      if let socket { return ["--socket", socket] }
      return isSystem ? ["--system"] : isUser ? ["--user"] : []
    }

    /// The same, to be repeated in a command that is printed.
    var options: String { arguments.map { " " + ShellWord.quoted($0) }.joined() }
  }

  static let systemPath = "/run/grantd/grantd.sock"
  private static let startSystem = "sudo systemctl start grantd.socket"
  private static let startUser = "systemctl --user start grantd.socket"

  var path: String
  /// Looked at before `path`, and not there.
  var passedOver: [String] = []
  /// Commands that start a daemon there.
  var starts: [String]
  /// What named a socket that is no unit's: `--socket` or `GRANTD_SOCKET`.
  var source: String?
  /// `--socket` or `GRANTD_SOCKET` named the path, whichever it is: whoever listens there is the caller's choice.
  var isNamed = false

  init(
    path: String, passedOver: [String] = [], starts: [String], source: String? = nil, isNamed: Bool = false
  ) {
    self.path = path
    self.passedOver = passedOver
    self.starts = starts
    self.source = source
    self.isNamed = isNamed
  }

  /// `--socket`, `--system` or `--user`, `GRANTD_SOCKET`; else the user's broker where its socket exists, else the system's.
  init(_ wish: Wish, environment: [String: String], uid: UInt32, exists: (String) -> Bool) {
    let userPath = Self.userPath(environment: environment, uid: uid)
    let isSaid = wish.socket != nil || wish.isSystem || wish.isUser
    let named = isSaid ? wish.socket : environment["GRANTD_SOCKET"].flatMap { $0.isEmpty ? nil : $0 }
    if let named {
      let isUnits = named == userPath || named == Self.systemPath
      let starts =
        isUnits
        ? [named == userPath ? Self.startUser : Self.startSystem] : [Self.startUser, Self.startSystem]
      let source = wish.socket == nil ? "GRANTD_SOCKET" : "--socket"
      self.init(path: named, starts: starts, source: isUnits ? nil : source, isNamed: true)
    } else if wish.isSystem {
      self.init(path: Self.systemPath, starts: [Self.startSystem])
    } else if wish.isUser || exists(userPath) {
      self.init(path: userPath, starts: [Self.startUser])
    } else {
      self.init(path: Self.systemPath, passedOver: [userPath], starts: [Self.startUser, Self.startSystem])
    }
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

  /// Where the user's own broker listens.
  static func userPath(environment: [String: String], uid: UInt32) -> String {
    let folder = environment["XDG_RUNTIME_DIR"].flatMap { $0.hasPrefix("/") ? $0 : nil } ?? "/run/user/\(uid)"
    return folder + "/grantd/grantd.sock"
  }

  /// Nobody listens.
  var notRunning: Failure {
    let tried = passedOver + [path]
    let message = "grantd is not running: no broker answers at \(tried.joined(separator: " or "))"
    if let source {
      return Failure(
        .notRunning, message,
        hints: ["The path is from \(source): is it right? Without \(source) the usual places are asked."])
    }
    let status = starts.map { $0 == Self.startUser ? "`systemctl --user status grantd`" : "`systemctl status grantd`" }
    return Failure(
      .notRunning, message,
      hints: [
        "Start it with " + starts.map { "`\($0)`" }.joined(separator: " or ") + ".",
        "Where that does not help: " + (status + ["`grantctl doctor`"]).joined(separator: ", ") + ".",
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
