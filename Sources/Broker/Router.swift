public import BrokerAPI
import Synchronization

/// From a request's method to the broker's answer: the method is known, the caller is allowed, the parameters are
/// decoded; in that order, in this one place.
public struct Router: Dispatcher {
  private let broker: Broker
  private let cache: TokenCache
  private let routes: [String: Route]

  private struct Route: Sendable {
    let access: Access
    let answer: @Sendable (JSON?, any Session) async -> Result<JSON, RPCError>
  }

  public init(_ broker: Broker, version: String) {
    self.broker = broker
    cache = broker.cache
    let discovery = Discovery(version: version)
    let checks = ProviderChecks(broker)
    routes = Dictionary(
      uniqueKeysWithValues: [
        Self.release(TokenGet.self, broker) { params, _, clearance throws(RPCError) in
          try await broker.token(params, clearance)
        },
        Self.route(TokenReportRejected.self, broker, account: { $0.account }) { params, _ throws(RPCError) in
          try await broker.reportRejected(params)
        },
        Self.release(TokenExchange.self, broker) { params, session, clearance throws(RPCError) in
          try await broker.exchange(params, session, clearance)
        },
        Self.release(TokenIntrospect.self, broker) { params, _, _ throws(RPCError) in
          try await broker.introspect(params)
        },
        Self.release(DPoPProof.self, broker) { params, _, clearance throws(RPCError) in
          try await broker.proof(params, clearance)
        },
        Self.release(AccountUserinfo.self, broker) { params, _, _ throws(RPCError) in try await broker.userInfo(params)
        },
        Self.release(AccountSessions.self, broker) { params, _, _ throws(RPCError) in try await broker.sessions(params)
        },
        Self.release(AccountEndSession.self, broker) { params, _, _ throws(RPCError) in
          try await broker.endSession(params)
        },
        Self.release(RequestSend.self, broker) { params, _, _ throws(RPCError) in try await broker.sendRequest(params)
        },
        Self.route(AccountImport.self, broker, account: { $0.account }) { params, _ throws(RPCError) in
          try await broker.importAccount(params)
        },
        Self.route(AccountList.self, broker) { params, session throws(RPCError) in
          try await broker.accounts(params, caller: session.caller)
        },
        Self.route(AccountGet.self, broker, account: { $0.account }) { params, _ throws(RPCError) in
          try await broker.account(params)
        },
        Self.route(AccountLogout.self, broker, account: { $0.account }) { params, _ throws(RPCError) in
          try await broker.logout(params)
        },
        Self.route(LoginStart.self, broker, account: { $0.account ?? $0.provider }) {
          params, session throws(RPCError) in
          try await broker.startLogin(params, caller: session.caller)
        },
        Self.route(LoginPassword.self, broker, account: { $0.account ?? $0.provider }) {
          params, session throws(RPCError) in
          try await broker.signIn(params, caller: session.caller)
        },
        Self.route(LoginWait.self, broker) { params, session throws(RPCError) in
          try await broker.waitForLogin(params, caller: session.caller)
        },
        Self.route(LoginContinue.self, broker) { params, session throws(RPCError) in
          try await broker.continueLogin(params, caller: session.caller)
        },
        Self.route(LoginHandleCallback.self, broker) { params, _ throws(RPCError) in
          try await broker.handleCallback(params)
        },
        Self.route(LoginCancel.self, broker) { params, session throws(RPCError) in
          try await broker.cancelLogin(params, caller: session.caller)
        },
        Self.route(LoginList.self, broker) { _, session throws(RPCError) in
          await broker.loginList(caller: session.caller)
        },
        Self.route(PolicyExplain.self, broker) { params, session throws(RPCError) in
          try await broker.explain(params, caller: session.caller)
        },
        Self.route(ReleaseList.self, broker, isOfSomeAccount: true) { _, session throws(RPCError) in
          await broker.releaseList(for: session.caller)
        },
        Self.route(ReleaseApprove.self, broker, isOfSomeAccount: true) { params, session throws(RPCError) in
          .init(approved: try await broker.answer(params, true, ReleaseApprove.name, caller: session.caller))
        },
        Self.route(ReleaseDeny.self, broker, isOfSomeAccount: true) { params, session throws(RPCError) in
          .init(denied: try await broker.answer(params, false, ReleaseDeny.name, caller: session.caller))
        },
        Self.route(ProviderList.self, broker) { _, _ throws(RPCError) in await broker.providerList() },
        Self.route(ProviderGet.self, broker) { params, _ throws(RPCError) in try await broker.provider(params) },
        Self.route(ProviderRegister.self, broker) { params, _ throws(RPCError) in try await broker.register(params) },
        Self.route(ProviderUnregister.self, broker) { params, _ throws(RPCError) in
          try await broker.unregister(params)
        },
        Self.route(ProviderCheck.self, broker) { params, session throws(RPCError) in
          try await checks.check(params, caller: session.caller)
        },
        Self.route(BrokerStatus.self, broker) { _, session throws(RPCError) in
          await broker.status(for: session.caller)
        },
        Self.route(BrokerReload.self, broker) { _, session throws(RPCError) in
          try await broker.reload(for: session.caller)
        },
        Self.route(AuditList.self, broker, isOfSomeAccount: true) { params, session throws(RPCError) in
          try await broker.auditTrail(params, caller: session.caller)
        },
        Self.route(StoreRotateKey.self, broker) { _, _ throws(RPCError) in try await broker.rotateKey() },
        Self.route(StoreBackup.self, broker) { params, session throws(RPCError) in
          try await broker.makeBackup(params, session)
        },
        Self.route(StoreBackupPart.self, broker) { params, session throws(RPCError) in
          try await broker.backupPart(params, session)
        },
        Self.route(StoreRestore.self, broker) { params, session throws(RPCError) in
          try await broker.beginRestore(params, session)
        },
        Self.route(StoreRestorePart.self, broker) { params, session throws(RPCError) in
          try await broker.restorePart(params, session)
        },
        Self.route(StoreRestoreLook.self, broker) { params, session throws(RPCError) in
          try await broker.lookAtBackup(params, session)
        },
        Self.route(StoreRestoreApply.self, broker) { params, session throws(RPCError) in
          try await broker.applyBackup(params, session)
        },
        Self.route(BrokerMetrics.self, broker) { _, _ throws(RPCError) in await broker.metrics() },
        Self.route(EventsSubscribe.self, broker) { params, session throws(RPCError) in
          try await broker.subscribe(params, session: session)
        },
        Self.route(RPCDiscover.self, broker) { _, _ throws(RPCError) in discovery.document },
      ])
  }

  public func cachedTokens(for caller: Caller) -> any CachedTokens { CachedLane(cache, caller: caller) }

  public func respond(to request: RPCRequest, session: any Session) async -> Result<JSON, RPCError> {
    guard let route = routes[request.method] else {
      let answer = Result<JSON, RPCError>.failure(Methods.notFound(request.method))
      broker.requests.answered(nil, answer)
      return answer
    }
    let who = AuditEntry.Who(session.caller)
    let answer: Result<JSON, RPCError>
    if let wait = broker.rates.take(who) {
      answer = .failure(broker.tooOften(request.method, who, pid: session.caller.pid, wait: wait))
    } else {
      answer = await route.answer(request.params, session)
    }
    if case .failure(let error) = answer, error.reason == .notPermitted { broker.rates.refused(who) }
    broker.requests.answered(request.method, answer)
    return answer
  }

  private static func route<M: RPCMethod>(
    _ method: M.Type, _ broker: Broker, account: (@Sendable (M.Params) -> String)? = nil,
    isOfSomeAccount: Bool = false,
    _ handler: @escaping @Sendable (M.Params, any Session) async throws(RPCError) -> M.Result
  ) -> (String, Route) {
    let answer: @Sendable (JSON?, any Session) async -> Result<JSON, RPCError> = { params, session in
      var named: String?
      do throws(RPCError) {
        // Who may not call it at all learns nothing of its parameters.
        try await broker.check(
          M.access, method: M.name, caller: session.caller, anyAccount: account != nil || isOfSomeAccount)
        let params = try decodeParams(M.self, from: params)
        if let account {
          named = account(params)
          try await broker.check(M.access, method: M.name, account: account(params), caller: session.caller)
        }
        let result = try await handler(params, session)
        // A reload may have taken the permission away while the caller waited.
        if M.access == .use, let account {
          try await broker.check(M.access, method: M.name, account: account(params), caller: session.caller)
        }
        broker.audit(M.self, account: named, session.caller, .success(result))
        return .success(JSON(encoding: result))
      } catch {
        // Who may not call it at all is not told of its parameters, but of the rule for the account that it named, and
        // recorded with that.
        var error = error
        if named == nil, let account, let about = (try? decodeParams(M.self, from: params)).map(account) {
          named = about
          error = Broker.refusal(M.access, M.name, about, session.caller)
        }
        broker.audit(M.self, account: named, session.caller, .failure(error))
        return .failure(error)
      }
    }
    return (M.name, Route(access: M.access, answer: answer))
  }

  /// The route of a method that releases a token: it may have to wait for a person first.
  private static func release<M: TokenRelease>(
    _ method: M.Type, _ broker: Broker,
    _ handler: @escaping @Sendable (M.Params, any Session, Clearance) async throws(RPCError) -> M.Result
  ) -> (String, Route) {
    route(method, broker, account: { $0.account }) { asked, session throws(RPCError) in
      let (params, clearance) = try await broker.clear(method, asked, session)
      let result = try await handler(params, session, clearance)
      try await broker.checkAgain(method, params, clearance)
      return result
    }
  }
}

/// The OpenRPC document, made when somebody asks for it first: that takes as long as half of the broker's start.
private final class Discovery: Sendable {
  private let version: String
  private let made = Mutex<JSON?>(nil)

  init(version: String) { self.version = version }

  var document: JSON {
    made.withLock { made in
      if let made { return made }
      let document = OpenRPC.document(version: version)
      made = document
      return document
    }
  }
}

extension Broker {
  /// Whether the policy lets the caller do it; the error is the same whether the account exists or not. `anyAccount`: it
  /// is about some account, and which one is not yet known.
  func check(
    _ access: Access, method: String, account: String? = nil, caller: Caller, anyAccount: Bool = false
  ) throws(RPCError) {
    let policy = configuration.policy
    let isAllowed =
      anyAccount
      ? policy.allowsSome(access, method: method, caller: caller)
      : policy.allows(access, method: method, account: account, caller: caller)
    guard !isAllowed else { return }
    throw Self.refusal(access, method, account, caller)
  }

  /// With the rule that is missing, for an admin to take over.
  static func refusal(_ access: Access, _ method: String, _ account: String?, _ caller: Caller) -> RPCError {
    RPCError(
      .notPermitted,
      "uid \(caller.uid) may not call \(method)" + (account.map { " for account \($0.prefix(128))" } ?? ""),
      hint: "An admin can allow it by these lines in the configuration and `grantctl reload`:\n"
        + Rule.lines(for: caller, account: account, access: [access]))
  }
}
