public import BrokerAPI
public import Principals
import Synchronization

/// Opens the web page of a user. The listener belongs to the composition root.
public protocol PageOpener: Sendable {
  /// - Parameters:
  ///   - user: whose browser may use the link.
  ///   - opener: the connection of the process that requested it.
  func open(for user: UInt32, by opener: any Session) async throws(RPCError) -> UIOpen.Result
}

/// The opener, once there is one.
final class PageOpening: Sendable {
  private let opener = Mutex<(any PageOpener)?>(nil)

  func set(_ new: any PageOpener) { opener.withLock { $0 = new } }

  func open(
    _ params: UIOpen.Params, over session: any Session, _ policy: Policy
  ) async throws(RPCError) -> UIOpen.Result {
    let caller = session.principal
    let user: UInt32
    if let named = params.browser_uid { user = named } else { user = try caller.owner() }
    guard user == caller.uid || policy.isPrivileged(caller) else {
      throw RPCError(
        .notPermitted, "only a privileged caller can open the page of another user",
        hint: "Run `grantctl ui` as that user.")
    }
    guard let opener = opener.withLock({ $0 }) else {
      throw RPCError(.temporarilyUnavailable, "the broker does not serve its page yet", retryAfter: 1)
    }
    return try await opener.open(for: user, by: session)
  }
}

extension UIOpen: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.upkeep.page.open(call.params, over: call.session, broker.door.authorizer.policy)
  }
}
