import BrokerAPI
import CredentialHelpers

/// The URL of an account's resource at the broker's forward endpoint, for a program that gets no token.
struct ForwardURL {
  /// The port that is written if the listener is off.
  private static let port = 7817

  let shell: Shell
  var account: String
  /// The path below `/forward/ACCOUNT`; nil: that of the account's resource.
  var path: String?
  /// The command with the tool and the account, for the hint that adds a path.
  var command: String

  /// - Parameters:
  ///   - turnsOn: writes `[http]` to the user's configuration if it is off.
  ///   - optional: an account or a listener that no longer exists is not an error.
  func text(turnsOn: Bool, optional: Bool) async throws(Failure) -> String {
    let path = try await resourcePath(optional: optional)
    let status: BrokerStatus.Result?
    do throws(Failure) {
      status = try await shell.ask(BrokerStatus.self, NoParams()).value()
    } catch {
      guard optional else { throw error }
      status = nil
    }
    let listener = (status?.listeners ?? []).first { $0.setting.hasPrefix("[http]") && $0.address.contains(":") }
    let place: String
    if let listener {
      place = listener.address.hasPrefix("http") ? listener.address : "http://\(listener.address)"
    } else {
      if !optional, let status { try await turnOn(status, writes: turnsOn) }
      place = "http://127.0.0.1:\(Self.port)"
    }
    return "\(place)/forward/\(account)\(path)"
  }

  /// The path of the account's resource below `/forward/ACCOUNT`.
  func resourcePath(optional: Bool) async throws(Failure) -> String {
    if let path { return path.hasPrefix("/") ? path : "/" + path }
    let own: String?
    do throws(Failure) {
      let view = try await shell.ask(AccountGet.self, .init(account: account)).value()
      own = try await shell.ask(ProviderGet.self, .init(provider: view.provider)).value().forward_path
    } catch {
      guard optional else { throw error }
      own = nil
    }
    if let own { return own }
    guard !optional else { return "" }
    throw Failure(
      .usage, "the provider of account \(SafeText.line(account)) names no resource",
      hints: ["Give the path at its API: `\(command) /mcp`"])
  }

  private func turnOn(_ status: BrokerStatus.Result, writes: Bool) async throws(Failure) {
    let lines = "[http]\nlisten = \"127.0.0.1:\(Self.port)\""
    guard status.instance == "user" else {
      throw Failure(
        .configuration, "the broker's HTTP listener is off",
        hints: ["An administrator adds [http] with listen = \"127.0.0.1:\(Self.port)\" to /etc/grantd/grantd.toml."])
    }
    let edit = TextEdit(
      "$CONFIG/grantd/grantd.toml", TextBlock(label: "http", text: lines), conflicts: [.start("[http]")])
    let restart = await restart(status.pid)
    guard writes else {
      throw Failure(
        .configuration, "the broker's HTTP listener is off",
        hints: [
          "With --write, [http] is added to ~/.config/grantd/grantd.toml. Then restart the broker: \(restart)",
          "A client that takes a command needs no listener: add --stdio.",
        ])
    }
    var files = ToolFiles(shell: shell)
    try await files.apply([.text(edit)], .write)
    shell.terminal.note("Restart the broker: \(restart)")
  }

  /// The commands that restart the user's broker, whether systemd or the user started it.
  private func restart(_ pid: Int32) async -> String {
    guard await isService(pid) else { return "`kill \(pid)`, then `\(ServiceManagers.command(.user))`" }
    return "`\(ServiceManagers.control(.user)) restart grantd`"
  }

  /// Whether the process is the one that the user's systemd runs as grantd.service.
  private func isService(_ pid: Int32) async -> Bool {
    guard shell.terminal.services.user, let systemctl = shell.terminal.programs.find("systemctl") else { return false }
    let shown = await shell.terminal.machine.run(
      [systemctl, "--user", "show", "--property=MainPID", "grantd.service"], Doctor.childTimeout)
    return shown?.status == 0 && Doctor.properties(shown?.out ?? "")["MainPID"] == String(pid)
  }
}
