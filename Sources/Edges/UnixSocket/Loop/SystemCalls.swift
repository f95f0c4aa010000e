import CLinux
import Callers
import Glibc
import Principals

/// The kernel calls of the socket's server. Tests answer instead.
struct SystemCalls: Sendable {
  /// accept4(2) of a listener, with the peer's address and its length.
  var accept: @Sendable (Int32, UnsafeMutablePointer<sockaddr_un>, UnsafeMutablePointer<UInt32>) -> Int32 = {
    clinux_accept($0, $1, $2)
  }
  /// The user and process at the other end of a socket; nil if the kernel does not report it.
  var credentials: @Sendable (Int32) -> clinux_peer? = { Peer.credentials(of: $0) }
  /// Whether the client has closed the connection, so that no answer can reach it.
  var hasEnded: @Sendable (Int32) -> Bool = { clinux_has_closed($0) == 1 }
  /// The rest of who that is.
  var caller: @Sendable (Int32, clinux_peer, ControlGroups) throws(Peer.Failure) -> Caller = {
    socket, credentials, groups throws(Peer.Failure) in
    try Peer(of: socket, credentials, groups: groups).caller
  }
  /// Whether no process can send a descriptor to later connections of a listener.
  var refuseDescriptors: @Sendable (Int32) -> Bool = { clinux_refuse_descriptors($0) == 0 }
  /// close(2) of a socket with descriptors in its input, which may block.
  var closeSlowly: @Sendable (Int32) -> Void = { _ = Glibc.close($0) }
}
