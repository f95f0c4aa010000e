import ArgumentParser
import BrokerAPI
import PlainText

/// A command that asks the provider about an account.
protocol QuestionCommand: BrokerCommand {
  associatedtype Question: RPCMethod where Question.Params == ProviderQuestion.Params

  var named: AccountArgument { get }
  func show(_ result: Question.Result, in shell: Shell)
}

extension QuestionCommand {
  func run(in shell: Shell) async throws(Failure) {
    let answer = try await shell.ask(Question.self, .init(account: named.account, timeout: options.timeout))
    if shell.isJSON { return shell.print(answer.json) }
    show(try answer.value(), in: shell)
  }
}

struct IntrospectCommand: QuestionCommand {
  typealias Question = TokenIntrospect

  static let configuration = CommandConfiguration(
    commandName: "introspect", abstract: "Introspect the access token (RFC 7662).",
    usage: "grantctl introspect <account> [options]",
    discussion: """
      Token introspection (RFC 7662): whether the provider takes the token now, its scopes, whom and what it is for.

      Example:
        grantctl introspect work
      """)

  @OptionGroup var named: AccountArgument
  @OptionGroup var options: GlobalOptions

  func show(_ result: TokenIntrospect.Result, in shell: Shell) {
    var fields = FieldList()
    fields.add("active", result.active ? "yes" : "no", result.active ? .good : .bad)
    fields.add(result.claims.filter { $0.key != "active" }, shell)
    shell.print(fields)
  }
}

struct UserinfoCommand: QuestionCommand {
  typealias Question = AccountUserinfo

  static let configuration = CommandConfiguration(
    commandName: "userinfo", abstract: "Print UserInfo claims.",
    usage: "grantctl userinfo <account> [options]",
    discussion: """
      The current claims of the UserInfo endpoint (OpenID Connect Core §5.3).

      Examples:
        grantctl userinfo work
        grantctl userinfo work --json
      """)

  @OptionGroup var named: AccountArgument
  @OptionGroup var options: GlobalOptions

  func show(_ result: AccountUserinfo.Result, in shell: Shell) {
    var fields = FieldList()
    fields.add(result.claims, shell)
    shell.print(fields)
  }
}

extension FieldList {
  /// Claims that are moments, in Unix seconds (RFC 7519 §4.1, OpenID Connect Core §2, §5.1).
  private static let moments: Set<String> = ["exp", "iat", "nbf", "auth_time", "updated_at"]

  /// The claims of a provider by name, as they are called on the wire.
  mutating func add(_ claims: [String: JSON], _ shell: Shell) {
    for (name, value) in claims.sorted(by: { $0.key < $1.key }) {
      switch value {
      case .string(let text): add(name, text)
      case .bool(let flag): add(name, flag ? "yes" : "no")
      case .array(let elements) where !elements.isEmpty && elements.allSatisfy({ $0.string != nil }):
        add(name, elements.compactMap(\.string).joined(separator: " "))
      case .number where Self.moments.contains(name) && value.double.map(Self.isDate) == true:
        add(name, value.double.map { TimeText.date(Int64($0), in: shell.terminal.timeZone) })
      case .null: break
      case .number, .array, .object: add(name, Shell.line(value))
      }
    }
  }

  /// Whether the moment is in a year with four digits.
  private static func isDate(_ moment: Double) -> Bool { (0..<253_402_300_800).contains(moment) }
}
