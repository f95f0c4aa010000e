import BlockingClient
import BrokerAPI
import BrokerSocket
import CredentialHelpers

/// The names that a shell completes: `grantctl complete-names KIND [WORD] [--system | --user | --socket PATH]`. Only the
/// installed completion scripts call it (scripts/package/completion.py).
struct CompletionNames {
  static let command = "complete-names"
  private static let most = 1000
  /// A completion must not hold the shell.
  private static let patience = Duration.milliseconds(300)
  private static let unitFolder = "/sys/fs/cgroup/system.slice"

  let shell: Shell

  /// Nil: another command.
  init?(_ arguments: [String], in terminal: Terminal) {
    guard arguments.first == Self.command else { return nil }
    shell = Shell(terminal: terminal, settings: .init(wish: GlobalOptions.wish(in: arguments)))
  }

  func show(_ arguments: [String]) {
    guard arguments.count > 1 else { return }
    let word = arguments.count > 2 && !arguments[2].hasPrefix("-") ? arguments[2] : ""
    let names = names(of: arguments[1], word)
    // A name with other characters could not be typed as it is.
    shell.terminal.print(names.filter { !$0.isEmpty && SafeText.line($0) == $0 })
  }

  private func names(of kind: String, _ word: String) -> [String] {
    switch kind {
    case "accounts": accounts
    case "providers": providers
    case "subjects": providers + accounts
    case "logins": call(LoginList.self, NoParams())?.logins.map(\.login_id) ?? []
    case "releases": call(ReleaseList.self, .init())?.waiting.map(\.id) ?? []
    case "units":
      (shell.terminal.machine.names(Self.unitFolder) ?? []).filter { $0.hasSuffix(".service") }.sorted()
    case "user-units":
      (shell.terminal.machine.names(userFolder) ?? []).filter { $0.hasSuffix(".service") }.sorted()
    case "tools": Tool.names
    case "events": EventType.allCases.map(\.rawValue)
    case "methods": Methods.all.map { $0.name }
    case "params": params(of: word)
    default: []
    }
  }

  private var accounts: [String] { call(AccountList.self, .init(limit: Self.most))?.accounts.map(\.account) ?? [] }
  private var providers: [String] { call(ProviderList.self, NoParams())?.providers.map(\.provider) ?? [] }

  private var userFolder: String {
    let uid = shell.terminal.uid
    return "/sys/fs/cgroup/user.slice/user-\(uid).slice/user@\(uid).service/app.slice"
  }

  /// The parameters of the method's example.
  private func params(of method: String) -> [String] {
    guard let example = Methods.named(method)?.example.params, case .object = example else { return [] }
    return [Shell.line(example)]
  }

  /// Nil: the broker does not answer in time, or refuses.
  private func call<Method: RPCMethod>(_ method: Method.Type, _ params: Method.Params) -> Method.Result? {
    let choice = shell.choice
    do {
      let connection = try BlockingConnection.connect(path: choice.path, within: Self.patience) { uid in
        choice.isNamed || ServerOwner.isExpected(uid, at: choice.path)
      }
      let id = try connection.send(method: Method.name, params: JSON(encoding: params))
      return try connection.reply(to: id, within: Self.patience).decode(Method.Result.self)
    } catch {
      return nil
    }
  }
}
