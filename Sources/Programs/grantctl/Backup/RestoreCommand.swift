import ArgumentParser
import AsyncClient
import BrokerAPI
import CredentialHelpers
import PlainText

struct RestoreCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "restore", abstract: "Restore the accounts of a backup.",
    usage: "grantctl restore <file> [options]",
    discussion: """
      On the same machine or another one, with any key. Existing accounts are kept; with \
      --replace they become those of the backup.

      Only one broker may go on with a grant: stop the one that the backup is of, for good, before you restore. \
      Where that has refreshed tokens since, providers that rotate refresh tokens strictly end the grant as the old \
      one comes back, and the user must sign in again.

      Examples:
        grantctl restore grantd.backup
        grantctl restore grantd.backup --system --moved \\
          --passphrase-file - < passphrase
      """)

  private static let magic = Array("grantd-backup\n".utf8)
  /// How often a passphrase may be typed.
  private static let tries = 3
  /// More names are only counted.
  private static let mostNames = 40

  @Argument(help: ArgumentHelp("Backup file.", valueName: "file"), completion: .file())
  var file: String
  @OptionGroup var secret: BackupSecretOptions
  @Flag(help: "Confirm that no other broker uses these grants. Default: ask.")
  var moved = false
  @Flag(help: "Overwrite existing accounts.")
  var replace = false
  @Flag(help: "Replace accounts whose refresh token here is newer. Default: ask.")
  var older = false
  @OptionGroup var options: GlobalOptions

  func validate() throws { try BackupTransfer.checkIsFile(file) }

  func run(in shell: Shell) async throws(Failure) {
    let bytes = try contents(shell)
    try secret.check(shell)
    guard moved || shell.terminal.canAsk else {
      throw Failure(
        .usage, "it is not confirmed that the broker of the backup no longer runs",
        hints: [
          "Two brokers that refresh one grant end it. Stop the other one for good, then add --moved."
        ])
    }
    let client = try await shell.connect()
    let id = try await shell.showing("Sending the backup to grantd") { activity throws(Failure) in
      try await send(bytes, shell, client, activity)
    }
    var dialogue = Dialogue(shell)
    let about = try await inspect(id, shell, client, &dialogue)
    describe(about, shell)
    guard moved || shell.isJSON || takesAny(of: about) else {
      let all = about.accounts == 0 ? "It has no account" : "All of them are here already"
      return shell.terminal.print("\(all): nothing is restored. --replace also restores existing accounts.")
    }
    warn(about, shell)
    if !moved {
      guard try await dialogue.agrees("Does the grantd of “\(SafeText.line(about.host))” no longer use them?") else {
        throw Failure(.failure, "nothing was restored", hints: ["Stop the other grantd for good, then try again."])
      }
    }
    let older = try await replacesNewer(about, shell, &dialogue)
    let answer = try await shell.showing("Restoring \(about.accounts) accounts") { _ throws(Failure) in
      try await shell.ask(
        StoreRestoreApply.self, .init(restore_id: id, moved: true, replace: replace, older: older), on: client)
    }
    if shell.isJSON { return shell.print(answer.json) }
    report(try answer.value(), shell)
  }

  /// Whether accounts are replaced whose refresh token here is newer.
  private func replacesNewer(
    _ about: StoreRestoreLook.Result, _ shell: Shell, _ dialogue: inout Dialogue
  ) async throws(Failure) -> Bool {
    guard replace, !older, let names = about.older, !names.isEmpty else { return older }
    let list =
      names.prefix(Self.mostNames).joined(separator: ", ")
      + (names.count > Self.mostNames ? " and \(names.count - Self.mostNames) more" : "")
    let message = SafeText.line("the refresh tokens here are newer than in the backup: \(list)")
    guard shell.terminal.canAsk else {
      throw Failure(
        .usage, message,
        hints: ["Nothing was restored. --older replaces these accounts as well; their grants may end."])
    }
    note(
      "warning: \(message). A provider that rotates refresh tokens ends a grant whose old one is used.", shell.terminal)
    return try await dialogue.agrees("Replace these accounts as well?")
  }

  private func takesAny(of about: StoreRestoreLook.Result) -> Bool {
    about.accounts > (replace ? 0 : about.known)
  }

  private func contents(_ shell: Shell) throws(Failure) -> [UInt8] {
    switch shell.terminal.files.bytes(file, BackupTransfer.limit) {
    case .unreadable(let reason):
      throw Failure(
        .usage, "the backup cannot be read from \(file): \(reason)",
        hints: ["Give the path of a file that `grantctl backup` wrote."])
    case .bytes(let bytes, _):
      guard bytes.starts(with: Self.magic) else {
        throw Failure(
          .usage, "\(file) is not a backup of grantd", hints: ["Give a file that “grantctl backup” wrote."])
      }
      return bytes
    }
  }

  private func send(
    _ bytes: [UInt8], _ shell: Shell, _ client: SocketClient, _ activity: Activity
  ) async throws(Failure) -> String {
    let id = try await BackupTransfer.ask(StoreRestore.self, .init(size: bytes.count), shell, on: client).restore_id
    var offset = 0
    while offset < bytes.count {
      let part = bytes[offset...].prefix(BackupTransfer.part)
      _ = try await BackupTransfer.ask(
        StoreRestorePart.self, .init(restore_id: id, offset: offset, data: Base64.encoded(part)), shell, on: client)
      offset += part.count
      activity.update(offset, of: bytes.count)
    }
    return id
  }

  private func inspect(
    _ id: String, _ shell: Shell, _ client: SocketClient, _ dialogue: inout Dialogue
  ) async throws(Failure) -> StoreRestoreLook.Result {
    var tries = 1
    while true {
      let given = try await secret.read(in: shell, &dialogue, twice: false)
      do throws(Failure) {
        return try await shell.showing("Opening the backup") { _ throws(Failure) in
          try await BackupTransfer.ask(
            StoreRestoreLook.self, .init(restore_id: id, passphrase: given.passphrase, key: given.key), shell,
            on: client)
        }
      } catch {
        guard given.isTyped, tries < Self.tries, error.rpc?.reason == .invalidBackup else { throw error }
        tries += 1
        shell.terminal.note("grantctl: \(SafeText.line(error.message))")
      }
    }
  }

  // MARK: What a person reads

  private func describe(_ about: StoreRestoreLook.Result, _ shell: Shell) {
    guard !shell.isJSON || !moved else { return }
    let terminal = shell.terminal
    let made = TimeText.date(about.made_at, in: terminal.timeZone)
    let accounts = "\(about.accounts) account\(about.accounts == 1 ? "" : "s")"
    let known =
      about.known == 0 ? "" : ", \(about.known) of \(about.known == 1 ? "which is" : "which are") here already"
    let ago = TimeText.ago(about.made_at, now: shell.now)
    note(SafeText.line("A backup of “\(about.host)”, made \(made) (\(ago)): \(accounts)\(known)."), terminal)
  }

  private func warn(_ about: StoreRestoreLook.Result, _ shell: Shell) {
    guard !shell.isJSON || !moved else { return }
    let warning = """
      warning: only one broker may go on with these grants. Each refresh makes the refresh token of the other an old \
      one, and many providers end a grant whose old token is used. Stop the grantd of “\(SafeText.line(about.host))” \
      for good. What it refreshed since the backup was made may have to be signed in to again.
      """
    note(warning, shell.terminal)
  }

  private func note(_ text: String, _ terminal: Terminal) {
    let columns = min(80, terminal.screen?.columns ?? 80)
    terminal.note(SafeText.wrapped(text, columns: columns).joined(separator: "\n"))
  }

  private func report(_ result: StoreRestoreApply.Result, _ shell: Shell) {
    for warning in result.warnings.flatMap(SafeText.lines) { shell.terminal.note("warning: \(warning)") }
    let groups = [
      ("Restored", result.restored), ("Replaced", result.replaced), ("Kept as they were", result.kept),
    ]
    for (title, names) in groups where !names.isEmpty {
      shell.terminal.print(Self.names(title, names, width: shell.terminal.width ?? 80))
    }
    for left in result.left_out {
      shell.terminal.print(SafeText.line("Left out: \(left.account): \(left.why)"))
    }
    if result.restored.isEmpty, result.replaced.isEmpty { shell.terminal.print("No account was restored.") }
    if !result.kept.isEmpty {
      shell.terminal.print("Those that were kept are not the backup's: --replace takes them too.")
    }
  }

  private static func names(_ title: String, _ names: [String], width: Int) -> [String] {
    let more = names.count > mostNames ? " and \(names.count - mostNames) more" : ""
    let text = "\(title) (\(names.count)): " + names.prefix(mostNames).joined(separator: ", ") + more
    let lines = SafeText.wrapped(SafeText.line(text), columns: max(24, width - 2))
    return Array(lines.prefix(1)) + lines.dropFirst().map { "  " + $0 }
  }
}
