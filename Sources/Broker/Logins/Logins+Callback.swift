import BrokerAPI
import Foundation
import Grants
import Logging
import OAuth

// A callback: whatever a stranger could have forged is refused and leaves the login pending.
extension Logins {
  enum Received {
    case completed(LoginID, AccountName, ProviderName)
    case already(LoginID)
    /// The login ended with this error.
    case ended(LoginID, RPCError)
    /// Nothing changed.
    case refused(RPCError)
    /// The person has to do something more.
    case waits(LoginID, LoginAction)
    /// The browser goes on.
    case passedOn(URL)
    /// A person came back from the end of a session.
    case signedOut(ProviderName)
    /// No login of ours.
    case foreign
  }

  /// From the callback endpoint.
  func handleCallback(url: String) async -> CallbackOutcome {
    switch await receive(url) {
    case .completed(_, let account, let provider):
      return .completed(account: account.rawValue, provider: displayName(provider))
    case .already: return .alreadyCompleted
    case .signedOut(let provider): return .signedOut(provider: displayName(provider))
    case .waits(_, let action): return .actionRequired(message: actionView(action).message)
    case .passedOn(let url): return .redirect(url: url.absoluteString)
    case .ended(_, let error) where error.reason == .loginDenied || error.reason == .loginCancelled:
      return .denied(message: error.message)
    case .ended(_, let error): return .failed(message: error.message, hint: error.hint ?? "")
    case .refused(let error):
      // The standing hint is for whoever pastes addresses; the message says what to do in a browser.
      let isStanding = error.hint == ErrorReason.invalidCallback.defaultHint
      return .refused(message: error.message, hint: isStanding ? "" : error.hint ?? "")
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
    case .waits(let id, _): return .init(handled: true, login_id: id.rawValue, next_url: nil)
    case .passedOn(let url): return .init(handled: true, login_id: nil, next_url: url.absoluteString)
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
    if let provider = endings.returned(url) { return .signedOut(provider) }
    let address = ReturnedAddress(url)
    switch claims(address) {
    case .login(let login):
      if let spent = spent(login.id) { return spent }
      guard login.expiresAt > now else {
        let error = RPCError(.loginExpired, "nobody completed the login in time")
        await end(login.id, .failed(error))
        return .ended(login.id, error)
      }
      // What came back has been taken, and a browser may show the page again. But where nothing in it names the login, it
      // may have been a stranger's.
      if let action = login.action, !isUnfinishedRegistration(login) { return .waits(login.id, action) }
      return await take(address, login)
    case .passOn(let url): return .passedOn(url)
    case .refused(let error): return .refused(invalidCallback(error.description))
    case .foreign: return endings.isReturnAddress(url) ? .refused(endings.strayReturn) : .foreign
    }
  }

  private func isUnfinishedRegistration(_ login: SavedLogin) -> Bool {
    guard case .registration = login.action else { return false }
    return providers[login.provider]?.provider.about.isOneLoginAtATime ?? false
  }

  private enum Claimed {
    case login(SavedLogin)
    case passOn(URL)
    case refused(CallbackError)
    case foreign
  }

  /// Whose an address is. What names a login comes before what only fits one.
  private func claims(_ address: ReturnedAddress) -> Claimed {
    var next: URL?
    var unnamed: [Login] = []
    var refusal: CallbackError?
    for login in table.values {
      switch claim(address, login.saved) {
      case .foreign: break
      case .named: return .login(login.saved)
      case .passOn(let url) where login.isPending: next = url
      case .passOn: break
      case .unnamed: unnamed.append(login)
      // Told in preference to what is wrong with an address that may be for another login.
      case .refused(.wrongAddress): refusal = .wrongAddress
      case .refused(let error): refusal = refusal ?? error
      }
    }
    if let next { return .passOn(next) }
    let waiting = unnamed.filter(\.isPending)
    // It would be a guess, and it could be a stranger who makes it.
    if waiting.count > 1 {
      return .refused(.unusable("it does not say which login it is of, and more than one waits for such an answer"))
    }
    if let login = waiting.first ?? unnamed.first { return .login(login.saved) }
    return refusal.map { .refused($0) } ?? .foreign
  }

  private func claim(_ address: ReturnedAddress, _ login: SavedLogin) -> CallbackClaim {
    if let provider = providers[login.provider]?.provider { return provider.claim(address, login: login) }
    // Its provider is gone from the configuration, as whoever comes back is told.
    return address.claimedState == login.state ? .named : .foreign
  }

  /// What a callback for a login that no longer waits comes to; nil where it waits.
  private func spent(_ id: LoginID) -> Received? {
    switch table[id]?.phase {
    case .pending: nil
    case .exchanging, .ended(.completed, _), .ended(.code, _): .already(id)
    case .ended(.failed(let error), _):
      .refused(invalidCallback("This login has ended already: \(error.message). Start a new one."))
    case nil: .foreign
    }
  }

  private func take(_ address: ReturnedAddress, _ login: SavedLogin) async -> Received {
    guard let provider = providers[login.provider]?.provider else {
      return .refused(providerError(gone(login.provider), provider: login.provider))
    }
    let metadata: ServerMetadata
    switch await providers.metadata(of: login.provider) {
    case .success(let known): metadata = known
    case .failure(let failure): return .refused(providerError(failure, provider: login.provider))
    }
    let sentAt = now
    let answer: LoginAnswer
    switch await providers.converse(provider.answer(to: address, login: login, metadata: metadata), with: provider.name)
    {
    case .failure(let failure): return .refused(providerError(failure, provider: provider.name))
    case .success(.success(let found)): answer = found
    case .success(.failure(let error)):
      guard !error.leavesLoginPending, login.action == nil else {
        return .refused(invalidCallback(error.description))
      }
      // The state may have been spent by another callback meanwhile.
      if let spent = spent(login.id) { return spent }
      let denied =
        if case .denied(let oauth) = error {
          RPCError(.loginDenied, error.description, oauth: OAuthDetail(oauth))
        } else {
          RPCError(.loginCancelled, error.description)
        }
      await end(login.id, .failed(denied))
      return .ended(login.id, denied)
    }
    if login.action != nil, let told = await again(answer, login) { return told }
    if let spent = spent(login.id) { return spent }
    // Nothing is spent yet: the login survives the restart.
    guard !isDraining else { return .refused(shuttingDown()) }
    table[login.id]?.phase = .exchanging
    exchangesInFlight += 1
    defer { exchangesInFlight -= 1 }
    guard case .code(let code, let memory) = answer else {
      return await settle(answer, login, provider, sentAt: sentAt)
    }
    var login = login
    login.memory.merge(memory) { $1 }
    return await exchange(code, login, provider, metadata)
  }

  /// What an answer comes to for a login that waits for a registration already; nil: it is taken, as what is proven is.
  private func again(_ answer: LoginAnswer, _ login: SavedLogin) async -> Received? {
    guard case .action(_, let memory) = answer, let known = login.action else { return nil }
    if memory == login.memory { return .waits(login.id, known) }
    // One of the two is a stranger's, and what the person says must not go to the wrong one.
    let error = RPCError(
      .invalidCallback,
      "two different answers came for one login, and nothing tells which is the person's",
      hint: "Start again with `grantctl login`, and open nothing else meanwhile.")
    await end(login.id, .failed(error))
    return .ended(login.id, error)
  }

  private func exchange(
    _ code: Secret, _ login: SavedLogin, _ provider: any Provider, _ metadata: ServerMetadata
  ) async -> Received {
    // Spent on disk before the code is sent, so that no restart sends it twice.
    do throws(StoreError) {
      try await journal.commit([.removeLogin(login.id)])
    } catch {
      table[login.id]?.phase = .pending
      return .refused(storeError(error))
    }
    guard login.exchangesCode else {
      await end(login.id, .code(code))
      return .completed(login.id, login.account, login.provider)
    }
    let sentAt = now
    switch await providers.converse(
      provider.exchange(code: code, login: login, metadata: metadata), with: provider.name)
    {
    case .failure(let failure):
      let error = exchangeError(failure, provider: provider.name)
      await end(login.id, .failed(error))
      return .ended(login.id, error)
    case .success(let answer): return await settle(answer, login, provider, sentAt: sentAt)
    }
  }

  /// What a login has come to: its tokens, or one more thing for the person to do.
  func settle(
    _ answer: LoginAnswer, _ login: SavedLogin, _ provider: any Provider, sentAt: Timestamp
  ) async -> Received {
    switch answer {
    case .issued(let issued):
      let kind = provider.about.answersInFragment ? GrantKind.implicit : .authorizationCode
      if let error = await adopt(issued, login, provider, sentAt: sentAt, kind: kind) {
        await end(login.id, .failed(error))
        return .ended(login.id, error)
      }
      await end(login.id, .completed(login.account))
      return .completed(login.id, login.account, login.provider)
    case .action(let action, let memory): return await hold(login, action, memory, provider)
    case .code:
      let error = RPCError(.providerError, "provider \(provider.name): one code was answered by another")
      await end(login.id, .failed(error))
      return .ended(login.id, error)
    }
  }

  /// `invalid_grant` here is about the code, not about a grant.
  private func exchangeError(_ failure: ProviderFailure, provider: ProviderName) -> RPCError {
    var error = providerError(failure, provider: provider)
    if case .ended = failure {
      error = RPCError(.providerError, error.message, hint: "Start again with `grantctl login`.", oauth: error.oauth)
    } else if case .rejected = failure {
      error.hint = "The code is spent: start again with `grantctl login`."
    } else if error.reason == .temporarilyUnavailable {
      error.hint = "The code cannot be sent twice: start again with `grantctl login` once the provider answers."
    }
    return error
  }
}
