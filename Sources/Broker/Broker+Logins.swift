import BrokerAPI
import Foundation
import Grants
import Logging
import OAuth

// The walk of a login: started → pending on disk → a person signs in → the callback, taken by its state once → exchange →
// checks → commit → everybody sees it.
extension Broker {
  func startLogin(_ params: LoginStart.Params, caller: Caller) async throws(RPCError) -> LoginStart.Result {
    guard !isDraining else { throw shuttingDown() }
    let name = try providerName(params.provider)
    guard let provider = providers[name]?.provider else { throw unknownProvider(params.provider) }
    let account = try accountName(params.account ?? params.provider)
    try checkLogin(params, account, provider: name, caller: caller)
    let kinds = try kinds(params.destinations)
    let redirectURI = kinds == ["device"] ? nil : try redirectURI(provider.about)
    let metadata: ServerMetadata
    switch await self.metadata(of: name) {
    case .success(let known): metadata = known
    case .failure(let failure): throw error(failure, provider: name)
    }
    var request = loginRequest(params, account, provider.about, redirectURI)
    var destinations: [Destination] = []
    var warnings: [String] = []
    if let redirectURI {
      let usable = try usable(kinds, redirectURI, isAlone: !kinds.contains("device"))
      if !usable.isEmpty {
        let place = try await place(request, provider, metadata)
        warnings += place.warnings
        destinations = usable.map {
          Destination(kind: $0, url: place.url.absoluteString, redirect_uri: redirectURI.rawValue)
        }
      }
    }
    var device: DevicePlace?
    if let rank = kinds.firstIndex(of: "device") {
      let place = try await devicePlace(request, provider, metadata)
      warnings += place.warnings
      destinations.insert(destination(place), at: min(rank, destinations.count))
      device = place
    }
    if destinations.allSatisfy({ $0.kind == "device" }) { request.redirectURI = nil }
    let login = try await save(request, params, account, device: device, provider: provider, caller: caller)
    if login.device != nil { startPolling(login.id) }
    return .init(
      login_id: login.id.rawValue, account: account.rawValue, expires_at: login.expiresAt.seconds,
      destinations: destinations, warnings: warnings)
  }

  private func place(
    _ request: LoginRequest, _ provider: any Provider, _ metadata: ServerMetadata
  ) async throws(RPCError) -> AuthorizationPlace {
    switch await converse(provider.authorization(request, metadata: metadata), with: provider.name) {
    case .success(let place): return place
    case .failure(.invalid(let message, nil)): throw .invalidParams(message)
    case .failure(let failure): throw error(failure, provider: provider.name)
    }
  }

  private func devicePlace(
    _ request: LoginRequest, _ provider: any Provider, _ metadata: ServerMetadata
  ) async throws(RPCError) -> DevicePlace {
    try demand(.deviceAuthorization, of: metadata, provider.name)
    switch await converse(provider.deviceAuthorization(request, metadata: metadata), with: provider.name) {
    case .success(let place): return place
    case .failure(let failure): throw error(failure, provider: provider.name)
    }
  }

  private func destination(_ place: DevicePlace) -> Destination {
    Destination(
      kind: "device", url: place.device.verificationURIComplete ?? place.device.verificationURI,
      user_code: place.device.userCode, verification_uri: place.device.verificationURI,
      verification_uri_complete: place.device.verificationURIComplete,
      expires_at: (now + place.expiresIn).seconds, interval: place.device.interval.wholeSeconds)
  }

  /// What would change the request's meaning, or what is checked when the browser comes back.
  private static let ownParameters: Set<String> = [
    "scope", "resource", "request", "request_uri", "response_mode", "response_type", "nonce", "state", "client_id",
    "client_secret", "redirect_uri", "code_challenge", "code_challenge_method", "dpop_jkt",
  ]

  private func checkLogin(
    _ params: LoginStart.Params, _ account: AccountName, provider: ProviderName, caller: Caller
  ) throws(RPCError) {
    try checkName(account, provider: provider)
    if let own = params.params?.keys.sorted().first(where: Self.ownParameters.contains) {
      throw .invalidParams(
        "params.params: the broker sets \(own) itself", hint: "Use the method's own parameters (`scopes`, `resource`).")
    }
    guard (params.params?.count ?? 0) <= Limit.parameters else {
      throw .invalidParams("params.params: more than \(Limit.parameters) members")
    }
    try checkRoom(account, caller: caller)
  }

  /// Whether a login may make, or renew, an account of this name.
  func checkName(_ account: AccountName, provider: ProviderName) throws(RPCError) {
    if let grant = grants[account], grant.saved.kind.needsNobody {
      throw .invalidParams(
        "account \(account) is declared in the configuration and needs nobody to sign in",
        hint: "Choose another name, or remove [account.\(account)] from the configuration.")
    }
    if let grant = grants[account], grant.saved.provider != provider {
      throw .invalidParams(
        "account \(account) is at provider \(grant.saved.provider)",
        hint: "Choose another name, or forget it first with `grantctl logout \(account)`.")
    }
  }

  func checkRoom(_ account: AccountName, caller: Caller) throws(RPCError) {
    let pending = logins.values.filter { $0.endedAt == nil }
    guard pending.count < Limit.pendingLogins,
      pending.filter({ $0.saved.uid == caller.uid }).count < Limit.pendingLoginsPerUser,
      grants[account] != nil || grants.count < Limit.accounts
    else {
      throw RPCError(
        .overloaded, "too many pending logins or accounts",
        hint: "Finish or cancel logins (`grantctl login --list`), or wait until they expire.")
    }
  }

  private func loginRequest(
    _ params: LoginStart.Params, _ account: AccountName, _ about: ProviderAbout, _ redirectURI: RedirectURI?
  ) -> LoginRequest {
    var scopes = params.scopes ?? about.scopes
    // Without an ID token nobody could say who signed in.
    if about.usesIDTokens, !scopes.contains("openid") { scopes.insert("openid", at: 0) }
    return LoginRequest(
      scopes: scopes, resource: params.resource ?? about.resource, redirectURI: redirectURI,
      state: Secret(surroundings.token(bytes: 32)),
      nonce: about.usesIDTokens ? Secret(surroundings.token(bytes: 32)) : nil,
      verifier: about.usesPKCE ? CodeVerifier(randomBytes: surroundings.randomBytes(32)) : nil, prompt: params.prompt,
      loginHint: params.login_hint, parameters: params.params ?? [:],
      dpopKey: about.usesDPoP ? dpopKey(of: account) : nil, madeAt: now, identifier: surroundings.token(bytes: 16))
  }

  /// The key of before where there is one: a refresh token that is kept is bound to it.
  func dpopKey(of account: AccountName) -> DPoPKey {
    grants[account]?.saved.dpopKey.flatMap(DPoPKey.init(raw:)) ?? DPoPKey(randomBytes: surroundings.randomBytes(32))
  }

  private func save(
    _ request: LoginRequest, _ params: LoginStart.Params, _ account: AccountName, device: DevicePlace?,
    provider: any Provider, caller: Caller
  ) async throws(RPCError) -> SavedLogin {
    guard let id = LoginID(rawValue: surroundings.token(bytes: 16)) else { throw .internalError("no login id") }
    let lifetime = device.map { place in
      let own = min(place.expiresIn, Limit.longestLogin)
      return request.redirectURI == nil ? own : max(own, provider.about.loginLifetime)
    }
    let saved = SavedLogin(
      id: id, provider: provider.name, account: account, state: request.state, nonce: request.nonce,
      verifier: request.verifier?.secret, redirectURI: request.redirectURI?.rawValue ?? "", scopes: request.scopes,
      resource: request.resource, maxAge: params.params?["max_age"].flatMap { Int64($0) } ?? provider.about.maxAge,
      uid: caller.uid,
      startedAt: now, expiresAt: now + (lifetime ?? provider.about.loginLifetime), dpopKey: request.dpopKey?.raw,
      device: device?.device)
    // Others have begun meanwhile, and it takes its room before it is on disk. Its state is not out yet.
    try checkRoom(account, caller: caller)
    logins[id] = Login(saved: saved, phase: .pending, isOfThisRun: true)
    do throws(StoreError) {
      try await commit([.putLogin(saved)])
    } catch {
      logins[id] = nil
      throw storeError(error)
    }
    nudge?.yield()
    emit(login: saved, .loginStarted)
    return saved
  }

  private func redirectURI(_ about: ProviderAbout) throws(RPCError) -> RedirectURI {
    switch about.redirect {
    case .fixed(let uri): return uri
    case .loopback(let host, let path):
      guard let callbackPort else {
        throw RPCError(
          .providerMisconfigured, "the callback endpoint does not listen, so the provider could not call back",
          hint: "See the log: its port may be taken, or [callback] has enabled = false. Or set redirect_uri in the "
            + "provider's section.")
      }
      do throws(RedirectURIError) {
        return try RedirectURI("http://\(host):\(callbackPort)\(path)")
      } catch {
        throw RPCError(.providerMisconfigured, error.description)
      }
    }
  }

  /// The kinds that were asked for, each once.
  private func kinds(_ asked: [String]?) throws(RPCError) -> [String] {
    if let unknown = asked?.first(where: { !["browser", "manual", "device"].contains($0) }) {
      throw .invalidParams(
        "params.destinations: expected `browser`, `manual` or `device`, got \(unknown.prefix(32).debugDescription)")
    }
    var kinds: [String] = []
    for kind in asked ?? ["browser", "manual"] where !kinds.contains(kind) { kinds.append(kind) }
    return kinds
  }

  /// Those of them that end at the redirect URI.
  private func usable(_ kinds: [String], _ redirectURI: RedirectURI, isAlone: Bool) throws(RPCError) -> [String] {
    let port = redirectURI.port ?? 80
    let reachable = redirectURI.isLoopback && (port == callbackPort || fixedCallbackPorts.contains(port))
    let possible = kinds.filter { $0 == "manual" || $0 == "browser" && reachable }
    guard !possible.isEmpty || !isAlone else {
      throw .invalidParams(
        "params.destinations: a browser cannot call back to \(redirectURI)",
        hint: "Allow `manual`: open the URL, then hand over the address it ends at.")
    }
    return possible
  }

  // MARK: Waiting, cancelling, listing

  func login(_ text: String, caller: Caller) throws(RPCError) -> Login {
    guard let id = LoginID(rawValue: text), let login = logins[id],
      login.saved.uid == caller.uid || configuration.policy.isPrivileged(caller)
    else { throw RPCError(.unknownLogin, "no such login") }
    return login
  }

  func waitForLogin(_ params: LoginWait.Params, caller: Caller) async throws(RPCError) -> LoginWait.Result {
    let deadline = uptime + (try Timeouts.duration(params.timeout))
    for _ in 0..<Limit.rounds {
      let login = try login(params.login_id, caller: caller)
      if case .ended(let outcome, _) = login.phase {
        switch outcome {
        case .failed(let error): throw error
        case .completed(let account):
          return .init(login_id: params.login_id, state: .completed, account: grants[account].map(view))
        }
      }
      guard uptime < deadline else { break }
      guard waiting.count < Limit.waiters else { throw RPCError(.overloaded, "too many requests are waiting") }
      guard !isDraining else { throw shuttingDown() }
      await wait(for: .login(login.saved.id), until: deadline)
    }
    return .init(login_id: params.login_id, state: .pending, account: nil)
  }

  func cancelLogin(_ params: LoginCancel.Params, caller: Caller) async throws(RPCError) -> LoginCancel.Result {
    let login = try login(params.login_id, caller: caller)
    guard login.isPending else { return .init(cancelled: false) }
    await end(login.saved.id, .failed(RPCError(.loginCancelled, "the login was cancelled")))
    return .init(cancelled: true)
  }

  func loginList(caller: Caller) -> LoginList.Result {
    let seen = logins.values.filter {
      $0.endedAt == nil && ($0.saved.uid == caller.uid || configuration.policy.isPrivileged(caller))
    }
    return .init(
      logins: seen.sorted { $0.saved.startedAt < $1.saved.startedAt }.map {
        .init(
          login_id: $0.saved.id.rawValue, provider: $0.saved.provider.rawValue, account: $0.saved.account.rawValue,
          state: .pending, started_at: $0.saved.startedAt.seconds, expires_at: $0.saved.expiresAt.seconds)
      })
  }

  /// Nobody came in time; one whose code is being traded is not ended by that.
  func expire(_ id: LoginID) async {
    guard logins[id]?.isPending == true else { return }
    await end(id, .failed(RPCError(.loginExpired, "nobody completed the login in time")))
  }

  /// Ends a login in memory and on disk, and tells whoever waits.
  func end(_ id: LoginID, _ outcome: Login.Outcome) async {
    guard let login = logins[id], login.endedAt == nil else { return }
    logins[id]?.phase = .ended(outcome, at: now)
    waiting.wake(.login(id))
    switch outcome {
    case .completed:
      measures.loginEnded(login.saved.provider, succeeded: true)
      emit(login: login.saved, .loginCompleted)
    case .failed(let error):
      measures.loginEnded(login.saved.provider, succeeded: false)
      emit(login: login.saved, .loginFailed, error)
      logger.notice(
        "login of \(login.saved.account) failed: \(error.message)",
        metadata: ["account": "\(login.saved.account)", "provider": "\(login.saved.provider)"])
    }
    forgetOldLogins()
    await commitOrWarn([.removeLogin(id)], "the end of a login")
  }

  private func forgetOldLogins() {
    let ended = logins.values.filter { $0.endedAt != nil }.sorted { ($0.endedAt ?? now) < ($1.endedAt ?? now) }
    let tooMany = ended.count - Limit.endedLogins
    for (index, login) in ended.enumerated() {
      guard let at = login.endedAt, index < tooMany || now - at > Limit.endedLoginsKept else { break }
      logins[login.saved.id] = nil
    }
  }

  private func emit(login: SavedLogin, _ type: EventType, _ error: RPCError? = nil) {
    emit(
      Event(
        type: type, at: now.seconds, account: login.account.rawValue, provider: login.provider.rawValue,
        // The login's id is a secret of whoever started it.
        login_id: nil, reason: error?.reason, message: error?.message, hint: error?.hint))
  }
}
