import Callers
import Glibc
import Listening
import NIOCore

/// Listens at one port on 127.0.0.1 and ::1. A client may try either for `localhost`, and another user who listens on the
/// second one would get its requests.
struct LoopbackBinding {
  /// The kernel may choose a number for one family that another program has on the other one.
  private static let attempts = 16

  /// A socket that listens: the kernel accepts connections, and none is served yet.
  struct Bound {
    let host: String
    let address: SocketAddress
    let port: Int
    let descriptor: Int32

    var name: String { LoopbackBinding.name(host, port) }
  }

  let keeper: SocketKeeper?
  /// Connections that wait in the kernel.
  let backlog: Int32
  /// Called before a socket listens.
  let setUp: (Int32) -> Void

  /// The wanted address first; the other one only if the machine has that family.
  ///
  /// - Parameter port: 0: the kernel chooses.
  func bind(_ host: String, _ port: Int) throws(HTTPServerError) -> [Bound] {
    for attempt in 1...Self.attempts {
      do throws(HTTPServerError) {
        return try bindBoth(host, port)
      } catch {
        guard port == 0, error.code == EADDRINUSE, attempt < Self.attempts else { throw error }
      }
    }
    preconditionFailure("the last attempt returns or throws")
  }

  /// No client is served before both addresses are had.
  private func bindBoth(_ host: String, _ port: Int) throws(HTTPServerError) -> [Bound] {
    let first = try bound(host, port)
    var all = [first]
    do throws(HTTPServerError) {
      all.append(try bound(host == "::1" ? "127.0.0.1" : "::1", first.port))
    } catch {
      guard [EADDRNOTAVAIL, EAFNOSUPPORT, EPROTONOSUPPORT].contains(error.code) else {
        // One family without the other is not served. It is not held for a next process either.
        close(first.descriptor)
        keeper?.remove(first.name)
        throw error
      }
    }
    return all
  }

  private func failure(_ code: Int32, _ host: String, _ port: Int) -> HTTPServerError {
    HTTPServerError(
      address: .loopback(host: host, port: port), code: code,
      owner: code == EADDRINUSE ? Self.owner(host, port) : nil)
  }

  /// The socket's name for the keeper.
  private static func name(_ host: String, _ port: Int) -> String { "\(port)-\(host.contains(":") ? "v6" : "v4")" }

  private func bound(_ host: String, _ port: Int) throws(HTTPServerError) -> Bound {
    if let earlier = earlier(host, port) { return earlier }
    guard let address = try? SocketAddress(ipAddress: host, port: port) else { throw failure(EINVAL, host, port) }
    let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
    let descriptor = socket(Int32(address.protocol.rawValue), type, 0)
    guard descriptor >= 0 else { throw failure(errno, host, port) }
    setUp(descriptor)
    var on: Int32 = 1
    let isBound = address.withSockAddr { address, length in
      setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size)) == 0
        && Glibc.bind(descriptor, address, socklen_t(length)) == 0 && listen(descriptor, backlog) == 0
    }
    guard isBound, let own = Self.address(of: descriptor), let chosen = own.port else {
      let code = errno
      close(descriptor)
      throw failure(code, host, port)
    }
    return Bound(host: host, address: own, port: chosen, descriptor: descriptor)
  }

  /// The socket that the process before listened with: connections wait in it.
  private func earlier(_ host: String, _ port: Int) -> Bound? {
    let name = Self.name(host, port)
    guard port != 0, let keeper, let descriptor = keeper.earlier(name) else { return nil }
    setUp(descriptor)
    if let address = Self.address(of: descriptor), address.ipAddress == host, address.port == port,
      fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0, listen(descriptor, backlog) == 0
    {
      return Bound(host: host, address: address, port: port, descriptor: descriptor)
    }
    keeper.remove(name)
    close(descriptor)
    return nil
  }

  private static func address(of descriptor: Int32) -> SocketAddress? {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let isKnown = withUnsafeMutablePointer(to: &storage) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) == 0 }
    }
    guard isKnown else { return nil }
    return withUnsafePointer(to: &storage) { storage in
      switch Int32(storage.pointee.ss_family) {
      case AF_INET:
        storage.withMemoryRebound(to: sockaddr_in.self, capacity: 1) { SocketAddress($0.pointee) }
      case AF_INET6:
        storage.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) { SocketAddress($0.pointee) }
      default: nil
      }
    }
  }

  /// The user that listens at the port, on this address or on all; nil: the kernel does not report one.
  static func owner(_ host: String, _ port: Int) -> UInt32? {
    let all = host.contains(":") ? [host, "::"] : [host, "0.0.0.0", "::"]
    for address in all {
      guard let own = try? SocketAddress(ipAddress: address, port: port),
        let none = try? SocketAddress(ipAddress: address.contains(":") ? "::" : "0.0.0.0", port: 0)
      else { continue }
      let uid = own.withSockAddr { own, _ in none.withSockAddr { none, _ in LoopbackPeer.listener(at: own, none: none) }
      }
      if let uid { return uid }
    }
    return nil
  }
}

extension HTTPServer {
  /// The user that listens at a loopback port, if it is another one than this program's; nil: the kernel reports none.
  public static func otherUser(at host: String, _ port: Int) -> UInt32? {
    LoopbackBinding.owner(host, port).flatMap { $0 == geteuid() ? nil : $0 }
  }
}
