public import BrokerAPI
import Logging

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
    let discovery = OpenRPC.document(version: version)
    let checks = ProviderChecks(broker)
    routes = Dictionary(
      uniqueKeysWithValues: [
        Self.route(TokenGet.self, broker, account: { $0.account }) { params, session throws(RPCError) in
          try await broker.token(params, caller: session.caller)
        },
        Self.route(TokenReportRejected.self, broker, account: { $0.account }) { params, _ throws(RPCError) in
          try await broker.reportRejected(params)
        },
        Self.route(TokenExchange.self, broker, account: { $0.account }) { params, session throws(RPCError) in
          try await broker.checkWhole(TokenExchange.name, params.account, caller: session.caller)
          return try await broker.exchange(params, caller: session.caller)
        },
        Self.route(TokenIntrospect.self, broker, account: { $0.account }) { params, _ throws(RPCError) in
          try await broker.introspect(params)
        },
        Self.route(DPoPProof.self, broker, account: { $0.account }) { params, _ throws(RPCError) in
          try await broker.proof(params)
        },
        Self.route(AccountUserinfo.self, broker, account: { $0.account }) { params, _ throws(RPCError) in
          try await broker.userInfo(params)
        },
        Self.route(AccountSessions.self, broker, account: { $0.account }) { params, _ throws(RPCError) in
          try await broker.sessions(params)
        },
        Self.route(AccountEndSession.self, broker, account: { $0.account }) { params, _ throws(RPCError) in
          try await broker.endSession(params)
        },
        Self.route(RequestSend.self, broker, account: { $0.account }) { params, session throws(RPCError) in
          try await broker.checkWhole(RequestSend.name, params.account, caller: session.caller)
          return try await broker.sendRequest(params)
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
        Self.route(BrokerReload.self, broker) { _, _ throws(RPCError) in try await broker.reload() },
        Self.route(BrokerMetrics.self, broker) { _, _ throws(RPCError) in await broker.metrics() },
        Self.route(EventsSubscribe.self, broker) { params, session throws(RPCError) in
          try await broker.subscribe(params, session: session)
        },
        Self.route(RPCDiscover.self, broker) { _, _ throws(RPCError) in discovery },
      ])
  }

  public func cachedToken(account: String, minTTL: Int64?, caller: Caller) -> CachedReply? {
    cache.reply(account: account, minTTL: minTTL, caller: caller)
  }

  public func respond(to request: RPCRequest, session: any Session) async -> Result<JSON, RPCError> {
    guard let route = routes[request.method] else {
      let answer = Result<JSON, RPCError>.failure(Methods.notFound(request.method))
      broker.requests.answered(nil, answer)
      return answer
    }
    let answer = await route.answer(request.params, session)
    broker.requests.answered(request.method, answer)
    return answer
  }

  private static func route<M: RPCMethod>(
    _ method: M.Type, _ broker: Broker, account: (@Sendable (M.Params) -> String)? = nil,
    _ handler: @escaping @Sendable (M.Params, any Session) async throws(RPCError) -> M.Result
  ) -> (String, Route) {
    let answer: @Sendable (JSON?, any Session) async -> Result<JSON, RPCError> = { params, session in
      do throws(RPCError) {
        // Who may not call it at all learns nothing of its parameters.
        try await broker.check(M.access, method: M.name, caller: session.caller, anyAccount: account != nil)
        let params = try decodeParams(M.self, from: params)
        if let account {
          try await broker.check(M.access, method: M.name, account: account(params), caller: session.caller)
        }
        let result = try await handler(params, session)
        // A reload may have taken the permission away while the caller waited.
        if M.access == .use, let account {
          try await broker.check(M.access, method: M.name, account: account(params), caller: session.caller)
        }
        return .success(JSON(encoding: result))
      } catch {
        return .failure(error)
      }
    }
    return (M.name, Route(access: M.access, answer: answer))
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
    var metadata: Logger.Metadata = ["caller_uid": "\(caller.uid)", "caller_pid": "\(caller.pid)"]
    if let unit = caller.unit { metadata["caller_unit"] = "\(unit.prefix(256))" }
    if let account { metadata["account"] = "\(account.prefix(128))" }
    logger.warning("refused \(method)", metadata: metadata)
    throw RPCError(
      .notPermitted,
      "uid \(caller.uid) may not call \(method)" + (account.map { " for account \($0.prefix(128))" } ?? ""),
      hint: "An admin can allow it with a [[rule]] that has uid = \(caller.uid) and access = [\"\(access.rawValue)\"].")
  }
}
