extension HTTPServer {
  /// Holds the listening sockets of a loopback port while no process serves them, so that a client waits instead of being
  /// refused, and no other program gets the port. The families are called `v4` and `v6`.
  public struct SocketKeeper: Sendable {
    /// The socket of this port and family that the process before left, once. The listener owns it.
    public var earlier: @Sendable (_ port: Int, _ family: String) -> Int32?
    /// Gives a copy of the listening descriptor away; true if it was taken.
    public var keep: @Sendable (_ descriptor: Int32, _ port: Int, _ family: String) -> Bool
    /// The copy is not needed any more.
    public var forget: @Sendable (_ port: Int, _ family: String) -> Void

    public init(
      earlier: @escaping @Sendable (_ port: Int, _ family: String) -> Int32?,
      keep: @escaping @Sendable (_ descriptor: Int32, _ port: Int, _ family: String) -> Bool,
      forget: @escaping @Sendable (_ port: Int, _ family: String) -> Void
    ) {
      self.earlier = earlier
      self.keep = keep
      self.forget = forget
    }
  }
}
