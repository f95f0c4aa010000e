import BrokerAPI
import FoundationEssentials
import Grants
import Logging
import OAuth
import Principals

// Waiting logins: their end, cancellation, and visibility.
extension Logins {
  func login(_ text: String, _ method: String, caller: Principal) throws(RPCError) -> Login {
    guard let id = LoginID(rawValue: text), let login = table[id], isOwn(login.saved), isOwn(login, method, caller)
    else {
      throw RPCError(.unknownLogin, "no such login")
    }
    return login
  }

  /// Whether it is of the caller's user, for an account that it may sign in to: not all programs of a user may.
  private func isOwn(_ login: Login, _ method: String, _ caller: Principal) -> Bool {
    let policy = door.authorizer.policy
    guard !policy.isPrivileged(caller) else { return true }
    return login.saved.uid == caller.uid
      && policy.allows(.login, method: method, account: login.saved.account.rawValue, caller: caller)
  }

  /// - Parameter session: the caller's connection; its end ends the wait.
  func waitForLogin(
    _ params: LoginWait.Params, caller: Principal, session: (any Session)? = nil
  ) async throws(RPCError) -> LoginWait.Result {
    let deadline = uptime + (try Timeouts.duration(params.timeout))
    try await remember(params.opened, of: try login(params.login_id, LoginWait.name, caller: caller))
    var known = try login(params.login_id, LoginWait.name, caller: caller).storeFailure
    for _ in 0..<Limit.rounds {
      let login = try login(params.login_id, LoginWait.name, caller: caller)
      if let result = try result(of: login) { return result }
      // Returned at once if it began during this request; the next request waits.
      guard uptime < deadline, login.storeFailure == nil || known != nil else { break }
      known = login.storeFailure
      guard !isDraining else { throw shuttingDown() }
      try await waiters.callerWaits(
        for: .login(login.saved.id), of: caller.holder, until: deadline, session: session)
    }
    return pending(try login(params.login_id, LoginWait.name, caller: caller))
  }

  func pending(_ login: Login) -> LoginWait.Result {
    let warnings = login.lastPollFailure.map { ["the last request to the provider failed: \($0); it is repeated"] }
    return .init(
      login_id: login.saved.id.rawValue, state: .pending, account: nil,
      warnings: warnings, waiting_for: login.storeFailure.map { "the disk: \($0.message)" })
  }

  /// The answer to `login.wait`; nil while there is none.
  func result(of login: Login) throws(RPCError) -> LoginWait.Result? {
    var result = LoginWait.Result(login_id: login.saved.id.rawValue, state: .completed, account: nil)
    if let opened = login.saved.opened {
      result.destination_used = .init(kind: opened.kind, app: opened.app)
      result.fell_back = opened != login.saved.offered
    }
    switch login.phase {
    case .failed(let error, _): throw error
    case .completed(let account, _):
      result.account = accounts[account].map(accounts.view)
      // Who signed in before need not be who signed in now.
      if login.identity == nil { result.account?.identity = nil }
      let warnings = accounts[account].map { self.warnings(of: $0) } ?? []
      result.warnings = warnings.isEmpty ? nil : warnings
    // Exposed because it is returned to the caller that started the login.
    case .codeIssued(let code, _): result.authorization_code = code.exposed
    case .pending:
      guard let action = login.saved.action else { return nil }
      result.state = .actionRequired
      result.action = actionView(action)
    case .exchanging, .unsaved: return nil
    }
    return result
  }

  /// Requested scopes that the provider did not grant.
  private func warnings(of grant: Grant) -> [String] {
    let saved = grant.saved
    guard let provider = providers[saved.provider]?.provider else { return [] }
    var warnings: [String] = []
    // Providers seldom list these two among the granted scopes.
    let dropped = saved.requestedScopes.filter {
      !["openid", "offline_access"].contains($0) && !provider.isGranted($0, in: saved.grantedScopes)
    }
    if !dropped.isEmpty {
      warnings.append("the provider did not grant \(dropped.joined(separator: " ").printable(limit: 512))")
    }
    if !saved.isRenewable, provider.refreshTraits.isSupported {
      let end = grant.token?.expiresAt.map { "in \(max(1, ($0 - now).wholeSeconds / 60)) min" }
      warnings.append("the provider issued no refresh token: sign in again \(end ?? "when the access token ends")")
    }
    return warnings
  }

  private func remember(_ opened: LoginWait.Opened?, of login: Login) async throws(RPCError) {
    guard let opened else { return }
    guard Self.destinationKinds.contains(opened.kind), (opened.app?.utf8.count ?? 0) <= 64 else {
      throw .invalidParams("params.opened: expected a destination as `login.start` returned it")
    }
    let told = OpenedDestination(kind: opened.kind, app: opened.app)
    guard login.saved.opened != told else { return }
    table[login.saved.id]?.saved.opened = told
    await saveIfPending(login.saved.id, "how a login was opened")
  }

  func cancelLogin(_ params: LoginCancel.Params, caller: Principal) async throws(RPCError) -> LoginCancel.Result {
    let login = try login(params.login_id, LoginCancel.name, caller: caller)
    guard login.isPending else { return .init(cancelled: false) }
    await fail(login.saved.id, RPCError(.loginCancelled, "the login was cancelled"))
    return .init(cancelled: true)
  }

  func loginList(caller: Principal) -> LoginList.Result {
    let seen = table.all.filter {
      $0.endedAt == nil && isOwn($0.saved) && isOwn($0, LoginList.name, caller)
    }
    return .init(
      logins: seen.sorted { $0.saved.startedAt < $1.saved.startedAt }.map {
        .init(
          login_id: $0.saved.id.rawValue, provider: $0.saved.provider.rawValue, account: $0.saved.account.rawValue,
          state: $0.isPending && $0.saved.action != nil ? .actionRequired : .pending,
          started_at: $0.saved.startedAt.seconds, expires_at: $0.saved.expiresAt.seconds)
      })
  }

  /// No callback came in time; a login whose code is being traded is not ended by that.
  func expire(_ id: LoginID) async {
    await failIfPending(id, RPCError(.loginExpired, "\(Self.late)\(pollFailure(of: id))"))
  }

  /// Ends a login that waits. While it is exchanged, only the exchange knows how it ends.
  func failIfPending(_ id: LoginID, _ error: RPCError) async {
    guard table[id]?.isPending == true else { return }
    await fail(id, error)
  }

  /// Ends a login whose result is on disk or returned; the login is no longer on disk.
  func complete(_ login: SavedLogin, _ phase: Login.Phase) {
    guard end(login.id, phase) != nil else { return }
    measures.loginEnded(login.provider, succeeded: true)
    door.audit.record(login: login, .loginCompleted)
    emit(login: login, .loginCompleted)
  }

  /// Ends a login with an error, in memory and on disk; returns the error. For the login's own exchange, and for a
  /// login that has just been seen to be pending.
  @discardableResult
  func fail(_ id: LoginID, _ error: RPCError) async -> RPCError {
    let error = table[id].map { error.naming($0.saved) } ?? error
    guard let login = end(id, .failed(error, at: now)) else { return error }
    measures.loginEnded(login.provider, succeeded: false)
    door.audit.record(login: login, .loginFailed, error)
    emit(login: login, .loginFailed, error)
    logger.notice(
      "login of \(login.account) failed: \(error.message)",
      metadata: ["account": "\(login.account)", "provider": "\(login.provider)"])
    do throws(StoreError) {
      try await removeFromDisk(id)
    } catch {
      logger.warning("not saved: the end of a login")
    }
    return error
  }

  /// The login before this; nil if it has already ended.
  @discardableResult
  func end(_ id: LoginID, _ phase: Login.Phase) -> SavedLogin? {
    guard let login = table[id], login.endedAt == nil else { return nil }
    table[id]?.phase = phase
    table[id]?.saved.clearSecrets()
    waiters.wake(.login(id))
    table.removeEnded(at: now)
    return login.saved
  }

  func emit(login: SavedLogin, _ type: EventType, _ error: RPCError? = nil, message: String? = nil) {
    runtime.events.emit(
      Event(
        type: type, at: now.seconds, account: login.account.rawValue, provider: login.provider.rawValue,
        login_id: login.id.rawValue, reason: error?.reason, message: message ?? error?.message, hint: error?.hint),
      startedBy: isOwn(login) ? login.uid : nil)
  }
}

extension LoginWait: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.logins.waitForLogin(call.params, caller: call.caller, session: call.session)
  }
}

extension LoginCancel: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.logins.cancelLogin(call.params, caller: call.caller)
  }
}

extension LoginList: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    broker.logins.loginList(caller: call.caller)
  }
}
