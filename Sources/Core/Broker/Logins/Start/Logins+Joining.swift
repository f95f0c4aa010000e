import BrokerAPI
import Grants
import OAuth
import Principals

/// The request that began a login, and its result, for processes that join the login.
struct LoginStarting: Sendable {
  /// Logins with the same key ask the same user for the same grant.
  struct Key: Hashable, Sendable {
    var uid: UInt32
    var params: LoginStart.Params
    /// The scopes of the request depend on it.
    var stepUp: StepUp?
  }

  typealias Work = Task<Result<LoginStart.Result, RPCError>, Never>

  /// How long after its start a login is joined. After that the user may have closed the page, and starts a new one.
  static let window = Duration.seconds(30)
  /// Starts at once that others may join; each further request starts its own login.
  static let most = 64

  var key: Key
  var result: LoginStart.Result
}

// Processes of one user that start together: the first one starts a login, and the others wait for it.
extension Logins {
  /// A code is used once, so each request for one has its own login.
  func mayJoin(_ params: LoginStart.Params) -> Bool {
    let traits = ProviderName(rawValue: params.provider).flatMap { providers[$0] }?.provider.authorizationTraits
    return params.join == true && (params.exchange ?? traits?.exchangesCodes ?? true)
  }

  func joinOrStart(
    _ account: AccountName, _ params: LoginStart.Params, caller: Principal
  ) async throws(RPCError) -> LoginStart.Result {
    let key = LoginStarting.Key(
      uid: try caller.owner(), params: params, stepUp: accounts[account].flatMap(accounts.stepUp))
    if let result = pendingStart(key) { return joined(result) }
    if let work = table.starting[key] { return joined(try await work.value.get()) }
    guard table.starting.count < LoginStarting.most else {
      return try await startNew(account, params, caller: caller, session: nil)
    }
    // A caller that disconnects does not end the start that others wait for.
    let work = LoginStarting.Work {
      do throws(RPCError) { return .success(try await startNew(account, params, caller: caller, session: nil)) } catch {
        return .failure(error)
      }
    }
    table.starting[key] = work
    let result = await work.value
    table.starting[key] = nil
    let started = try result.get()
    if let id = LoginID(rawValue: started.login_id) { table[id]?.beginning = .init(key: key, result: started) }
    return started
  }

  private func pendingStart(_ key: LoginStarting.Key) -> LoginStart.Result? {
    let login = table.all.first { login in
      login.beginning?.key == key && login.endedAt == nil && now - login.saved.startedAt < LoginStarting.window
        && moved(login.saved) == nil
    }
    return login?.beginning?.result
  }

  private func joined(_ result: LoginStart.Result) -> LoginStart.Result {
    var result = result
    result.joined = true
    return result
  }
}
