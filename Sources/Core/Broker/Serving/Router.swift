public import BrokerAPI

/// From a request's method to the broker's answer: the method is known, the caller is allowed, the parameters are
/// decoded; in that order, in this one place.
public struct Router: Dispatcher {
  let broker: Broker
  private let cache: TokenCache

  public init(_ broker: Broker) {
    self.broker = broker
    cache = broker.cache
  }

  public func callerClass(of principal: Principal) -> CallerClass {
    broker.authorizer.policy.callerClass(of: principal.caller)
  }

  public func cachedTokens(for principal: Principal) -> any CachedTokens { CachedLane(cache, principal) }

  public func settle() async { await broker.haveTurn() }

  public func respond(to request: RPCRequest, session: any Session) async -> Result<JSON, RPCError> {
    defer { session.decided() }
    guard let method = Methods.named(request.method) as? any Served.Type else {
      let answer = Result<JSON, RPCError>.failure(Methods.notFound(request.method))
      broker.requests.answered(nil, answer)
      return answer
    }
    let who = AuditEntry.Who(session.caller)
    let answer: Result<JSON, RPCError>
    if let wait = broker.authorizer.rates.take(who, of: session.caller.holder) {
      answer = .failure(broker.audit.tooOften(request.method, session.caller, wait: wait))
    } else {
      answer = await self.answer(method, request.params, session)
    }
    if case .failure(let error) = answer, error.reason == .notPermitted { broker.authorizer.rates.refused(who) }
    broker.requests.answered(request.method, answer)
    return answer
  }

  /// Decodes, decides the caller's rights once, answers, and records the result.
  private func answer<M: Served>(
    _ method: M.Type, _ params: JSON?, _ session: any Session
  ) async -> Result<JSON, RPCError> {
    let authorizer = broker.authorizer
    let principal = session.principal
    var named: String?
    var access = M.access
    var calls: String?
    do throws(RPCError) {
      let params = try Self.decode(M.self, from: params) { () throws(RPCError) in
        // The parameters are not revealed to a caller without the right.
        switch M.subject {
        case .broker: _ = try authorizer.authorize(principal, M.access, M.name, account: nil)
        case .account, .someAccount:
          guard !M.accesses.contains(where: { authorizer.mayForSome(principal, $0, M.name) }) else { return }
          _ = try authorizer.authorizeForSome(principal, M.access, M.name)
        }
      }
      let permission: Permission
      access = M.access(for: params)
      switch M.subject {
      case .broker: permission = try authorizer.authorize(principal, M.access, M.name, account: nil)
      case .someAccount: permission = try authorizer.authorizeForSome(principal, M.access, M.name)
      case .account(let name):
        named = name(params)
        let request = await M.request(params, by: broker)
        calls = request?.callNames
        permission = try authorizer.authorize(principal, access, M.name, account: named, request: request)
      }
      session.decided()
      let call = Call<M>(params: params, session: session, permission: permission)
      let result = try await M.serve(call, by: broker)
      // A reload may have taken the permission away while the caller waited.
      if access == .use || access == .idToken { _ = try authorizer.renewed(permission) }
      broker.audit.ended(
        M.self, account: named, session.caller, access, rule: permission.rule, .success(result), detail: calls)
      return .success(JSON(encoding: result))
    } catch {
      broker.audit.ended(
        M.self, account: named, session.caller, access, rule: nil, .failure(error), detail: calls)
      return .failure(error)
    }
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
