/// Who asks, as the kernel says. Every listener makes one, and the same rules, caps, rates and records hold for all.
///
/// Each question about a caller is a `switch` over all cases, without a default: a new case is answered at each place.
public enum Principal: Sendable, Hashable {
  /// A process at the other end of a Unix socket.
  case process(Caller)
  /// A unit that loads a credential as it starts; its service manager's child asks for it.
  case unit(String, manager: Caller)
  /// The process at the other end of a loopback connection. Neither its executable nor
  /// its groups are known, and no rule on one matches.
  case peer(Caller)
}

extension Principal {
  /// The user of this machine; nil: none. No number stands for a missing user.
  public var uid: UInt32? {
    switch self {
    case .process(let caller), .unit(_, manager: let caller), .peer(let caller): caller.uid
    }
  }

  /// The process; 0: not known.
  public var pid: Int32 {
    switch self {
    case .process(let caller), .unit(_, manager: let caller), .peer(let caller): caller.pid
    }
  }

  /// The holder that its resources are charged to.
  public var holder: Holder {
    switch self {
    case .process(let caller), .unit(_, manager: let caller), .peer(let caller): caller.holder
    }
  }

  /// The user in messages.
  public var user: String { uid.map { "uid \($0)" } ?? "a caller without a user" }

  /// The user's number in logs.
  public var uidText: String { uid.map { "\($0)" } ?? "none" }
}
