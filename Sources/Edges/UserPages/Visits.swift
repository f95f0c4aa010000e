import BrokerAPI
import Principals

/// Links that open the page, and browsers that have opened it. In memory only; times are since the machine started.
/// Both are named by random text of 24 bytes, and Swift's dictionaries hash it under a key of the process.
struct Visits {
  static let linkLife = Duration.seconds(120)
  /// The limits of all users together, and of each user with the subordinate user ids. Root and the broker's own user have
  /// separate ones: each as many links as all others together, as they may open the pages of others.
  static let mostLinks = 64
  static let mostLinksOfUser = 8
  static let mostVisits = 256
  static let mostVisitsOfUser = 16
  /// A session without an open page ends after this time.
  static let idle = Duration.seconds(600)
  /// Sign-ins that a session remembers.
  static let mostLogins = 8

  private struct Link {
    let user: UInt32
    /// The user that it is counted for.
    let payer: Holder
    /// The process that requested it.
    let opener: Int32
    /// It sees the same files as the broker.
    let sharesFiles: Bool
    let until: Duration
  }

  struct Visit: Sendable {
    let id: String
    let user: UInt32
    /// The user that it is counted for: for a subordinate user id its owner. It gives no access.
    let payer: Holder
    /// The process that requested the link: it cannot approve its own requests through the page.
    let opener: Int32
    /// That process sees the same files as the broker.
    let sharesFiles: Bool
    /// In every form (CSRF).
    let formToken: String
    var seen: Duration
    /// Pages that receive events.
    var live = 0
    /// The sign-ins that were started here, the latest last.
    var logins: [StartedLogin] = []
    /// The providers that were added or checked here, the latest last.
    var runs: [ProviderRun] = []
  }

  enum Opening {
    case opened(Visit)
    /// It was used, or has expired.
    case spent
    case otherUser
    case tooMany
  }

  private var links: [String: Link] = [:]
  private var visits: [String: Visit] = [:]

  /// False: too many links are unused.
  ///
  /// - Parameter holder: the process that requested it is counted there.
  mutating func add(
    link: String, for user: UInt32, by opener: Int32, of holder: Holder, sharesFiles: Bool = false, at now: Duration
  ) -> Bool {
    links = links.filter { $0.value.until > now }
    guard hasRoom(forLinkOf: holder.user) else { return false }
    links[link] = Link(
      user: user, payer: holder.user, opener: opener, sharesFiles: sharesFiles, until: now + Self.linkLife)
    return true
  }

  private func hasRoom(forLinkOf payer: Holder) -> Bool {
    guard !payer.hasOwnPlaces else { return links.values.count { $0.payer == payer } < Self.mostLinks }
    var shares = Shares(all: Self.mostLinks, perHolder: Self.mostLinksOfUser)
    for link in links.values { shares.add(1, for: link.payer) }
    return shares.shortage(for: payer) == nil
  }

  /// Uses a link. Another user's browser does not use it up.
  ///
  /// - Parameter holder: the browser is counted there.
  mutating func open(
    link: String, by user: UInt32, of holder: Holder, as id: String, formToken: String, at now: Duration
  ) -> Opening {
    guard let found = links[link], found.until > now else { return .spent }
    guard found.user == user else { return .otherUser }
    removeIdle(at: now)
    var shares = Shares(all: Self.mostVisits, perHolder: Self.mostVisitsOfUser)
    for visit in visits.values { shares.add(1, for: visit.payer) }
    switch shares.shortage(for: holder.user) {
    case nil: break
    case .ofHolder, .ofUser:
      guard let closed = closedVisit(of: holder.user, for: user) else { return .tooMany }
      visits[closed] = nil
    case .ofAll: return .tooMany
    }
    links[link] = nil
    let visit = Visit(
      id: id, user: user, payer: holder.user, opener: found.opener, sharesFiles: found.sharesFiles,
      formToken: formToken, seen: now)
    visits[id] = visit
    return .opened(visit)
  }

  /// The session to end, so that the user id can have another one: the oldest without an open page, of the user id that
  /// has the most. Subordinate user ids cannot keep their owner from its page.
  private func closedVisit(of payer: Holder, for user: UInt32) -> String? {
    let all = visits.values.filter { $0.payer == payer }
    var counts: [UInt32: Int] = [:]
    for visit in all { counts[visit.user, default: 0] += 1 }
    func rank(_ visit: Visit) -> (Int, Int, Duration) {
      (-counts[visit.user, default: 0], visit.user == user ? 0 : 1, visit.seen)
    }
    return all.filter { $0.live == 0 }.min { rank($0) < rank($1) }?.id
  }

  /// The session that a request belongs to; nil: none of this user.
  mutating func visit(_ id: String, of user: UInt32, at now: Duration) -> Visit? {
    guard var visit = visits[id], visit.user == user, !isIdle(visit, at: now) else { return nil }
    visit.seen = now
    visits[id] = visit
    return visit
  }

  /// Whether the session is another user's.
  func isOfOther(_ id: String, than user: UInt32) -> Bool { visits[id].map { $0.user != user } ?? false }

  mutating func end(_ id: String) { visits[id] = nil }

  mutating func liveChanged(_ id: String, by change: Int, at now: Duration) {
    visits[id]?.live += change
    visits[id]?.seen = now
  }

  mutating func remember(_ login: StartedLogin, in id: String) {
    guard var visit = visits[id] else { return }
    visit.logins.removeAll { $0.id == login.id }
    visit.logins.append(login)
    visit.logins = visit.logins.suffix(Self.mostLogins)
    visits[id] = visit
  }

  /// False: too many of them run.
  mutating func remember(_ run: ProviderRun, in id: String) -> Bool {
    guard var visit = visits[id], visit.runs.count(where: { !$0.hasEnded }) < ProviderRun.most else { return false }
    visit.runs = visit.runs.filter { !$0.hasEnded } + visit.runs.filter(\.hasEnded).suffix(1) + [run]
    visits[id] = visit
    return true
  }

  /// Whether a link may still be used, or a page is open.
  mutating func isInUse(at now: Duration) -> Bool {
    links = links.filter { $0.value.until > now }
    removeIdle(at: now)
    return !links.isEmpty || !visits.isEmpty
  }

  private func isIdle(_ visit: Visit, at now: Duration) -> Bool { visit.live <= 0 && now - visit.seen > Self.idle }

  private mutating func removeIdle(at now: Duration) {
    visits = visits.filter { !isIdle($0.value, at: now) }
  }
}

/// A sign-in that a session has started.
struct StartedLogin: Sendable {
  var id: String
  var provider: String
  var account: String
  var expiresAt: Int64
  var destinations: [Destination]
  var warnings: [String]
}
