import ArgumentParser
import BrokerAPI
import Callers
import PlainText
import Principals

struct ExplainCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "explain", abstract: "Explain why a caller may or may not use an account.",
    usage: "grantctl explain <account> [options]",
    discussion: """
      Checks your own access by default. Checking another caller, seeing why access is denied, and --all require \
      `manage` access. Exits with 4 if access is denied.

      Examples:
        $ grantctl explain work --uid ada
        allowed: rule mail allows it
        grantctl explain work --all
        grantctl explain work --pid 4711
        grantctl explain work --unit mail-sync
        grantctl explain work --user-unit feed@1
        grantctl explain work --uid ada --method account.logout
        grantctl explain work --uid ada --id-token
      """)

  @Argument(help: "The account's name.")
  var account: String
  @Option(help: ArgumentHelp("The process with this number.", valueName: "number"))
  var pid: Int32?
  @Option(
    help: ArgumentHelp("A unit of the system's, as the user that it runs as.", valueName: "unit"),
    transform: RunningAs.unitName)
  var unit: String?
  @Option(help: ArgumentHelp("The user, by name or number.", valueName: "user"), transform: RunningAs.uid(named:))
  var uid: UInt32?
  @Option(
    help: ArgumentHelp("A unit of that user's own manager; without --uid, of yours.", valueName: "unit"),
    transform: RunningAs.unitName)
  var userUnit: String?
  @Option(help: ArgumentHelp("The path of an executable.", valueName: "path"))
  var exe: String?
  @Option(help: "The method of the socket. Default: token.get.")
  var method: String?
  @Flag(help: "Explain the access to ID tokens.")
  var idToken = false
  @Flag(help: "List the rules for the account: callers, limits, approvals and last use.")
  var all = false
  @OptionGroup var options: GlobalOptions

  func validate() throws {
    guard
      !all || (pid == nil && unit == nil && uid == nil && userUnit == nil && exe == nil && method == nil && !idToken)
    else {
      throw ValidationError("--all goes without a caller, --method and --id-token.")
    }
    guard pid == nil || (unit == nil && uid == nil && userUnit == nil && exe == nil) else {
      throw ValidationError("--pid can only be combined with --method.")
    }
    guard exe == nil || uid != nil || unit != nil || userUnit != nil else {
      throw ValidationError("--exe goes with --uid, --unit or --user-unit.")
    }
  }

  func run(in shell: Shell) async throws(Failure) {
    if all { return try await RuleTable(shell: shell).show(account) }
    let answer = try await shell.ask(
      PolicyExplain.self,
      .init(account: account, method: method, kind: idToken ? .idToken : nil, caller: try await subject(shell)))
    if shell.isJSON {
      shell.print(answer.json)
    } else {
      let result = try answer.value()
      shell.terminal.print(SafeText.line("\(Self.verdict(result)): \(shell.terminal.users.named(result.why))"))
      if let confirm = result.confirm {
        shell.terminal.print(
          "the user has \(TimeText.duration(Int64(confirm.timeout))) for it: grantctl approve")
      }
      if let scopes = result.scopes {
        shell.terminal.print(SafeText.line("scopes: \(scopes.joined(separator: " "))"))
      }
      await noteUnknownAccount(shell)
    }
    if try !answer.value().allowed { throw Failure.reported(.notPermitted) }
  }

  /// The policy knows names, not accounts. Who may not see the account is told nothing, and asks nothing that the audit
  /// trail would have as refused.
  private func noteUnknownAccount(_ shell: Shell) async {
    do throws(Failure) {
      let look = PolicyExplain.Params(account: account, method: AccountGet.name)
      guard try await shell.ask(PolicyExplain.self, look).value().allowed else { return }
      _ = try await shell.ask(AccountGet.self, .init(account: account))
    } catch {
      guard error.rpc?.reason == .unknownAccount else { return }
      shell.terminal.note(SafeText.line("There is no account \(account): the answer is for one of that name."))
    }
  }

  private static func verdict(_ result: PolicyExplain.Result) -> String {
    guard result.allowed else { return "not allowed" }
    return result.confirm == nil ? "allowed" : "allowed after confirmation"
  }

  private func subject(_ shell: Shell) async throws(Failure) -> PolicyExplain.Subject? {
    if let pid {
      guard let caller = Caller(process: pid) else {
        throw Failure(
          .failure, "no process \(pid) can be seen", hints: ["`ps -p \(pid)` tells whether it runs; perhaps with sudo."]
        )
      }
      return .init(
        uid: caller.uid, gid: caller.gid, groups: caller.groups, unit: caller.unit, user_unit: caller.userUnit,
        exe: caller.executable)
    }
    let identity: RunningAs
    if let uid {
      identity = RunningAs(user: uid)
    } else if let unit {
      identity = try await RunningAs(unit: unit, shell)
    } else if userUnit != nil {
      identity = RunningAs(user: shell.terminal.uid)
    } else {
      return nil
    }
    if identity.groups == nil {
      shell.terminal.note(
        "The groups of \(shell.terminal.users(identity.uid)) are not known here: rules on groups count as not met.")
    }
    return .init(
      uid: identity.uid, gid: identity.gid, groups: identity.groups, unit: unit, user_unit: userUnit, exe: exe)
  }
}
