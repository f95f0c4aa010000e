extension CredentialServer {
  /// The holder of connections of units that wait for their credential. If they were closed with a process that ends
  /// abruptly, systemd would take that for an empty credential, and start the units with it.
  public struct Waiting: Sendable {
    /// The rest of the earlier process. The server owns the descriptors.
    public var earlier: [Connection]
    /// Gives a copy of the connection away, with the way to release it.
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
