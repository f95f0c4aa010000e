import ArgumentParser
import BrokerAPI
import Glibc
import UnixSocket

struct ExplainCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "explain", abstract: "Say whether a program may have an account's token, and why.",
    discussion: """
      By default of you, here and now. Asking of others takes the permission to manage. Ends with 4 where it is not \
      allowed.

      Examples:
        grantctl explain work
        grantctl explain work --pid 4711
        grantctl explain work --unit mail-sync.service
        grantctl explain work --uid 1000 --method account.logout
      """)

  @Argument(help: "The account's name.")
  var account: String
  @Option(help: ArgumentHelp("The process with this number.", valueName: "number"))
  var pid: Int32?
  @Option(help: ArgumentHelp("A unit of the system's, as the user that it runs as.", valueName: "unit"))
  var unit: String?
  @Option(help: ArgumentHelp("The user, by number.", valueName: "number"))
  var uid: UInt32?
  @Option(help: ArgumentHelp("A unit of that user's own manager.", valueName: "unit"))
  var userUnit: String?
  @Option(help: ArgumentHelp("The path of an executable.", valueName: "path"))
  var exe: String?
  @Option(help: "The method of the socket. Default: token.get.")
  var method: String?
  @OptionGroup var options: GlobalOptions

  func validate() throws {
    guard pid == nil || (unit == nil && uid == nil && userUnit == nil && exe == nil) else {
      throw ValidationError("--pid says all of the caller: it goes with --method alone.")
    }
    guard userUnit == nil || uid != nil else { throw ValidationError("--user-unit goes with --uid.") }
    guard exe == nil || uid != nil || unit != nil else { throw ValidationError("--exe goes with --uid or --unit.") }
  }

  func run(in shell: Shell) async throws(Failure) {
    let answer = try await shell.ask(
      PolicyExplain.self, .init(account: account, method: method, caller: try await subject(shell)))
    if shell.isJSON {
      shell.say(answer.json)
    } else {
      let result = try answer.value()
      shell.terminal.say(SafeText.line("\(Self.verdict(result)): \(result.why)"))
      if let confirm = result.confirm {
        shell.terminal.say("a person has \(TimeText.duration(Int64(confirm.timeout))) for it: grantctl approve")
      }
      if let scopes = result.scopes { shell.terminal.say(SafeText.line("scopes: \(scopes.joined(separator: " "))")) }
    }
    if try !answer.value().allowed { throw Failure.reported(.notPermitted) }
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
    guard let unit else { return uid.map { .init(uid: $0, user_unit: userUnit, exe: exe) } }
    if let uid { return .init(uid: uid, unit: unit, exe: exe) }
    let (user, group) = try await user(of: unit, shell)
    return .init(uid: user, gid: group, unit: unit, exe: exe)
  }

  /// As whom the unit runs, by systemd's word.
  private func user(of unit: String, _ shell: Shell) async throws(Failure) -> (uid: UInt32, gid: UInt32?) {
    guard let systemctl = shell.terminal.find("systemctl") else {
      throw Failure(.failure, "there is no systemd here to say whose unit it is", hints: ["Name the user with --uid."])
    }
    let shown = await shell.terminal.machine.run(
      [systemctl, "show", "--property=LoadState,User,UID,GID,DynamicUser", "--", unit], .seconds(10))
    var values: [String: String] = [:]
    for line in (shown?.out ?? "").split(separator: "\n") {
      let halves = line.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      if halves.count == 2 { values[String(halves[0])] = String(halves[1]) }
    }
    guard values["LoadState"] == "loaded" else {
      throw Failure(
        .unknownName, "systemd knows no unit \(SafeText.line(unit))",
        hints: ["`systemctl list-units --all` lists them; with --uid the unit need not exist."])
    }
    if let uid = values["UID"].flatMap({ UInt32($0) }) { return (uid, values["GID"].flatMap { UInt32($0) }) }
    let name = values["User"] ?? ""
    if name.isEmpty, values["DynamicUser"] != "yes" { return (0, 0) }
    if let uid = UInt32(name) { return (uid, nil) }
    if !name.isEmpty, let entry = getpwnam(name) { return (entry.pointee.pw_uid, entry.pointee.pw_gid) }
    throw Failure(
      .failure, "the user of \(SafeText.line(unit)) is made when it starts, and it does not run",
      hints: ["Start it, or name a user with --uid."])
  }
}
