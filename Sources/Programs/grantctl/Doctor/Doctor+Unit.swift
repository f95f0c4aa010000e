import BrokerAPI
import BrokerSocket

// The service, its socket and its files: what can be seen from outside the daemon.
extension Doctor {
  private static let unit = "grantd.service"

  func unit(_ instance: Instance?, answers: Bool) async -> DoctorReport.Item {
    guard let instance else {
      return DoctorReport.Item("unit", .skipped, "not a systemd socket: grantd was started manually")
    }
    guard shell.terminal.services.runs(instance) else {
      let manager = instance == .user ? "no systemd manager of this user runs here" : "systemd does not run here"
      // The item of the socket has the command that starts the broker.
      return DoctorReport.Item("unit", .skipped, manager)
    }
    guard let systemctl = shell.terminal.programs.find("systemctl") else {
      return DoctorReport.Item("unit", .skipped, "there is no systemctl here")
    }
    let scope = instance == .user ? ["--user"] : []
    let properties = "--property=LoadState,ActiveState,SubState,Result,ExecMainStatus"
    guard let answer = await machine.run([systemctl] + scope + ["show", properties, Self.unit], Self.childTimeout)
    else {
      return DoctorReport.Item("unit", .skipped, "systemctl does not answer")
    }
    let state = Self.properties(answer.out)
    guard answer.status == 0, let loaded = state["LoadState"], let active = state["ActiveState"] else {
      let isAbsent = answer.err.contains("not been booted")
      let why = isAbsent ? "systemd does not run here" : "systemd does not answer: \(Self.firstLine(answer.err))"
      return DoctorReport.Item("unit", .skipped, why)
    }
    if loaded != "not-found" { return unit(instance, active: active, state, answers: answers) }
    if answers {
      return DoctorReport.Item("unit", .skipped, "\(Self.unit) is not installed: the daemon was started by hand")
    }
    return DoctorReport.Item(
      "unit", .failed, "\(Self.unit) is not installed\(instance == .user ? " for users" : "")",
      hint: "Install grantd (its README says how), or start it by hand: `grantd --\(instance.rawValue)`.")
  }

  private func unit(
    _ instance: Instance, active: String, _ state: [String: String], answers: Bool
  ) -> DoctorReport.Item {
    let control = instance == .user ? "systemctl --user" : "sudo systemctl"
    let journal = instance == .user ? "journalctl --user -u grantd -n 30" : "journalctl -u grantd -n 30"
    switch (active, answers) {
    case ("active", true): return DoctorReport.Item("unit", .ok, "\(Self.unit) (\(instance.rawValue)) is active")
    case ("active", false):
      return DoctorReport.Item(
        "unit", .failed, "\(Self.unit) is active, and does not answer at this socket",
        hint: "See `\(journal)`; then `\(control) restart grantd`.")
    case ("failed", _):
      return DoctorReport.Item(
        "unit", .failed, "\(Self.unit) has failed: \(Self.why(state))",
        hint: Self.advice(state, instance, journal, control))
    case (_, true): return DoctorReport.Item("unit", .ok, "\(Self.unit) is \(active): the daemon was started by hand")
    case (_, false):
      return DoctorReport.Item(
        "unit", .failed, "\(Self.unit) is \(active)",
        hint: "Start it, now and at each \(instance == .user ? "login" : "boot"): "
          + "`\(control) enable --now grantd.socket grantd`.")
    }
  }

  private static func why(_ state: [String: String]) -> String {
    let status = state["ExecMainStatus"].flatMap { $0 == "0" ? nil : ", status \($0)" } ?? ""
    let result = state["Result"] ?? "unknown"
    return (result == "start-limit-hit" ? "it was started too often in a short time (\(result))" : result) + status
  }

  private static func advice(
    _ state: [String: String], _ instance: Instance, _ journal: String, _ control: String
  ) -> String {
    let cause =
      switch state["ExecMainStatus"] {
      case "78": "The configuration has an error: `grantd --\(instance.rawValue) --check-config` says where."
      case "65": "The database is damaged, of a newer grantd, or sealed under another key: `\(journal)` says which."
      default: "`\(journal)` says why."
      }
    // After too many starts systemd refuses each further one, and takes the socket away, until that is forgotten.
    return
      "\(cause) Correct that; then `\(control) reset-failed grantd.service grantd.socket`, and `\(control) restart "
      + "grantd.socket grantd`."
  }

  // MARK: The socket

  func socket(_ choice: SocketChoice, _ failure: Failure?) -> DoctorReport.Item {
    let look = machine.look(choice.path)
    if let failure { return deadSocket(choice, look, failure) }
    let path = choice.path
    guard case .found(let file) = look else { return DoctorReport.Item("socket", .ok, path) }
    let uid = shell.terminal.uid
    let folder = "/" + path.split(separator: "/").dropLast().joined(separator: "/")
    if case .found(let above) = machine.look(folder), above.mode & 0o022 != 0, above.mode & 0o1000 == 0 {
      return DoctorReport.Item(
        "socket", .warning,
        "\(path): others may write to its folder (mode \(above.modeText)), and put a socket of their own there",
        hint: "`chmod go-w \(ShellWord.quoted(folder))`")
    }
    if instance(of: path) == .user, file.uid != uid, file.uid != 0 {
      return DoctorReport.Item(
        "socket", .failed, "\(path) belongs to uid \(file.uid), not to you: that user gets your requests",
        hint: "Stop what listens there, remove the file, and start your own broker again.")
    }
    return DoctorReport.Item("socket", .ok, "\(path)\(Self.facts(look))")
  }

  private func deadSocket(_ choice: SocketChoice, _ look: Machine.Look, _ failure: Failure) -> DoctorReport.Item {
    func failed(_ message: String, _ hint: String) -> DoctorReport.Item {
      DoctorReport.Item("socket", .failed, message, hint: hint)
    }
    let path = choice.path
    let ways = shell.terminal.services.starts(choice.starts).map { "`\($0)`" }.joined(separator: " or ")
    let start =
      instance(of: path) == nil
      ? "Is it the right socket? For this one, start grantd with --socket \(ShellWord.quoted(path)); else: \(ways)."
      : "Start the daemon: \(ways)."
    switch (failure.status, look) {
    case (.notPermitted, _):
      return failed("\(path) does not let you in\(Self.facts(look))", failure.hints.joined(separator: "\n"))
    case (.notRunning, .absent):
      let others = choice.passedOver.isEmpty ? "" : " (nor at \(choice.passedOver.joined(separator: ", ")))"
      return failed("there is none at \(path)\(others)", start)
    case (.notRunning, .found(let file)) where file.kind != .socket:
      return failed("\(path) is not a socket", "Move it away. \(start)")
    case (.notRunning, .found): return failed("\(path) exists, but no process listens: the daemon has ended", start)
    case (.notRunning, .hidden): return failed("no answer at \(path), whose folder you may not see", start)
    default: return failed(failure.message, failure.hints.joined(separator: "\n"))
    }
  }

  private static func facts(_ look: Machine.Look) -> String {
    guard case .found(let file) = look else { return "" }
    return ", mode \(file.modeText), of uid \(file.uid)"
  }

  // MARK: The configuration

  /// Whether the files are valid as the next start or reload will read them.
  ///
  /// - Parameter loading: the command after which the broker reads the file again.
  func configuration(
    _ instance: Instance?, file: String?, changed: Bool, loading: String = "grantctl reload"
  ) async -> DoctorReport.Item {
    func item(_ result: CheckResult, _ message: String, _ hint: String? = nil) -> DoctorReport.Item {
      DoctorReport.Item("configuration", result, message, hint: hint)
    }
    let name = file ?? "built-in defaults"
    let reload = changed ? "It was changed since the daemon read it: `grantctl reload`." : nil
    let read = changed ? item(.warning, name, reload) : item(.ok, name)
    // As somebody else, the files and secrets of the daemon cannot be judged.
    guard let instance else { return file == nil ? item(.skipped, "whose it would be is not known here") : read }
    guard instance == .user || shell.terminal.uid == 0 else {
      guard file == nil else { return read }
      return item(.skipped, "only the daemon's user can check it", "`sudo grantd --system --check-config`")
    }
    guard let grantd = shell.terminal.programs.find("grantd") else {
      return file == nil ? item(.skipped, "grantd is not in PATH, so it cannot be checked") : read
    }
    let arguments = ["--\(instance.rawValue)", "--check-config"] + (file.map { ["--config", $0] } ?? [])
    guard let answer = await machine.run([grantd] + arguments, Self.childTimeout) else {
      return item(.skipped, "`grantd --check-config` does not answer")
    }
    guard answer.status != 0 else { return changed ? read : item(.ok, Self.firstLine(answer.out)) }
    let text = Self.text(answer.err.isEmpty ? answer.out : answer.err)
    // Only the unit can read its credentials.
    if text.contains("this process was given no credentials") { return read }
    return item(
      .failed, "grantd does not start with this configuration:\n\(text)",
      "Correct it; `grantd --\(instance.rawValue) --check-config"
        + (file.map { " --config \(ShellWord.quoted($0))` checks it again, and `\(loading)` loads it." }
          ?? "` checks it again."))
  }

  // MARK: Words

  static func properties(_ text: String) -> [String: String] {
    var properties: [String: String] = [:]
    for line in text.split(separator: "\n") {
      let parts = line.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      if parts.count == 2 { properties[String(parts[0])] = String(parts[1]) }
    }
    return properties
  }

  private static func firstLine(_ text: String) -> String {
    text.split(separator: "\n").first.map { String($0.prefix(300)) } ?? "no words"
  }

  private static func text(_ text: String) -> String {
    text.split(separator: "\n").prefix(8).map { String($0.prefix(300)) }.joined(separator: "\n")
  }
}
