import Callers
import Glibc
import NIOCore
import NIOPosix

/// Listens at one port on 127.0.0.1 and ::1. A client may try either for `localhost`, and another user who listens on the
/// second one would get its requests.
struct LoopbackBinding {
  struct Listener {
    let host: String
    let port: Int
    let channel: any Channel

    /// The name that ``HTTPServer/SocketKeeper`` knows the family by.
    var family: String { host.contains(":") ? "v6" : "v4" }
  }

  /// The kernel may choose a number for one family that another program has on the other one.
  private static let attempts = 16

  let bootstrap: ServerBootstrap
  let keeper: HTTPServer.SocketKeeper?

  /// The wanted address first; the other one only if the machine has that family.
  ///
  /// - Parameter port: 0: the kernel chooses.
  func bind(_ host: String, _ port: Int) async throws(HTTPServerError) -> [Listener] {
    for attempt in 1...Self.attempts {
      do throws(HTTPServerError) {
        return try await bindBoth(host, port)
      } catch {
        guard port == 0, error.code == EADDRINUSE, attempt < Self.attempts else { throw error }
      }
    }
    preconditionFailure("the last attempt returns or throws")
  }

  private func bindBoth(_ host: String, _ port: Int) async throws(HTTPServerError) -> [Listener] {
    let first = try await listener(host, port)
    let other = host == "::1" ? "127.0.0.1" : "::1"
    do throws(HTTPServerError) {
      return [first, try await listener(other, first.port)]
    } catch {
      guard ![EADDRNOTAVAIL, EAFNOSUPPORT, EPROTONOSUPPORT].contains(error.code) else { return [first] }
      // One family without the other is not served. It is not held for a next process either.
      try? await first.channel.close().get()
      keeper?.forget(first.port, first.family)
      throw error
    }
  }

  private func listener(_ host: String, _ port: Int) async throws(HTTPServerError) -> Listener {
    if let earlier = await earlier(host, port) { return earlier }
    do {
      let channel = try await bootstrap.bind(to: SocketAddress(ipAddress: host, port: port)).get()
      return Listener(host: host, port: channel.localAddress?.port ?? port, channel: channel)
    } catch {
      let code = (error as? IOError)?.errnoCode ?? EINVAL
      let owner = code == EADDRINUSE ? Self.owner(host, port) : nil
      throw HTTPServerError(address: .loopback(host: host, port: port), code: code, owner: owner)
    }
  }

  /// The socket that the process before listened with: connections wait in it.
  private func earlier(_ host: String, _ port: Int) async -> Listener? {
    let family = host.contains(":") ? "v6" : "v4"
    guard port != 0, let keeper, let descriptor = keeper.earlier(port, family) else { return nil }
    guard let channel = try? await bootstrap.withBoundSocket(descriptor).get() else {
      keeper.forget(port, family)
      return nil
    }
    if channel.localAddress?.ipAddress == host, channel.localAddress?.port == port {
      return Listener(host: host, port: port, channel: channel)
    }
    keeper.forget(port, family)
    try? await channel.close().get()
    return nil
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
