import BrokerAPI
import FoundationEssentials
import Grants
import Logging
import OAuth
import Principals

// The permitted parameters of a login, and whether it can continue.
extension Logins {
  /// A login continues at the server where it began. The user's answer, and the proof that it belongs to this login
  /// (RFC 7636), must not be sent to a server that replaced it in a reload.
  func moved(_ login: SavedLogin) -> RPCError? {
    guard providers[login.provider] != nil, !providers.isOwn(login.startedAt, of: login.provider) else { return nil }
    return RPCError(
      .loginExpired,
      "provider \(login.provider) was moved to another server or client in the configuration after the login began",
      hint: "Start again with `grantctl login \(login.provider) \(login.account)`.")
  }

  /// Parameters that would change the request's meaning, or values checked at the callback.
  static let ownParameters: Set<String> = [
    "scope", "resource", "request", "request_uri", "response_mode", "response_type", "nonce", "state", "client_id",
    "client_secret", "redirect_uri", "code_challenge", "code_challenge_method", "dpop_jkt",
  ]

  func checkLogin(
    _ params: LoginStart.Params, _ account: AccountName, provider: ProviderName, caller: Principal
  ) throws(RPCError) {
    try checkName(account, provider: provider)
    if let own = params.params?.keys.sorted().first(where: Self.ownParameters.contains) {
      throw .invalidParams(
        "params.params: the broker sets \(own) itself", hint: "Use the method's own parameters (`scopes`, `resource`).")
    }
    guard (params.params?.count ?? 0) <= Limit.parameters else {
      throw .invalidParams("params.params: more than \(Limit.parameters) members")
    }
    if let asked = params.params?["max_age"], (Int64(asked) ?? -1) < 0 {
      throw .invalidParams("params.params: max_age: expected seconds (OpenID Connect Core §3.1.2.1)")
    }
    try checkRoom(account, caller: caller)
  }

  /// A caller that may name any user could let that user sign in for its own account: the callback would no longer
  /// prove the consent of the user at the browser.
  func checkBrowser(_ user: UInt32?, caller: Principal) throws(RPCError) {
    guard let user, user != caller.uid, !door.authorizer.policy.isPrivileged(caller) else { return }
    throw RPCError(
      .notPermitted, "params.browser_uid: \(user) is another user than the caller (\(caller.uidText))",
      hint: "Leave it out, or start the login as that user. Only root may name others.")
  }

  /// The parameters that a caller asks for. A sign-in may be asked to be newer than the provider's section wants it, and
  /// not older.
  func parameters(_ params: LoginStart.Params, _ provider: any Provider) -> [String: String] {
    var parameters = params.params ?? [:]
    if let own = provider.authorizationTraits.maxAge, let asked = parameters["max_age"].flatMap({ Int64($0) }) {
      parameters["max_age"] = String(min(own, asked))
    }
    return parameters
  }

  func checkWishes(
    _ params: LoginStart.Params, _ provider: any Provider, _ account: AccountName
  ) throws(RPCError) {
    let without = "Sign in without it: `\(HintedCommand.login(provider.name, account))`."
    if let audience = params.audience {
      guard let parameter = provider.tokenTraits.audienceParameter else {
        throw RPCError(
          .unsupportedByProvider, "provider \(provider.name) takes no audience at a login",
          hint: "\(without) If it takes one, set audience_parameter in \(provider.name.section).")
      }
      guard TokenAudience.isValid(audience), parameter == .audience || ResourceIndicator.isValid(audience) else {
        throw .invalidParams("params.audience: expected a name without spaces, or for RFC 8707 an absolute URI")
      }
    }
    do throws(Objection) {
      try provider.authorizationTraits.check(
        apps: params.apps, prefill: params.prefill, identityProvider: params.idp, exchange: params.exchange)
    } catch {
      var invalid = RPCError.invalidParams(error)
      invalid.hint = [error.hint, without].compactMap(\.self).joined(separator: " ")
      throw invalid
    }
  }

  /// If a callback cannot name its login, and if the provider requires it, one login waits at a time.
  func checkAlone(_ provider: any Provider, caller: Principal) throws(RPCError) {
    let traits = provider.authorizationTraits
    guard traits.correlation == .singleLogin else { return }
    let own = try place(of: traits)
    let other = table.all.first { login in
      guard login.endedAt == nil else { return false }
      // Two providers at one address cannot be told apart either.
      let isAlike = providers[login.saved.provider]?.provider.authorizationTraits.correlation == .singleLogin
      return login.saved.provider == provider.name
        || isAlike && (try? RedirectURI(login.saved.redirectURI)).map(Self.place) == own
    }
    if let other {
      // The user of that login has no need of a turn.
      if other.holder.user != caller.holder.user {
        let end = uptime + max(.zero, other.saved.expiresAt - now)
        table.turns.refused(caller.holder, at: own, end: end, now: uptime)
      }
      throw waitsAlready(other.saved, caller: caller)
    }
    guard !door.authorizer.policy.isPrivileged(caller),
      let first = table.turns.first(before: caller.holder, at: own, now: uptime)
    else { return }
    table.turns.refused(caller.holder, at: own, end: uptime, now: uptime)
    throw RPCError(
      .loginInProgress,
      "only one login at provider \(provider.name) may wait at a time, and it is the turn of \(first)",
      hint: "Start it again in a few seconds.", retryAfter: LoginQueue.interval.inSeconds)
  }

  /// What callbacks of logins that are not named have in common: their address, or its private-use scheme.
  func place(of traits: AuthorizationTraits) throws(RPCError) -> String {
    Self.place(try addresses.registeredRedirectURI(traits))
  }

  private static func place(_ uri: RedirectURI) -> String { uri.isWeb ? uri.rawValue : "\(uri.scheme):" }

  func waitsAlready(_ other: SavedLogin, caller: Principal) -> RPCError {
    // Only the user that started a login may know its id.
    let (id, isOwn) = (other.id, other.uid == caller.uid)
    return RPCError(
      .loginInProgress,
      "a login of uid \(other.uid) at provider \(other.provider) waits already, and only one may at a time",
      hint: isOwn
        ? "Go on with it: `grantctl login continue \(id)`, or end it: `grantctl login cancel \(id)`."
        : "It ends in \(max(0, (other.expiresAt - now).wholeSeconds)) s at the latest. Ask every few seconds: then the next "
          + "turn is yours.",
      retryAfter: isOwn ? nil : LoginQueue.interval.inSeconds, detail: isOwn ? id.rawValue : nil)
  }

  /// Whether a login may make, or renew, an account of this name.
  func checkName(_ account: AccountName, provider: ProviderName) throws(RPCError) {
    if let grant = accounts[account], grant.saved.kind.isUnattended {
      throw .invalidParams(
        "account \(account) is declared in the configuration and needs no login",
        hint: "Choose another name, or remove [account.\(account)] from the configuration.")
    }
    if let grant = accounts[account], grant.saved.provider != provider,
      grant.saved.provider != SavedGrant.unreadableProvider
    {
      throw .invalidParams(
        "account \(account) is at provider \(grant.saved.provider)",
        hint: "Choose another name, or forget it first with `grantctl logout \(account)`.")
    }
  }

  /// Waits until the caller may send requests that begin a login: other users' logins do not wait for them.
  ///
  /// - Parameter session: that of the caller; nil: others wait for the result, too.
  func startPermit(
    at name: ProviderName, for holder: Holder, session: (any Session)?
  ) async throws(RPCError) -> ProviderCallLimiter.Permit {
    let permit: ProviderCallLimiter.Permit
    do throws(RPCError) {
      permit = try await providers.loginStarts.acquire(
        name, for: holder, until: uptime + Limit.loginStartWait, session: session)
    } catch {
      throw isDraining ? shuttingDown() : error
    }
    guard !isDraining, session?.isReading != false else {
      permit.release()
      throw isDraining ? shuttingDown() : RPCError(.timedOut, "the caller hung up before anything was sent")
    }
    return permit
  }

  /// Carries out the step of a caller that begins a login. It needs a slot if it sends a request. Nil: nothing was sent,
  /// because a reload changed the provider during the wait.
  func begin<Output: Sendable>(
    _ step: Step<Output>, _ target: ProviderEndpoints, for holder: Holder, session: (any Session)?
  ) async throws(RPCError) -> Result<Output, ProviderFailure>? {
    var permit: ProviderCallLimiter.Permit?
    defer { permit?.release() }
    switch step {
    case .send, .attempt:
      permit = try await startPermit(at: target.provider.name, for: holder, session: session)
      guard providers.isCurrent(target) else { return nil }
    case .done, .failed, .keys: break
    }
    return await target.connection.converse(step, for: .logins)
  }

  func checkRoom(_ account: AccountName, caller: Principal) throws(RPCError) {
    guard accounts[account] != nil || accounts.count < Limit.accounts else {
      throw RPCError(
        .overloaded, "there are \(Limit.accounts) accounts, and no more are possible",
        hint: "Remove unused accounts: `grantctl logout ACCOUNT`.")
    }
    var shares = Shares(all: Limit.pendingLogins, perHolder: Limit.pendingLoginsPerHolder)
    for login in table.all where login.endedAt == nil { _ = shares.acquire(for: login.holder) }
    guard let shortage = shares.shortage(for: caller.holder) else { return }
    throw RPCError(
      .overloaded,
      shortage != .ofAll ? "too many logins of \(caller.holder) are pending" : "too many logins are pending",
      hint: "Finish or cancel logins (`grantctl login list`), or wait until they expire.")
  }
}
