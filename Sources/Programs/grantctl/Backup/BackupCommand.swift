import ArgumentParser
import AsyncClient
import BlockingClient
import BrokerAPI
import CredentialHelpers

/// The two sides of a transfer in parts.
enum BackupTransfer {
  /// A part of a stream would be no backup, and a file is whole or not there.
  static func checkIsFile(_ path: String) throws {
    guard path != "-" else {
      throw ValidationError("A backup is a file, not a stream: give its path (./- for a file named “-”).")
    }
  }

  /// Bytes of a whole backup, as the broker limits it.
  static let limit = 256 << 20
  /// Bytes of a part.
  static let part = 128 << 10
  /// How often a part is sent again to a broker that finds us too fast.
  private static let patience = 20
  private static let longestWait = 5.0

  static func ask<Method: RPCMethod>(
    _ method: Method.Type, _ params: Method.Params, _ shell: Shell, on client: SocketClient
  ) async throws(Failure) -> Method.Result {
    var attempts = 0
    while true {
      do throws(Failure) {
        return try await shell.ask(method, params, on: client).value()
      } catch {
        attempts += 1
        guard error.rpc?.reason == .rateLimited, attempts < patience else { throw error }
        let wait = min(longestWait, max(0.05, error.rpc?.retry_after ?? 1))
        try? await Task.sleep(for: .seconds(wait))
      }
    }
  }
}

struct BackupCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "backup", abstract: "Back up all accounts to an encrypted file.",
    usage: "grantctl backup <file> [options]",
    discussion: """
      Restore the file on any machine with its passphrase or key file. It does not contain pending logins, the \
      configuration or its secrets. Tokens refreshed later make the backup outdated: see “grantctl restore --help”.

      Examples:
        grantctl backup grantd.backup
        grantctl backup /mnt/usb/grantd.backup --system \\
          --passphrase-file /root/passphrase
        (umask 077; head -c 32 /dev/urandom > key)
        grantctl backup grantd.backup --key-file key
      """)

  @Argument(help: ArgumentHelp("Output file.", valueName: "file"), completion: .file())
  var file: String
  @OptionGroup var secret: BackupSecretOptions
  @Flag(help: "Overwrite an existing file.")
  var force = false
  @OptionGroup var options: GlobalOptions

  func validate() throws { try BackupTransfer.checkIsFile(file) }

  func run(in shell: Shell) async throws(Failure) {
    // No user should type a passphrase for a file that cannot be written, or for a broker that makes no backup.
    let obstacle = shell.terminal.files.obstacle(file)
    if obstacle == TerminalFiles.folderObstacle { throw Self.folder(file) }
    guard force || !shell.terminal.files.exists(file) else { throw Self.exists(file) }
    if let obstacle { throw Self.unwritable(file, obstacle) }
    try secret.check(shell)
    try await checkAllowed(shell, on: try await shell.connect())
    var dialogue = Dialogue(shell)
    let given = try await secret.read(in: shell, &dialogue, twice: true)
    let client = try await shell.connect()
    let (made, bytes) = try await shell.showing("Writing the backup") { activity throws(Failure) in
      let made = try await BackupTransfer.ask(
        StoreBackup.self, .init(passphrase: given.passphrase, key: given.key), shell, on: client)
      return (made, try await fetch(made, shell, client, activity))
    }
    if let reason = shell.terminal.files.save(file, bytes, force) {
      if !force, shell.terminal.files.exists(file) { throw Self.exists(file) }
      throw Self.unwritable(file, reason)
    }
    report(made, shell)
  }

  /// Where the broker does not say, its answer to the request itself has to do.
  private func checkAllowed(_ shell: Shell, on client: SocketClient) async throws(Failure) {
    guard secret.isAsked else { return }
    let params = PolicyExplain.Params(method: StoreBackup.name)
    let answer: PolicyExplain.Result
    do throws(Failure) {
      answer = try await shell.ask(PolicyExplain.self, params, on: client).value()
    } catch {
      if error.rpc?.reason == .locked || error.status == .notRunning { throw error }
      return
    }
    guard !answer.allowed else { return }
    // Without a secret: the refusal names the rule that is missing, and the audit trail has it.
    _ = try await shell.ask(StoreBackup.self, .init(passphrase: nil, key: nil), on: client)
  }

  private func fetch(
    _ made: StoreBackup.Result, _ shell: Shell, _ client: SocketClient, _ activity: Activity
  ) async throws(Failure) -> [UInt8] {
    var bytes: [UInt8] = []
    while bytes.count < min(made.size, BackupTransfer.limit) {
      let part = try await BackupTransfer.ask(
        StoreBackupPart.self, .init(backup_id: made.backup_id, offset: bytes.count), shell, on: client)
      guard let data = Base64.decoded(part.data), !data.isEmpty else {
        throw Failure(SocketClientError.malformed("a part of the backup is not base64"))
      }
      bytes += data
      activity.update(bytes.count, of: made.size)
    }
    guard bytes.count == made.size else { throw Failure(SocketClientError.malformed("the backup has another size")) }
    return bytes
  }

  private static func folder(_ path: String) -> Failure {
    let file = path + (path.hasSuffix("/") ? "" : "/") + "grantd.backup"
    return Failure(
      .usage, "\(path) is a folder", hints: ["Name a file in it: `grantctl backup \(ShellWord.quoted(file))`"])
  }

  private static func exists(_ file: String) -> Failure {
    Failure(.usage, "\(file) already exists", hints: ["Choose another name, or --force writes over it."])
  }

  private static func unwritable(_ file: String, _ reason: String) -> Failure {
    Failure(
      .failure, "the backup cannot be written to \(file): \(reason)",
      hints: ["Give a file in a folder that exists, that you can write to, and that has space."])
  }

  private func report(_ made: StoreBackup.Result, _ shell: Shell) {
    if let rows = made.left_out {
      shell.terminal.note(
        SafeText.line("warning: not in the backup, as they cannot be read: \(rows.joined(separator: ", "))"))
      shell.terminal.note("  \(shell.command("repair")) lists them")
    }
    if shell.isJSON {
      return shell.print([
        "file": .string(file), "size": .integer(Int64(made.size)), "accounts": .integer(Int64(made.accounts)),
      ])
    }
    let accounts = "\(made.accounts) account\(made.accounts == 1 ? "" : "s")"
    shell.terminal.print(SafeText.line("Backup of \(accounts): \(file) (\((made.size + 1023) / 1024) KiB)"))
    let what = secret.keyFile == nil ? "passphrase" : "key file"
    shell.terminal.print("Keep the \(what): the backup cannot be opened without it.")
    shell.terminal.print("Restore it with:", command: shell.command("restore \(ShellWord.quoted(file))"))
  }
}
