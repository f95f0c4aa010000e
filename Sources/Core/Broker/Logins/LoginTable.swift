import Grants
import OAuth
import Principals

/// The logins by id, by a keyed hash of their `state` (RFC 6749 §4.1.1), and by one of their link's token.
///
/// Foreign values are hashed with a secret key, so the search time reveals nothing about existing states. The table
/// finds a login; ``Provider/claim(_:login:)`` verifies the state.
struct LoginTable {
  private var logins: [LoginID: Login] = [:]
  private var byState: [String: LoginID] = [:]
  private var byLink: [String: LoginID] = [:]
  private let key: Secret
  /// At providers where one login waits at a time.
  var turns = LoginQueue()
  /// Logins that are about to start, and that others join.
  var starting: [LoginStarting.Key: LoginStarting.Work] = [:]

  /// Exchanges whose answer may hold tokens: a stop waits for them.
  var exchangesInFlight = 0

  /// - Parameter key: 256 random bits of this process.
  init(key: Secret) { self.key = key }

  var ids: some Collection<LoginID> { logins.keys }
  var all: some Collection<Login> { logins.values }

  /// A login keeps its state and its link during its lifetime.
  subscript(id: LoginID) -> Login? {
    get { logins[id] }
    set {
      if let old = logins[id], newValue == nil {
        byState[hash(of: old.saved.state)] = nil
        if let link = old.saved.link { byLink[hash(of: link.token)] = nil }
      }
      if let newValue, logins[id] == nil {
        byState[hash(of: newValue.saved.state)] = id
        if let link = newValue.saved.link { byLink[hash(of: link.token)] = id }
      }
      logins[id] = newValue
    }
  }

  func login(ofState state: Secret) -> Login? { byState[hash(of: state)].flatMap { logins[$0] } }

  func login(ofLink token: Secret) -> Login? { byLink[hash(of: token)].flatMap { logins[$0] } }

  /// Removes results that are too old, and the oldest ones beyond a limit: of the same holder, else of the one with the
  /// most. A user that starts and cancels logins removes no results of others.
  mutating func removeEnded(at now: Timestamp) {
    var shares = Shares(all: Limit.endedLogins, perHolder: Limit.endedLoginsPerHolder)
    var kept: [Holder: [LoginID]] = [:]
    for (login, at) in ended.sorted(by: { $0.at > $1.at }) {
      guard now - at <= Limit.endedLoginsKept else {
        self[login.saved.id] = nil
        continue
      }
      switch shares.acquire(for: login.holder) {
      case nil: break
      case .ofHolder, .ofUser:
        self[login.saved.id] = nil
        continue
      case .ofAll:
        // Those that were kept are newer: the last one is their oldest.
        guard let largest = shares.largest(beside: login.holder),
          shares.count(ofUserOf: largest) > shares.count(ofUserOf: login.holder) + 1,
          let oldest = kept[largest]?.popLast()
        else {
          self[login.saved.id] = nil
          continue
        }
        self[oldest] = nil
        shares.giveBack(of: largest)
        shares.add(1, for: login.holder)
      }
      kept[login.holder, default: []].append(login.saved.id)
    }
  }

  private var ended: [(login: Login, at: Timestamp)] {
    logins.values.compactMap { login in login.endedAt.map { (login: login, at: $0) } }
  }

  private func hash(of secret: Secret) -> String { secret.keyedHash(under: key) }
}
