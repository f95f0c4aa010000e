import BrokerAPI
import FoundationEssentials
import Grants
import Logging
import OAuth

// A callback: anything that could be forged is refused and leaves the login pending.
extension Logins {
  /// `login.handle_callback`.
  func handleCallback(_ params: LoginHandleCallback.Params) async throws(RPCError) -> LoginHandleCallback.Result {
    switch await handleCallback(url: params.url, from: nil) {
    case .completed(let id, _), .alreadyCompleted(let id), .actionRequired(let id, _):
      return .init(handled: true, login_id: id.rawValue, next_url: nil)
    case .redirect(let url): return .init(handled: true, login_id: nil, next_url: url)
    case .signedOut: return .init(handled: true, login_id: nil, next_url: nil)
    case .expired(let error), .failed(let error), .refused(let error): throw error
    case .foreign, .otherUser, .unknownUser: return .init(handled: false, login_id: nil, next_url: nil)
    }
  }

  private func displayName(_ provider: ProviderName) -> String {
    providers[provider]?.provider.description.displayName ?? provider.rawValue
  }

  private func completed(_ login: SavedLogin) -> CallbackOutcome {
    .completed(
      login.id,
      .init(
        account: login.account.rawValue, provider: displayName(login.provider), identity: identity(of: login.id),
        program: table[login.id]?.program))
  }

  private func failed(_ error: RPCError) -> CallbackOutcome {
    error.reason == .loginExpired && error.message.hasPrefix(Self.late) ? .expired(error) : .failed(error)
  }

  /// Another callback has taken the login.
  private func taken(_ id: LoginID) -> CallbackOutcome {
    guard let error = table[id]?.storeFailure else { return .alreadyCompleted(id) }
    return .actionRequired(id, message: "the sign-in is completed once the disk can be written: \(error.message)")
  }

  private func actionRequired(_ id: LoginID, _ action: LoginAction) -> CallbackOutcome {
    .actionRequired(id, message: actionView(action).message)
  }

  private var foreign: CallbackOutcome { .foreign(invalidCallback(CallbackError.wrongState.description)) }

  private func identity(of id: LoginID) -> SignedIn? {
    guard let who = table[id]?.identity else { return nil }
    let best = who.email ?? who.username ?? who.name ?? who.subject
    return SignedIn(bestName: best, name: who.name == best ? nil : who.name)
  }

  private func invalidCallback(_ message: String) -> RPCError { RPCError(.invalidCallback, message) }

  /// - Parameter browser: nil: the URL was passed on the socket.
  func handleCallback(url: String, from browser: BrowserUser?) async -> CallbackOutcome {
    guard !isDraining else { return .refused(shuttingDown()) }
    if let provider = endings.returned(url) { return .signedOut(provider: displayName(provider)) }
    let address = ReturnedAddress(url)
    let found: [LoginID]
    do throws(StoreError) { found = try await takeOverElsewhere(address) } catch { return .refused(storeError(error)) }
    defer { handBack(found) }
    if let login = login(namedBy: address) { return await receive(address, of: login, from: browser) }
    var next: URL?
    var unnamed: [Login] = []
    var objection: CallbackError?
    for login in table.all {
      switch claim(address, login.saved) {
      case .foreign: break
      case .named: return await receive(address, of: login.saved, from: browser)
      case .passOn(let url) where login.isPending:
        if let browser, let foreign = refusal(of: browser, login.saved) { return .init(foreign) }
        next = url
      case .passOn: break
      case .unnamed: unnamed.append(login)
      // Reported before faults of a URL that may belong to another login.
      case .refused(.wrongAddress): objection = .wrongAddress
      case .refused(let error): objection = objection ?? error
      }
    }
    if let next { return .redirect(url: next.absoluteString) }
    let waiting = unnamed.filter(\.isPending)
    let print = fingerprint(address)
    if address.query.contains(where: { $0.name == "code" }),
      let used = unnamed.first(where: { !$0.isPending && $0.answer == print })
    {
      // The code of an earlier login, which no other login can use.
      return await receive(address, of: used.saved, from: browser)
    } else if waiting.count > 1 {
      // The login would be a guess, and the address may be untrusted.
      objection = .unusable("it does not say which login it is of, and more than one waits for such an answer")
    } else if let login = waiting.first
      ?? unnamed.first(where: { $0.endedAt == nil || $0.answer == fingerprint(address) })
    {
      return await receive(address, of: login.saved, from: browser)
    } else if !unnamed.isEmpty {
      objection = .unusable("no pending login matches this callback; it may have expired")
    }
    if let objection { return .refused(invalidCallback(objection.description)) }
    return endings.isReturnAddress(url) ? .refused(endings.strayReturn) : foreign
  }

  /// The login whose `state` the address bears. The rest is for providers without one, and to tell what is wrong.
  private func login(namedBy address: ReturnedAddress) -> SavedLogin? {
    guard let state = address.claimedState, let login = table.login(ofState: state)?.saved,
      claim(address, login) == .named
    else { return nil }
    return login
  }

  private func fingerprint(_ address: ReturnedAddress) -> String { Secret(address.text).fingerprint }

  private func claim(_ address: ReturnedAddress, _ login: SavedLogin) -> CallbackClaim {
    if let provider = providers[login.provider]?.provider { return provider.claim(address, login: login) }
    // Its provider was removed from the configuration, as the returning browser is informed.
    return address.claimedState == login.state ? .named : .foreign
  }

  private func receive(
    _ address: ReturnedAddress, of login: SavedLogin, from browser: BrowserUser?
  ) async -> CallbackOutcome {
    let outcome = await handle(address, of: login, from: browser)
    return browser == nil ? outcome : outcome.naming(login)
  }

  private func handle(
    _ address: ReturnedAddress, of login: SavedLogin, from browser: BrowserUser?
  ) async -> CallbackOutcome {
    // First check: the login is not revealed to another user.
    if let browser, let foreign = refusal(of: browser, login) { return .init(foreign) }
    if let spent = spent(login.id) { return spent }
    // The clock of the broker that started it decides.
    guard login.expiresAt > now || !isOwn(login) else {
      return failed(await fail(login.id, RPCError(.loginExpired, Self.late, hint: again(login))))
    }
    // The answer has been accepted, and a browser may show the page again. But if it does not name the login, it may be
    // forged.
    if let action = login.action, !isUnfinishedRegistration(login) { return actionRequired(login.id, action) }
    return await handle(address, login)
  }

  /// The message of a login whose time has passed.
  static let late = "the login was not completed in time"

  private func again(_ login: SavedLogin) -> String {
    "Run `grantctl login \(login.provider) \(login.account)` again."
  }

  private func isUnfinishedRegistration(_ login: SavedLogin) -> Bool {
    guard case .registration = login.action else { return false }
    return providers[login.provider]?.provider.authorizationTraits.correlation == .singleLogin
  }

  /// The result of a callback for a login that no longer waits; nil: it waits.
  private func spent(_ id: LoginID) -> CallbackOutcome? {
    switch table[id]?.phase {
    case .pending: nil
    case .exchanging, .unsaved, .completed, .codeIssued: taken(id)
    case .failed(let error, _) where error.reason == .loginExpired: failed(error)
    case .failed(let error, _):
      .refused(invalidCallback("This login has ended already: \(error.message). Start a new one."))
    case nil: foreign
    }
  }

  private func handle(_ address: ReturnedAddress, _ login: SavedLogin) async -> CallbackOutcome {
    let target: ProviderEndpoints
    switch await providers.endpoints(of: login.provider) {
    case .success(let known): target = known
    case .failure(let failure): return .refused(providers.error(failure, at: login.provider))
    }
    if let spent = spent(login.id) { return spent }
    if let error = moved(login) { return failed(await fail(login.id, error)) }
    let sentAt = uptime
    let answer: LoginAnswer
    let result: Result<LoginAnswer, CallbackError>
    do throws(RPCError) { result = try await verify(address, login, target) } catch { return .refused(error) }
    switch result {
    case .success(let found): answer = found
    case .failure(let error):
      guard !error.leavesLoginPending, login.action == nil else {
        return .refused(invalidCallback(error.description))
      }
      // Another callback may have used the state in the interim.
      if let spent = spent(login.id) { return spent }
      return failed(await fail(login.id, refusal(error, of: login)))
    }
    if let spent = spent(login.id) { return spent }
    if login.action != nil, let told = await again(answer, login) { return told }
    // Nothing is spent yet: the login survives the restart.
    guard !isDraining else { return .refused(shuttingDown()) }
    table[login.id]?.phase = .exchanging
    table[login.id]?.answer = fingerprint(address)
    table.exchangesInFlight += 1
    defer { table.exchangesInFlight -= 1 }
    if let outcome = await spend(answer, login) { return outcome }
    let error = await finish(answer, login, target, sentAt: sentAt)
    if let error { return failed(error) }
    if let held = table[login.id], held.isPending, let action = held.saved.action {
      return actionRequired(login.id, action)
    }
    return table[login.id]?.storeFailure != nil ? taken(login.id) : completed(login)
  }

  /// The content of a callback. Nothing is spent yet, and the callback may be forged: a request that verifies it takes a
  /// slot like a request that begins a login.
  private func verify(
    _ address: ReturnedAddress, _ login: SavedLogin, _ target: ProviderEndpoints
  ) async throws(RPCError) -> Result<LoginAnswer, CallbackError> {
    let step = target.provider.answer(to: address, login: login, metadata: target.metadata)
    let holder = table[login.id]?.holder ?? system.holder(login.uid)
    switch try await begin(step, target, for: holder, session: nil) {
    case nil: throw providerChanged(login.provider)
    case .success(let result): return result
    case .failure(let failure): throw providers.error(failure, at: login.provider)
    }
  }

  /// The person or the provider refused, or the provider failed (RFC 6749 §4.1.2.1: these two stand for a 500 and a
  /// 503, which a redirect cannot have).
  private func refusal(_ error: CallbackError, of login: SavedLogin) -> RPCError {
    guard case .denied(let oauth) = error else { return RPCError(.loginCancelled, error.description) }
    let provider = login.provider
    let section = providers.section(of: provider)
    let again = "`grantctl login \(provider) \(login.account)`"
    let reload = "Then run `grantctl reload` and \(again)."
    func misconfigured(_ hint: String) -> RPCError {
      RPCError(
        .providerMisconfigured, "provider \(provider) refused the authorization request: \(oauth.summary)",
        hint: hint, oauth: OAuthDetail(oauth))
    }
    switch oauth.code {
    case .serverError, .temporarilyUnavailable:
      return RPCError(
        .temporarilyUnavailable, "provider \(provider) failed during the sign-in: \(oauth.summary)",
        hint: "Try again later with \(again).", oauth: OAuthDetail(oauth))
    case .invalidScope:
      return misconfigured(scopeHint(login.scopes, at: provider, of: login.account))
    case .invalidTarget:
      return misconfigured("Correct `resource` in \(section), or --resource of the login. \(reload)")
    case .unauthorizedClient, .invalidClient, .unsupportedResponseType:
      return misconfigured(
        "Check `client_id` in \(section), and that the provider registered this client for the authorization "
          + "code grant. \(reload)")
    default:
      let hint = providers[provider]?.provider.authorizationTraits.denialHint
      return RPCError(.loginDenied, error.description, hint: hint, oauth: OAuthDetail(oauth))
    }
  }

  /// The result of an answer for a login that already waits for a registration; nil: accepted, as every proven answer.
  private func again(_ answer: LoginAnswer, _ login: SavedLogin) async -> CallbackOutcome? {
    guard case .action(_, let memory) = answer, let known = login.action else { return nil }
    if memory == login.memory { return actionRequired(login.id, known) }
    // One of the two is untrusted, and the user's answer must not reach the wrong one.
    let error = RPCError(
      .invalidCallback,
      "received two different responses for one login",
      hint: "Start again with `grantctl login`, and open no other sign-in at the same time.")
    return failed(await fail(login.id, error))
  }

  /// A code is spent on disk before it is sent, so that no restart sends it twice, and no other broker. Nil: it is, or
  /// need not be.
  private func spend(_ answer: LoginAnswer, _ login: SavedLogin) async -> CallbackOutcome? {
    switch answer {
    case .code: break
    // Tokens are accepted once from a shared store; in a store with one owner, together with their account.
    case .issued: guard journal.isShared else { return nil }
    case .action: return nil
    }
    do throws(StoreError) {
      try await removeFromDisk(login.id, expecting: [.login(login.id)])
      return nil
    } catch {
      table[login.id]?.phase = .pending
      guard error == .conflict else { return .refused(storeError(error)) }
      // Another process has taken it, and completes it.
      await changedElsewhere([login.id])
      return taken(login.id)
    }
  }
}

extension LoginHandleCallback: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.logins.handleCallback(call.params)
  }
}
