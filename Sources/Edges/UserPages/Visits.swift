import BrokerAPI

/// Links that open the page, and browsers that have opened it. In memory only; times are since the machine started.
/// Both are named by random text of 24 bytes, and Swift's dictionaries hash it under a key of the process.
struct Visits {
  static let linkLife = Duration.seconds(120)
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
    /// The process that requested it.
    let opener: Int32
    /// It sees the same files as the broker.
    let sharesFiles: Bool
    let until: Duration
  }

  struct Visit: Sendable {
    let id: String
    let user: UInt32
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
  mutating func add(
    link: String, for user: UInt32, by opener: Int32, sharesFiles: Bool = false, at now: Duration
  ) -> Bool {
    links = links.filter { $0.value.until > now }
    guard links.count < Self.mostLinks, links.values.count(where: { $0.user == user }) < Self.mostLinksOfUser else {
      return false
    }
    links[link] = Link(user: user, opener: opener, sharesFiles: sharesFiles, until: now + Self.linkLife)
    return true
  }

  /// Uses a link. Another user's browser does not use it up.
  mutating func open(link: String, by user: UInt32, as id: String, formToken: String, at now: Duration) -> Opening {
    guard let found = links[link], found.until > now else { return .spent }
    guard found.user == user else { return .otherUser }
    removeIdle(at: now)
    let own = visits.values.filter { $0.user == user }
    if own.count >= Self.mostVisitsOfUser {
      // The user has closed these pages long ago, most likely.
      guard let oldest = own.filter({ $0.live == 0 }).min(by: { $0.seen < $1.seen }) else { return .tooMany }
      visits[oldest.id] = nil
    }
    guard visits.count < Self.mostVisits else { return .tooMany }
    links[link] = nil
    let visit = Visit(
      id: id, user: user, opener: found.opener, sharesFiles: found.sharesFiles, formToken: formToken, seen: now)
    visits[id] = visit
    return .opened(visit)
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
