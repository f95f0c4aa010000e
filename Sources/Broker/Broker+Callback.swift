import BrokerAPI
import Foundation
import Grants
import Logging
import OAuth

// A callback: whatever a stranger could have forged is refused and leaves the login pending.
extension Broker: CallbackHandler {
  enum Received {
    case completed(LoginID, AccountName, ProviderName)
    case already(LoginID)
    /// The login ended with this error.
    case ended(LoginID, RPCError)
    /// Nothing changed.
    case refused(RPCError)
    /// A person came back from the end of a session.
    case signedOut(ProviderName)
    /// No login of ours.
    case foreign
  }

  /// From the callback endpoint.
  public func handleCallback(url: String) async -> CallbackOutcome {
    switch await receive(url) {
    case .completed(_, let account, let provider):
      return .completed(account: account.rawValue, provider: displayName(provider))
    case .already: return .alreadyCompleted
    case .signedOut(let provider): return .signedOut(provider: displayName(provider))
    case .ended(_, let error) where error.reason == .loginDenied: return .denied(message: error.message)
    case .ended(_, let error): return .failed(message: error.message, hint: error.hint ?? "")
    case .refused(let error): return .refused(message: error.message, hint: error.hint ?? "")
    case .foreign:
      let error = invalidCallback(CallbackError.wrongState.description)
      return .refused(message: error.message, hint: error.hint ?? "")
    }
  }

  /// `login.handle_callback`.
  func handleCallback(_ params: LoginHandleCallback.Params) async throws(RPCError) -> LoginHandleCallback.Result {
    switch await receive(params.url) {
    case .completed(let id, _, _), .already(let id):
      return .init(handled: true, login_id: id.rawValue, next_url: nil)
    case .signedOut: return .init(handled: true, login_id: nil, next_url: nil)
    case .ended(_, let error), .refused(let error): throw error
    case .foreign: return .init(handled: false, login_id: nil, next_url: nil)
    }
  }

  private func displayName(_ provider: ProviderName) -> String {
    providers[provider]?.provider.about.displayName ?? provider.rawValue
  }

  private func invalidCallback(_ message: String) -> RPCError { RPCError(.invalidCallback, message) }

  func receive(_ url: String) async -> Received {
    guard !isDraining else { return .refused(shuttingDown()) }
    if let provider = returned(url) { return .signedOut(provider) }
    let response: AuthorizationResponse
    do throws(CallbackError) {
      response = try AuthorizationResponse.parse(url)
    } catch {
      return stray(url, error)
    }
    // Of a signed answer the claim alone; it is verified before anything of it counts.
    guard let state = response.state ?? response.response.flatMap(JARM.claimedState) else {
      return stray(url, .missingState)
    }
    // The comparison of secrets takes the same time for all, and so does the search.
    let matching = logins.values.filter { $0.saved.state == state }
    guard let login = matching.first else {
      return stray(url, .wrongState)
    }
    if let spent = spent(login.saved.id) { return spent }
    guard (try? RedirectURI(login.saved.redirectURI))?.matches(url) == true else {
      return .refused(invalidCallback("This address is not the redirection endpoint that the login was started with."))
    }
    guard login.saved.expiresAt > now else {
      let error = RPCError(.loginExpired, "nobody completed the login in time")
      await end(login.saved.id, .failed(error))
      return .ended(login.saved.id, error)
    }
    return await take(url, login.saved)
  }

  /// What a callback for a login that no longer waits comes to; nil where it waits.
  private func spent(_ id: LoginID) -> Received? {
    switch logins[id]?.phase {
    case .pending: nil
    case .exchanging, .ended(.completed, _): .already(id)
    case .ended(.failed(let error), _):
      .refused(invalidCallback("This login has ended already: \(error.message). Start a new one."))
    case nil: .foreign
    }
  }

  /// What belongs to no login that is known.
  private func stray(_ url: String, _ error: CallbackError) -> Received {
    if isAwaited(url) { return .refused(invalidCallback(error.description)) }
    return isReturnAddress(url) ? .refused(strayReturn) : .foreign
  }

  /// Whether the address could be meant for a login that waits.
  private func isAwaited(_ url: String) -> Bool {
    logins.values.contains { (try? RedirectURI($0.saved.redirectURI))?.matches(url) == true }
  }

  private func take(_ url: String, _ login: SavedLogin) async -> Received {
    guard let provider = providers[login.provider]?.provider else {
      return .refused(error(gone(login.provider), provider: login.provider))
    }
    let metadata: ServerMetadata
    switch await self.metadata(of: login.provider) {
    case .success(let known): metadata = known
    case .failure(let failure): return .refused(error(failure, provider: login.provider))
    }
    let code: Secret
    switch await converse(provider.code(from: url, login: login, metadata: metadata), with: provider.name) {
    case .failure(let failure): return .refused(error(failure, provider: provider.name))
    case .success(.success(let found)): code = found
    case .success(.failure(let error)):
      guard case .denied(let oauth) = error else { return .refused(invalidCallback(error.description)) }
      // The state may have been spent by another callback meanwhile.
      if let spent = spent(login.id) { return spent }
      let denied = RPCError(.loginDenied, error.description, oauth: OAuthDetail(oauth))
      await end(login.id, .failed(denied))
      return .ended(login.id, denied)
    }
    if let spent = spent(login.id) { return spent }
    // Nothing is spent yet: the login survives the restart.
    guard !isDraining else { return .refused(shuttingDown()) }
    logins[login.id]?.phase = .exchanging
    exchangesInFlight += 1
    let received = await exchange(code, login, provider, metadata)
    exchangesInFlight -= 1
    return received
  }

  private func exchange(
    _ code: Secret, _ login: SavedLogin, _ provider: any Provider, _ metadata: ServerMetadata
  ) async -> Received {
    // Spent on disk before the code is sent, so that no restart sends it twice.
    do throws(StoreError) {
      try await commit([.removeLogin(login.id)])
    } catch {
      logins[login.id]?.phase = .pending
      return .refused(storeError(error))
    }
    let sentAt = now
    switch await converse(provider.exchange(code: code, login: login, metadata: metadata), with: provider.name) {
    case .failure(let failure):
      let error = exchangeError(failure, provider: provider.name)
      await end(login.id, .failed(error))
      return .ended(login.id, error)
    case .success(let issued):
      if let error = await adopt(issued, login, provider, sentAt: sentAt) {
        await end(login.id, .failed(error))
        return .ended(login.id, error)
      }
      await end(login.id, .completed(login.account))
      return .completed(login.id, login.account, login.provider)
    }
  }

  /// `invalid_grant` here is about the code, not about a grant.
  private func exchangeError(_ failure: ProviderFailure, provider: ProviderName) -> RPCError {
    var error = self.error(failure, provider: provider)
    if case .ended = failure {
      error = RPCError(.providerError, error.message, hint: "Start again with `grantctl login`.", oauth: error.oauth)
    } else if error.reason == .temporarilyUnavailable {
      error.hint = "The code cannot be sent twice: start again with `grantctl login` once the provider answers."
    }
    return error
  }

  /// Makes the tokens of a login the account's; an error where they cannot be.
  func adopt(
    _ issued: Issued, _ login: SavedLogin, _ provider: any Provider, sentAt: Timestamp,
    kind: GrantKind = .authorizationCode
  ) async -> RPCError? {
    if issued.tokens.refreshToken == nil { await refreshEnds(login.account) }
    await takeTurn(login.account)
    defer { leaveTurn(login.account) }
    let before = grants[login.account]
    if let old = before?.saved,
      old.provider != login.provider || isAnotherPerson(issued.identity, old.identity, provider.about)
    {
      if !isShared(issued, login) { await queueRevocations(tokens(issued), provider: login.provider) }
      let signedIn = issued.identity.map { $0.email ?? $0.username ?? $0.subject } ?? "somebody else"
      let expected = old.identity.map { $0.email ?? $0.username ?? $0.subject } ?? old.provider.rawValue
      return RPCError(
        .loginDenied, "account \(login.account) belongs to \(expected), but \(signedIn) signed in",
        hint: "Sign in as \(expected), choose another account name, or `grantctl logout \(login.account)` first.")
    }
    let saved = grant(issued, login, provider.about, before: before?.saved, sentAt: sentAt, kind: kind)
    let token = SavedToken(issued.tokens, grant: saved, issuedAt: sentAt)
    for attempt in 1...5 {
      do throws(StoreError) {
        var changes = [Change.putGrant(saved), .removeTokens(login.account), .putToken(token), .removeLogin(login.id)]
        if saved.refreshToken != before?.saved.refreshToken { changes.append(.removeIntent(login.account)) }
        try await commit(changes)
        break
      } catch {
        guard attempt < 5 else {
          if !isShared(issued, login) { await queueRevocations(tokens(issued), provider: login.provider) }
          return storeError(error)
        }
        await surroundings.sleep(.seconds(1))
      }
    }
    let jitter = surroundings.jitter()
    if grants[login.account] != nil {
      grants[login.account]?.replaced(by: saved, token: token, jitter: jitter)
    } else {
      var grant = Grant(saved: saved, token: token, jitter: jitter)
      grant.isOfThisRun()
      grants[login.account] = grant
    }
    providers[login.provider]?.suspension = nil
    providers[login.provider]?.lastError = nil
    // It answered: whatever waits for it need not wait.
    providers[login.provider]?.gate.recheck(at: uptime)
    changed(login.account)
    logger.notice(
      "signed in \(login.account)", metadata: ["account": "\(login.account)", "provider": "\(login.provider)"])
    return nil
  }

  /// Where a login brings no refresh token the account's own goes on: then a rotation of it under way must not be lost.
  private func refreshEnds(_ account: AccountName) async {
    let deadline = uptime + Timeouts.maximum
    for _ in 0..<Limit.rounds {
      guard let grant = grants[account], grant.phase != .idle, uptime < deadline, !isStopped else { return }
      await wait(for: .account(account), until: deadline)
    }
  }

  private func tokens(_ issued: Issued) -> [(token: Secret, hint: String)] {
    (issued.tokens.refreshToken.map { [($0, "refresh_token")] } ?? []) + [(issued.tokens.accessToken, "access_token")]
  }

  /// Where the provider says who signs in, a login that does not is another's.
  private func isAnotherPerson(_ new: Identity?, _ old: Identity?, _ about: ProviderAbout) -> Bool {
    guard let old else { return false }
    guard let new else { return about.usesIDTokens }
    return new.subject != old.subject
  }

  /// Whether a revocation could end another grant that is wanted: some providers end all that the person gave this
  /// client, not the one token.
  private func isShared(_ issued: Issued, _ login: SavedLogin) -> Bool {
    grants.values.contains { grant in
      grant.saved.provider == login.provider
        && (issued.identity == nil || grant.saved.identity == nil
          || grant.saved.identity?.subject == issued.identity?.subject)
    }
  }

  private func grant(
    _ issued: Issued, _ login: SavedLogin, _ about: ProviderAbout, before: SavedGrant?, sentAt: Timestamp,
    kind: GrantKind
  ) -> SavedGrant {
    let tokens = issued.tokens
    // A provider may give a refresh token with the first consent only; the old one is then still good.
    let refreshToken = tokens.refreshToken.flatMap { $0.isEmpty ? nil : $0 } ?? before?.refreshToken
    let lifetime = tokens.refreshToken == nil ? nil : tokens.refreshTokenExpiresIn ?? about.refreshTokenLifetime
    return SavedGrant(
      account: login.account, provider: login.provider, identity: issued.identity ?? before?.identity,
      requestedScopes: login.scopes, grantedScopes: tokens.scope ?? login.scopes, resource: login.resource,
      refreshToken: refreshToken,
      refreshTokenExpiresAt: lifetime.map { sentAt + $0 }
        ?? (tokens.refreshToken == nil ? before?.refreshTokenExpiresAt : nil),
      refreshTokenIssuedAt: refreshToken == before?.refreshToken ? before?.refreshTokenIssuedAt : sentAt,
      idToken: issued.idToken, generation: (before?.generation ?? 0) + 1,
      createdAt: before?.createdAt ?? now, loggedInAt: now, extra: tokens.extra.isEmpty ? nil : tokens.extra,
      kind: kind, dpopKey: login.dpopKey)
  }
}
