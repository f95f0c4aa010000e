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

/// Logs them. Every local user can have a browser refused, so the lines are limited.
@BrokerActor
final class BrowserRefusals {
  private let runtime: Runtime
  private var lines = LogBudget(Limit.browserRefusalLines)
  private var isReportDue = false

  init(_ runtime: Runtime) { self.runtime = runtime }

  func log(_ browser: BrowserUser, _ login: SavedLogin) {
    guard let omitted = lines.take(at: runtime.clock.uptime) else { return reportOmitted() }
    let whose =
      switch browser {
      case .user(let uid, _): "a browser of uid \(uid)"
      case .unknown: "a browser whose user the kernel does not tell"
      }
    let more = omitted > 0 ? "; \(omitted) more before it" : ""
    runtime.logger.warning(
      "refused \(whose): the login of \(login.account) is for uid \(login.browserUser)\(more)",
      metadata: ["account": "\(login.account)", "provider": "\(login.provider)"])
  }

  /// Logs soon how many were not logged.
  private func reportOmitted() {
    guard !isReportDue else { return }
    isReportDue = true
    let sleep = runtime.clock.surroundings.sleep
    Task { [weak self] in
      await sleep(Limit.browserRefusalReport)
      guard let self else { return }
      isReportDue = false
      if let omitted = lines.due(at: runtime.clock.uptime) {
        runtime.logger.warning("refused \(omitted) more browsers at logins of other users")
      }
    }
  }
}
