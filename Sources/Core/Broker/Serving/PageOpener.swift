public import BrokerAPI
public import Principals

/// Opens the web page of a user. The listener belongs to the composition root.
public protocol PageOpener: Sendable {
  /// - Parameters:
  ///   - user: whose browser may use the link.
  ///   - opener: the connection of the process that requested it.
  ///   - broker: the broker of the page.
  func open(for user: UInt32, by opener: any Session, of broker: Broker) async throws(RPCError) -> UIOpen.Result
}

extension UIOpen: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    let user: UInt32
    if let named = call.params.browser_uid { user = named } else { user = try call.caller.owner() }
    guard user == call.caller.uid || broker.door.authorizer.policy.isPrivileged(call.caller) else {
      throw RPCError(
        .notPermitted, "only a privileged caller can open the page of another user",
        hint: "Run `grantctl ui` as that user.")
    }
    guard let page = broker.upkeep.page else {
      throw RPCError(.temporarilyUnavailable, "the broker does not serve its page")
    }
    return try await page.open(for: user, by: call.session, of: broker)
  }
}
