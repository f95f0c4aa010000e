/// Which broker's socket to use, and why.
public struct SocketChoice: Equatable, Sendable {
  /// What the command line said.
  public struct Wish: Equatable, Sendable {
    public var socket: String?
    public var isSystem: Bool
    public var isUser: Bool

    public init(socket: String? = nil, isSystem: Bool = false, isUser: Bool = false) {
      self.socket = socket
      self.isSystem = isSystem
      self.isUser = isUser
    }
  }

  public static let systemPath = "/run/grantd/grantd.sock"
  public static let startSystem = "sudo systemctl start grantd.socket"
  public static let startUser = "systemctl --user start grantd.socket"

  public var path: String
  /// Looked at before `path`, and not there.
  public var passedOver: [String] = []
  /// Commands that start a daemon there.
  public var starts: [String]
  /// What named a socket that is no unit's: `--socket` or `GRANTD_SOCKET`.
  public var source: String?
  /// Whether `--socket` or `GRANTD_SOCKET` named the path. Then the caller has chosen the program that listens there, whatever
  /// user it runs as.
  public var isNamed = false

  public init(
    path: String, passedOver: [String] = [], starts: [String], source: String? = nil, isNamed: Bool = false
  ) {
    self.path = path
    self.passedOver = passedOver
    self.starts = starts
    self.source = source
    self.isNamed = isNamed
  }

  /// `--socket`, `--system` or `--user`, `GRANTD_SOCKET`; else the user's broker where its socket exists, else the system's.
  public init(_ wish: Wish, environment: (String) -> String?, uid: UInt32, exists: (String) -> Bool) {
    let userPath = Self.userPath(environment: environment, uid: uid)
    let isSaid = wish.socket != nil || wish.isSystem || wish.isUser
    let named = isSaid ? wish.socket : environment("GRANTD_SOCKET").flatMap { $0.isEmpty ? nil : $0 }
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

  /// Where the user's own broker listens.
  public static func userPath(environment: (String) -> String?, uid: UInt32) -> String {
    let folder = environment("XDG_RUNTIME_DIR").flatMap { $0.hasPrefix("/") ? $0 : nil } ?? "/run/user/\(uid)"
    return folder + "/grantd/grantd.sock"
  }
}
