public import BrokerAPI
import Grants
public import OAuth

/// The broker's interface for programs that speak HTTP, in addition to the socket's methods.
public protocol LoopbackBroker: Dispatcher {
  /// Where requests wait until they are decided.
  var entrance: Entrance { get }
  /// Whether the principal may have such tokens of the account, whether there is one or not.
  func mayUse(_ account: String, _ principal: Principal, kind: TokenKind) -> Bool
  /// Decides whether a request may go to a provider's API, and puts the account's token in.
  func authorize(_ forward: ForwardRequest, session: any Session) async -> Result<AuthorizedRequest, RPCError>
  /// The decisions for the requests of one connection. Used on its event loop.
  func forwardLane(for principal: Principal) -> ForwardLane
  /// Whether a rule for the principal depends on the body of such requests, or a user has to approve them with their body.
  func readsBody(_ forward: ForwardRequest, _ principal: Principal) async -> Bool
  /// Looks at an answer to a request that was sent.
  func judge(_ response: HTTPResponse, to sent: AuthorizedRequest) async -> ForwardVerdict
}

extension Router: LoopbackBroker {
  public var entrance: Entrance { broker.entrance }

  public func mayUse(_ account: String, _ principal: Principal, kind: TokenKind) -> Bool {
    let access = TokenGet.access(of: kind)
    return broker.authorizer.policy.allows(
      access, method: TokenGet.name, account: account, caller: principal.caller)
  }

  public func forwardLane(for principal: Principal) -> ForwardLane { ForwardLane(broker, principal) }

  public func readsBody(_ forward: ForwardRequest, _ principal: Principal) async -> Bool {
    let policy = broker.authorizer.policy
    guard policy.asksSomebody || policy.readsMessages else { return false }
    let url = (try? await broker.calls.url(of: forward)) ?? forward.target
    let request = await broker.calls.apiRequest(forward.method, url, of: forward.account)
    let permission = broker.authorizer.inForce.permission(
      principal, .use, RequestSend.name, forward.account, request: request)
    return permission.map { $0.confirmation != nil }
      ?? policy.readsMessages(RequestSend.name, forward.account, principal.caller, of: request)
  }

  /// On the broker's actor as a whole: its steps are many and short.
  @BrokerActor
  public func authorize(
    _ forward: ForwardRequest, session: any Session
  ) async -> Result<AuthorizedRequest, RPCError> {
    defer { session.decided() }
    let who = AuditEntry.Who(session.caller)
    if let wait = broker.authorizer.rates.take(who, of: session.caller.holder) {
      return .failure(broker.audit.tooOften(RequestSend.name, session.caller, wait: wait))
    }
    var names: String?
    do throws(RPCError) {
      // The account is not revealed to a caller without the right: destinations are checked after that.
      let url: Result<String, RPCError>
      do throws(RPCError) { url = .success(try broker.calls.url(of: forward)) } catch { url = .failure(error) }
      var request = broker.calls.apiRequest(
        forward.method, (try? url.get()) ?? forward.target, of: forward.account)
      if broker.authorizer.policy.readsMessages { request.content = forward.content }
      names = request.callNames
      let permission = try broker.authorizer.authorize(
        session.principal, .use, RequestSend.name, account: forward.account, request: request)
      session.decided()
      let asked = RequestSend.Params(account: forward.account, method: forward.method, url: try url.get())
      let (params, cleared) = try await broker.approvals.clear(
        RequestSend.self, asked, permission, session, body: forward.body)
      let authorized = try await broker.calls.authorized(forward, params, cleared)
      broker.audit.ended(
        RequestSend.self, account: forward.account, session.caller, rule: cleared.rule,
        .success(.init(status: 0, headers: [:])), detail: names)
      broker.requests.answered(RequestSend.name, .success(.null))
      // From now on the token is known on event loops, until it is another.
      let account = authorized.basis.question.account
      if !broker.cache.serves(account, authorized.basis.token.generation) { broker.accounts.serve(account) }
      authorized.basis.note(broker.cache.slot(of: account))
      return .success(authorized)
    } catch {
      if error.reason == .notPermitted { broker.authorizer.rates.refused(who) }
      broker.audit.ended(
        RequestSend.self, account: forward.account, session.caller, rule: nil, .failure(error), detail: names)
      broker.requests.answered(RequestSend.name, .failure(error))
      return .failure(error)
    }
  }

  public func judge(_ response: HTTPResponse, to sent: AuthorizedRequest) async -> ForwardVerdict {
    do throws(RPCError) {
      return try await broker.calls.verdict(on: response, to: sent)
    } catch {
      return .refused(error)
    }
  }
}
