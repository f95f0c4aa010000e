import ArgumentParser
import BrokerAPI

/// The account that a command is about.
struct AccountArgument: ParsableArguments {
  @Argument(help: "The account's name.")
  var account: String
}

/// A command about one account: a mistyped name gets the name that was meant.
protocol AccountCommand: BrokerCommand {
  var named: AccountArgument { get }
}

extension AccountCommand {
  func explained(_ failure: Failure, in shell: Shell) async -> Failure {
    guard failure.rpc?.reason == .unknownAccount, !shell.isJSON,
      let meant = await UsageHints.nearAccount(named.account, in: shell)
    else { return failure }
    var failure = failure
    failure.hints.insert(SafeText.line("Did you mean \(meant)?"), at: 0)
    return failure
  }
}

/// How a secret that was issued is printed: bare, or as the header field that bears it.
struct HeaderOption: ParsableArguments {
  @Flag(help: "Print the HTTP header field instead, such as “Authorization: Bearer …”.")
  var asHeader = false
}

extension BrokerCommand {
  /// What is printed in one form alone.
  func checkForms(_ forms: (name: String, isWanted: Bool)...) throws {
    let wanted = (forms + [("--json", options.json)]).filter(\.isWanted).map(\.name)
    guard wanted.count > 1 else { return }
    throw ValidationError("Only one of \(wanted.joined(separator: " and ")) can be given.")
  }
}
