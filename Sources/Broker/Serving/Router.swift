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
    routes = Dictionary(
      uniqueKeysWithValues: [
        Self.release(TokenGet.self, broker) { params, _, clearance throws(RPCError) in
          try await broker.tokens.token(params, clearance)
        },
        Self.route(TokenReportRejected.self, broker, account: { $0.account }) { params, session throws(RPCError) in
          try await broker.tokens.reportRejected(params, for: session.caller.uid)
        },
        Self.release(TokenExchange.self, broker) { params, session, clearance throws(RPCError) in
          try await broker.calls.exchange(params, session, clearance)
        },
        Self.release(TokenIntrospect.self, broker) { params, _, clearance throws(RPCError) in
          try await broker.calls.introspect(params, clearance)
        },
        Self.release(DPoPProof.self, broker) { params, _, clearance throws(RPCError) in
          try await broker.calls.proof(params, clearance)
        },
        Self.release(AccountUserinfo.self, broker) { params, _, clearance throws(RPCError) in
          try await broker.calls.userInfo(params, clearance)
        },
        Self.release(AccountSessions.self, broker) { params, _, clearance throws(RPCError) in
          try await broker.calls.sessions(params, clearance)
        },
        Self.release(AccountEndSession.self, broker) { params, _, clearance throws(RPCError) in
          try await broker.calls.endSession(params, clearance)
        },
        Self.release(RequestSend.self, broker) { params, _, clearance throws(RPCError) in
          try await broker.calls.sendRequest(params, clearance)
        },
        Self.route(AccountImport.self, broker, account: { $0.account }) { params, session throws(RPCError) in
          try await broker.imports.importAccount(params, for: session.caller.uid)
        },
        Self.route(AccountList.self, broker) { params, session throws(RPCError) in
          try await broker.views.list(params, caller: session.caller)
        },
        Self.route(AccountGet.self, broker, account: { $0.account }) { params, _ throws(RPCError) in
          try await broker.views.account(params)
        },
        Self.route(AccountLogout.self, broker, account: { $0.account }) { params, _ throws(RPCError) in
          try await broker.logouts.logout(params)
        },
        Self.route(LoginStart.self, broker, account: { $0.account ?? $0.provider }) {
          params, session throws(RPCError) in
          try await broker.logins.startLogin(params, caller: session.caller)
        },
        Self.route(LoginPassword.self, broker, account: { $0.account ?? $0.provider }) {
          params, session throws(RPCError) in
          try await broker.logins.signIn(params, caller: session.caller)
        },
        Self.route(LoginWait.self, broker) { params, session throws(RPCError) in
          try await broker.logins.waitForLogin(params, caller: session.caller)
        },
        Self.route(LoginContinue.self, broker) { params, session throws(RPCError) in
          try await broker.logins.continueLogin(params, caller: session.caller)
        },
        Self.route(LoginHandleCallback.self, broker) { params, _ throws(RPCError) in
          try await broker.logins.handleCallback(params)
        },
        Self.route(LoginCancel.self, broker) { params, session throws(RPCError) in
          try await broker.logins.cancelLogin(params, caller: session.caller)
        },
        Self.route(LoginList.self, broker) { _, session throws(RPCError) in
          await broker.logins.loginList(caller: session.caller)
        },
        Self.route(PolicyExplain.self, broker) { params, session throws(RPCError) in
          try broker.authorizer.explain(params, caller: session.caller)
        },
        Self.route(ReleaseList.self, broker, isOfSomeAccount: true) { _, session throws(RPCError) in
          await broker.approvals.releaseList(for: session.caller)
        },
        Self.route(ReleaseApprove.self, broker, isOfSomeAccount: true) { params, session throws(RPCError) in
          .init(approved: try await broker.approvals.answer(params, true, ReleaseApprove.name, caller: session.caller))
        },
        Self.route(ReleaseDeny.self, broker, isOfSomeAccount: true) { params, session throws(RPCError) in
          .init(denied: try await broker.approvals.answer(params, false, ReleaseDeny.name, caller: session.caller))
        },
        Self.route(ProviderList.self, broker) { _, _ throws(RPCError) in await broker.views.providerList() },
        Self.route(ProviderGet.self, broker) { params, _ throws(RPCError) in try await broker.views.provider(params) },
        Self.route(ProviderRegister.self, broker) { params, _ throws(RPCError) in
          try await broker.registrations.register(params)
        },
        Self.route(ProviderUnregister.self, broker) { params, _ throws(RPCError) in
          try await broker.registrations.unregister(params)
        },
        Self.route(ProviderCheck.self, broker) { params, session throws(RPCError) in
          try await broker.checks.check(params, caller: session.caller)
        },
        Self.route(BrokerStatus.self, broker) { _, session throws(RPCError) in
          await broker.views.status(for: session.caller)
        },
        Self.route(BrokerReload.self, broker) { _, session throws(RPCError) in
          try await broker.reload(for: session.caller)
        },
        Self.route(AuditList.self, broker, isOfSomeAccount: true) { params, session throws(RPCError) in
          try await broker.auditReader.list(params, caller: session.caller)
        },
        Self.route(StoreRotateKey.self, broker) { _, _ throws(RPCError) in try await broker.backups.rotateKey() },
        Self.route(StoreBackup.self, broker) { params, session throws(RPCError) in
          try await broker.backups.makeBackup(params, session)
        },
        Self.route(StoreBackupPart.self, broker) { params, session throws(RPCError) in
          try await broker.backups.backupPart(params, session)
        },
        Self.route(StoreRestore.self, broker) { params, session throws(RPCError) in
          try await broker.backups.beginRestore(params, session)
        },
        Self.route(StoreRestorePart.self, broker) { params, session throws(RPCError) in
          try await broker.backups.restorePart(params, session)
        },
        Self.route(StoreRestoreLook.self, broker) { params, session throws(RPCError) in
          try await broker.backups.lookAtBackup(params, session)
        },
        Self.route(StoreRestoreApply.self, broker) { params, session throws(RPCError) in
          try await broker.backups.applyBackup(params, session)
        },
        Self.route(BrokerMetrics.self, broker) { _, _ throws(RPCError) in await broker.views.metrics() },
        Self.route(EventsSubscribe.self, broker) { params, session throws(RPCError) in
          try await broker.runtime.events.subscribe(params, session: session)
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
    if let wait = broker.authorizer.rates.take(who) {
      answer = .failure(broker.audit.tooOften(request.method, who, pid: session.caller.pid, wait: wait))
    } else {
      answer = await route.answer(request.params, session)
    }
    if case .failure(let error) = answer, error.reason == .notPermitted { broker.authorizer.rates.refused(who) }
    broker.requests.answered(request.method, answer)
    return answer
  }

  private static func route<M: RPCMethod>(
    _ method: M.Type, _ broker: Broker, account: (@Sendable (M.Params) -> String)? = nil,
    isOfSomeAccount: Bool = false,
    _ handler: @escaping @Sendable (M.Params, any Session) async throws(RPCError) -> M.Result
  ) -> (String, Route) {
    decided(method, broker, account: account, isOfSomeAccount: isOfSomeAccount) { params, session, _ throws(RPCError) in
      try await handler(params, session)
    }
  }

  /// The route of a method that releases a token: it may have to wait for a person first.
  private static func release<M: TokenRelease>(
    _ method: M.Type, _ broker: Broker,
    _ handler: @escaping @Sendable (M.Params, any Session, Permission) async throws(RPCError) -> M.Result
  ) -> (String, Route) {
    decided(method, broker, account: { $0.account }) { asked, session, permission throws(RPCError) in
      let (params, allowed) = try await broker.approvals.clear(method, asked, permission, session)
      let result = try await handler(params, session, allowed)
      try await broker.approvals.checkAgain(method, params, allowed)
      return result
    }
  }

  /// Decodes, decides once what the caller may do, calls the handler with that, and records how it ended.
  private static func decided<M: RPCMethod>(
    _ method: M.Type, _ broker: Broker, account: (@Sendable (M.Params) -> String)?, isOfSomeAccount: Bool = false,
    _ handler: @escaping @Sendable (M.Params, any Session, Permission) async throws(RPCError) -> M.Result
  ) -> (String, Route) {
    let authorizer = broker.authorizer
    let answer: @Sendable (JSON?, any Session) async -> Result<JSON, RPCError> = { params, session in
      var named: String?
      do throws(RPCError) {
        let (principal, isOfSome) = (session.principal, account != nil || isOfSomeAccount)
        let params = try decode(M.self, from: params) { () throws(RPCError) in
          // Who may not call it at all learns nothing of its parameters.
          _ =
            isOfSome
            ? try authorizer.authorizeForSome(principal, M.access, M.name)
            : try authorizer.authorize(principal, M.access, M.name, account: nil)
        }
        named = account.map { $0(params) }
        let permission =
          named == nil && isOfSome
          ? try authorizer.authorizeForSome(principal, M.access, M.name)
          : try authorizer.authorize(principal, M.access, M.name, account: named)
        let result = try await handler(params, session, permission)
        // A reload may have taken the permission away while the caller waited.
        if M.access == .use { _ = try authorizer.renewed(permission) }
        broker.audit.ended(M.self, account: named, session.caller, rule: permission.rule, .success(result))
        return .success(JSON(encoding: result))
      } catch {
        broker.audit.ended(M.self, account: named, session.caller, rule: nil, .failure(error))
        return .failure(error)
      }
    }
    return (M.name, Route(access: M.access, answer: answer))
  }

  private static func decode<M: RPCMethod>(
    _ method: M.Type, from params: JSON?, ifWrong check: () throws(RPCError) -> Void
  ) throws(RPCError) -> M.Params {
    do throws(RPCError) {
      return try decodeParams(method, from: params)
    } catch {
      try check()
      throw error
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
