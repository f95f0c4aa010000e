import BrokerAPI
import Principals

/// The only way to the broker's work, in one order for every adapter: the caller's rate, the parameters, one decision of the
/// policy, approval and work, a second look at the policy, the audit record, the count (decision 75). An adapter brings
/// typed parameters and contains no policy.
struct Door: Sendable {
  let authorizer: Authorizer
  let audit: AuditLog
  let requests: RequestTally
  let entrance = Entrance()

  /// Runs where its caller runs. The work is one hop to the broker's actor; a refusal takes none.
  func pass<M: RPCHandler, Value: Sendable>(
    _ use: Use<M, Value>, by session: any Session, isolation: isolated (any Actor)? = #isolation
  ) async -> Result<Value, RPCError> {
    defer { session.decided() }
    var passage = Passage(use)
    if use.isPaced, let wait = authorizer.rates.acquire(AuditCaller(session.principal), of: session.principal.holder) {
      let error = audit.tooOften(use.name, session.principal, wait: wait)
      requests.answered(use.name, Result<Value, RPCError>.failure(error))
      return .failure(error)
    }
    let result: Result<Value, RPCError>
    do throws(RPCError) {
      let call = try await decided(use, &passage, session)
      session.decided()
      let value = if let constant = use.constant(call) { constant } else { try await use.work(call) }
      // A reload may have taken the permission away while the caller waited.
      if passage.access.isRelease { passage.rule = try authorizer.renewed(call.permission).rule }
      result = .success(value)
    } catch {
      result = .failure(error)
    }
    end(use, passage, result, session.principal)
    return result
  }

  /// A use that its adapter refused before any decision.
  func refuse<M: RPCHandler, Value: Sendable>(_ use: Use<M, Value>, _ error: RPCError, _ caller: Principal) {
    end(use, Passage(use), .failure(error), caller)
  }

  /// Reads the parameters and decides the caller's rights, once.
  private func decided<M: RPCHandler, Value: Sendable>(
    _ use: Use<M, Value>, _ passage: inout Passage<M, Value>, _ session: any Session,
    isolation: isolated (any Actor)? = #isolation
  ) async throws(RPCError) -> Call<M> {
    let principal = session.principal
    let params: M.Params
    do throws(RPCError) {
      params = try use.params()
    } catch {
      // The parameters are not revealed to a caller without the right.
      try checkAny(M.self, principal)
      throw error
    }
    let permission: Permission
    passage.access = M.access(for: params)
    let subject = M.subject
    switch subject.extent {
    case .broker: permission = try authorizer.authorize(principal, M.access, M.name, account: nil)
    case .someAccount: permission = try authorizer.authorizeForSome(principal, M.access, M.name)
    case .account(let name):
      passage.account = name(params)
      let request = await use.request(params)
      passage.detail = passage.detail ?? request?.callNames
      permission = try authorizer.authorize(
        principal, passage.access, M.name, account: passage.account, request: request)
    }
    passage.rule = permission.rule
    return Call(params: params, object: try subject.object(params), session: session, permission: permission)
  }

  private func checkAny<M: RPCHandler>(_ method: M.Type, _ principal: Principal) throws(RPCError) {
    switch M.subject.extent {
    case .broker: _ = try authorizer.authorize(principal, M.access, M.name, account: nil)
    case .account, .someAccount:
      guard !M.accesses.contains(where: { authorizer.mayForSome(principal, $0, M.name) }) else { return }
      _ = try authorizer.authorizeForSome(principal, M.access, M.name)
    }
  }

  /// Records and counts, and charges a refusal to its caller.
  private func end<M: RPCHandler, Value: Sendable>(
    _ use: Use<M, Value>, _ passage: Passage<M, Value>, _ result: Result<Value, RPCError>, _ caller: Principal
  ) {
    if use.isPaced, case .failure(let error) = result, error.reason == .notPermitted {
      authorizer.rates.refused(AuditCaller(caller))
    }
    audit.ended(
      M.self, as: use.name, account: passage.account, at: (try? result.get()).flatMap(use.provider), caller,
      passage.access, rule: passage.rule, result.map(use.recorded), detail: passage.detail)
    requests.answered(use.name, result)
  }
}

/// One use of a method: what its adapter adds to the method's own steps.
struct Use<M: RPCHandler, Value: Sendable>: Sendable {
  /// In records and counts.
  var name = M.name
  /// False: another limit holds for its callers.
  var isPaced = true
  /// Before the parameters are read.
  var account: String?
  var detail: String?
  /// The account's provider, if the method's result does not name it.
  var provider: @Sendable (Value) -> String? = { _ in nil }
  let params: @Sendable () throws(RPCError) -> M.Params
  /// The request to the provider's API; nil: none.
  var request: nonisolated(nonsending) @Sendable (M.Params) async -> APIRequest? = { _ in nil }
  /// Instead of the work.
  var constant: @Sendable (Call<M>) -> Value? = { _ in nil }
  /// Approval and work.
  let work: @BrokerActor @Sendable (Call<M>) async throws(RPCError) -> Value
  /// The part of the value for the audit record.
  let recorded: @Sendable (Value) -> M.Result
}

extension Use where Value == M.Result {
  /// The method, unchanged.
  init(_ broker: Broker, _ params: @escaping @Sendable () throws(RPCError) -> M.Params) {
    self.params = params
    request = { params in await M.request(params, by: broker) }
    recorded = { $0 }
    constant = { call in M.constant(call, by: broker) }
    work = { call throws(RPCError) in
      let call = try await M.approved(call, by: broker)
      let result = try await M.answer(call, by: broker)
      try M.checkAgain(call, by: broker)
      return result
    }
  }
}

/// The parts of a use that are decided so far.
private struct Passage<M: RPCHandler, Value: Sendable> {
  var account: String?
  var access = M.access
  var rule: String?
  var detail: String?

  init(_ use: Use<M, Value>) {
    account = use.account
    detail = use.detail
  }
}

extension Access {
  /// It gives tokens, or uses them: a reload or a hold ends it at once.
  var isRelease: Bool {
    switch self {
    case .use, .idToken: true
    case .open, .login, .manage, .observe: false
    }
  }
}
