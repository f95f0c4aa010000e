import BrokerAPI
import FoundationEssentials
import Grants
import Logging
import OAuth

/// A provider reports a user's logout (OpenID Connect Back-Channel Logout).
@BrokerActor
final class BackChannelLogouts: Piece {
  let runtime: Runtime
  private let accounts: Accounts
  private let providers: ProviderDirectory
  private let revocations: Revocations
  private let audit: AuditLog
  /// Logout tokens that were taken, and until when since boot they are remembered.
  private var taken: [String: Duration] = [:]
  /// Any client of the endpoint can cause refused tokens.
  private let refusals: LimitedLog

  init(
    _ runtime: Runtime, accounts: Accounts, providers: ProviderDirectory, revocations: Revocations, audit: AuditLog
  ) {
    self.runtime = runtime
    self.accounts = accounts
    self.providers = providers
    self.revocations = revocations
    self.audit = audit
    refusals = LimitedLog(runtime, of: "logout tokens")
  }

  func handleLogout(provider text: String, form: Data) async -> LogoutOutcome {
    guard !isDraining else { return .unavailable }
    guard let name = ProviderName(rawValue: text),
      providers[name]?.provider.logoutTraits.acceptsLogoutTokens == true
    else { return .refused("no provider of that name takes logout tokens here") }
    let token: LogoutToken
    switch await providers.endpoints(of: name) {
    case .failure: return .unavailable
    case .success(let target):
      let step: Step<LogoutToken>
      do throws(LogoutTokenError) {
        step = target.provider.logout(try LogoutToken.parse(form: form), metadata: target.metadata)
      } catch {
        logRefusal(.info, name, error.description)
        return .refused(error.description)
      }
      switch await target.connection.converse(step, for: .logouts) {
      case .success(let proven): token = proven
      case .failure(let failure) where failure.isOfProvider: return .unavailable
      case .failure(let failure):
        logRefusal(.warning, name, failure.message)
        return .refused(failure.message)
      }
    }
    taken = taken.filter { $0.value > uptime }
    guard taken.count < Limit.logoutTokens else { return .unavailable }
    guard remember(token, of: name) else { return .refused("the logout token was taken before (jti)") }
    for account in await signedOut(token, at: name) { await signOut(account, at: name) { Self.concerns(token, $0) } }
    return .taken
  }

  private func logRefusal(_ level: Logger.Level, _ provider: ProviderName, _ why: String) {
    refusals.refused(
      "a logout token of provider \(provider): \(why)", level: level, metadata: ["provider": "\(provider)"])
  }

  /// False: it was already used. A valid one must not be accepted twice (§2.6).
  private func remember(_ token: LogoutToken, of name: ProviderName) -> Bool {
    let lifetime = max(.zero, token.expiresAt - now) + Limit.logoutTokenKept
    let key = "\(name) \(token.identifier)"
    guard taken[key] == nil else { return false }
    taken[key] = uptime + min(lifetime, .seconds(86_400))
    return true
  }

  /// The accounts of its user or session.
  private func signedOut(_ token: LogoutToken, at name: ProviderName) async -> [AccountName] {
    if let subject = token.subject { return accounts.accounts(of: subject, at: name) }
    var found: [AccountName] = []
    var batch = Batch(of: Batch.heavy)
    for account in accounts.names(at: name) {
      if let grant = accounts.peek(account, .whole), Self.concerns(token, grant.saved) { found.append(account) }
      await batch.next()
    }
    return found
  }

  private static func concerns(_ token: LogoutToken, _ saved: SavedGrant) -> Bool {
    guard !saved.kind.isUnattended else { return false }
    if let subject = token.subject, saved.identity?.subject != subject { return false }
    guard let session = token.sessionID else { return token.subject != nil }
    let own = saved.idToken.flatMap { try? IDToken.parse($0) }?.sessionID
    // Without its own session the account belongs to all of the user's.
    return own == session || own == nil && token.subject != nil
  }

  /// §2.7: grants for offline use (`offline_access`) continue; all others end. If another broker changed the account
  /// first, the sign-out is decided again.
  ///
  /// - Parameter concerns: whether the sign-out is of the user or the session of this grant.
  func signOut(_ account: AccountName, at name: ProviderName, _ concerns: (SavedGrant) -> Bool) async {
    let message = "the user signed out at the provider"
    for _ in 0..<Limit.conflicts {
      guard let saved = accounts[account]?.saved, saved.provider == name, concerns(saved) else { return }
      let isOffline = saved.requestedScopes.contains("offline_access")
      logger.notice(
        "\(account): \(message)\(isOffline ? "; its offline access goes on" : "")",
        metadata: ["account": "\(account)", "provider": "\(saved.provider)"])
      guard !isOffline else { return }
      accounts[account]?.signedOut(FailureRecord(message: message, at: now))
      accounts.changed(account)
      guard await accounts.saveStanding(of: account, "the end of a session", replacing: true) else { continue }
      return await signedOut(saved)
    }
    logger.warning("\(account): other brokers changed it during the sign-out", metadata: ["account": "\(account)"])
  }

  private func signedOut(_ saved: SavedGrant) async {
    let account = saved.account
    audit.record(ended: account, at: saved.provider, by: "backchannel_logout")
    await revocations.queue(
      saved.refreshToken.map { [($0, "refresh_token")] } ?? [], revocations.context(of: saved),
      provider: saved.provider, issuer: providers.issuer(of: saved.provider, at: saved.refreshTokenSince))
    guard let grant = accounts[account] else { return }
    accounts.reportEnd(of: grant)
    accounts.changed(account)
  }
}
