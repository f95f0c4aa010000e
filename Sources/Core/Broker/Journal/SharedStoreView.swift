/// The machines that share a database, and warnings for the administrator.
public struct SharedStoreView: Sendable, Equatable {
  public struct Machine: Sendable, Equatable {
    public var id: String
    public var name: String
    public var version: String
    /// The time since its latest sign of life.
    public var seen: Duration
    /// It stopped in order.
    public var hasEnded: Bool
    public var isOwn: Bool
    /// Its clock minus the database's.
    public var clockOffset: Duration?
    /// Refreshes that it has under way.
    public var leases: Int

    public init(
      id: String, name: String, version: String, seen: Duration, hasEnded: Bool, isOwn: Bool, clockOffset: Duration?,
      leases: Int
    ) {
      self.id = id
      self.name = name
      self.version = version
      self.seen = seen
      self.hasEnded = hasEnded
      self.isOwn = isOwn
      self.clockOffset = clockOffset
      self.leases = leases
    }
  }

  public var machines: [Machine]
  public var leases: Int
  public var schema: Int
  /// Sentences without a full stop.
  public var warnings: [String]

  public init(machines: [Machine], leases: Int, schema: Int, warnings: [String]) {
    self.machines = machines
    self.leases = leases
    self.schema = schema
    self.warnings = warnings
  }
}
