import ArgumentParser
import BrokerAPI
import ProviderTemplates

/// A login at a name that no provider has: the nearest names that exist.
struct UnknownProvider {
  private static let mostNames = 12
  /// `login list` and others are commands.
  private static let commands = [
    LoginListCommand.configuration, LoginContinueCommand.configuration, LoginCancelCommand.configuration,
  ].compactMap { $0.commandName?.split(separator: " ").last.map(String.init) }

  let shell: Shell
  /// As the user named the provider.
  let name: String
  /// As the user named the account.
  let account: String?

  /// The broker's error with the next steps; unchanged if the broker does not list its providers.
  func explained(_ failure: Failure) async -> Failure {
    let listed = try? await shell.ask(ProviderList.self, NoParams()).value().providers.map(\.provider)
    guard let providers = listed else { return failure }
    var failure = failure
    do throws(Failure) {
      let known = try await shell.ask(AccountGet.self, .init(account: name)).value()
      failure.message = "\(name) is an account at provider \(known.provider), not a provider"
      failure.hints = ["Sign in to it again with `\(login(known.provider, name))`."]
      return failure
    } catch {
      let others = error.rpc?.reason == .unknownAccount ? " and no account" : ""
      failure.message = "no provider\(others) is called \(name)"
    }
    let meant = await meant(providers).map { ["Did you mean `\($0)`?"] } ?? []
    failure.hints = meant + [existing(providers), "`\(shell.command("setup"))` adds a provider."]
    return failure
  }

  private func existing(_ providers: [String]) -> String {
    let accounts = "`\(shell.command("list"))` prints the accounts."
    guard !providers.isEmpty else { return "There are no providers yet. \(accounts)" }
    let more = providers.count > Self.mostNames ? ", …" : ""
    return "Providers: \(providers.prefix(Self.mostNames).joined(separator: ", "))\(more). \(accounts)"
  }

  private func meant(_ providers: [String]) async -> String? {
    if let provider = UsageHints.near(name, providers) { return login(provider, account) }
    if let command = UsageHints.near(name, Self.commands) { return login(command, account) }
    let accounts = (try? await shell.accounts(.init(limit: UsageHints.mostCompared)).value().accounts) ?? []
    if let near = UsageHints.near(name, accounts.map(\.account)),
      let known = accounts.first(where: { $0.account == near })
    {
      return login(known.provider, near)
    }
    return UsageHints.near(name, SetupTemplate.all.map(\.name)).map { template in
      shell.command((["setup", template] + [account].compactMap(\.self)).map(ShellWord.quoted).joined(separator: " "))
    }
  }

  private func login(_ provider: String, _ account: String?) -> String {
    shell.command((["login", provider] + [account].compactMap(\.self)).map(ShellWord.quoted).joined(separator: " "))
  }
}
