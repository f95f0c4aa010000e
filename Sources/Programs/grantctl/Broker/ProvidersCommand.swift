import ArgumentParser
import BrokerAPI
import PlainText

struct ProvidersCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "list", abstract: "List configured providers.",
    usage: "grantctl provider list [options]",
    discussion: """
      Example:
        grantctl provider list
      """)

  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    let answer = try await shell.ask(ProviderList.self, NoParams())
    if shell.isJSON { return shell.print(answer.json) }
    let providers = try answer.value().providers
    if providers.isEmpty {
      shell.terminal.print("No providers. Add one, step by step:", command: shell.command("setup"))
      shell.terminal.print("Or add a [provider.NAME] section, then:", command: shell.command("reload"))
    } else {
      shell.print(Self.table(providers))
    }
  }

  private static func state(_ state: String) -> Cell { Cell(state, state == "ok" ? .good : .bad) }

  static func table(_ providers: [ProviderView]) -> TextTable {
    let rows = providers.map { provider in
      TextTable.Row(
        cells: [
          Cell(provider.provider), Cell(provider.kind), state(provider.state), Cell("\(provider.accounts)"),
          Cell(provider.display_name),
        ], notes: provider.last_error.map { [$0] } ?? [])
    }
    return TextTable(titles: ["PROVIDER", "KIND", "STATE", "ACCOUNTS", "NAME"], shrinkable: [4, 0], rows: rows)
  }

  static func fields(_ result: ProviderGet.Result, _ shell: Shell) -> FieldList {
    let provider = result.provider
    var fields = FieldList()
    fields.add("Provider", provider.provider)
    fields.add("Name", provider.display_name)
    fields.add("Kind", provider.kind + (provider.profile.map { " (profile \($0))" } ?? ""))
    fields.add("State", state(provider.state).text, state(provider.state).tone)
    fields.add("Last error", provider.last_error, .bad)
    fields.add("Issuer", provider.issuer)
    fields.add("Client", provider.client_id)
    fields.add("Scopes", provider.scopes.joined(separator: " "))
    fields.add("Accounts", "\(provider.accounts)")
    fields.add("Redirect URI", result.redirect_uri)
    for (name, url) in result.endpoints.sorted(by: { $0.key < $1.key }) { fields.add("Endpoint \(name)", url) }
    let can = result.supports.filter(\.value).keys.sorted()
    let cannot = result.supports.filter { !$0.value }.keys.sorted()
    fields.add("Supports", can.joined(separator: ", "))
    fields.add("Does not", cannot.joined(separator: ", "))
    fields.add("Metadata", result.metadata_fetched_at.map { "fetched \(TimeText.ago($0, now: shell.now))" })
    return fields
  }
}
