public import BrokerAPI

/// The socket server's interface to the broker.
public protocol Dispatcher: Sendable {
  /// What share of the socket's budgets a new connection has. Called on the event loop that accepted it: must not block.
  func callerClass(of principal: Principal) -> CallerClass

  /// What answers the plain `token.get` of one connection, which stays on the event loop that asks for it.
  func cachedTokens(for principal: Principal) -> any CachedTokens

  /// All other requests. Runs in a separate task; ends within the method's deadline.
  func respond(to request: RPCRequest, session: any Session) async -> Result<JSON, RPCError>

  /// Returns when earlier requests have had their turn at the broker. Waiting for it before the next request keeps the
  /// broker's own queue, which does not know holders, short.
  func yieldTurn() async
}

extension Dispatcher {
  public func yieldTurn() async { await Task.yield() }
}
