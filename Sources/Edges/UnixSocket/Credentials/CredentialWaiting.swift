extension CredentialServer {
  /// Whoever holds the connections of units that wait for their credential. Were they closed with a process that ends
  /// without a word, systemd would take that for an empty credential, and start the units with it.
  public struct Waiting: Sendable {
    /// What the process before left. The server owns the descriptors.
    public var earlier: [Connection]
    /// Gives a copy of the connection away, and tells how to make it be let go of.
    public var keep: @Sendable (Int32) -> @Sendable () -> Void

    public init(earlier: [Connection], keep: @escaping @Sendable (Int32) -> @Sendable () -> Void) {
      self.earlier = earlier
      self.keep = keep
    }

    public struct Connection: Sendable {
      public var descriptor: Int32
      public var letGo: @Sendable () -> Void

      public init(descriptor: Int32, letGo: @escaping @Sendable () -> Void) {
        self.descriptor = descriptor
        self.letGo = letGo
      }
    }
  }
}
