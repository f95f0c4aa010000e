import ArgumentParser
import BrokerAPI
import CredentialHelpers

/// What a backup opens with: never in the arguments or the environment, which others can read.
struct BackupSecretOptions: ParsableArguments {
  /// A key has 32 bytes; as text it has some more.
  private static let longestKey = 512
  private static let shortestPassphrase = 8
  private static let otherWays = [
    "Give it with --passphrase-file FILE (“-” reads standard input), or a key with --key-file FILE."
  ]

  @Option(
    help: ArgumentHelp("Read the passphrase from a file; “-” reads standard input.", valueName: "path"),
    completion: .file())
  var passphraseFile: String?
  @Option(
    help: ArgumentHelp(
      "Key file instead of a passphrase: 32 bytes, raw, base64 or hexadecimal.", valueName: "path"),
    completion: .file())
  var keyFile: String?

  struct Given: Sendable {
    var passphrase: SecretText?
    var key: SecretText?
    /// Another one may be asked for.
    var isTyped = false
  }

  func validate() throws {
    if passphraseFile != nil, keyFile != nil {
      throw ValidationError("Only one of --passphrase-file and --key-file can be given.")
    }
  }

  var isAsked: Bool { passphraseFile == nil && keyFile == nil }

  /// Fails first if the passphrase must be typed and there is no terminal.
  func check(_ shell: Shell) throws(Failure) {
    guard isAsked, !shell.terminal.canAsk else { return }
    throw Failure(.usage, "there is no terminal to ask for the passphrase", hints: Self.otherWays)
  }

  /// - Parameter twice: a new one, in which a slip would cost the backup.
  func read(in shell: Shell, _ dialogue: inout Dialogue, twice: Bool) async throws(Failure) -> Given {
    if let keyFile {
      switch shell.terminal.files.bytes(keyFile, Self.longestKey) {
      case .unreadable(let reason):
        throw Failure(
          .usage, "the key cannot be read from \(keyFile): \(reason)",
          hints: ["Give the path of a file with 32 bytes, raw, base64 or hexadecimal."])
      case .bytes(_, isOpenToOthers: true): throw SecretInput.openToOthers(keyFile)
      case .bytes(let bytes, _): return Given(key: SecretText(Base64.encoded(bytes[...])))
      }
    }
    if let passphraseFile {
      return Given(passphrase: try await SecretInput(shell: shell, what: "passphrase").read(from: passphraseFile))
    }
    let passphrase =
      if twice {
        try await dialogue.newPassphrase(
          "Passphrase for the backup, \(Self.shortestPassphrase) or more ASCII characters (it is not shown): ",
          shortest: Self.shortestPassphrase, hints: Self.otherWays)
      } else {
        try await dialogue.secret(
          "passphrase", prompt: "The backup's passphrase (it is not shown): ", hints: Self.otherWays)
      }
    return Given(passphrase: passphrase, isTyped: true)
  }
}
