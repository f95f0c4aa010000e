import BrokerAPI

extension RPCDiscover: RPCHandler {
  /// Made at its first request: that takes half as long as the broker's start.
  private static let document = OpenRPC.document(version: GrantdVersion.current)

  static func constant(_ call: Call<Self>, by broker: Broker) -> Result? { document }

  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result { document }
}
