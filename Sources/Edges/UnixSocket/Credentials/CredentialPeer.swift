import Callers
import Glibc
import Principals

extension CredentialServer {
  /// Whose units are served, and so who may ask for them.
  public enum Manager: Sendable, Equatable {
    /// PID 1, for the system's units.
    case system
    /// The manager of the user with this uid, for its own units.
    case user(UInt32)
  }
}

extension CredentialServer.Manager {
  private var uid: UInt32 {
    switch self {
    case .system: 0
    case .user(let uid): uid
    }
  }

  /// The request, if it is this manager's: the name is believed only from a process of the manager's user in the unit's
  /// own control group, since only the manager starts its processes there.
  func request(_ name: CredentialName?, from caller: Caller) throws(CredentialRefusal) -> CredentialRequest {
    guard let name else { throw .unnamed }
    guard caller.uid == uid else { throw .foreignUser(caller.uid) }
    guard let unit = caller.unit else { throw .unknownUnit }
    let found: String
    switch self {
    case .system:
      // `user@.service` itself may be in its manager's future group; all else below it belongs to the user, under any
      // name.
      let isUsers = caller.userUnit != nil && caller.userUnit != "init.scope"
      guard !isUsers else { throw .otherUnit(found: "\(unit)/\(caller.userUnit ?? "")") }
      found = unit
    case .user(let uid):
      guard unit == "user@\(uid).service", let own = caller.userUnit else { throw .otherUnit(found: unit) }
      found = own
    }
    guard found == name.unit else { throw .otherUnit(found: found) }
    return CredentialRequest(unit: name.unit, id: name.id, caller: caller)
  }
}

/// The process at the other end of a connection, and its claimed request.
final class CredentialPeer {
  private let peer: Peer
  let name: CredentialName?

  init(of socket: Int32) throws(Peer.Failure) {
    guard let credentials = Peer.credentials(of: socket) else { throw .unidentified }
    peer = try Peer(of: socket, credentials, orOpened: true)
    name = Self.name(of: socket)
  }

  /// The credential that the other end claims to need; nil if it does not use systemd's form.
  static func name(of socket: Int32) -> CredentialName? {
    var address = sockaddr_un()
    var length = socklen_t(MemoryLayout<sockaddr_un>.size)
    let code = withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getpeername(socket, $0, &length) }
    }
    return code == 0 ? name(address, length: Int(length)) : nil
  }

  /// The same from its bound address as the kernel reports it; nil if it is unbound.
  static func name(_ address: sockaddr_un, length: Int) -> CredentialName? {
    let head = MemoryLayout<sockaddr_un>.offset(of: \.sun_path) ?? 0
    guard length > head, length <= MemoryLayout<sockaddr_un>.size, address.sun_family == sa_family_t(AF_UNIX) else {
      return nil
    }
    return CredentialName(withUnsafeBytes(of: address.sun_path) { Array($0.prefix(length - head)) })
  }

  var caller: Caller { peer.caller }

  /// Whether it is still there to be answered.
  var isAlive: Bool { peer.isAlive == true }
}
