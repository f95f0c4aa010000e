/// Who asks, as the kernel says. Every listener makes one, and the same rules, caps, rates and records hold for all.
public enum Principal: Sendable, Hashable {
  /// A process at the other end of a Unix socket.
  case process(Caller)
  /// A unit that loads a credential as it starts; its service manager's child asks for it.
  case unit(String, manager: Caller)
  /// The process at the other end of a loopback connection. Neither its executable nor
  /// its groups are known, and no rule on one matches.
  case peer(Caller)

  /// The facts that rules compare. Unknown facts match nothing.
  public var caller: Caller {
    switch self {
    case .process(let caller), .unit(_, manager: let caller), .peer(let caller): caller
    }
  }
}
