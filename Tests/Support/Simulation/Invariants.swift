import Broker
import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals

/// The invariants that hold at every moment.
enum Invariant: String {
  case loss = "no live refresh token is lost"
  case ended = "no grant ends that the provider did not end"
  case saysLost = "a lost rotation is reported as one"
  case oneRefresh = "one refresh at a time for each grant, and a limited number at a provider"
  case intent = "the intent is on disk before a refresh that may rotate is sent"
  case expired = "no token is released that is known to have expired"
  case revoked = "no token is released that was refused or removed"
  case isolation = "no token of one account is handed to another"
  case durable = "no caller sees a token whose refresh token is not on disk"
  case deadline = "no request outlives its deadline"
  case invisible = "a failing refresh is invisible while the token is valid"
  case probes = "an outage gets a few probes a minute"
  case stampede = "a recovery sends a limited number of requests"
  case harmless = "an odd answer that can be used is used"
  case recovery = "after an outage each caller gets a token"
  case patience = "no caller gets a wait above the longest delay between tries"
  case handover = "an orderly stop saves all changes, or reports the unsaved ones"
  case told = "the end of a grant is reported"
  case storm = "no grant is refreshed again and again"
  case revokedLater = "a removed grant is revoked, or will be"
  case rest = "after the faults every account returns to a correct state"
  case store = "the store returns all committed rows"
  case progress = "time passes"
  case starved = "no account starves at a provider with a rate limit"
  case lifetime = "no token is returned with more than its lifetime"
  case replay = "the same seed gives the same run"
}

struct Violation {
  var invariant: Invariant
  var detail: String
  var at: Moment
}

/// A user's account, as the simulated world knows it.
final class ModelAccount {
  let index: Int
  let name: String
  let key: AccountName
  let provider: ModelProvider
  /// The session of the newest login on disk; nil: no login, or the account was removed.
  var session: ModelProvider.Session?
  /// The refresh token of it that is on disk.
  var saved: Int?
  /// The newest saved number so far: if a provider refuses it, the broker uses the previous one.
  var newestSaved = -1
  /// Sessions that were removed on demand.
  var removed: Set<Int> = []
  /// Access tokens that were on disk before their session was removed.
  var onceSaved: Set<String> = []
  /// Tokens of sessions that were removed while the provider answered a sign-in with a token of the same session.
  var signedInAgain: Set<String> = []
  /// Sessions that a newer login replaced.
  var superseded: Set<Int> = []
  var logoutsUnderWay = 0
  /// Access tokens that were reported as refused, in this run of the broker…
  var reported: Set<String> = []
  /// …and that the broker has certainly received.
  var rejected: Set<String> = []
  /// When programs asked for its token.
  var askedAt: [Moment] = []

  init(index: Int, provider: ModelProvider) {
    self.index = index
    self.provider = provider
    name = "u\(index)"
    key = AccountName(rawValue: name)!
  }
}

extension World {
  enum Fate: Equatable {
    case live
    case withoutRefreshToken
    /// The provider ended it, without a fault of the broker.
    case over
    case lost(ModelProvider.Excuse?)
  }

  /// The state of the grant on disk at the provider.
  func fate(_ account: ModelAccount, _ session: ModelProvider.Session) -> Fate {
    guard !session.refreshTokens.isEmpty else { return .withoutRefreshToken }
    guard let saved = account.saved else { return .lost(nil) }
    switch session.ended {
    case .withdrawn, .revoked: return .over
    case .reused: return .lost(session.excuse)
    case nil: break
    }
    if account.provider.accepts(saved, of: session, at: now) { return .live }
    let newest = session.newest
    return account.provider.accepts(newest, of: session, at: now)
      ? .lost(session.excuse) : isOutOfTime(account, session)
  }

  /// The provider ended it because it was not used; or the newest token has ended like the saved one.
  private func isOutOfTime(_ account: ModelAccount, _ session: ModelProvider.Session) -> Fate {
    account.newestSaved == session.newest ? .over : .lost(session.excuse)
  }

  // MARK: Commits

  func committed(_ changes: [Change]) {
    for change in changes {
      switch change {
      case .putGrant(let grant):
        guard let account = account(grant.account) else { return violated(.isolation, "a grant of an unknown account") }
        committed(grant, of: account)
      case .removeGrant(let name):
        guard let account = account(name) else { continue }
        if account.logoutsUnderWay == 0 { violated(.ended, "\(name) is deleted without a request") }
        if let session = account.session {
          account.removed.insert(session.number)
          session.isForgotten = true
        }
        account.session = nil
        account.saved = nil
        account.onceSaved.formUnion(account.signedInAgain)
        account.signedInAgain = []
        counts.add("accounts forgotten")
      case .putToken(let saved):
        committed(saved)
      case .putIssuer, .removeTokens, .removeToken, .putIntent, .removeIntent, .putLogin, .removeLogin, .putRevocation,
        .removeRevocation, .putRegistration, .removeRegistration, .putValue:
        break
      }
    }
  }

  /// Before the simulation began.
  func wasThere(_ changes: [Change]) {
    for case .putToken(let saved) in changes { committed(saved) }
  }

  /// Only a sign-in brings a token of a removed session: its answer was already under way.
  private func committed(_ saved: SavedToken) {
    let text = saved.accessToken.exposed
    guard let account = account(saved.account), let token = Token(text),
      let session = account.provider.session(token), !account.signedInAgain.contains(text)
    else { return }
    guard account.removed.contains(session.number) else {
      account.onceSaved.insert(text)
      return
    }
    guard session.accessTokens[token.number].refreshToken < 0, !account.onceSaved.contains(text) else {
      return violated(.revoked, "\(account.name): a token of a forgotten grant is on disk again")
    }
    account.signedInAgain.insert(text)
  }

  /// A rebuilt database lacks this grant.
  func isMissing(_ grant: SavedGrant) {
    guard let account = account(grant.account), account.session != nil else { return }
    violated(.loss, "\(account.name) is not in the rebuilt database")
  }

  private func committed(_ grant: SavedGrant, of account: ModelAccount) {
    guard let token = grant.refreshToken.flatMap({ Token($0.exposed) }) else {
      if let session = account.session, !session.refreshTokens.isEmpty {
        violated(.loss, "\(account.name): the refresh token was removed from the disk")
      }
      return judge(grant, of: account)
    }
    guard token.provider == account.provider.index, let session = account.provider.session(token),
      session.account == account.index
    else { return violated(.isolation, "\(account.name): \(token.text) on disk is another's") }
    if account.removed.contains(session.number) {
      return violated(.revoked, "\(account.name): a forgotten grant is on disk again")
    }
    if account.superseded.contains(session.number) {
      return violated(.loss, "\(account.name): an older login's grant replaced a newer one's")
    }
    let before = account.session === session ? account.saved : nil
    if account.session !== session {
      counts.add("logins saved")
      if let old = account.session { account.superseded.insert(old.number) }
      account.session = session
      account.newestSaved = -1
    }
    account.saved = token.number
    account.newestSaved = max(account.newestSaved, token.number)
    trace.add(now, "    disk: \(account.name) has \(token.text), \(describe(grant.standing))")
    if let before, before != token.number {
      let provider = account.provider
      if provider.accepts(before, of: session, at: now), !provider.accepts(token.number, of: session, at: now) {
        violated(.loss, "\(account.name): \(token.text), which has ended, replaced a live refresh token")
      }
      if token.number > before { counts.add("rotations saved") }
    }
    if token.number == session.newest {
      session.excuse = nil
      account.provider.watch.lostAt[session.number] = nil
    }
    judge(grant, of: account)
  }

  /// Whether a grant may end with this reason.
  private func judge(_ grant: SavedGrant, of account: ModelAccount) {
    // After a first refusal the refresh token is tried once more.
    guard case .loginRequired(let reason, _) = grant.standing, !grant.isRefusedOnce, let session = account.session
    else {
      return
    }
    let fate = fate(account, session)
    if reason != .noRefreshToken { checkTold(account, session) }
    switch (reason, fate) {
    case (.noRefreshToken, .withoutRefreshToken): counts.add("ended without a refresh token")
    case (.refused, .over), (.refreshTokenExpired, .over), (.lostRotation, .over): counts.add("ended by the provider")
    case (.lostRotation, .lost(.some)):
      counts.add("ended as lost_rotation")
      checkGrace(account, session)
    // A provider declared as not rotating that rotates all the same ends as `refused`: nothing shows that a newer token
    // was issued.
    case (.refused, .lost(.some)) where !account.provider.isDeclaredToRotate:
      counts.add("ended as refused while an old token was valid")
    case (_, .lost(.none)):
      violated(.loss, "\(account.name): its refresh token was lost, and nothing had happened that could lose it")
    case (_, .lost(.some(let excuse))):
      violated(.saysLost, "\(account.name) ended as \(reason.rawValue), though \(excuse.rawValue)")
    case (_, .live):
      violated(
        .ended, "\(account.name) ended as \(reason.rawValue), though the provider still accepts the token on disk")
    case (_, .over), (_, .withoutRefreshToken):
      violated(.ended, "\(account.name) ended as \(reason.rawValue), which is not why")
    }
  }

  func heard(of event: Event) {
    guard event.type == .loginRequired, let name = event.account.flatMap(AccountName.init(rawValue:)) else { return }
    account(name)?.session?.isEndTold = true
  }

  private func checkTold(_ account: ModelAccount, _ session: ModelProvider.Session) {
    guard !session.isEndSaved else { return }
    session.isEndSaved = true
    let (run, endedAt) = (run, now)
    time.after(minute) { [self] in
      guard run == self.run, account.session === session, max(disk.slowUntil, resumedAt) < endedAt else { return }
      counts.add("ends told")
      if !session.isEndTold { violated(.told, "\(account.name) has ended, and no event reported it") }
    }
  }

  // MARK: The stop of the service

  /// The service stopped on request, with these accounts newer in memory than on disk.
  func checkHandover(_ unsaved: [AccountName], since toldAt: Moment) {
    if disk.trouble == nil, max(disk.lastTrouble, disk.slowUntil, resumedAt) < toldAt, let name = unsaved.first {
      return violated(.handover, "\(name) was not saved at the stop, though the disk works")
    }
    for account in accounts {
      guard let session = account.session, account.newestSaved < session.newestKept, session.isAlive,
        session.refreshesUnderWay == 0, session.excuse == nil
      else { continue }
      counts.add("renewals that a stop could not save")
      if !unsaved.contains(account.key) {
        violated(.handover, "\(account.name) has a renewal that is not on disk, and the stop does not report it")
      }
    }
  }

  /// The broker limits each wait, regardless of the provider's answer.
  func checkPatience(_ error: RPCError, _ account: ModelAccount) {
    guard let wait = error.retry_after, wait > Double(World.longestWait / second) else { return }
    violated(.patience, "\(account.name) gets a wait of \(Int(wait)) s")
  }

  private func describe(_ standing: Standing) -> String {
    switch standing {
    case .good: "good"
    case .failing(let failure, let count, let retryAt):
      "failing \(count) times, again in \((retryAt - wall).wholeSeconds) s (\(failure.message))"
    case .loginRequired(let reason, let failure): "login required: \(reason.rawValue) (\(failure.message))"
    case .misconfigured(let failure): "misconfigured (\(failure.message))"
    }
  }

  func account(_ name: AccountName) -> ModelAccount? { accountsByName[name] }

  // MARK: Losses

  func answerIsLost(_ session: ModelProvider.Session) {
    guard let account = accounts.first(where: { $0.session === session }), account.saved != session.newest else {
      return
    }
    session.excuse = .lostAnswer
  }

  /// The process ended: unsaved answers are lost.
  func isLost() {
    for account in accounts {
      account.reported = []
      account.rejected = []
      account.logoutsUnderWay = 0
      if let session = account.session, account.saved != session.newest, session.excuse == nil {
        session.excuse = .crash
        counts.add("crashes with an answer in hand")
      }
    }
    for provider in providers {
      for session in provider.sessions { session.refreshesUnderWay = 0 }
      provider.watch.underWay = 0
      provider.watch.lastTrouble = now
    }
  }

  // MARK: Requests

  func refreshIsSent(_ exchange: ModelNetwork.Exchange) {
    let provider = exchange.provider
    counts.add("refreshes sent")
    guard let token = exchange.refreshToken, let session = provider.session(token),
      let account = accounts.first(where: { $0.index == session.account })
    else { return violated(.isolation, "an unknown refresh token was sent") }
    session.refreshesUnderWay += 1
    if session.refreshesUnderWay > 1 { violated(.oneRefresh, "\(account.name) has two refreshes under way") }
    provider.watch.underWay += 1
    // After an outage its requests may still wait, even if the machine was suspended at its end.
    let isCalm = max(provider.watch.lastFault, resumedAt) < now - 5 * minute
    let most = configuration.refresh.concurrentPerProvider * (isCalm ? 1 : 2)
    if provider.watch.underWay > most {
      violated(.oneRefresh, "\(provider.name) has \(provider.watch.underWay) refreshes under way, \(most) are allowed")
    }
    checkStorm(account, session, exchange.form["resource"])
    if provider.isDeclaredToRotate {
      let intent = disk.contents.intents[account.key]
      if intent?.refreshTokenHash != token.secret.fingerprint {
        violated(.intent, "\(account.name): \(token.text) is sent without an intent on disk")
      }
    }
  }

  func refreshIsOver(_ exchange: ModelNetwork.Exchange) {
    if !exchange.isLate { exchange.provider.watch.underWay -= 1 }
    guard let token = exchange.refreshToken, let session = exchange.provider.session(token) else { return }
    session.refreshesUnderWay -= 1
    let newest = session.newestKept
    guard let account = accounts.first(where: { $0.session === session }), newest > account.newestSaved,
      account.saved != nil,
      session.excuse == nil
    else { return }
    let run = run
    let heardAt = now
    time.after(minute) { [self] in
      guard run == self.run, disk.trouble == nil, disk.lastTrouble < heardAt, disk.slowUntil < heardAt,
        resumedAt < heardAt,
        account.session === session, session.isAlive, account.newestSaved < newest
      else { return }
      violated(.loss, "\(account.name): an answer that came a minute ago is not on disk, which works")
    }
  }

  /// The account's own token in a complete answer with an unusual member.
  func harmlessAnswer(_ answer: HTTPResponse, to exchange: ModelNetwork.Exchange) {
    let provider = exchange.provider
    guard exchange.isRefresh, exchange.form["resource"] == nil, exchange.form["scope"] == nil,
      let token = provider.accessToken(in: answer), let session = provider.session(token),
      let account = accounts.first(where: { $0.session === session })
    else { return }
    let (run, heardAt) = (run, now)
    time.after(minute) { [self] in
      guard run == self.run, disk.trouble == nil, max(disk.lastTrouble, disk.slowUntil, resumedAt) < heardAt,
        account.session === session, session.isAlive, !account.reported.contains(token.text)
      else { return }
      counts.add("odd answers used")
      let saved = disk.contents.tokens[account.key].flatMap { Token($0.accessToken.exposed) }
      guard let saved, saved.session == token.session, saved.number >= token.number else {
        return violated(.harmless, "\(account.name): \(token.text), which came a minute ago, is not on disk")
      }
    }
  }

  // MARK: How often, and how soon

  /// A grant whose tokens live for minutes is not refreshed many times a minute, even if the clock is set.
  ///
  /// - Parameter resource: nil: it is refreshed for the account's own token.
  private func checkStorm(_ account: ModelAccount, _ session: ModelProvider.Session, _ resource: String?) {
    let sentAt = session.sentAt[resource, default: []].filter { $0 > now - minute } + [now]
    session.sentAt[resource] = sentAt
    guard account.provider.accessLifetime ?? 300 >= 300, runningSince < now - minute else { return }
    account.askedAt = account.askedAt.filter { $0 > now - 2 * minute }
    let most = 8 + account.askedAt.count
    if sentAt.count > most {
      violated(.storm, "\(account.name) was refreshed \(sentAt.count) times in a minute")
    }
  }

  /// A lost answer can be asked for again within the provider's grace: the broker has to be in time.
  private func checkGrace(_ account: ModelAccount, _ session: ModelProvider.Session) {
    let provider = account.provider
    guard case .grace(let length) = provider.rotating, provider.limiter == nil,
      let lostAt = provider.watch.lostAt[session.number],
      !provider.faults.contains(where: { $0.kinds.contains(where: \.asksToWait) })
    else { return }
    let trouble = max(lostAt, provider.watch.lastTrouble, runningSince, disk.lastTrouble, resumedAt, steppedAt)
    // Half the grace, and the longest wait between two probes of an outage.
    let needed = length / 2 + 55 * second
    if lostAt + length - trouble > needed {
      violated(
        .loss,
        "\(account.name): an answer lost at \(Trace.clock(lostAt)) was not asked for again in the grace of "
          + "\(length / second) s, though no fault occurred since \(Trace.clock(trouble))")
    }
  }
}
