public import BrokerAPI
import Grants
public import OAuth
public import Principals

/// The broker's interface for programs that speak HTTP, in addition to the socket's methods.
public protocol LoopbackBroker: Dispatcher {
  /// Where requests wait until they are decided.
  var entrance: Entrance { get }
  /// Calls a method, by the same rules and with the same records as on the socket.
  func perform<M: RPCMethod>(
    _ method: M.Type, _ params: M.Params, by session: any Session
  ) async -> Result<M.Result, RPCError>
  /// Whether the principal may have such tokens of the account, whether there is one or not.
  func mayUse(_ account: String, _ principal: Principal, kind: TokenKind) -> Bool
  /// Decides whether a request may go to a provider's API, and puts the account's token in.
  func authorize(_ forward: ForwardRequest, session: any Session) async -> Result<AuthorizedRequest, RPCError>
  /// The decisions for the requests of one connection. Used on its event loop.
  func forwardCache(for principal: Principal) -> ConnectionForwardCache
  /// Whether a rule for the principal depends on the body of such requests, or a user has to approve them with their body.
  func readsBody(_ forward: ForwardRequest, _ principal: Principal) async -> Bool
  /// Looks at an answer to a request that was sent.
  func judge(_ response: HTTPResponse, to sent: AuthorizedRequest) async -> ForwardVerdict
}

extension Router: LoopbackBroker {
  public var entrance: Entrance { broker.door.entrance }

  public func mayUse(_ account: String, _ principal: Principal, kind: TokenKind) -> Bool {
    let access = TokenGet.access(of: kind)
    return broker.door.authorizer.policy.allows(
      access, method: TokenGet.name, account: account, caller: principal)
  }

  public func forwardCache(for principal: Principal) -> ConnectionForwardCache {
    ConnectionForwardCache(broker, principal)
  }

  public func readsBody(_ forward: ForwardRequest, _ principal: Principal) async -> Bool {
    let policy = broker.door.authorizer.policy
    guard policy.asksSomebody || policy.readsMessages else { return false }
    let url = (try? await broker.tokens.calls.url(of: forward)) ?? forward.target
    let request = await broker.tokens.calls.apiRequest(forward.method, url, of: forward.account)
    let permission = broker.door.authorizer.inForce.permission(
      principal, .use, RequestSend.name, forward.account, request: request)
    return permission.map { $0.confirmation != nil }
      ?? policy.readsMessages(RequestSend.name, forward.account, principal, of: request)
  }

  /// On the broker's actor as a whole: its steps are many and short.
  @BrokerActor
  public func authorize(
    _ forward: ForwardRequest, session: any Session
  ) async -> Result<AuthorizedRequest, RPCError> {
    let broker = broker
    // The account is not revealed to a caller without the right: destinations are checked after the decision.
    let url: Result<String, RPCError>
    do throws(RPCError) { url = .success(try broker.tokens.calls.url(of: forward)) } catch { url = .failure(error) }
    let target = (try? url.get()) ?? forward.target
    let content = broker.door.authorizer.policy.readsMessages ? forward.content : nil
    let request = broker.tokens.calls.apiRequest(forward.method, target, of: forward.account).containing(content)
    let params = RequestSend.Params(account: forward.account, method: forward.method, url: target)
    let use = Use<RequestSend, AuthorizedRequest>(
      params: { params }, request: { _ in request },
      work: { call throws(RPCError) in
        _ = try url.get()
        let (params, permission) = try await broker.tokens.approvals.clear(
          RequestSend.self, call.account, call.params, call.permission, session, body: forward.body)
        let authorized = try await broker.tokens.calls.authorized(call.account, forward, params, permission)
        // From now on the token is known on event loops, until it is another.
        let account = authorized.call.question.account
        if !broker.cache.serves(account, authorized.basis.token.generation) { broker.accounts.serve(account) }
        authorized.basis.record(broker.cache.slot(of: account))
        return authorized
      }, recorded: { _ in .init(status: 0, headers: [:]) })
    return await broker.door.pass(use, by: session)
  }

  public func judge(_ response: HTTPResponse, to sent: AuthorizedRequest) async -> ForwardVerdict {
    do throws(RPCError) {
      return try await broker.tokens.calls.verdict(on: response, to: sent)
    } catch {
      return .refused(error)
    }
  }
}

extension APIRequest {
  /// The same with these messages.
  fileprivate func containing(_ content: MCPContent?) -> APIRequest {
    var request = self
    request.content = content
    return request
  }
}
