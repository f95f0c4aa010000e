/// Holds the sockets of one listener while no process serves them, so that clients wait instead of being refused, and no
/// other program gets the port.
public struct SocketKeeper: Sendable {
  /// The name of a listener's only socket. The two of a loopback port have names such as `7817-v4` and `7817-v6`.
  public static let only = ""

  /// The socket of this name that the process before left, once. The listener owns it.
  public let earlier: @Sendable (_ name: String) -> Int32?
  /// Gives a copy of the listening descriptor away; true if it was taken.
  public let keep: @Sendable (_ descriptor: Int32, _ name: String) -> Bool
  /// Removes the copy, which is no longer needed.
  public let remove: @Sendable (_ name: String) -> Void

  public init(
    earlier: @escaping @Sendable (_ name: String) -> Int32?,
    keep: @escaping @Sendable (_ descriptor: Int32, _ name: String) -> Bool,
    remove: @escaping @Sendable (_ name: String) -> Void
  ) {
    self.earlier = earlier
    self.keep = keep
    self.remove = remove
  }
}
