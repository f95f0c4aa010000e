import BrokerAPI
import Grants
import Logging

/// Whose browser sent a request to the callback endpoint, as the kernel says.
public enum BrowserUser: Sendable, Hashable {
  /// - owner: the user who has this uid as a subordinate one (subuid(5)).
  case user(UInt32, owner: UInt32? = nil)
  case unknown
}

/// Why a browser may neither open a login nor complete it.
enum BrowserRefusal {
  case otherUser
  /// The kernel does not identify the user.
  case unknownUser

  /// Nil: it is the user's own browser.
  init?(_ browser: BrowserUser, for user: UInt32) {
    switch browser {
    case .user(user, _), .user(_, owner: user): return nil
    case .user: self = .otherUser
    case .unknown: self = .unknownUser
    }
  }
}

extension LimitedLog {
  /// Any local user can cause it.
  func refused(_ browser: BrowserUser, at login: SavedLogin) {
    let whose =
      switch browser {
      case .user(let uid, _): "a browser of uid \(uid)"
      case .unknown: "a browser whose user the kernel does not tell"
      }
    refused(
      "\(whose): the login of \(login.account) is for uid \(login.browserUser)",
      metadata: ["account": "\(login.account)", "provider": "\(login.provider)"])
  }
}
