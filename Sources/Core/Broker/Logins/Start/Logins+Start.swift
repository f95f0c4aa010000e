import BrokerAPI
import FoundationEssentials
import Grants
import Logging
import OAuth
import Principals

// How a login starts.
extension Logins {
  func startLogin(
    _ account: AccountName, _ params: LoginStart.Params, by session: any Session
  ) async throws(RPCError) -> LoginStart.Result {
    guard mayJoin(params) else {
      return try await startNew(account, params, caller: session.principal, session: session)
    }
    return try await joinOrStart(account, params, caller: session.principal)
  }

  /// - Parameter session: that of the only caller; nil: others wait for the login, too.
  func startNew(
    _ account: AccountName, _ params: LoginStart.Params, caller: Principal, session: (any Session)?
  ) async throws(RPCError) -> LoginStart.Result {
    for _ in 0..<Limit.conflicts {
      if let result = try await start(account, params, caller: caller, session: session) { return result }
    }
    throw providerChanged(try providerName(params.provider))
  }

  /// Nil: a reload happened, and the checks and the login concern other settings. No caller has seen it.
  private func start(
    _ account: AccountName, _ params: LoginStart.Params, caller: Principal, session: (any Session)?
  ) async throws(RPCError) -> LoginStart.Result? {
    guard !isDraining else { throw shuttingDown() }
    let name = try providerName(params.provider)
    guard let connection = providers[name] else { throw providers.unknown(params.provider) }
    let (provider, settings) = (connection.provider, connection.settings)
    try checkLogin(params, account, provider: name, caller: caller)
    try checkBrowser(params.browser_uid, caller: caller)
    try checkWishes(params, provider, account)
    try checkAlone(provider, caller: caller)
    let other = try await stored { () async throws(StoreError) in try await otherElsewhere(name) }
    if let other { throw waitsAlready(other, caller: caller) }
    let kinds = try kinds(params.destinations)
    let redirectURI = kinds == ["device"] ? nil : try addresses.redirectURI(provider.authorizationTraits)
    let target: ProviderEndpoints
    switch await providers.endpoints(of: name) {
    case .success(let known): target = known
    case .failure(let failure):
      let message = "provider \(name): \(failure.message)"
      throw connection.absentMetadata(message, retryAfter: nil) ?? providers.error(failure, at: name)
    }
    guard target.connection === connection, target.settings == settings else { return nil }
    var request = loginRequest(params, account, target, redirectURI)
    var destinations: [Destination] = []
    var warnings: [String] = []
    var memory: [String: Secret] = [:]
    var link: LoginLink?
    if let redirectURI {
      let byHand = HintedCommand.login(name, account)
      let usable = try usable(kinds, redirectURI, isAlone: !kinds.contains("device"), byHand: byHand)
      if !usable.isEmpty {
        guard let place = try await openAuthorization(request, target, account, caller: caller, session: session) else {
          return nil
        }
        warnings += place.warnings + [linkWarning(place, provider.authorizationTraits)].compactMap(\.self)
        if kinds.contains("browser") { warnings += [addresses.warning(redirectURI)].compactMap(\.self) }
        memory = place.memory
        link = self.link(to: place, usable, redirectURI)
        destinations = self.destinations(usable, place, redirectURI, link)
      }
    }
    var device: DevicePlace?
    if let rank = kinds.firstIndex(of: "device") {
      guard let place = try await devicePlace(request, target, account, caller: caller, session: session) else {
        return nil
      }
      warnings += place.warnings
      destinations.insert(destination(place), at: min(rank, destinations.count))
      device = place
    }
    if destinations.allSatisfy({ $0.kind == "device" }) { request.redirectURI = nil }
    guard providers.isCurrent(target) else { return nil }
    let login = try await save(
      request, params, account, device: device, memory: memory, link: link, first: destinations.first,
      provider: provider, caller: caller)
    if login.device != nil { startPolling(login.id) }
    return .init(
      login_id: login.id.rawValue, account: account.rawValue, expires_at: login.expiresAt.seconds,
      destinations: destinations, warnings: warnings, client_id: provider.description.clientID)
  }

  func loginRequest(
    _ params: LoginStart.Params, _ account: AccountName, _ target: ProviderEndpoints, _ redirectURI: RedirectURI?
  ) -> LoginRequest {
    let provider = target.provider
    let tokens = provider.tokenTraits
    let makesChallenge = provider.authorizationTraits.makesChallenge(exchange: params.exchange)
    let stepUp = accounts[account].flatMap(accounts.stepUp)
    var request = LoginRequest(
      scopes: tokens.scopes(
        asked: params.scopes ?? stepUp.map { scopes($0, of: account, target) },
        supported: target.metadata.supported.scopes),
      resource: params.resource ?? tokens.resource,
      redirectURI: redirectURI,
      state: Secret(system.token(bytes: 32)),
      nonce: tokens.usesIDTokens ? Secret(system.token(bytes: 32)) : nil,
      verifier: makesChallenge ? CodeVerifier(randomBytes: system.randomBytes(32)) : nil, prompt: params.prompt,
      loginHint: params.login_hint,
      parameters: (stepUp?.parameters ?? [:]).merging(parameters(params, provider)) { $1 },
      dpopKey: tokens.binding.usesDPoP ? dpopKey(of: account) : nil, madeAt: now,
      identifier: system.token(bytes: 16))
    if let audience = params.audience ?? tokens.audience {
      switch tokens.audienceParameter {
      case .audience:
        request.audience = audience
        request.parameters["audience"] = audience
      case .resource: request.resource = params.audience ?? request.resource
      case nil: break
      }
    }
    request.before = accounts[account]?.saved
    request.apps = params.apps
    request.identityProvider = params.idp
    request.prefill = params.prefill ?? [:]
    return request
  }

  /// The granted scopes with the scopes that a server required.
  private func scopes(_ stepUp: StepUp, of account: AccountName, _ target: ProviderEndpoints) -> [String] {
    var scopes = accounts[account]?.saved.grantedScopes ?? []
    let asked = target.provider.tokenTraits.scopes(asked: nil, supported: target.metadata.supported.scopes)
    for scope in asked + stepUp.scopes where !scopes.contains(scope) { scopes.append(scope) }
    return scopes
  }

  /// The key of before where there is one: a refresh token that is kept is bound to it.
  func dpopKey(of account: AccountName) -> DPoPKey {
    accounts[account]?.saved.dpopKey.flatMap(DPoPKey.init(raw:)) ?? DPoPKey(randomBytes: system.randomBytes(32))
  }

  private func save(
    _ request: LoginRequest, _ params: LoginStart.Params, _ account: AccountName, device: DevicePlace?,
    memory: [String: Secret], link: LoginLink?, first: Destination?, provider: any Provider, caller: Principal
  ) async throws(RPCError) -> SavedLogin {
    guard let id = newLoginID() else { throw .internalError("no login id") }
    let traits = provider.authorizationTraits
    let lifetime = device.map { place in
      let own = min(place.expiresIn, Limit.longestLogin)
      return request.redirectURI == nil ? own : max(own, traits.lifetime)
    }
    var saved = SavedLogin(
      id: id, provider: provider.name, account: account, state: request.state, nonce: request.nonce,
      verifier: request.verifier?.secret, redirectURI: request.redirectURI?.rawValue ?? "", scopes: request.scopes,
      resource: request.resource, maxAge: request.parameters["max_age"].flatMap { Int64($0) } ?? traits.maxAge,
      uid: try caller.owner(),
      startedAt: now, expiresAt: now + (lifetime ?? traits.lifetime), dpopKey: request.dpopKey?.raw,
      device: device?.device)
    saved.memory = memory
    saved.audience = request.audience
    saved.origin = journal.origin
    saved.exchangesCode = params.exchange ?? traits.exchangesCodes
    saved.browserUID = params.browser_uid == caller.uid ? nil : params.browser_uid
    saved.link = link
    saved.offered = first.map { OpenedDestination(kind: $0.kind, app: $0.app) }
    // Other logins have begun in the interim, and this one reserves its slot before it is on disk. Its state is not
    // published yet.
    try checkRoom(account, caller: caller)
    try checkAlone(provider, caller: caller)
    table[id] = Login(saved: saved, phase: .pending, isOfThisRun: true, holder: caller.holder)
    table[id]?.program = AuditCaller(caller).executable
    if provider.authorizationTraits.correlation == .singleLogin {
      table.turns.started(caller.holder, at: try place(of: traits))
    }
    do throws(StoreError) {
      try await journal.commit([.putLogin(saved)])
    } catch {
      table[id] = nil
      throw storeError(error)
    }
    wakeScheduler()
    emit(login: saved, .loginStarted)
    return saved
  }

  /// Users copy it into commands, so it must not begin with a hyphen.
  private func newLoginID() -> LoginID? {
    let text = system.token(bytes: 16)
    return LoginID(rawValue: text.hasPrefix("-") ? "0\(text.dropFirst())" : text)
  }
}

extension LoginStart: RPCHandler {
  static var subject: Subject<Params, AccountName> { .login(\.account, at: \.provider) }
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.logins.startLogin(call.account, call.params, by: call.session)
  }
}
