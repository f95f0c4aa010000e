import BrokerAPI

extension ResourceDiscover: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.clients.resources.discover(call.params)
  }
}

extension ResourceAdd: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.clients.resources.add(call.params)
  }
}

extension ClientMetadata: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    .init(
      url: broker.clients.resources.clientMetadata, client_name: "grantd", redirect_uris: ["http://127.0.0.1/callback"],
      grant_types: ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
      response_types: ["code"], token_endpoint_auth_method: "none")
  }
}
