import BrokerAPI

/// A provider as a file beside the configuration: the broker's store has no place for the keys of templates.
struct ProviderFile {
  private static let mark = "# Written by grantctl setup."

  let shell: Shell
  /// The command that continues, for hints.
  let again: String

  private var terminal: Terminal { shell.terminal }

  /// Returns the path.
  func write(
    _ name: String, _ keys: [String: JSON], _ secret: SecretText?, _ status: BrokerStatus.Result
  ) async throws(Failure) -> String {
    var keys = keys
    let isSystem = status.instance == "system"
    let main =
      status.configuration.path
      ?? (isSystem ? "/etc/grantd" : "\(terminal.configurationFolder)/grantd") + "/grantd.toml"
    let stem = main.hasSuffix(".toml") ? String(main.dropLast(".toml".count)) : main
    let path = "\(stem).d/\(name).toml"
    let secretPath = "\(ProcessFiles.split(main).folder)/\(name).secret"
    if secret != nil { keys["client_secret_file"] = .string(secretPath) }
    let lines = [Self.mark] + ProviderSectionText.lines(name, keys)
    if case .text(let old, _) = terminal.files.text(path), !old.hasPrefix(Self.mark) {
      throw Failure(
        .failure, "\(path) exists and has another content",
        hints: ["Add the provider under another name: `\(again) --name NAME`"])
    }
    let isNew = !isThere(path)
    if secret != nil, isNew, isThere(secretPath) {
      throw Failure(
        .failure, "\(secretPath) exists, and another provider may use it",
        hints: ["Remove it if nothing uses it, or choose another name: `\(again) --name NAME`"])
    }
    if let secret {
      // Exposed to be written for the broker.
      if let reason = terminal.files.rewrite(secretPath, Array("\(secret.exposed)\n".utf8), secretPath) {
        throw unwritten(secretPath, reason, path, lines)
      }
      if isSystem { await lend(secretPath) }
    }
    if let reason = terminal.files.rewrite(path, Array((lines.joined(separator: "\n") + "\n").utf8), path) {
      throw unwritten(path, reason, path, lines)
    }
    if isSystem { await lend(path) }
    do throws(Failure) {
      _ = try await shell.ask(BrokerReload.self, NoParams())
      _ = try await shell.ask(ProviderGet.self, .init(provider: name))
    } catch {
      // An earlier file of this provider is not removed: it was written by an earlier run of this command.
      if isNew {
        _ = terminal.files.remove(path)
        if secret != nil { _ = terminal.files.remove(secretPath) }
      }
      throw error
    }
    return path
  }

  private func isThere(_ path: String) -> Bool {
    if case .text = terminal.files.text(path) { true } else { false }
  }

  /// The system's broker runs as its own user, and reads files of its group.
  private func lend(_ path: String) async {
    for words in [["chgrp", "grantd", path], ["chmod", "0640", path]] {
      guard let program = terminal.programs.find(words[0]) else { return }
      _ = await terminal.machine.run([program] + words.dropFirst(), Doctor.childTimeout)
    }
  }

  private func unwritten(_ file: String, _ reason: String, _ path: String, _ lines: [String]) -> Failure {
    terminal.print(lines.map(SafeText.line))
    return Failure(
      .actionRequired, "\(file) cannot be written: \(reason)",
      hints: [
        "Ask an administrator to save the lines above as \(path), with the secret in its file (mode 0600).",
        "Then: `grantctl reload` and `\(again)`",
      ])
  }
}
