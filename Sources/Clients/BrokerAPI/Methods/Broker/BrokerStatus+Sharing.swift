extension BrokerStatus {
  /// The database that several machines share.
  public struct SharingView: Codable, Sendable, Equatable, Documented {
    public var machines: [MachineView]
    public var leases: Int
    public var schema: Int
    public var warnings: [String]

    public init(machines: [MachineView], leases: Int, schema: Int, warnings: [String]) {
      self.machines = machines
      self.leases = leases
      self.schema = schema
      self.warnings = warnings
    }

    public static let docs = [
      "machines": "The machines that were seen in the last day, at most 64.",
      "leases": "Refreshes under way at all machines.",
      "schema": "The version of the schema.",
      "warnings": "Settings of the server, clocks and notifications that break a promise.",
    ]
  }

  public struct MachineView: Codable, Sendable, Equatable, Documented {
    public var node: String
    public var name: String
    public var version: String
    public var state: String
    public var seen_seconds: Int64
    public var clock_offset_seconds: Double?
    public var leases: Int

    public init(
      node: String, name: String, version: String, state: String, seen_seconds: Int64, clock_offset_seconds: Double?,
      leases: Int
    ) {
      self.node = node
      self.name = name
      self.version = version
      self.state = state
      self.seen_seconds = seen_seconds
      self.clock_offset_seconds = clock_offset_seconds
      self.leases = leases
    }

    public static let docs = [
      "node": "The machine's id in the database.",
      "name": "Its host name.",
      "version": "The version of its grantd.",
      "state": "`self`, `running`, `stopped`, or `silent`: no sign of life for 15 seconds.",
      "seen_seconds": "Seconds since its latest sign of life.",
      "clock_offset_seconds": "Its clock minus the database's.",
      "leases": "Its refreshes under way.",
    ]
  }
}
