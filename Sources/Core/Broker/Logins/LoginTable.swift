import Grants
import OAuth

/// The logins by id, by a keyed hash of their `state` (RFC 6749 §4.1.1), and by one of their link's token.
///
/// What a stranger sends is hashed under a key that they do not know, so the time of a look-up tells nothing of the
/// states that are there. The table finds a login; ``Provider/claim(_:login:)`` proves that the state is its own.
struct LoginTable {
  private var logins: [LoginID: Login] = [:]
  private var byState: [String: LoginID] = [:]
  private var byLink: [String: LoginID] = [:]
  private let key: Secret
  /// At providers where one login waits at a time.
  var turns = LoginTurns()

  /// - Parameter key: 256 random bits, of this process alone.
  init(key: Secret) { self.key = key }

  var ids: some Collection<LoginID> { logins.keys }
  var all: some Collection<Login> { logins.values }

  /// A login keeps its state and its link for as long as it is here.
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

  private func hash(of secret: Secret) -> String { secret.keyedHash(under: key) }
}
