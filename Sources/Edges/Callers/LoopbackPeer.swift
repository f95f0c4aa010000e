import CLinux
import Glibc
package import Principals

/// The socket at the other end of a TCP connection within this machine, as the kernel reports it (NETLINK_SOCK_DIAG).
package struct LoopbackPeer: Sendable, Hashable {
  /// The user who made the socket.
  package let uid: UInt32
  /// The kernel's id of the control group in which it was made; 0: unknown.
  package let group: UInt64
  /// The kernel's number of the socket, which no other one gets.
  package let cookie: UInt64

  package init(uid: UInt32, group: UInt64, cookie: UInt64) {
    self.uid = uid
    self.group = group
    self.cookie = cookie
  }

  /// ESTABLISHED, FIN_WAIT1, FIN_WAIT2 and CLOSE_WAIT by the numbers of the kernel's `tcp_states.h`. A socket that is
  /// still connecting has the addresses, but is not the peer.
  private static let connected: Set<UInt8> = [1, 4, 5, 8]

  /// Some kernels have no inet_diag.
  package static let isAvailable = clinux_tcp_sockets_are_told() == 1

  /// Whether a reported socket has an owner. The uid of one that no process has open reads 0, which is root's: only a
  /// socket with an inode has an owner.
  package static func isOwned(inode: UInt64, state: UInt8) -> Bool { inode != 0 && connected.contains(state) }

  /// Whether our end of a connection has not been closed by a reset.
  package static func isConnected(_ connection: Int32) -> Bool { clinux_tcp_is_connected(connection) == 1 }

  /// The peer of an accepted connection; nil if no process has the other end open in this network namespace.
  ///
  /// Called before ``isConnected(_:)``: while this end is connected no other socket can have had its addresses.
  ///
  /// - Parameters:
  ///   - connection: the accepted socket.
  ///   - own: its own address, a sockaddr_in or sockaddr_in6.
  ///   - other: the address of its peer.
  package init?(of connection: Int32, own: UnsafeRawPointer, other: UnsafeRawPointer) {
    var found = clinux_tcp_socket()
    guard clinux_tcp_socket(other, own, &found) == 0, Self.isOwned(inode: UInt64(found.inode), state: found.state),
      Self.isConnected(connection)
    else { return nil }
    self.init(uid: found.uid, group: found.control_group, cookie: found.cookie)
  }
}

extension LoopbackPeer {
  /// LISTEN by the number of the kernel's `tcp_states.h`.
  private static let listening: UInt8 = 10

  /// The user whose socket listens at exactly this address; nil: none does.
  ///
  /// - Parameters:
  ///   - own: the address, a sockaddr_in or sockaddr_in6.
  ///   - none: the unspecified address of its family, without a port.
  package static func listener(at own: UnsafeRawPointer, none: UnsafeRawPointer) -> UInt32? {
    var found = clinux_tcp_socket()
    guard clinux_tcp_socket(own, none, &found) == 0, found.inode != 0, found.state == listening else { return nil }
    return found.uid
  }
}

/// Who has a ``LoopbackPeer``.
package final class LoopbackCallers: Sendable {
  private let groups: ControlGroups

  package init(groups: ControlGroups = ControlGroups()) { self.groups = groups }

  /// The caller, if all facts are known; nil: ``find(_:at:)`` must search.
  ///
  /// - Parameter now: by any clock that does not step.
  package func known(_ peer: LoopbackPeer, at now: Duration) -> Caller? {
    guard peer.group != 0 else { return caller(peer, nil) }
    if let place = groups[peer.group] { return caller(peer, place) }
    return groups.isLost(peer.group, at: now) ? caller(peer, nil) : nil
  }

  /// The same with a look at the tree of control groups, which blocks for milliseconds.
  package func find(_ peer: LoopbackPeer, at now: Duration) -> Caller {
    caller(peer, groups.find(peer.group, of: SubordinateUsers.shared.owner(of: peer.uid) ?? peer.uid, at: now))
  }

  /// The caller, where its unit cannot be looked for now: no rule on units matches.
  package func withoutUnit(_ peer: LoopbackPeer) -> Caller { caller(peer, nil) }

  /// The holder, before the unit is known.
  package func holder(of peer: LoopbackPeer) -> Holder { Holder(uid: peer.uid, slice: nil, unit: nil) }

  /// No process is known, so neither its executable nor its groups: no rule on these matches.
  private func caller(_ peer: LoopbackPeer, _ place: CGroup?) -> Caller {
    var caller = Caller(uid: peer.uid, gid: .max, groups: [], pid: 0, unit: place?.unit, userUnit: place?.userUnit)
    caller.isSubordinate = SubordinateUsers.shared.owner(of: peer.uid) != nil
    caller.holder = Holder(uid: peer.uid, slice: place?.userSlice, unit: place?.unit)
    return caller
  }
}
