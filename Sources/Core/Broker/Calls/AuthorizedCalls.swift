import BrokerAPI
import Grants
import OAuth
import Principals

/// Requests to a provider with an account's token, other than releases of the token.
@BrokerActor
final class AuthorizedCalls: Piece {
  let runtime: Runtime
  let accounts: Accounts
  let providers: ProviderDirectory
  let engine: RefreshEngine
  let tokens: TokenRequests
  let authorizer: Authorizer
  let approvals: Approvals
  let places: ProviderCallLimiter
  var stepUp: StepUpPolicy

  init(
    _ runtime: Runtime, accounts: Accounts, providers: ProviderDirectory, engine: RefreshEngine, tokens: TokenRequests,
    authorizer: Authorizer, approvals: Approvals, stepUp: StepUpPolicy
  ) {
    self.runtime = runtime
    self.accounts = accounts
    self.providers = providers
    self.engine = engine
    self.tokens = tokens
    self.authorizer = authorizer
    self.approvals = approvals
    self.stepUp = stepUp
    places = ProviderCallLimiter(runtime.waiters)
  }

  /// A request to an account's provider, with its intended destination.
  struct Question: Sendable {
    let account: AccountName
    let provider: any Provider
    /// The provider metadata that it needs.
    let needs: Needs
    let asker: TokenRequester
    /// Whether the caller still waits: nothing is begun for one that has gone.
    var isWanted: @Sendable () -> Bool = { true }
    /// The connection whose end ends the wait for a slot at the provider.
    var session: (any Session)?
    var deadline: Duration

    enum Needs {
      /// No destination.
      case nothing
      case metadata
      /// The metadata, which must name it.
      case endpoint(Endpoint)
    }

    var name: ProviderName { provider.name }
  }

  func question(
    _ account: AccountName, needs: Question.Needs, for asker: TokenRequester, until deadline: Duration
  ) throws(RPCError) -> Question {
    Question(account: account, provider: try provider(of: account), needs: needs, asker: asker, deadline: deadline)
  }

  // MARK: Where it goes

  /// The currently configured destination; an error if a reload made that another server.
  func target(of question: Question) async throws(RPCError) -> ProviderEndpoints {
    let name = question.name
    try checkUnmoved(question)
    let target: ProviderEndpoints
    switch question.needs {
    case .nothing:
      guard let connection = providers[name] else { throw providers.error(gone(name), at: name) }
      target = .init(
        connection: connection, provider: connection.provider, settings: connection.settings,
        metadata: ServerMetadata(issuer: ""))
    case .metadata: target = try await providers.endpoints(of: name, with: nil)
    case .endpoint(let endpoint): target = try await providers.endpoints(of: name, with: endpoint)
    }
    try checkUnmoved(question)
    return target
  }

  /// A token is sent only to the server that issued it. During a wait the account may have moved to another provider,
  /// or the provider to another server.
  func checkUnmoved(_ question: Question) throws(RPCError) {
    guard let issuer = providers.issuer(of: question.name) else { return }
    guard issuer == TokenIssuer(question.provider) else { throw providerMoved(question.account) }
  }

  /// The account's token and its permitted destination. The caller sends it before any other wait.
  func token(
    for question: Question
  ) async throws(RPCError) -> (token: SavedToken, saved: SavedGrant, target: ProviderEndpoints) {
    for _ in 0..<Limit.conflicts {
      let target = try await target(of: question)
      let (token, saved) = try await engine.ownToken(
        of: question.account, for: question.asker, until: question.deadline)
      guard saved.provider == question.name else { throw providerMoved(question.account) }
      if providers.isCurrent(target) { return (token, saved, target) }
    }
    throw providerMoved(question.account)
  }

  // MARK: Asking

  /// Waits until the question's caller may have the provider asked.
  func permit(for question: Question) async throws(RPCError) -> ProviderCallLimiter.Permit {
    let place = try await places.acquire(
      question.name, for: question.asker.holder, until: question.deadline, session: question.session)
    guard question.isWanted() else {
      place.release()
      throw RPCError(.timedOut, "the caller hung up before anything was sent")
    }
    return place
  }

  /// A conversation that a caller waits for, no longer than it said.
  func talk<Output: Sendable>(
    _ step: Step<Output>, _ target: ProviderEndpoints, in place: ProviderCallLimiter.Permit, until deadline: Duration
  ) async throws(RPCError) -> Output {
    switch try await outcome(step, target, in: place, until: deadline) {
    case .success(let output): return output
    case .failure(let failure): throw providers.error(failure, at: target.provider.name)
    }
  }

  /// A request that was sent with the account's token, and its answer.
  struct Attempt<Output: Sendable> {
    let token: SavedToken
    let saved: SavedGrant
    let target: ProviderEndpoints
    let answer: Result<Output, ProviderFailure>
  }

  /// Sends a request with the account's token.
  ///
  /// - Parameter step: called with the token, under the current permission and configuration.
  func attempt<Output: Sendable>(
    _ question: Question, _ step: (SavedToken, SavedGrant, ProviderEndpoints) throws(RPCError) -> Step<Output>
  ) async throws(RPCError) -> Attempt<Output> {
    let place = try await permit(for: question)
    let (token, saved, target, first): (SavedToken, SavedGrant, ProviderEndpoints, Step<Output>)
    do throws(RPCError) {
      (token, saved, target) = try await self.token(for: question)
      first = try step(token, saved, target)
    } catch {
      place.release()
      throw error
    }
    let answer = try await outcome(first, target, in: place, until: question.deadline)
    return Attempt(token: token, saved: saved, target: target, answer: answer)
  }

  /// Sends a request with the account's token. If it is refused it is refreshed, and the request repeated (RFC 6750
  /// §3.1).
  ///
  /// - Parameter step: called each time with the token, under the current permission and configuration.
  func ask<Output: Sendable>(
    _ question: Question, _ step: (SavedToken, SavedGrant, ProviderEndpoints) throws(RPCError) -> Step<Output>
  ) async throws(RPCError) -> Output {
    var renewed = APICall.Renewed()
    while true {
      let attempt: Attempt<Output> = try await attempt(question, step)
      switch attempt.answer {
      case .success(let output): return output
      case .failure(.tokenRefused(let message, let oauth)):
        try await replace(
          attempt, &renewed, for: question, message, oauth,
          isProvidersWord: isProvidersWord(question, on: attempt.token))
      case .failure(let failure): throw providers.error(failure, at: question.name)
      }
    }
  }

  /// Whether a refusal of the token there says that the token is invalid, and not only that it is not for that endpoint.
  private func isProvidersWord(_ question: Question, on token: SavedToken) -> Bool {
    switch question.needs {
    case .nothing: false
    case .metadata: true
    case .endpoint(.userinfo): TokenChecks.isForUserInfo(token, question.provider)
    case .endpoint: false
    }
  }

  func provider(of account: AccountName) throws(RPCError) -> any Provider {
    guard let grant = accounts[account] else { throw unknownAccount(account.rawValue) }
    guard let provider = providers[grant.saved.provider]?.provider else {
      throw accounts.misconfigured(grant, FailureRecord(message: "", at: now))
    }
    return provider
  }
}
