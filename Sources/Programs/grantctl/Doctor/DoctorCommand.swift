import ArgumentParser
import AsyncClient
import BrokerAPI
import BrokerSocket

struct DoctorCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "doctor", abstract: "Diagnose problems and suggest fixes.",
    usage: "grantctl doctor [<provider|account>] [options]",
    discussion: """
      Checks the broker, providers and accounts, even if no broker runs. It asks the providers and changes nothing. Each \
      warning or failure is followed by a fix.

      Exits with 0 if no check failed, 1 if one did, \(ExitStatus.notPermitted.rawValue) if the broker does not admit \
      you, \(ExitStatus.temporarilyUnavailable.rawValue) if it is locked, \
      \(ExitStatus.notRunning.rawValue) if none answers.

      Examples:
        grantctl doctor
        grantctl doctor google         # the daemon, this provider, its accounts
        grantctl doctor work --json    # the daemon, this account, its provider
      """)

  @Argument(help: ArgumentHelp("Check only this provider or account.", valueName: "provider|account"))
  var name: String?
  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    var doctor = Doctor(shell: shell)
    let end = try await doctor.examine(only: name)
    var report = doctor.report
    if shell.isJSON {
      shell.print(report.json(adapt: shell.adapted))
    } else {
      report.name(by: shell.terminal.users)
      shell.terminal.print(
        report.lines(width: shell.terminal.width, colour: shell.terminal.usesColour, adapt: shell.adapted))
    }
    let status = end != .success ? end : report.count(.failed) > 0 ? .failure : .success
    if status != .success { throw .reported(status) }
  }
}

/// Looks at one thing after the other, and writes the report.
struct Doctor {
  /// For a provider that hangs: the broker gives up before.
  static let checkTimeout = 60.0
  /// How many providers are asked at once.
  static let checksAtOnce = 6
  /// For a program that is asked something.
  static let childTimeout = Duration.seconds(10)

  let shell: Shell
  var report = DoctorReport()

  var machine: Machine { shell.terminal.machine }

  /// Success unless the broker does not answer, or is locked.
  mutating func examine(only name: String?) async throws(Failure) -> ExitStatus {
    let choice = shell.choice
    let client: SocketClient
    do throws(Failure) {
      client = try await shell.connect()
    } catch {
      await examineWithoutBroker(choice, error)
      return error.status
    }
    let status: BrokerStatus.Result
    do throws(Failure) {
      status = try await shell.ask(BrokerStatus.self, NoParams(), on: client).value()
    } catch {
      let items = [
        await unit(instance(of: choice.path), answers: true), socket(choice, nil),
        DoctorReport.Item("policy", .failed, error.message, hint: error.hints.joined(separator: "\n")),
      ]
      report.groups = [.init(subject: .daemon, items: items)]
      return error.status
    }
    guard status.state != "locked" else {
      let items = await lockedItems(status, choice)
      report.groups = [.init(subject: .daemon, items: items)]
      return .temporarilyUnavailable
    }
    let daemon = await daemonItems(status, choice)
    report.groups = [.init(subject: .daemon, items: daemon)]
    try await examineProviders(only: name, on: client)
    return .success
  }

  // MARK: No broker

  private mutating func examineWithoutBroker(_ choice: SocketChoice, _ failure: Failure) async {
    let instance = instance(of: choice.path)
    var items = [await unit(instance, answers: false), socket(choice, failure)]
    // If the socket of another user answers, the configuration is theirs too.
    if failure.status == .notRunning { items += await configurations(of: choice) }
    report.groups = [.init(subject: .daemon, items: items)]
  }

  /// The configuration of each broker that could listen there.
  func configurations(of choice: SocketChoice) async -> [DoctorReport.Item] {
    var items: [DoctorReport.Item] = []
    for path in choice.passedOver + [choice.path] {
      let item = await configuration(instance(of: path), file: nil, changed: false)
      if !items.contains(item) { items.append(item) }
    }
    return items
  }

  /// Nil: a socket of no unit's.
  func instance(of path: String) -> Instance? {
    if path == SocketChoice.systemPath { return .system }
    return path == SocketChoice.userPath(environment: shell.terminal.environment, uid: shell.terminal.uid)
      ? .user : nil
  }

  enum Instance: String, Sendable { case system, user }
}
