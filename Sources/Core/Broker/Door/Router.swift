public import BrokerAPI
public import Principals

/// The adapters of the door: JSON for the socket, and types for all others.
public struct Router: Dispatcher {
  let broker: Broker
  private let cache: TokenCache

  public init(_ broker: Broker) {
    self.broker = broker
    cache = broker.cache
  }

  public func callerClass(of principal: Principal) -> CallerClass {
    broker.door.authorizer.policy.callerClass(of: principal)
  }

  public func cachedTokens(for principal: Principal) -> any CachedTokens { ConnectionTokenCache(cache, principal) }

  public func yieldTurn() async { await broker.yieldTurn() }

  public func respond(to request: RPCRequest, session: any Session) async -> Result<JSON, RPCError> {
    guard let method = Methods.named(request.method) as? any RPCHandler.Type else {
      return unknown(request.method, session)
    }
    return await respond(method, request.params, session)
  }

  private func respond<M: RPCHandler>(
    _ method: M.Type, _ params: JSON?, _ session: any Session
  ) async -> Result<JSON, RPCError> {
    await broker.door.pass(
      Use<M, M.Result>(broker) { () throws(RPCError) in try decodeParams(M.self, from: params) }, by: session
    ).map { JSON(encoding: $0) }
  }

  public func perform<M: RPCMethod>(
    _ method: M.Type, _ params: M.Params, by session: any Session
  ) async -> Result<M.Result, RPCError> {
    /// `S` is `M`: the compiler only knows that the broker implements it.
    func pass<S: RPCHandler>(_ served: S.Type) async -> Result<M.Result, RPCError> {
      guard let params = params as? S.Params else { return unknown(M.name, session) }
      return await broker.door.pass(Use<S, S.Result>(broker) { params }, by: session).flatMap { result in
        (result as? M.Result).map { .success($0) } ?? .failure(Methods.notFound(M.name))
      }
    }
    guard let served = method as? any RPCHandler.Type else { return unknown(M.name, session) }
    return await pass(served)
  }

  private func unknown<Value>(_ name: String, _ session: any Session) -> Result<Value, RPCError> {
    session.decided()
    let answer = Result<Value, RPCError>.failure(Methods.notFound(name))
    broker.door.requests.answered(nil, answer)
    return answer
  }
}
