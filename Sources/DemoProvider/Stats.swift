import Synchronization

extension DemoServer {
  /// What has happened since the start, or since the last reset where that says so.
  public struct Stats: Sendable {
    /// Requests for each endpoint, by its fault place's name; a reset clears them.
    public var requests: [String: Int]
    /// How often each kind of fault acted; a reset clears it.
    public var faultHits: [String: Int]
    /// Faults still set.
    public var faultsSet: Int
    public var liveGrants: Int
    public var deadGrants: Int
    public var refreshes: Int
    /// Refreshes that have arrived and are not answered.
    public var refreshesInFlight: Int
    /// The most refreshes that one grant ever had in flight at once.
    public var refreshesInFlightMax: Int
    /// In the order in which they were made.
    public var grants: [Grant]

    /// One grant's life so far.
    public struct Grant: Sendable {
      public var id: Int
      public var user: String
      public var clientID: String
      public var scopes: [String]
      /// Why it ended; nil while it lives.
      public var ended: String?
      /// Refreshes that succeeded here, whether or not their answer arrived.
      public var refreshes: Int
      public var refreshesInFlightMax: Int
    }
  }
}

extension Provider {
  func stats() -> DemoServer.Stats {
    ledger.withLock { ledger in
      let grants = ledger.grants.values.sorted { $0.id < $1.id }.map {
        DemoServer.Stats.Grant(
          id: $0.id, user: $0.approved.user.name, clientID: $0.approved.clientID, scopes: $0.approved.scopes,
          ended: $0.ended, refreshes: $0.refreshes, refreshesInFlightMax: $0.refreshesInFlightMax)
      }
      let live = grants.count { $0.ended == nil }
      return DemoServer.Stats(
        requests: ledger.counts, faultHits: ledger.faultHits, faultsSet: ledger.faults.count, liveGrants: live,
        deadGrants: grants.count - live, refreshes: grants.reduce(0) { $0 + $1.refreshes },
        refreshesInFlight: ledger.grants.values.reduce(0) { $0 + $1.refreshesInFlight },
        refreshesInFlightMax: grants.map(\.refreshesInFlightMax).max() ?? 0, grants: grants)
    }
  }
}

extension DemoServer.Stats {
  var json: DemoServer.JSON {
    [
      "requests": .object(requests.mapValues { .int($0) }), "fault_hits": .object(faultHits.mapValues { .int($0) }),
      "faults_set": .int(faultsSet), "live_grants": .int(liveGrants), "dead_grants": .int(deadGrants),
      "refreshes": .int(refreshes), "refreshes_in_flight": .int(refreshesInFlight),
      "refreshes_in_flight_max": .int(refreshesInFlightMax),
      "grants": .array(grants.map(\.json)),
    ]
  }
}

extension DemoServer.Stats.Grant {
  var json: DemoServer.JSON {
    [
      "id": .int(id), "user": .string(user), "client_id": .string(clientID),
      "scope": .string(scopes.joined(separator: " ")), "live": .bool(ended == nil),
      "ended": ended.map { .string($0) } ?? .null, "refreshes": .int(refreshes),
      "refreshes_in_flight_max": .int(refreshesInFlightMax),
    ]
  }
}
