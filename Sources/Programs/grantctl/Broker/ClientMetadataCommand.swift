import ArgumentParser
import BrokerAPI

struct ClientMetadataCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "client-metadata", abstract: "Print the client ID metadata document to publish.",
    usage: "grantctl client-metadata [options]",
    discussion: """
      Some authorization servers accept the URL of a document as client identifier, so that no client is registered. \
      Publish the output as application/json at the URL that [client_metadata] of the configuration names.

      Example:
        grantctl client-metadata > grantd.json
      """)

  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    let result = try await shell.ask(ClientMetadata.self, NoParams()).value()
    guard let url = result.url else {
      throw Failure(
        .configuration, "the configuration has no URL of a client ID metadata document",
        hints: ["Add the section [client_metadata] with url = \"https://…\", then run `grantctl reload`."])
    }
    func list(_ texts: [String]) -> JSON { .array(texts.map { .string($0) }) }
    shell.print(
      JSON.object([
        .init(name: "client_id", value: .string(url)),
        .init(name: "client_name", value: .string(result.client_name)),
        .init(name: "redirect_uris", value: list(result.redirect_uris)),
        .init(name: "grant_types", value: list(result.grant_types)),
        .init(name: "response_types", value: list(result.response_types)),
        .init(name: "token_endpoint_auth_method", value: .string(result.token_endpoint_auth_method)),
      ]))
  }
}
