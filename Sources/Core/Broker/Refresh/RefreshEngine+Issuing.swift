import BrokerAPI
import Grants
import OAuth

// Refreshes of accounts that need no refresh token: client credentials, assertions, and another account's token.
extension RefreshEngine {
  /// The request of a refresh without a refresh token; a failure if it cannot be made now.
  func issue(
    _ grant: SavedGrant, _ key: SavedToken.Key, _ asked: RefreshRequestContext, _ metadata: ServerMetadata
  ) -> Result<Step<Issued>, ProviderFailure> {
    guard let source = accounts.sources[grant.account] else {
      return .failure(.misconfigured(message: "account \(grant.account) is not in the configuration", nil))
    }
    return .success(
      asked.provider.issue(
        source, to: grant, key: key, subject: asked.trade.subject, actor: asked.trade.actor, metadata: metadata))
  }

  // MARK: Narrowed tokens

  /// Trades the account's own access token for a narrowed one (RFC 8693 §2.1).
  func exchange(
    _ grant: Grant, _ key: SavedToken.Key, _ asked: RefreshRequestContext, _ metadata: ServerMetadata
  ) async -> Result<RefreshAnswer, ProviderFailure> {
    guard ProviderConnection.supportsExchange(metadata) else {
      return .failure(.misconfigured(message: asked.connection.narrowingObstacle, nil))
    }
    guard let token = grant.token, isOwn(token, grant.saved) else {
      // The request was not sent, so the provider is not suspected. The next token is from the current server.
      if let token = grant.token { _ = accounts[grant.saved.account]?.rejected(generation: token.generation, at: now) }
      return .failure(.blocked(message: "account \(grant.saved.account) has no token of the provider to exchange"))
    }
    let isIDToken = key.audience?.form == .idToken
    let request: TokenExchangeRequest
    do throws(TokenExchangeRequestError) {
      request = try TokenExchangeRequest(
        subjectToken: token.accessToken, subjectTokenType: .accessToken,
        requestedTokenType: isIDToken ? .idToken : .accessToken, audiences: key.audience.map { [$0.name] } ?? [],
        resources: key.resource.isEmpty ? [] : [key.resource], scopes: key.scopes)
    } catch {
      return .failure(.misconfigured(message: error.description, nil))
    }
    let step =
      isIDToken
      ? asked.provider.exchangeForIDToken(request, of: grant.saved, metadata: metadata)
      : asked.provider.exchange(request, of: grant.saved, metadata: metadata)
    return await asked.connection.converse(step, for: .refreshes).map {
      .issued(Issued(tokens: $0, idToken: nil, identity: nil, warning: nil))
    }
  }

  // MARK: Another account's token

  // Its refresh may need a place at the same provider: an account that trades it takes none before it has it.

  /// The tokens that an account trades for its own.
  struct Trade: Sendable {
    var subject: Secret?
    var actor: Secret?
  }

  /// The tokens to exchange now, none if the account exchanges none; nil: they must be fetched first.
  func trade(of account: AccountName) -> Trade? {
    guard case .exchange(let source)? = accounts.sources[account] else { return Trade() }
    guard let subject = tokenAtHand(source.from, for: account) else { return nil }
    guard let actor = source.actor else { return Trade(subject: subject) }
    return tokenAtHand(actor, for: account).map { Trade(subject: subject, actor: $0) }
  }

  private func tokenAtHand(_ account: AccountName, for derived: AccountName) -> Secret? {
    guard isTradable(account, for: derived), let grant = accounts[account] else { return nil }
    // A token that was just fetched is used with any remaining lifetime.
    let isFresh = trades.fetched[derived].map { uptime - $0 < Limit.subjectTokenKept } ?? false
    let answer =
      isFresh
      ? grant.lastResort(at: now) : grant.answer(minimumTTL: nil, at: now, policy: accounts.refreshPolicy)
    guard case .token(let token)? = answer, isOwn(token, grant.saved) else { return nil }
    return token.accessToken
  }

  /// Fetches the tokens to exchange. The account is not due during this time; its waiting callers check again at the
  /// end.
  func fetchTrade(for account: AccountName, at name: ProviderName) {
    guard case .exchange(let source)? = accounts.sources[account] else { return }
    trades.fetched[account] = nil
    trades.fetching.insert(account)
    queues[name]?.unwant(account)
    reschedule(account)
    leases.inFlight += 1
    Task {
      let failure = await fetch(source, for: account)
      trades.fetching.remove(account)
      // Else it is of another definition, or too late.
      if accounts.sources[account] == .exchange(source), !isDraining {
        if let failure { await blocked(account, failure) } else { trades.fetched[account] = uptime }
      }
      leases.inFlight -= 1
      reschedule(account)
      accounts.changed(account)
    }
  }

  private func fetch(_ source: ExchangeSource, for derived: AccountName) async -> ProviderFailure? {
    for account in [source.from, source.actor].compactMap(\.self) {
      guard isTradable(account, for: derived) else {
        return .blocked(message: "account \(account) is itself had by an exchange")
      }
      do throws(RPCError) {
        _ = try await ownToken(of: account, for: nil, until: uptime + Limit.subjectTokenWait)
      } catch {
        return .blocked(message: error.message)
      }
    }
    return nil
  }

  private func isTradable(_ account: AccountName, for derived: AccountName) -> Bool {
    accounts[account]?.saved.kind != .tokenExchange && account != derived
  }

  /// The refresh failed before it had a place.
  private func blocked(_ account: AccountName, _ failure: ProviderFailure) async {
    guard let connection = accounts[account].flatMap({ providers[$0.saved.provider] }),
      case .begun(let attempt, _) = accounts[account]?.beginRefresh(at: now, policy: accounts.refreshPolicy)
    else { return }
    let asked = RefreshRequestContext(connection, Trade())
    measures.refreshEnded(asked.provider.name, await refreshFailed(account, attempt, failure, asked), took: .zero)
  }
}
