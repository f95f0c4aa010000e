import BrokerAPI
import Grants
import OAuth
import Principals

// login.probe: the authorization request of a login, without a user.
extension Logins {
  func probe(
    _ account: AccountName, _ params: LoginProbe.Params, by session: any Session
  ) async throws(RPCError) -> LoginProbe.Result {
    guard !isDraining else { throw shuttingDown() }
    let name = try providerName(params.provider)
    guard let connection = providers[name] else { throw providers.unknown(params.provider) }
    let redirectURI = try addresses.redirectURI(connection.provider.authorizationTraits)
    let target = try await providers.endpoints(of: name, with: nil)
    let start = LoginStart.Params(provider: params.provider, account: params.account, scopes: params.scopes)
    let request = loginRequest(start, account, target, redirectURI)
    let step = target.provider.probe(request, metadata: target.metadata)
    switch try await begin(step, target, for: session.principal.holder, session: session) {
    case nil: throw providerChanged(name)
    case .success(let finding):
      var result = LoginProbe.Result(finding)
      if finding.cause == .scopes, let hint = result.hint {
        result.hint = "\(hint) \(scopeHint(request.scopes, at: name, of: account))"
      }
      return result
    case .failure(let failure): throw providers.error(failure, at: name)
    }
  }
}

extension LoginProbe.Result {
  init(_ finding: AuthorizationFinding) {
    let (result, hint): (CheckResult, String?) =
      switch finding.result {
      case .ok: (.ok, nil)
      case .warning(let hint): (.warning, hint)
      case .failed(let hint): (.failed, hint)
      case .skipped: (.skipped, nil)
      }
    self.init(
      result: result, message: finding.message, hint: hint, cause: finding.cause?.rawValue, pushed: finding.isPushed)
  }
}

extension LoginProbe: RPCHandler {
  static var subject: Subject<Params, AccountName> { .login(\.account, at: \.provider) }
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.logins.probe(call.account, call.params, by: call.session)
  }
}
