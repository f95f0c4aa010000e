import Glibc

extension SocketServer {
  /// Holds the listening socket while no process serves it, so that clients wait instead of being refused.
  public struct SocketKeeper: Sendable {
    /// The earlier process's socket, if any. The server owns it.
    public var earlier: Int32?
    /// Gives a copy of the listening descriptor away; true if it was accepted.
    public var keep: @Sendable (Int32) -> Bool
    /// The copy is of no use any more.
    public var forget: @Sendable () -> Void

    public init(
      earlier: Int32?, keep: @escaping @Sendable (Int32) -> Bool, forget: @escaping @Sendable () -> Void
    ) {
      self.earlier = earlier
      self.keep = keep
      self.forget = forget
    }
  }
}
