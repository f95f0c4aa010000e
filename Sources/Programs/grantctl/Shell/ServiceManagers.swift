import BrokerSocket

/// The service managers that run on this machine. Without one, a broker is a program that the user starts.
struct ServiceManagers: Sendable, Equatable {
  /// systemd as process 1 (sd_booted(3)).
  var system = true
  /// The user's own manager.
  var user = true

  init(system: Bool = true, user: Bool = true) {
    self.system = system
    self.user = user
  }

  init(environment: [String: String], uid: UInt32, exists: (String) -> Bool) {
    system = exists("/run/systemd/system")
    let folder = environment["XDG_RUNTIME_DIR"].flatMap { $0.hasPrefix("/") ? $0 : nil } ?? "/run/user/\(uid)"
    user = exists(folder + "/systemd/private")
  }

  func runs(_ instance: Doctor.Instance) -> Bool { instance == .user ? user : system }

  /// The commands that start a broker, with or without systemctl. If no manager runs, only that of the user's broker.
  func starts(_ commands: [String]) -> [String] {
    if !system, !user, commands.contains(SocketChoice.startUser) { return [Self.command(.user)] }
    return commands.map { command in
      switch command {
      case SocketChoice.startUser where !user: Self.command(.user)
      case SocketChoice.startSystem where !system: Self.command(.system)
      default: command
      }
    }
  }

  /// The commands that show the state of the brokers' units.
  func states(_ commands: [String]) -> [String] {
    commands.compactMap { command in
      switch command {
      case SocketChoice.startUser: user ? "systemctl --user status grantd" : nil
      case SocketChoice.startSystem: system ? "systemctl status grantd" : nil
      default: nil
      }
    }
  }

  /// How to restart a broker, for a hint.
  func restart(_ instance: Doctor.Instance) -> String {
    guard runs(instance) else { return "End grantd, and start it again: `\(Self.command(instance))`." }
    return "`\(Self.control(instance)) restart grantd`"
  }

  static func control(_ instance: Doctor.Instance) -> String {
    instance == .user ? "systemctl --user" : "sudo systemctl"
  }

  /// Starts a broker without a service manager.
  static func command(_ instance: Doctor.Instance) -> String {
    instance == .user ? "grantd --user" : "sudo grantd --system"
  }
}
