import BrokerAPI

/// A login from the URL of a protected resource, such as an MCP server: its provider is found or stored first (RFC 9728).
struct ResourceLogin {
  let shell: Shell
  var url: String
  var issuer: String?
  var clientID: String?
  var name: String?
  var scopes: [String] = []

  /// The provider. The issuer, the scopes and the resource are shown before the sign-in.
  func provider() async throws(Failure) -> ResourceAdd.Result {
    let result = try await shell.ask(
      ResourceAdd.self,
      .init(
        url: url, issuer: issuer, provider: name, client_id: clientID, scopes: scopes.isEmpty ? nil : scopes)
    ).value()
    show(result)
    return result
  }

  private func show(_ result: ResourceAdd.Result) {
    for warning in result.warnings.flatMap(SafeText.lines) { shell.terminal.note("warning: \(warning)") }
    // The user decides with it at the consent page: the server of the URL chose the scopes, and gets the tokens.
    let scopes = result.scopes.isEmpty ? "no scopes named" : result.scopes.joined(separator: " ")
    for line in [
      "\(result.created ? "Added" : "Using") provider \(result.provider), at \(result.issuer), \(words(result.client)).",
      "Tokens are sent to \(result.resource); scopes: \(scopes).",
    ] {
      shell.terminal.note(SafeText.line(line))
    }
  }

  private func words(_ client: ResourceClient) -> String {
    switch client {
    case .provider: "with the client of an existing provider"
    case .metadata_document: "with the published client metadata"
    case .registration: "with a client registered now"
    case .given: "with the given client"
    }
  }

  /// After the sign-in.
  func showUse(of account: String) {
    shell.terminal.print(
      "Use it in an MCP client:", command: shell.command("configure claude-code \(ShellWord.quoted(account))"))
  }
}
