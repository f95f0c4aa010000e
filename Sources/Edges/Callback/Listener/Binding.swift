import Glibc
import HTTPServer
import Listening
import NIOCore
import NIOPosix

/// Gets one port on each loopback literal (RFC 8252 §7.3).
struct Binding {
  /// Another program may hold the number that the kernel chose for one family on the other.
  static let attempts = 16

  struct Result {
    var port: Int
    var addresses: [String]
    var warnings: [String]
    var sockets: [any Channel]
    /// Of each socket.
    var families: [Family]
  }

  enum Family: String, CaseIterable {
    case ipv4 = "127.0.0.1"
    case ipv6 = "::1"

    func authority(_ port: Int) -> String {
      switch self {
      case .ipv4: "127.0.0.1:\(port)"
      case .ipv6: "[::1]:\(port)"
      }
    }

    var name: String {
      switch self {
      case .ipv4: "IPv4"
      case .ipv6: "IPv6"
      }
    }

    /// The socket's name for the keeper.
    func socketName(_ port: Int) -> String {
      switch self {
      case .ipv4: "\(port)-v4"
      case .ipv6: "\(port)-v6"
      }
    }
  }

  private enum Failure: Error {
    case taken(Family)
    case notPermitted(Family)
    /// The machine does not have this address.
    case missing(Family)
    case other(Family, String)
  }

  let configuration: CallbackListener.Configuration
  let bootstrap: ServerBootstrap
  let keeper: SocketKeeper?

  func bind() async throws(CallbackListenerError) -> Result {
    let families = Family.allCases.filter { $0 == .ipv4 ? configuration.ipv4 : configuration.ipv6 }
    guard !families.isEmpty else { throw .noAddressFamily }
    guard (0...65535).contains(configuration.port) else { throw .invalidPort(configuration.port) }
    if configuration.port != 0 {
      do throws(Failure) {
        return try await bind(families, port: configuration.port)
      } catch {
        throw Self.translated(error, port: configuration.port)
      }
    }
    if let preferred = configuration.preferredPort, (1...65535).contains(preferred) {
      do throws(Failure) {
        return try await bind(families, port: preferred)
      } catch {
        var result = try await bindAny(families)
        result.warnings.append(
          "the callback port \(preferred) of before is not free; it is \(result.port) now, "
            + "and logins begun before cannot come back")
        return result
      }
    }
    return try await bindAny(families)
  }

  private func bindAny(_ families: [Family]) async throws(CallbackListenerError) -> Result {
    for _ in 0..<Self.attempts {
      do throws(Failure) {
        return try await bind(families, port: 0)
      } catch {
        switch error {
        case .taken: continue
        case .notPermitted, .missing, .other: throw Self.translated(error, port: 0)
        }
      }
    }
    throw .noCommonPort(attempts: Self.attempts)
  }

  /// All families that the machine has, or nothing.
  private func bind(_ families: [Family], port: Int) async throws(Failure) -> Result {
    var result = Result(port: port, addresses: [], warnings: [], sockets: [], families: [])
    var missing: [Family] = []
    for family in families {
      do throws(Failure) {
        let socket = try await socket(family, port: result.port)
        result.port = socket.localAddress?.port ?? result.port
        result.sockets.append(socket)
        result.families.append(family)
        result.addresses.append(family.authority(result.port))
      } catch {
        if case .missing = error {
          missing.append(family)
        } else {
          for socket in result.sockets { try? await socket.close().get() }
          // A single family is neither served nor held.
          for family in result.families { keeper?.remove(family.socketName(result.port)) }
          throw error
        }
      }
    }
    guard !result.sockets.isEmpty else { throw .missing(families[0]) }
    result.warnings = missing.map {
      "this machine has no \($0.rawValue): the callback endpoint is not reachable over \($0.name)"
    }
    return result
  }

  private func socket(_ family: Family, port: Int) async throws(Failure) -> any Channel {
    if let socket = await earlierSocket(family, port: port) { return socket }
    do {
      return try await bootstrap.bind(to: SocketAddress(ipAddress: family.rawValue, port: port)).get()
    } catch let error as IOError {
      switch error.errnoCode {
      case EADDRINUSE: throw .taken(family)
      case EACCES, EPERM: throw .notPermitted(family)
      case EADDRNOTAVAIL, EAFNOSUPPORT, EPROTONOSUPPORT: throw .missing(family)
      default: throw .other(family, error.description)
      }
    } catch {
      throw .other(family, "\(error)")
    }
  }

  /// The socket that a process before listened with: connections wait in it.
  private func earlierSocket(_ family: Family, port: Int) async -> (any Channel)? {
    let name = family.socketName(port)
    guard port != 0, let keeper, let earlier = keeper.earlier(name) else { return nil }
    let backlog = HTTPServer.Limits().backlog
    guard let socket = try? await bootstrap.listening(on: earlier, backlog: backlog) else {
      keeper.remove(name)
      return nil
    }
    if socket.localAddress?.ipAddress == family.rawValue, socket.localAddress?.port == port { return socket }
    keeper.remove(name)
    try? await socket.close().get()
    return nil
  }

  private static func translated(_ failure: Failure, port: Int) -> CallbackListenerError {
    switch failure {
    case .taken(let family):
      .portTaken(port: port, address: family.rawValue, owner: HTTPServer.otherUser(at: family.rawValue, port))
    case .notPermitted(let family): .portNotPermitted(port: port, address: family.rawValue)
    case .missing(let family): .noAddress(detail: "no \(family.rawValue)")
    case .other(let family, let detail): .noAddress(detail: "\(family.rawValue): \(detail)")
    }
  }
}
