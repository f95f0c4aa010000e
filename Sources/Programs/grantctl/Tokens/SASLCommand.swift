import ArgumentParser
import BrokerAPI
import CredentialHelpers

struct SASLCommand: AccountCommand {
  static let configuration = CommandConfiguration(
    commandName: "sasl", abstract: "Print a SASL response for a mail server.",
    usage: "grantctl sasl <account> <mechanism> [options]",
    discussion: """
      Prints the initial client response of XOAUTH2 or OAUTHBEARER (RFC 7628) in Base64, with a valid token. The user is \
      the account's e-mail address at the provider, or that of --as.

      Examples:
        grantctl sasl work xoauth2
        grantctl sasl work oauthbearer --host imap.example.com --port 993
        grantctl sasl work xoauth2 --as shared@example.com
      """)

  enum Mechanism: String, CaseIterable, ExpressibleByArgument {
    case xoauth2
    case oauthbearer

    var sasl: SASL {
      switch self {
      case .xoauth2: .xoauth2
      case .oauthbearer: .oauthbearer
      }
    }
  }

  @OptionGroup var named: AccountArgument
  @Argument(help: "xoauth2 or oauthbearer.")
  var mechanism: Mechanism
  @Option(name: .customLong("as"), help: ArgumentHelp("The user at the server.", valueName: "user"))
  var user: String?
  @Option(help: "The server, which OAUTHBEARER names.")
  var host: String?
  @Option(help: "Its port.")
  var port: Int?
  @OptionGroup var options: GlobalOptions

  func validate() throws {
    if let port, !(1...65535).contains(port) { throw ValidationError("--port is 1 to 65535.") }
  }

  func run(in shell: Shell) async throws(Failure) {
    let client = try await shell.connect()
    let user: String
    if let given = self.user {
      user = given
    } else {
      user = try await person(shell.ask(AccountGet.self, .init(account: named.account), on: client).value().identity)
    }
    let token = try await shell.ask(
      TokenGet.self, .init(account: named.account, timeout: options.timeout), on: client
    ).value()
    guard let text = token.access_token else {
      throw Failure(.failure, "account \(named.account) has a session, and no token for a mail server")
    }
    let response: [UInt8]
    do throws(Malformed) {
      response = try mechanism.sasl.response(user: user, token: text, host: host, port: port)
    } catch {
      throw Failure(.failure, error.description)
    }
    let encoded = Base64.encoded(response)
    if shell.isJSON {
      return shell.print([
        "mechanism": .string(mechanism.rawValue), "user": .string(user), "response": .string(encoded),
      ])
    }
    shell.terminal.printWhole(encoded)
  }

  private func person(_ identity: AccountView.Identity?) throws(Failure) -> String {
    guard let user = identity?.email ?? identity?.username else {
      throw Failure(
        .failure, "the provider did not say who account \(named.account) is",
        hints: ["Name the user: `grantctl sasl \(ShellWord.quoted(named.account)) \(mechanism.rawValue) --as USER`"])
    }
    return user
  }
}
