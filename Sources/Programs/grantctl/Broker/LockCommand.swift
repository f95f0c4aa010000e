import ArgumentParser
import AsyncClient
import BlockingClient
import BrokerAPI

struct LockCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "lock", abstract: "Stop all token releases until `grantctl unlock`.",
    usage: "grantctl lock [options]",
    discussion: """
      A user's broker completes its running exchanges, then drops the key and all tokens from memory, and puts the key \
      under a passphrase. The first lock asks for the passphrase; later locks use it again. A restart stays locked.
      The system broker holds all releases instead, without a passphrase. This is recorded in the audit trail.

      Example:
        grantctl lock
      """)

  @Flag(help: "Choose another passphrase.")
  var newPassphrase = false
  @Option(
    help: ArgumentHelp("Read the passphrase from a file; “-” reads standard input.", valueName: "path"),
    completion: .file())
  var passphraseFile: String?
  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    var dialogue = Dialogue(shell)
    var params = BrokerLock.Params()
    let before = try await shell.ask(BrokerStatus.self, NoParams()).value()
    let isUser = before.instance == "user"
    if before.state == "locked" { return try alreadyLocked(shell) }
    if isUser, passphraseFile != nil || newPassphrase {
      params.passphrase = try await LockPassphrase(file: passphraseFile).chosen(in: shell, &dialogue)
    }
    var answer: MethodResult<BrokerLock>
    do throws(Failure) {
      answer = try await shell.ask(BrokerLock.self, params)
    } catch {
      guard isUser, params.passphrase == nil, error.rpc?.code == RPCError.invalidParams("").code else { throw error }
      params.passphrase = try await LockPassphrase(file: nil).chosen(in: shell, &dialogue)
      answer = try await shell.ask(BrokerLock.self, params)
    }
    let result = try answer.value()
    for warning in result.warnings.flatMap(SafeText.lines) { shell.terminal.note("warning: \(warning)") }
    if result.state == "locking" {
      try await shell.showing("Completing running exchanges") { _ throws(Failure) in
        try await shell.waitForBroker(in: "locked")
      }
    }
    if shell.isJSON {
      return shell.print(
        JSON(encoding: BrokerLock.Result(state: isUser ? "locked" : result.state, warnings: result.warnings)))
    }
    shell.terminal.print(
      isUser ? "Locked. Unlock:" : "All releases are held. Release them:", command: shell.command("unlock"))
    guard isUser, params.passphrase == nil else { return }
    shell.terminal.print("The passphrase is that of the previous lock.")
    shell.terminal.print("To change it, unlock first, then:", command: shell.command("lock --new-passphrase"))
  }

  /// A locked broker has no key that it could put under another passphrase.
  private func alreadyLocked(_ shell: Shell) throws(Failure) {
    guard !newPassphrase, passphraseFile == nil else {
      let option = passphraseFile == nil ? "--new-passphrase" : "--passphrase-file FILE"
      throw Failure(
        .temporarilyUnavailable, "the broker is already locked, and its passphrase is unchanged",
        hints: ["Unlock it with `grantctl unlock`. Then `grantctl lock \(option)` changes the passphrase."])
    }
    if shell.isJSON { return shell.print(JSON(encoding: BrokerLock.Result(state: "locked"))) }
    shell.terminal.print("Already locked. Unlock:", command: shell.command("unlock"))
  }
}

struct UnlockCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "unlock", abstract: "End a lock or a hold of all releases.",
    usage: "grantctl unlock [options]",
    discussion: """
      Asks for the passphrase of the lock. At the system broker ends the hold, without a passphrase. Exits with \
      \(ExitStatus.failure.rawValue) if the passphrase is wrong.

      Example:
        grantctl unlock
      """)

  @Option(
    help: ArgumentHelp("Read the passphrase from a file; “-” reads standard input.", valueName: "path"),
    completion: .file())
  var passphraseFile: String?
  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    var params = BrokerUnlock.Params()
    if try await shell.ask(BrokerStatus.self, NoParams()).value().state == "locked" {
      var dialogue = Dialogue(shell)
      params.passphrase = try await LockPassphrase(file: passphraseFile).known(in: shell, &dialogue)
    }
    var result: BrokerUnlock.Result
    do throws(Failure) {
      result = try await shell.ask(BrokerUnlock.self, params).value()
    } catch {
      guard params.passphrase != nil, error.rpc?.reason == .locked else { throw error }
      // The passphrase is wrong: it does not help to wait, as other errors of a locked broker suggest.
      var wrong = error
      wrong.status = .failure
      throw wrong
    }
    if result.state == "unlocking" {
      try await shell.showing("Starting the broker") { _ throws(Failure) in
        try await shell.waitForBroker(in: "running")
      }
      result.state = "running"
    }
    if shell.isJSON { return shell.print(JSON(encoding: result)) }
    switch result.state {
    case "released": shell.terminal.print("Releases are no longer held.")
    case "running" where params.passphrase == nil: shell.terminal.print("The broker is not locked.")
    default: shell.terminal.print("Unlocked.")
    }
  }
}

/// The passphrase of a lock: never in the arguments or the environment, which others can read.
private struct LockPassphrase {
  private static let shortest = 8
  private static let otherWays = ["Give it with --passphrase-file FILE (“-” reads standard input)."]

  let file: String?

  func known(in shell: Shell, _ dialogue: inout Dialogue) async throws(Failure) -> SecretText {
    if let file { return try await SecretInput(shell: shell, what: "passphrase").read(from: file) }
    guard shell.terminal.canAsk else {
      throw Failure(.usage, "there is no terminal to ask for the passphrase", hints: Self.otherWays)
    }
    return try await dialogue.secret(
      "passphrase", prompt: "Passphrase of the lock (it is not shown): ", hints: Self.otherWays)
  }

  func chosen(in shell: Shell, _ dialogue: inout Dialogue) async throws(Failure) -> SecretText {
    if file != nil || !shell.terminal.canAsk { return try await known(in: shell, &dialogue) }
    return try await dialogue.newPassphrase(
      "New passphrase for the lock, \(Self.shortest) or more ASCII characters (it is not shown): ",
      shortest: Self.shortest, hints: Self.otherWays)
  }
}

extension Shell {
  /// The broker waits up to 40 s for running exchanges, and closes its files.
  private static let longestChange = Duration.seconds(60)
  private static let changePause = Duration.milliseconds(20)

  /// Waits until the broker, which executes itself again, is in this state.
  fileprivate func waitForBroker(in state: String) async throws(Failure) {
    let clock = ContinuousClock()
    let end = clock.now + Self.longestChange
    var last = Failure(.temporarilyUnavailable, "the broker is not \(state)", hints: ["See `grantctl status`."])
    while clock.now < end {
      do throws(Failure) {
        let client = try await connect()
        if try await ask(BrokerStatus.self, NoParams(), on: client).value().state == state { return }
      } catch {
        if error.status != .notRunning, error.rpc?.reason != .shuttingDown { throw error }
        last = error
      }
      guard (try? await clock.sleep(for: Self.changePause)) != nil else { break }
    }
    throw last
  }
}
