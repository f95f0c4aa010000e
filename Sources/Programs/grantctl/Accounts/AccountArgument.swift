import ArgumentParser
import BrokerAPI

/// The account that a command is about.
struct AccountArgument: ParsableArguments {
  @Argument(help: "The account's name.")
  var account: String
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
