import Broker
import Callers
import HTTPServer
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

    /// Asked of the kernel, on the connection's event loop.
    typealias Question = @Sendable (HTTPConnection) -> Answer
    /// `other` is the address of the client, `own` that of the listener.
    typealias Lookup = @Sendable (_ own: SocketAddress, _ other: SocketAddress) -> Answer

    /// Nil: this kernel cannot tell.
    let kernel: Question?
    /// Reads a file on a separate thread.
    let table: Lookup
    let ownerOfSubordinate: @Sendable (UInt32) -> UInt32?

    /// - Parameter ownerOfSubordinate: the user who has a subordinate user id (subuid(5)); nil for other ids.
    public init(ownerOfSubordinate: @escaping @Sendable (UInt32) -> UInt32? = { _ in nil }) {
      self.init(
        kernel: LoopbackPeer.isAvailable ? Self.asked : nil, table: TCPTable.owner,
        ownerOfSubordinate: ownerOfSubordinate)
    }

    init(
      kernel: Question?, table: @escaping Lookup,
      ownerOfSubordinate: @escaping @Sendable (UInt32) -> UInt32? = { _ in nil }
    ) {
      self.kernel = kernel
      self.table = table
      self.ownerOfSubordinate = ownerOfSubordinate
    }

    static let asked: Question = { $0.user.map(Answer.user) ?? .nobody }
  }
}

/// The user at the other end of one connection. Lives on its loop.
///
/// The kernel is asked when the connection is accepted, before a client that is in a hurry has closed its end: the owner
/// of a closed socket is unknown. The socket at the other end stays the same for as long as the connection lasts, so the
/// answer holds for everything that arrives on it.
final class BrowserPeer {
  private let connection: HTTPConnection
  private let users: CallbackListener.PeerUsers
  /// As the kernel told at the beginning; `unknown` where it has to be looked up in a file.
  private(set) var knownUser = BrowserUser.unknown

  init(_ connection: HTTPConnection, _ users: CallbackListener.PeerUsers) {
    self.connection = connection
    self.users = users
    if let kernel = users.kernel { know(kernel(connection)) }
  }

  /// The one that it connected to.
  var port: Int { connection.channel.localAddress?.port ?? 0 }

  /// Asks again where the answer was missing: the kernel may have been short of memory.
  func user() -> EventLoopFuture<BrowserUser>.Isolated {
    let loop = connection.channel.eventLoop
    if knownUser == .unknown, let kernel = users.kernel { know(kernel(connection)) }
    guard knownUser == .unknown, users.kernel == nil, let own = connection.channel.localAddress,
      let other = connection.channel.remoteAddress
    else { return loop.makeSucceededFuture(knownUser).assumeIsolated() }
    let table = users.table
    return NIOThreadPool.singleton.runIfActive(eventLoop: loop) { table(own, other) }
      .assumeIsolated().map { [self] answer in
        // While our end is connected no other socket can have had the addresses of its peer: they are looked at in this
        // order.
        if connection.isConnected { know(answer) }
        return knownUser
      }.recover { _ in .unknown }
  }

  private func know(_ answer: CallbackListener.PeerUsers.Answer) {
    if case .user(let uid) = answer { knownUser = .user(uid, owner: users.ownerOfSubordinate(uid)) }
  }
}
