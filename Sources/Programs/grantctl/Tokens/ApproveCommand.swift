import ArgumentParser
import AsyncClient
import BrokerAPI
import PlainText

struct ApproveCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "approve", abstract: "Approve or deny pending token requests.",
    usage: "grantctl approve [<id>] [options]",
    discussion: """
      With confirm = true in a [[rule]], a program waits for its token until you approve it. Without an ID, lists the \
      pending requests and asks about each. With --wait it keeps running and asks as requests arrive; with --json it \
      prints one line for each instead.

      --for also approves identical requests of the same program (user, unit, executable) for some time, at most an hour, \
      until the next reload or restart; --calls for a number of times. An approval of an HTTP request covers only that \
      method, URL and body. Exits with 7 if no request has that ID.

      Examples:
        grantctl approve
        grantctl approve k7f3qx
        grantctl approve k7f3qx --for 10m
        grantctl approve k7f3qx --calls 5
        grantctl approve k7f3qx --deny
        grantctl approve --wait
      """)

  @Argument(help: "The ID of a pending request.")
  var id: String?
  @Flag(help: "Deny it.")
  var deny = false
  @Option(
    name: .customLong("for"),
    help: ArgumentHelp("Also approve identical requests for this long: 30s, 10m, 1h.", valueName: "time"))
  var span: TimeSpan?
  @Option(
    help: ArgumentHelp("Also approve this number of identical requests, within --for or 1h.", valueName: "number"))
  var calls: Int64?
  @Flag(help: "Keep running, and ask as requests arrive.")
  var wait = false
  @OptionGroup var options: GlobalOptions

  func validate() throws {
    guard span.map({ $0.isTaken }) ?? true else {
      throw ValidationError("--for is an hour (1h) at most.")
    }
    if id == nil {
      guard !deny && span == nil && calls == nil else {
        throw ValidationError("--deny, --for and --calls go with an ID.")
      }
    } else if wait {
      throw ValidationError("--wait goes without an ID.")
    }
  }

  func run(in shell: Shell) async throws(Failure) {
    if let id { return try await answer(id, shell) }
    if wait { return try await Approver(shell: shell, client: try await shell.connect()).stay() }
    let list = try await shell.ask(ReleaseList.self, .init())
    if shell.isJSON { return shell.print(list.json) }
    let result = try list.value()
    guard shell.terminal.canAsk, !result.waiting.isEmpty else { return Self.show(result, shell) }
    Self.show(standing: result.standing, shell)
    try await Approver(shell: shell, client: try await shell.connect()).ask(result.waiting)
  }

  private func answer(_ id: String, _ shell: Shell) async throws(Failure) {
    let approval: Approval = deny ? .no(span) : .yes(span)
    guard try await approval.send(id, shell, on: try await shell.connect(), calls: calls) else {
      throw Failure(
        .unknownName, "no request \(SafeText.line(id)) waits for an approval",
        hints: ["`\(shell.command("approve"))` lists the requests that wait."])
    }
  }

  private static func show(_ result: ReleaseList.Result, _ shell: Shell) {
    if result.waiting.isEmpty {
      shell.terminal.print("Nothing waits for you.")
    } else {
      shell.print(table(result.waiting, shell))
    }
    show(standing: result.standing, shell)
  }

  private static func show(standing approvals: [ApprovalView], _ shell: Shell) {
    for approval in approvals {
      let asked = asks(approval.method, approval.kind)
      shell.terminal.print(
        SafeText.line(
          "\(approval.allowed ? "Allowed" : "Refused") for \(TimeText.duration(approval.until - shell.now)) more: "
            + "\(asked) of \(approval.account) to \(program(approval.caller, shell))"
            + (approval.caller.user_unit == nil ? " of \(shell.terminal.users(approval.caller.uid))" : "")))
    }
    guard !approvals.isEmpty else { return }
    shell.terminal.print(
      "\(shell.command("reload")), or a restart of grantd, ends \(approvals.count == 1 ? "that" : "those").")
  }

  static func table(_ releases: [ReleaseView], _ shell: Shell) -> TextTable {
    let rows = releases.map { release in
      TextTable.Row(
        cells: [
          Cell(release.id), Cell(release.account), Cell(asks(release.method, release.kind)),
          Cell(who(release.caller, shell)),
          Cell(TimeText.duration(release.until - shell.now)),
        ], notes: notes(release, shell))
    }
    return TextTable(
      titles: ["ID", "ACCOUNT", "ASKS FOR", "CALLER", "TIME LEFT"], shrinkable: [1, 3, 2], rows: rows, droppable: 1)
  }

  private static func asks(_ method: String, _ kind: TokenKind?) -> String {
    kind == .idToken ? "\(method) (ID token)" : method
  }

  private static func who(_ caller: ReleaseCaller, _ shell: Shell) -> String {
    shell.terminal.users(caller.uid) + (caller.pid.map { ", pid \($0)" } ?? "")
  }

  /// What is longer than a column.
  static func notes(_ release: ReleaseView, _ shell: Shell) -> [String] {
    let program = program(release.caller, shell)
    if let request = release.request {
      let body = release.body_sha256.map { ", body SHA-256 \($0)" } ?? ", without a body"
      return ["\(program); rule \(release.rule)", request + body]
    }
    let all = release.kind == .idToken ? "the user's ID token" : "scopes: all that it may have"
    let scopes = release.scopes.map { "scopes: \($0.joined(separator: " "))" } ?? all
    return [
      "\(program); rule \(release.rule)", scopes + (release.resource.map { ", for \($0)" } ?? ""),
    ]
  }

  /// A user's own unit is said to be one: it may have the name of one of the system's.
  static func program(_ caller: ReleaseCaller, _ shell: Shell) -> String {
    // A name with spaces could look like several words, and begin a line with one of them.
    func escaped(_ name: String) -> String { SafeText.line(name).replacing(" ", with: "\\ ") }
    let unit =
      caller.user_unit.map { "user unit \(escaped($0)) of \(shell.terminal.users(caller.uid))" }
      ?? caller.unit.map(escaped)
    guard let exe = caller.exe else { return unit ?? "a program that cannot be seen" }
    return (caller.parent.map { "\(escaped($0)) → " } ?? "") + escaped(exe) + (unit.map { " in \($0)" } ?? "")
  }
}

/// The user's answer to a pending request.
enum Approval: Sendable, Equatable {
  case yes(TimeSpan?)
  case no(TimeSpan?)

  /// What was typed; nil: not understood.
  init?(typed line: String) {
    let words = line.lowercased().split(whereSeparator: \.isWhitespace).map(String.init)
    guard let first = words.first, words.count <= 2 else { return nil }
    let span = (words.count == 2 ? words[1] : nil).map { TimeSpan(argument: $0) }
    if case .some(nil) = span { return nil }
    if let span = span ?? nil, !span.isTaken { return nil }
    switch first {
    case "y", "yes": self = .yes(span ?? nil)
    case "n", "no": self = .no(span ?? nil)
    default: return nil
    }
  }

  /// False: nothing waits under that ID.
  func send(
    _ id: String, _ shell: Shell, on client: SocketClient, calls: Int64? = nil
  ) async throws(Failure) -> Bool {
    switch self {
    case .yes(let span):
      let answer = try await shell.ask(
        ReleaseApprove.self, .init(id: id, for: span?.seconds, calls: calls), on: client)
      guard try answer.value().approved else { return false }
      if shell.isJSON { shell.print(answer.json) } else { shell.terminal.print("Allowed: \(SafeText.line(id))") }
    case .no(let span):
      let answer = try await shell.ask(
        ReleaseDeny.self, .init(id: id, for: span?.seconds, calls: calls), on: client)
      guard try answer.value().denied else { return false }
      if shell.isJSON { shell.print(answer.json) } else { shell.terminal.print("Refused: \(SafeText.line(id))") }
    }
    return true
  }
}
