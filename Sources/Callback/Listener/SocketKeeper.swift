extension CallbackListener {
  /// Holds the listening sockets while no process serves them, so that a browser waits instead of being refused.
  /// The families are called `v4` and `v6`.
  public struct SocketKeeper: Sendable {
    /// What the process before left of this port and family, once. The listener owns it.
    public var earlier: @Sendable (_ port: Int, _ family: String) -> Int32?
    /// Gives a copy of the listening descriptor away; true where somebody took it.
    public var keep: @Sendable (_ descriptor: Int32, _ port: Int, _ family: String) -> Bool
    /// The copy is of no use any more.
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
