import BrokerAPI
import BrokerSocket

// Step 1: a broker that answers.
extension Setup {
  private static let patience = Duration.seconds(20)
  private static let pause = Duration.milliseconds(100)
  /// If this start has ended, the broker of another one may answer soon.
  private static let lastTry = Duration.seconds(2)
  private static let units = "grantd.socket grantd-credentials.socket grantd"
  private static let logLines = 5
  private static let longestLog = 16 << 20

  mutating func broker() async throws(Failure) -> BrokerStatus.Result {
    let name = "Broker"
    do throws(Failure) {
      let status = try await status()
      done(name, "grantd \(status.version), \(status.instance) instance")
      return status
    } catch {
      // Without a broker of the user the system's answers, which may have no rule for the user.
      guard error.status == .notRunning || error.status == .notPermitted, mayStart else { throw error }
    }
    let log = try await start()
    let status = try await answer(log)
    done(name, "started, \(status.instance) instance")
    noteEnd(status, isService: log == nil)
    return status
  }

  /// The broker continues after this command: reports how to stop it.
  private func noteEnd(_ status: BrokerStatus.Result, isService: Bool) {
    guard isService else {
      return printWrapped("It runs in the background: `kill \(status.pid)` stops it, `grantd --user` starts it.")
    }
    printWrapped("systemd runs it, now and after each login. To stop it and to disable that:")
    terminal.printWhole("  systemctl --user disable --now \(Self.units)")
  }

  private func status() async throws(Failure) -> BrokerStatus.Result {
    try await shell.ask(BrokerStatus.self, NoParams()).value()
  }

  /// A named broker, and the system's, are started by their administrator.
  private var mayStart: Bool { shell.choice.source == nil && !shell.choice.isNamed && !shell.settings.wish.isSystem }

  /// The log of a broker that no service manager runs, and its length before the start.
  private struct Log {
    var path: String
    var length: Int
    var hasEnded: @Sendable () -> Bool
  }

  private func start() async throws(Failure) -> Log? {
    if let systemctl = terminal.programs.find("systemctl"), await hasUserUnit(systemctl) {
      let words = ["--user", "enable", "--now", "grantd.socket"]
      printWrapped("No broker runs. Starting: systemctl \(words.joined(separator: " "))")
      let ended = await terminal.machine.run([systemctl] + words, Doctor.childTimeout)
      guard ended?.status == 0 else {
        throw Failure(
          .notRunning,
          "systemd does not start the broker: \(ended.map { SafeText.line($0.err.trimmed) } ?? "no answer")",
          hints: ["`systemctl --user status grantd.socket` and `grantctl doctor` report the cause."])
      }
      return nil
    }
    let path = stateFolder + "/grantd.log"
    let length = bytes(path).count
    printWrapped("No broker runs, and no systemd user manager. Starting: grantd --user")
    terminal.printWhole(SafeText.line("  Its log: \(path)"))
    switch terminal.programs.startService(["grantd", "--user"], path) {
    case .running(let hasEnded): return Log(path: path, length: length, hasEnded: hasEnded)
    case .failed(let reason):
      throw Failure(
        .notRunning, "the broker cannot be started: \(reason)",
        hints: ["Install grantd, or start it in another terminal: `grantd --user`"])
    }
  }

  private var stateFolder: String {
    let named = terminal.environment["XDG_STATE_HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil }
    return (named ?? (terminal.environment["HOME"] ?? "") + "/.local/state") + "/grantd"
  }

  private func hasUserUnit(_ systemctl: String) async -> Bool {
    let shown = await terminal.machine.run(
      [systemctl, "--user", "show", "--property=LoadState", "grantd.socket"], Doctor.childTimeout)
    return shown?.status == 0 && shown?.out.contains("LoadState=loaded") == true
  }

  private func answer(_ log: Log?) async throws(Failure) -> BrokerStatus.Result {
    let clock = ContinuousClock()
    var end = clock.now + Self.patience
    var isOver = false
    while true {
      do throws(Failure) {
        return try await status()
      } catch {
        guard [.notRunning, .notPermitted, .temporarilyUnavailable].contains(error.status) else { throw error }
        guard clock.now < end else { throw silent(log, error) }
        if !isOver, log?.hasEnded() == true {
          isOver = true
          end = clock.now + Self.lastTry
        }
      }
      try? await Task.sleep(for: Self.pause)
    }
  }

  private func bytes(_ path: String) -> [UInt8] {
    guard case .bytes(let bytes, _) = terminal.files.bytes(path, Self.longestLog) else { return [] }
    return bytes
  }

  private func lastLines(_ log: Log?) -> [String] {
    guard let log else { return [] }
    let all = bytes(log.path)
    // A shorter one was replaced.
    return String(decoding: all.dropFirst(all.count < log.length ? 0 : log.length), as: UTF8.self).split(
      separator: "\n"
    ).suffix(
      Self.logLines
    ).map(String.init)
  }

  private func silent(_ log: Log?, _ failure: Failure) -> Failure {
    let lines = lastLines(log).map(SafeText.line)
    guard let log, !lines.isEmpty else { return failure }
    return Failure(
      .notRunning, "the broker was started and does not answer",
      hints: lines + ["More: `less \(ShellWord.quoted(log.path))`"])
  }
}
