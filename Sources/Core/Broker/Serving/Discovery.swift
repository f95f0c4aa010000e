import BrokerAPI
import Synchronization

/// The OpenRPC document, made at its first request: that takes half as long as the broker's start.
final class Discovery: Sendable {
  private let version: String
  private let made = Mutex<JSON?>(nil)

  init(version: String) { self.version = version }

  var document: JSON {
    made.withLock { made in
      if let made { return made }
      let document = OpenRPC.document(version: version)
      made = document
      return document
    }
  }
}

extension RPCDiscover: RPCHandler {
  static func constant(_ call: Call<Self>, by broker: Broker) -> Result? { broker.reports.discovery.document }

  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    broker.reports.discovery.document
  }
}
