import BrokerAPI
import ProviderTemplates

// A provider of a template.
extension Setup {
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
    let path = try await ProviderFile(shell: shell, again: questions.command).write(name, keys, secret, status)
    done("Provider", "\(name), written to \(path)")
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
    for (index, step) in template.steps.enumerated() { terminal.note(step, after: "  \(index + 1). ") }
    terminal.note("Redirect URI: \(template.redirectURI ?? "none has to be entered")", after: "  ")
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
    if let path = given.clientSecretFile { return try await shell.secret("client secret", from: path) }
    switch template.secret {
    case .none: return nil
    case .optional:
      guard questions.canAsk, given.clientId == nil else { return nil }
      return try await questions.secret("client secret", isRequired: false, flag: "--client-secret-file FILE")
    case .required:
      return try await questions.secret("client secret", isRequired: true, flag: "--client-secret-file FILE")
    }
  }
}
