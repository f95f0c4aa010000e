import BrokerAPI

// A provider of a template: the broker's store has no place for a template's keys, so it becomes a file beside the
// configuration.
extension Setup {
  private static let mark = "# Written by grantctl setup."

  mutating func byTemplate(_ template: SetupTemplate, _ status: BrokerStatus.Result) async throws(Failure) -> String {
    let name = given.name ?? template.name
    var keys: [String: JSON] = ["profile": .string(template.name)]
    try await fill(template, &keys)
    if given.clientId == nil, questions.canAsk { await explain(template) }
    let id = try await clientID()
    let secret = try await secret(of: template)
    keys["client_id"] = .string(id)
    let scopes = LoginCommand.words(given.scope)
    if !scopes.isEmpty { keys["scopes"] = .array(scopes.map { .string($0) }) }
    try await write(name, keys, secret, status)
    done("Client", id)
    return name
  }

  private func fill(_ template: SetupTemplate, _ keys: inout [String: JSON]) async throws(Failure) {
    let values = (try? NameValue.parse(given.set, option: "--set")) ?? [:]
    for (name, value) in values { keys[name] = .string(value) }
    for variable in template.variables where values[variable.name] == nil {
      if !questions.canAsk, variable.standard != nil { continue }
      let answer = try await questions.text(
        variable.question, standard: variable.standard, flag: "--set \(variable.name)=VALUE")
      if answer != variable.standard { keys[variable.name] = .string(answer) }
    }
  }

  private func explain(_ template: SetupTemplate) async {
    terminal.note("Register a client at \(template.title):")
    for (index, step) in template.steps.enumerated() { terminal.note("  \(index + 1). \(step)") }
    terminal.note("  Redirect URI: \(template.redirectURI ?? "none has to be entered")")
    guard let page = template.page else { return }
    if given.noBrowser {
      shell.show(page, to: "register a client")
    } else if await !shell.openBrowser(page, to: "register a client") {
      shell.show(page, to: "register a client")
    }
  }

  private func clientID() async throws(Failure) -> String {
    if let id = given.clientId { return id.trimmed }
    return try await questions.text("Client ID", flag: "--client-id ID")
  }

  private func secret(of template: SetupTemplate) async throws(Failure) -> SecretText? {
    if let path = given.clientSecretFile { return try await secret("client secret", path) }
    switch template.secret {
    case .none: return nil
    case .optional:
      guard questions.canAsk, given.clientId == nil else { return nil }
      return try await questions.secret("client secret", isRequired: false, flag: "--client-secret-file FILE")
    case .required:
      return try await questions.secret("client secret", isRequired: true, flag: "--client-secret-file FILE")
    }
  }

  // MARK: The files

  private mutating func write(
    _ name: String, _ keys: [String: JSON], _ secret: SecretText?, _ status: BrokerStatus.Result
  ) async throws(Failure) {
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
        hints: ["Add the provider under another name: `\(questions.command) --name NAME`"])
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
      _ = terminal.files.remove(path)
      if secret != nil { _ = terminal.files.remove(secretPath) }
      throw error
    }
    done("Provider", "\(name), written to \(path)")
  }

  /// The system's broker runs as its own user, and reads files of its group.
  private func lend(_ path: String) async {
    for words in [["chgrp", "grantd", path], ["chmod", "0640", path]] {
      guard let program = terminal.programs.find(words[0]) else { return }
      _ = await terminal.machine.run([program] + words.dropFirst(), Doctor.childTimeout)
    }
  }

  private func unwritten(_ file: String, _ reason: String, _ path: String, _ lines: [String]) -> Failure {
    terminal.say(lines.map(SafeText.line))
    return Failure(
      .actionRequired, "\(file) cannot be written: \(reason)",
      hints: [
        "Ask an administrator to save the lines above as \(path), with the secret in its file (mode 0600).",
        "Then: `grantctl reload` and `\(questions.command)`",
      ])
  }
}
