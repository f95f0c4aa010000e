import ArgumentParser
import BrokerAPI

/// A file with an account's token, for a program that runs long: another process keeps it fresh while the program runs.
enum TemporaryTokenFile {
  /// Writes the file, and starts the process that replaces its content. The path.
  static func make(of wanted: TokenGet.Params, in shell: Shell) async throws(Failure) -> String {
    let text = try await ExecCommand.token(wanted, shell)
    guard let folder = shell.terminal.files.privateFolder() else {
      throw Failure(
        .failure, "no folder could be made for the token's file",
        hints: ["$XDG_RUNTIME_DIR, or else $TMPDIR, is a folder that you can write to."])
    }
    let path = folder + "/token"
    if let reason = shell.terminal.files.save(path, Array(text.utf8), true) {
      throw Failure(.failure, "\(path) cannot be written: \(reason)")
    }
    var words =
      [KeepTokenCommand.configuration.commandName ?? "", wanted.account, path] + shell.settings.wish.arguments
    for scope in wanted.scopes ?? [] { words += ["--scope", scope] }
    if wanted.kind == .idToken { words.append("--id-token") }
    guard shell.terminal.programs.startKeeper([shell.terminal.ownPath] + words) else {
      remove(path, shell.terminal.files)
      throw Failure(.failure, "no process could be started that keeps \(path) fresh")
    }
    return path
  }

  /// With its folder.
  static func remove(_ path: String, _ files: TerminalFiles) {
    _ = files.remove(path)
    _ = files.removeFolder(ProcessFiles.split(path).folder)
  }
}

/// The process that keeps a token's file fresh, until the program ends whose pidfd it inherits.
struct KeepTokenCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "keep-token", abstract: "Refresh the file of `grantctl exec --file-env`.",
    usage: "grantctl keep-token <account> <path> [options]", shouldDisplay: false)

  /// Seconds between two looks. The broker refreshes ahead of the end, so that a token of it has more to live.
  static let shortest: Int64 = 2
  static let longest: Int64 = 60
  /// How long before its end a token is replaced.
  static let ahead: Int64 = 30

  @OptionGroup var named: AccountArgument
  @Argument var path: String
  @Option var scope: [String] = []
  @Flag var idToken = false
  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    guard shell.terminal.programs.isKeeper() else {
      throw Failure(.usage, "only `grantctl exec --file-env` runs this")
    }
    var written: String?
    var wait = Self.shortest
    while !shell.terminal.programs.watch(wait) {
      do throws(Failure) {
        var params = ExecCommand.params(named.account, scope, idToken: idToken)
        // An ID token that lives shorter than `ahead` is had without a wish.
        if !idToken { params.min_ttl = Double(Self.ahead) }
        let result = try await shell.ask(TokenGet.self, params).value()
        let text = try ExecCommand.text(of: result)
        if text != written, shell.terminal.files.save(path, Array(text.utf8), true) == nil { written = text }
        wait = Self.wait(until: result.expires_at, now: shell.now)
      } catch {
        // The program notices the expired token by itself: its server rejects it.
        wait = min(Self.longest, wait * 2)
      }
    }
    TemporaryTokenFile.remove(path, shell.terminal.files)
  }

  static func wait(until end: Int64?, now: Int64) -> Int64 {
    guard let end else { return longest }
    return min(longest, max(shortest, end - ahead - now))
  }
}
