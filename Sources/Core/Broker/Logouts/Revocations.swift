import BrokerAPI
import DequeModule
import Grants
import Logging
import OAuth

/// Tokens whose revocation is pending at their providers (RFC 7009). On disk until a provider answers.
@BrokerActor
final class Revocations: Piece {
  let runtime: Runtime
  private let providers: ProviderDirectory
  private let journal: Journal
  private var pending: [String: PendingRevocation] = [:]
  /// The next attempt of each, except those in `begun`.
  private var due = MomentHeap<String>()
  /// Those that are being tried, or wait for that.
  private var begun: Set<String> = []
  private var tries: [ProviderName: Tries] = [:]

  /// Running and waiting attempts at one provider.
  private struct Tries {
    var underWay = 0
    var waiting: Deque<String> = []
  }

  init(_ runtime: Runtime, providers: ProviderDirectory, journal: Journal) {
    self.runtime = runtime
    self.providers = providers
    self.journal = journal
  }

  var all: some Collection<PendingRevocation> { pending.values }
  var count: Int { pending.count }

  /// Adds revocations that were loaded, restored, or committed with another change.
  func takeOver(_ revocations: [PendingRevocation]) {
    for revocation in revocations { set(revocation) }
  }

  /// Those that are obsolete: their answers put nothing back. Before the commit that removes them; where that fails,
  /// ``takeOver(_:)`` again.
  func discard(_ revocations: [PendingRevocation]) { for revocation in revocations { remove(revocation.id) } }

  private func set(_ revocation: PendingRevocation) {
    let id = revocation.id
    pending[id] = revocation
    if !begun.contains(id) { due.set(id, to: revocation.retryAt) }
  }

  private func remove(_ id: String) {
    pending[id] = nil
    due.remove(id)
  }

  // MARK: What is to be revoked

  /// A revocation that its maker tries; after a minute it is tried automatically.
  ///
  /// - Parameter issuer: the token's issuer; nil: the current provider.
  func new(
    _ token: Secret, _ hint: String, _ context: [String: String] = [:], provider: ProviderName,
    issuer: TokenIssuer? = nil
  ) -> PendingRevocation {
    var context = context
    context[Self.issuerKey] = (issuer ?? providers.issuer(of: provider))?.text
    return PendingRevocation(
      id: system.token(bytes: 12), provider: provider, token: token, hint: hint, context: context, attempts: 0,
      retryAt: now + .seconds(60), expiresAt: now + Limit.revocationLife)
  }

  /// Who issued one of the grant's tokens.
  func issuer(of token: Secret, _ grant: Grant) -> TokenIssuer? {
    var moment = grant.tokens.first { $0.accessToken == token }?.issuedAt ?? grant.saved.refreshTokenSince
    if case .committing(_, let renewal) = grant.phase, renewal.grant.refreshToken == token {
      moment = renewal.grant.refreshTokenSince
    }
    return providers.issuer(of: grant.saved.provider, at: moment)
  }

  /// In the context of a revocation: who issued its token. Absent in those of before this was kept.
  private static let issuerKey = "issued_by"

  /// Adds as many as there is room for, to be tried at once. The caller commits them.
  func add(
    _ tokens: [(token: Secret, hint: String)], _ context: [String: String] = [:], provider: ProviderName,
    issuer: TokenIssuer? = nil
  ) -> [PendingRevocation] {
    let added = tokens.prefix(max(0, Limit.revocations - pending.count)).map {
      var revocation = new($0.token, $0.hint, context, provider: provider, issuer: issuer)
      revocation.retryAt = now
      return revocation
    }
    takeOver(added)
    return added
  }

  /// Adds and commits them.
  func queue(
    _ tokens: [(token: Secret, hint: String)], _ context: [String: String] = [:], provider: ProviderName,
    issuer: TokenIssuer? = nil
  ) async {
    let added = add(tokens, context, provider: provider, issuer: issuer)
    guard !added.isEmpty else { return }
    await journal.commitOrWarn(added.map { .putRevocation($0) }, "a token to revoke")
    wakeScheduler()
  }

  /// Data that a revocation of this grant's tokens needs, by which ``obsolete(for:)`` finds it.
  func context(of saved: SavedGrant, reach: String? = nil) -> [String: String] {
    guard let provider = providers[saved.provider]?.provider else { return [:] }
    return provider.revocationContext(of: saved, reach: reach)
      .merging(provider.revocationTraits.owner(of: saved)) { $1 }
  }

  /// Pending revocations that would end the grant of a user who has signed in again.
  func obsolete(for saved: SavedGrant) -> [PendingRevocation] {
    guard let traits = providers[saved.provider]?.provider.revocationTraits else { return [] }
    return pending.values.filter { traits.ends(saved, by: $0) }
  }

  // MARK: Trying

  /// Tries due revocations, a few at a time at each provider; returns the time of the next one.
  func tick() -> Timestamp? {
    while let first = due.first(), first.at <= now {
      due.remove(first.key)
      guard let revocation = pending[first.key] else { continue }
      begun.insert(revocation.id)
      tries[revocation.provider, default: Tries()].waiting.append(revocation.id)
      tryNext(at: revocation.provider)
    }
    return due.first()?.at
  }

  private func tryNext(at name: ProviderName) {
    while let tried = tries[name], tried.underWay < Limit.revocationsAtOnce, let id = tries[name]?.waiting.popFirst() {
      guard let revocation = pending[id] else {
        begun.remove(id)
        continue
      }
      tries[name]?.underWay += 1
      Task {
        await revoke(revocation)
        tries[name]?.underWay -= 1
        begun.remove(id)
        if let left = pending[id] { due.set(id, to: left.retryAt) }
        tryNext(at: name)
        wakeScheduler()
      }
    }
    if let left = tries[name], left.underWay == 0, left.waiting.isEmpty { tries[name] = nil }
  }

  /// What failed before may work now.
  func recheck() {
    for var revocation in pending.values where revocation.attempts > 0 {
      revocation.retryAt = now
      set(revocation)
    }
  }

  /// The clock was set: a delay above the maximum is from before.
  func clockStepped() {
    let latest = now + .seconds(60)
    for var revocation in pending.values {
      revocation.retryAt = min(revocation.retryAt, latest)
      set(revocation)
    }
  }

  /// Tries one revocation; keeps it for later where that makes sense.
  @discardableResult
  func revoke(_ revocation: PendingRevocation) async -> AccountLogout.Step {
    let step = "revoke_\(revocation.hint)"
    guard await isOurs(revocation) else { return unsent(revocation, step) }
    guard providers[revocation.provider] != nil else {
      // It may be configured again: the token is valid until its revocation.
      return await finish(revocation, step, .retryLater(after: nil), "the provider is not configured")
    }
    let target: ProviderEndpoints
    switch await providers.endpoints(of: revocation.provider) {
    case .success(let known): target = known
    case .failure(let failure): return await finish(revocation, step, .retryLater(after: nil), failure.message)
    }
    guard await isOurs(revocation) else { return unsent(revocation, step) }
    // The token is live at the server that issued it, and no other can end it: it would only learn it. How that server is
    // asked, and by which client, is in no configuration any more. It may be configured again; until then, or until it is
    // given up after a week, the token stays here. One that is on its way already is revoked where it was issued.
    guard revocation.context[Self.issuerKey].map({ $0 == target.issuer.text }) ?? true else {
      return await finish(
        revocation, step, .retryLater(after: nil),
        "the token is of another server or client than the provider is now; it is revoked if that is configured again")
    }
    let (connection, provider, metadata) = (target.connection, target.provider, target.metadata)
    var revocation = revocation
    var (token, hint) = (revocation.token, revocation.hint)
    if let refresh = provider.tokenToRevoke(for: token, hint: hint, metadata: metadata) {
      switch await connection.converse(refresh, for: .revocations) {
      case .success(let issued):
        (token, hint) = (issued.accessToken, "access_token")
        await keep(issued.refreshToken, for: &revocation)
      case .failure(let failure): return await finish(revocation, step, failure.ofRevocation, failure.message)
      }
    }
    guard await isOurs(revocation) else { return unsent(revocation, step) }
    guard
      let request = provider.revocation(of: token, hint: hint, context: revocation.context, metadata: metadata)
    else {
      await drop(revocation)
      return .init(step: step, result: "unsupported", message: "the provider has no revocation endpoint")
    }
    switch await connection.send(request, for: .revocations) {
    case .success(let response): return await finish(revocation, step, provider.revocationOutcome(response), nil)
    case .failure(let failure): return await finish(revocation, step, .retryLater(after: nil), failure.message)
    }
  }

  /// Whether it still waits. A login may have made it obsolete while an answer was waited for.
  private func isWanted(_ revocation: PendingRevocation) -> Bool { pending[revocation.id] != nil }

  /// The same, and no other broker sends it. Asked before each request: a login on another broker may have removed it.
  private func isOurs(_ revocation: PendingRevocation) async -> Bool {
    guard isWanted(revocation) else { return false }
    guard journal.isShared else { return true }
    guard !journal.store.isOtherCopy else {
      postpone(revocation.id)
      return false
    }
    let isClaimed: Bool
    do throws(StoreError) {
      isClaimed = try await journal.store.claim(revocation.id, for: Limit.lease)
    } catch {
      journal.failed(error)
      isClaimed = false
    }
    // The claim may have been made in a copy that was found with it.
    guard !journal.store.isOtherCopy else {
      postpone(revocation.id)
      return false
    }
    guard !isClaimed else { return isWanted(revocation) }
    if await follow() { postpone(revocation.id) }
    return false
  }

  /// Memory follows the store that other brokers share. False: the store fails.
  @discardableResult
  func follow() async -> Bool {
    guard journal.isShared else { return true }
    // keep(over:) decides.
    guard !journal.store.isOtherCopy else { return true }
    let stored: [PendingRevocation]
    do throws(StoreError) { stored = try await journal.store.revocations() } catch {
      journal.failed(error)
      return false
    }
    // The read may have found the copy.
    guard !journal.store.isOtherCopy else { return true }
    let ids = Set(stored.map(\.id))
    for id in Array(pending.keys) where !ids.contains(id) { remove(id) }
    for revocation in stored { set(revocation) }
    wakeScheduler()
    return true
  }

  /// The database is another copy. It brings back revocations that are done, or that a later login made obsolete: one that
  /// would end an account's grant is removed, and the others are tried. Those that it lacks are written back,
  /// unless it knows them as removed.
  ///
  /// - Parameter accounts: they have been compared.
  func keep(over accounts: Accounts, _ copy: AccountsOfCopy) async throws(StoreError) {
    let stored = try await journal.store.revocations()
    let ids = Set(stored.map(\.id))
    let returned = stored.filter { pending[$0.id] == nil }
    let lacked = pending.values.filter { !ids.contains($0.id) && !copy.removedRevocations.contains($0.id) }
    guard !returned.isEmpty || !lacked.isEmpty else { return }
    var obsolete: Set<String> = []
    var batch = Batch(of: Batch.heavy)
    for name in accounts.names {
      await batch.next()
      guard let saved = accounts[name]?.saved, let traits = providers[saved.provider]?.provider.revocationTraits
      else { continue }
      for revocation in returned + lacked
      where traits.ends(saved, by: revocation) && saved.loggedInAt > revocation.queuedAt {
        obsolete.insert(revocation.id)
      }
    }
    let removed = returned.filter { obsolete.contains($0.id) }.map { Change.removeRevocation($0.id) }
    // Those that were answered in the interim are not pending any more.
    let written = lacked.filter { !obsolete.contains($0.id) }.compactMap { pending[$0.id] }
      .map { Change.putRevocation($0) }
    guard !removed.isEmpty || !written.isEmpty else { return }
    try await journal.commit(removed + written)
  }

  private func postpone(_ id: String) {
    guard var revocation = pending[id] else { return }
    revocation.retryAt = max(revocation.retryAt, now + Limit.lease)
    set(revocation)
  }

  /// It is not this broker's to send now.
  private func unsent(_ revocation: PendingRevocation, _ step: String) -> AccountLogout.Step {
    guard isWanted(revocation) else { return obsolete(step) }
    return .init(
      step: step, result: "queued",
      message: journal.store.isOtherCopy
        ? "the database is being compared with another copy" : "another machine revokes it, or the database fails")
  }

  private func obsolete(_ step: String) -> AccountLogout.Step {
    .init(
      step: step, result: "skipped",
      message: "the user has signed in again, and a revocation would end the new grant too")
  }

  /// The provider rotated it: the new token ends the grant now.
  private func keep(_ rotated: Secret?, for revocation: inout PendingRevocation) async {
    guard isWanted(revocation), let rotated, !rotated.isEmpty, rotated != revocation.token else { return }
    revocation.token = rotated
    await put(revocation)
  }

  private func put(_ revocation: PendingRevocation) async {
    set(revocation)
    let isThere = await journal.commitOrWarn(
      [.putRevocation(revocation)], expecting: journal.shared(.revocation(revocation.id)), "a token to revoke")
    // keep(over:) writes back a revocation that another copy lacks.
    if !isThere, !journal.store.isOtherCopy { remove(revocation.id) }
    // It may have become obsolete on its way to the disk, which then has it again.
    if !isWanted(revocation) { await drop(revocation) }
  }

  private func finish(
    _ revocation: PendingRevocation, _ step: String, _ outcome: RevocationOutcome, _ message: String?
  ) async -> AccountLogout.Step {
    switch outcome {
    case .revoked:
      await drop(revocation)
      return .init(step: step, result: "done")
    case .unsupported:
      await drop(revocation)
      return .init(step: step, result: "unsupported", message: "the provider does not revoke such tokens")
    case .refused(let error):
      await drop(revocation)
      return .init(step: step, result: "refused", message: message ?? error?.description)
    case .retryLater(let after):
      guard isWanted(revocation) else { return obsolete(step) }
      var later = revocation
      later.attempts += 1
      let wait = Limit.revocationDelays[min(later.attempts, Limit.revocationDelays.count) - 1]
      later.retryAt = now + max(wait, after ?? .zero)
      // A jump of the clock does not count as a week of attempts.
      if later.retryAt < later.expiresAt || later.attempts < Limit.revocationAttempts {
        await put(later)
        wakeScheduler()
        return .init(step: step, result: "queued", message: message ?? "the provider is unavailable")
      }
      await drop(revocation)
      return .init(step: step, result: "refused", message: "given up after a week of trying")
    }
  }

  func drop(_ revocation: PendingRevocation) async {
    remove(revocation.id)
    await journal.commitOrWarn([.removeRevocation(revocation.id)], "a revoked token")
  }
}

extension PendingRevocation {
  fileprivate var queuedAt: Timestamp { expiresAt - Limit.revocationLife }
}

extension ProviderFailure {
  /// The meaning of a missing access token for the grant's revocation.
  fileprivate var ofRevocation: RevocationOutcome {
    switch self {
    // There is nothing left to revoke.
    case .ended: .revoked
    case .rateLimited, .tryLater, .unclear, .lost, .notSent, .blocked: .retryLater(after: retryAfter)
    case .misconfigured, .requestRefused, .invalid, .rejected, .tokenRefused, .denied: .refused(oauth)
    case .unsupported: .unsupported
    }
  }
}
