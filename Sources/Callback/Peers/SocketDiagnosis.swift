import CLinux
import Glibc
import NIOCore
import NIOPosix

/// Asks the kernel about TCP sockets (sock_diag(7), NETLINK_SOCK_DIAG).
enum SocketDiagnosis {
  /// ESTABLISHED, FIN_WAIT1, FIN_WAIT2 and CLOSE_WAIT by the numbers of the kernel's `tcp_states.h`. A socket that is
  /// still connecting has the addresses, but is not the peer.
  private static let connected: Set<UInt8> = [1, 4, 5, 8]

  /// Some kernels have no inet_diag.
  static let isAvailable = clinux_tcp_sockets_are_told() == 1

  static func owner(own: SocketAddress, other: SocketAddress) -> CallbackListener.PeerUsers.Answer {
    var found = clinux_tcp_socket()
    let isThere = other.withSockAddr { client, _ in
      own.withSockAddr { listener, _ in clinux_tcp_socket(client, listener, &found) == 0 }
    }
    return isThere ? answer(uid: found.uid, inode: UInt64(found.inode), state: found.state) : .nobody
  }

  /// The uid of a socket that no process has open reads 0, which is root's: only with an inode is it somebody's.
  static func answer(uid: UInt32, inode: UInt64, state: UInt8) -> CallbackListener.PeerUsers.Answer {
    inode != 0 && connected.contains(state) ? .user(uid) : .nobody
  }

  /// Whether our end of the connection has not been closed by a reset. On the channel's loop.
  static func isConnected(_ channel: any Channel) -> Bool {
    let isConnected = try? channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(
      of: NIOBSDSocket.Handle.self
    ) { clinux_tcp_is_connected($0) == 1 }
    return isConnected ?? false
  }
}
