import ArgumentParser
import BrokerAPI
import BrokerSocket
import CredentialHelpers

struct ConfigureCommand: AccountCommand {
  static let configuration = CommandConfiguration(
    commandName: "configure", abstract: "Set up git, docker, kubectl, mail, MCP clients and others.",
    usage: "grantctl configure <tool> <account> [<server>] [options]",
    discussion: """
      Prints the configuration of the tool. --write merges it into the tool's files, shows each change, and saves a copy \
      as FILE.grantd-backup. Running it again changes nothing. --undo removes it again.

      Tools: \(Tool.names.joined(separator: ", "))

      Examples:
        grantctl configure git work git.example.com
        grantctl configure git work git.example.com --write
        grantctl configure git team https://git.example.com/team --write
        grantctl configure pip work https://pypi.example.com/simple/ --write
        grantctl configure msmtp work smtp.example.com:587 --as ada@example.com
        grantctl configure aws work --role arn:aws:iam::123456789012:role/reader
        grantctl configure kubectl work --id-token --write
        grantctl configure vault work --role reader --id-token
        grantctl configure git work git.example.com --undo
        grantctl configure claude-code notes --write
        grantctl configure zed notes --stdio --write
      """)

  @Argument(help: "A tool that --help lists.")
  var tool: String
  @OptionGroup var named: AccountArgument
  @Argument(help: "Its server: a host, the URL of an index or a registry, or a path.")
  var server: String?
  @Option(name: .customLong("as"), help: ArgumentHelp("The user at the server.", valueName: "user"))
  var user: String?
  @Option(help: ArgumentHelp("The role to assume, for aws and vault.", valueName: "role"))
  var role: String?
  @Flag(help: "Use `grantctl mcp`, for MCP clients that take a command.")
  var stdio = false
  @Flag(help: "Use the ID token instead: for kubectl, aws, gcp and vault.")
  var idToken = false
  @Flag(help: "Write it to the tool's files.")
  var write = false
  @Flag(help: "Remove it from the tool's files.")
  var undo = false
  @Flag(help: "Print the changed lines of --write, or of --undo, and write nothing.")
  var diff = false
  @OptionGroup var options: GlobalOptions

  func validate() throws {
    guard !(write && diff) else { throw ValidationError("Only one of --write and --diff can be given.") }
    guard !(write && undo) else { throw ValidationError("Only one of --write and --undo can be given.") }
  }

  func run(in shell: Shell) async throws(Failure) {
    guard try await configure(in: shell), !write, !undo, !diff else { return }
    shell.terminal.note(
      "Nothing was written: --write adds this to the tool's configuration, --diff prints the changed lines.")
  }

  /// - Parameter isShown: the configuration was printed before, so only the files that are written are named.
  /// - Returns: whether there is a file that --write changes.
  @discardableResult
  func configure(in shell: Shell, isShown: Bool = false) async throws(Failure) -> Bool {
    guard let chosen = Tool.named(tool) else {
      throw Failure(
        .usage, "there is no configuration for \(SafeText.line(tool))",
        hints: UsageHints.near(tool, Tool.names).map { ["Did you mean \($0)?"] } ?? [
          "There are: \(Tool.names.joined(separator: ", "))"
        ])
    }
    guard !idToken || chosen.takesIDTokens else {
      throw Failure(
        .usage, "\(tool) takes no ID token",
        hints: ["With --id-token: \(Tool.all.filter(\.takesIDTokens).map(\.name).joined(separator: ", "))"])
    }
    let made = chosen.make(try await target(of: chosen, shell))
    if !undo, !isShown { await noteUnknown(shell) }
    var files = ToolFiles(shell: shell, isShown: isShown)
    if made.edits.isEmpty, undo {
      shell.terminal.print("There is nothing to remove: grantctl writes no file for \(tool).")
      return false
    }
    if made.edits.isEmpty, write || diff {
      throw Failure(.failure, "\(tool) has no file for this", hints: made.notes)
    }
    let purpose: ToolFiles.Purpose = undo ? .undo : write || diff ? .write : .show
    try await files.apply(made.edits, purpose, isDifference: diff)
    if !undo, !diff, !isShown { for note in made.notes { shell.terminal.note(SafeText.line(note)) } }
    return !made.edits.isEmpty
  }

  /// As the helper itself decides.
  private func mayUseHTTP(_ chosen: Tool, _ place: ServerLocation, _ shell: Shell) -> Bool {
    let choice = try? HelperFiles(terminal: shell.terminal).mapping().choose(.init(place: place), for: chosen.helper)
    guard case .entry(let entry) = choice else { return false }
    return entry.account == named.account
  }

  /// An account may be configured before its sign-in, and without a broker; a mistyped name is worth a note.
  private func noteUnknown(_ shell: Shell) async {
    var shell = shell
    shell.settings.timeout = UsageHints.patience
    do throws(Failure) {
      _ = try await shell.ask(AccountGet.self, .init(account: named.account), on: shell.connect())
    } catch {
      guard error.rpc?.reason == .unknownAccount else { return }
      let meant = await UsageHints.nearAccount(named.account, in: shell).map { "did you mean \($0)?" }
      let next = meant ?? "until you sign in to it, \(tool) gets no token."
      shell.terminal.note(SafeText.line("warning: there is no account \(named.account): \(next)"))
    }
  }

  private func target(of chosen: Tool, _ shell: Shell) async throws(Failure) -> ToolTarget {
    guard named.account.unicodeScalars.allSatisfy({ $0.value >= 0x20 && $0.value != 0x7F && $0 != "'" && $0 != "\"" })
    else {
      throw Failure(.usage, "the account's name has characters that a configuration cannot contain")
    }
    for text in [server, user, role].compactMap({ $0 }) where !Self.isPlain(text) {
      throw Failure(.usage, "\(SafeText.line(text)) has characters that a configuration cannot contain")
    }
    let place = server.flatMap { ServerLocation($0) }
    if let place, place.scheme == "http", !place.host.isLoopback, !undo, !mayUseHTTP(chosen, place, shell) {
      throw Failure(
        .usage, "a token would be readable on its way to \(SafeText.line(server ?? ""))",
        hints: [
          "Use https. Without it the helper gives no token, unless the server's entry in helper.toml has "
            + "allow_insecure_http = true."
        ])
    }
    switch chosen.need {
    case .nothing, .forward: break
    case .role:
      guard role != nil || undo else {
        throw Failure(.usage, "the role is missing: --role arn:aws:iam::123456789012:role/NAME")
      }
    case .vaultRole:
      // There is nothing to undo, with a role or without.
      guard role != nil || undo else {
        throw Failure(.usage, "the role is missing: --role NAME, as Vault's JWT method has it")
      }
    case .audience:
      guard server?.hasPrefix("//iam.googleapis.com/") == true || undo else {
        throw Failure(
          .usage, "the audience is missing",
          hints: [
            "Name the pool's provider: `grantctl configure \(tool) \(named.account) "
              + "//iam.googleapis.com/projects/NUMBER/locations/global/workloadIdentityPools/POOL/providers/NAME`"
          ])
      }
    case .host, .mailServer:
      guard place != nil else {
        throw Failure(
          .usage, "the server is missing", hints: ["Name it: `grantctl configure \(tool) \(named.account) HOST`"])
      }
    case .address:
      guard let place, place.scheme != nil else {
        throw Failure(
          .usage, "the URL is missing",
          hints: ["Name it: `grantctl configure \(tool) \(named.account) https://HOST/PATH`"])
      }
    }
    var target = ToolTarget(
      account: named.account, place: place, address: server ?? "", user: user ?? "", role: role,
      isIDToken: idToken, options: shell.settings.wish.options)
    if shell.choice.path != SocketChoice.systemPath {
      let folder = shell.choice.path.split(separator: "/").dropLast().map { "/" + $0 }.joined()
      target.userBroker = .init(
        configuration: "\(shell.terminal.configurationFolder)/grantd/grantd.toml", files: "\(folder)/files")
    }
    if stdio, chosen.need != .forward { throw Failure(.usage, "--stdio is for MCP clients") }
    if stdio {
      let path = server.map { [$0.hasPrefix("/") ? $0 : "/" + $0] } ?? []
      target.bridge =
        ["grantctl", "mcp", named.account] + path + shell.settings.wish.arguments
    } else if chosen.need == .forward {
      let forward = ForwardURL(
        shell: shell, account: named.account, path: server,
        command: "grantctl configure \(chosen.name) \(ShellWord.quoted(named.account))")
      target.address = try await forward.text(turnsOn: write, optional: undo)
    }
    // The lines to remove are found by the account and the server.
    if chosen.need == .mailServer, user == nil, !undo {
      let account = try await shell.ask(AccountGet.self, .init(account: named.account)).value()
      guard let person = account.identity?.email, Self.isPlain(person) else {
        throw Failure(
          .failure, "the provider returned no e-mail address of account \(named.account)", hints: ["Name it: --as USER"]
        )
      }
      target.user = person
    }
    return target
  }

  /// Nothing that could end a line, a word or a quotation of a configuration.
  private static func isPlain(_ text: String) -> Bool {
    !text.isEmpty && text.utf8.allSatisfy { (0x21...0x7E).contains($0) && !"\"'`\\<>{}|;$#()".utf8.contains($0) }
  }
}
