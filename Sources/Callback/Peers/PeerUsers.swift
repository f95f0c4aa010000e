import Broker
import NIOCore
import NIOPosix

extension CallbackListener {
  /// Finds the user who owns the other end of a loopback connection: the user whose browser it is.
  public struct PeerUsers: Sendable {
    enum Answer: Sendable, Equatable {
      case user(UInt32)
      /// No process has the other end open: it was closed, or is in another network namespace.
      case nobody
    }

    /// `other` is the address of the client, `own` that of the listener.
    typealias Lookup = @Sendable (_ own: SocketAddress, _ other: SocketAddress) -> Answer

    /// Answered by the kernel at once, on the event loop; nil: this kernel cannot tell.
    let sockets: Lookup?
    /// Reads a file, on a thread of its own.
    let table: Lookup
    let ownerOfSubordinate: @Sendable (UInt32) -> UInt32?

    /// - Parameter ownerOfSubordinate: the user who has a subordinate user id (subuid(5)); nil for other ids.
    public init(ownerOfSubordinate: @escaping @Sendable (UInt32) -> UInt32? = { _ in nil }) {
      self.init(
        sockets: SocketDiagnosis.isAvailable ? SocketDiagnosis.owner : nil, table: ConnectionTable.owner,
        ownerOfSubordinate: ownerOfSubordinate)
    }

    init(
      sockets: Lookup?, table: @escaping Lookup,
      ownerOfSubordinate: @escaping @Sendable (UInt32) -> UInt32? = { _ in nil }
    ) {
      self.sockets = sockets
      self.table = table
      self.ownerOfSubordinate = ownerOfSubordinate
    }
  }
}

/// The user at the other end of one connection. Lives on its loop.
///
/// The kernel is asked when the connection is accepted, before a client that is in a hurry has closed its end: the owner
/// of a closed socket is unknown. The socket at the other end stays the same for as long as the connection lasts, so the
/// answer holds for everything that arrives on it.
final class Peer {
  private let channel: any Channel
  private let users: CallbackListener.PeerUsers
  private var known = BrowserUser.unknown

  init(_ channel: any Channel, _ users: CallbackListener.PeerUsers) {
    self.channel = channel
    self.users = users
    if let sockets = users.sockets { known = checked(asked(sockets)) }
  }

  /// As the kernel told at the beginning; `unknown` where it has to be looked up in a file.
  var knownUser: BrowserUser { known }

  /// Asks again where the answer was missing: the kernel may have been short of memory.
  func user() -> EventLoopFuture<BrowserUser>.Isolated {
    let loop = channel.eventLoop
    guard known == .unknown else { return loop.makeSucceededFuture(known).assumeIsolated() }
    if let sockets = users.sockets {
      known = checked(asked(sockets))
      return loop.makeSucceededFuture(known).assumeIsolated()
    }
    guard let own = channel.localAddress, let other = channel.remoteAddress else {
      return loop.makeSucceededFuture(.unknown).assumeIsolated()
    }
    let table = users.table
    return NIOThreadPool.singleton.runIfActive(eventLoop: loop) { table(own, other) }
      .assumeIsolated().map { [self] answer in
        known = checked(answer)
        return known
      }.recover { _ in .unknown }
  }

  private func asked(_ sockets: CallbackListener.PeerUsers.Lookup) -> CallbackListener.PeerUsers.Answer {
    guard let own = channel.localAddress, let other = channel.remoteAddress else { return .nobody }
    return sockets(own, other)
  }

  /// While our end is connected no other socket can have had the addresses of its peer: they are looked at in this order.
  private func checked(_ answer: CallbackListener.PeerUsers.Answer) -> BrowserUser {
    guard case .user(let uid) = answer, SocketDiagnosis.isConnected(channel) else { return .unknown }
    return .user(uid, owner: users.ownerOfSubordinate(uid))
  }
}
