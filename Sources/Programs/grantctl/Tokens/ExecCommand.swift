import ArgumentParser
import BrokerAPI

struct ExecCommand: AccountCommand {
  static let configuration = CommandConfiguration(
    commandName: "exec", abstract: "Run a program with a token.",
    usage: "grantctl exec <account> [options] -- <program> [<argument> ...]",
    discussion: """
      The program replaces grantctl: it receives the signals, and its exit status is the status. The token is in the \
      environment variable ACCESS_TOKEN (ID_TOKEN with --id-token), or the one of --env; other programs of the same user can read it there.

      With --fd the program reads the token from that descriptor. With --file-env the variable contains the path of a \
      file that only the user can read; grantctl keeps a valid token in it, and removes it when the program ends.

      Exits with 127 if the program does not exist, and with 126 if it cannot be started.

      Examples:
        grantctl exec work --env GH_TOKEN -- gh repo list
        grantctl exec work --fd 3 -- sh -c 'read -r token <&3; …'
        grantctl exec work --file-env TOKEN_FILE -- sync-forever
      """)

  @OptionGroup var named: AccountArgument
  @Option(help: ArgumentHelp("Environment variable for the token. Default: ACCESS_TOKEN.", valueName: "name"))
  var env: String?
  @Option(help: ArgumentHelp("The descriptor to read the token from, 3 or more.", valueName: "number"))
  var fd: Int32?
  @Option(help: ArgumentHelp("The environment variable for the path of a file that is kept fresh.", valueName: "name"))
  var fileEnv: String?
  @Option(help: "Required scope. Can be repeated.")
  var scope: [String] = []
  @Flag(help: "Use the ID token instead of the access token.")
  var idToken = false
  @Argument(parsing: .postTerminator, help: "The program and its arguments.")
  var program: [String] = []
  @OptionGroup var options: GlobalOptions

  func validate() throws {
    guard !program.isEmpty else { throw ValidationError("The program comes behind “--”: grantctl exec work -- env") }
    guard [env != nil, fd != nil, fileEnv != nil].filter({ $0 }).count <= 1 else {
      throw ValidationError("Only one of --env, --fd and --file-env can be given.")
    }
    guard !idToken || scope.isEmpty else { throw ValidationError("An ID token has no scopes: leave out --scope.") }
    if let fd, !(3...1023).contains(fd) { throw ValidationError("--fd is 3 to 1023.") }
    for name in [env, fileEnv].compactMap({ $0 }) {
      let isName = name.utf8.allSatisfy {
        $0 == 0x5F || (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0)
      }
      guard isName, !name.isEmpty, !(0x30...0x39).contains(name.utf8[name.startIndex]) else {
        throw ValidationError("\(name) is not the name of a variable.")
      }
    }
  }

  func run(in shell: Shell) async throws(Failure) {
    guard let path = shell.terminal.programs.find(program[0]) else {
      let name = SafeText.line(program[0])
      // A path that exists and cannot be executed (EACCES).
      guard program[0].contains("/"), shell.terminal.files.exists(program[0]) else {
        shell.terminal.note("grantctl: there is no program \(name)")
        throw .reported(.noProgram)
      }
      shell.terminal.note("grantctl: \(name) cannot be started: Permission denied")
      throw .reported(.programNotStarted)
    }
    var start = ProgramStart(path: path, arguments: program)
    if let file = fileEnv {
      let kept = try await TemporaryTokenFile.make(of: wanted, in: shell)
      start.variables[file] = kept
    } else {
      let text = try await Self.token(wanted, shell)
      if let fd {
        start.descriptor = .init(number: fd, content: Array(text.utf8))
      } else {
        start.variables[env ?? (idToken ? "ID_TOKEN" : "ACCESS_TOKEN")] = text
      }
    }
    let reason = shell.terminal.programs.become(start)
    shell.terminal.note("grantctl: \(SafeText.line(path)) cannot be started: \(reason)")
    throw .reported(.programNotStarted)
  }

  private var wanted: TokenGet.Params {
    Self.params(named.account, scope, idToken: idToken)
  }

  static func params(_ account: String, _ scope: [String], idToken: Bool) -> TokenGet.Params {
    .init(account: account, kind: idToken ? .idToken : nil, scopes: LoginCommand.scopes(scope))
  }

  /// The token, or the ID of a session.
  static func token(_ params: TokenGet.Params, _ shell: Shell) async throws(Failure) -> String {
    var params = params
    params.timeout = shell.settings.timeout
    let result = try await shell.ask(TokenGet.self, params).value()
    return try text(of: result)
  }

  static func text(of result: TokenGet.Result) throws(Failure) -> String {
    try TokenCommand.printable(result.id_token ?? result.access_token ?? result.session_id ?? "")
  }
}

/// A program that takes the place of this one.
struct ProgramStart: Sendable, Equatable {
  struct Descriptor: Sendable, Equatable {
    var number: Int32
    var content: [UInt8]
  }

  var path: String
  /// The first is the program's own name.
  var arguments: [String]
  /// What it has in its environment beside what this one has.
  var variables: [String: String] = [:]
  var descriptor: Descriptor?
}
