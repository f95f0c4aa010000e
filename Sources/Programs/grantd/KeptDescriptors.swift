import Glibc
import HTTPServer
import Synchronization
import Systemd
import UnixSocket

/// The listening sockets that systemd holds while this process is away, so that a restart refuses nobody: what the
/// process before left, by name, until somebody takes it; and the way to leave some.
final class KeptDescriptors: Sendable {
  private let store: DescriptorStore
  private let left: Mutex<[String: Int32]>

  /// - Parameter inherited: all that systemd passed; what is not of the store is left alone.
  init(_ inherited: [ListenFDs.Listener], store: DescriptorStore = DescriptorStore()) {
    self.store = store
    var left: [String: Int32] = [:]
    for one in inherited where DescriptorStore.holds(one.name) {
      let name = String(one.name.dropFirst(DescriptorStore.prefix.count))
      // Two of a name cannot be told apart; both are the same socket, or the older is of no use.
      if let older = left.updateValue(one.descriptor, forKey: name) { close(older) }
    }
    self.left = Mutex(left)
  }

  /// For a Unix socket that this process binds itself.
  func keeper(_ name: String) -> SocketServer.SocketKeeper {
    SocketServer.SocketKeeper(
      earlier: take(name), keep: { [store] in store.keep($0, as: name) }, forget: { [store] in store.forget(name) })
  }

  /// For listeners on loopback ports, such as `callback`.
  func loopback(_ listener: String) -> HTTPServer.SocketKeeper {
    @Sendable func name(_ port: Int, _ family: String) -> String { "\(listener)-\(port)-\(family)" }
    return HTTPServer.SocketKeeper(
      earlier: { [self] port, family in take(name(port, family)) },
      keep: { [store] descriptor, port, family in store.keep(descriptor, as: name(port, family)) },
      forget: { [store] port, family in store.forget(name(port, family)) })
  }

  /// For connections of units that wait for a credential. Their names are of this process, so that no two are the same.
  func waiting() -> CredentialServer.Waiting {
    let prefix = "waiting-"
    let names = left.withLock { left in left.keys.filter { $0.hasPrefix(prefix) } }.sorted()
    let next = Mutex(0)
    return CredentialServer.Waiting(
      earlier: names.compactMap { name in
        take(name).map { .init(descriptor: $0, letGo: { [store] in store.forgetSoon(name) }) }
      },
      keep: { [store] descriptor in
        let number = next.withLock { number in
          number += 1
          return number
        }
        let name = "\(prefix)\(getpid())-\(number)"
        // From the loop that serves, which no manager may hold up.
        store.keepSoon(descriptor, as: name)
        return { store.forgetSoon(name) }
      })
  }

  /// Closes what nobody took, here and in the store: it would hold a port or a file that is not wanted any more.
  ///
  /// - Returns: its names.
  func forgetRest() -> [String] {
    let rest = left.withLock { left in
      defer { left = [:] }
      return left
    }
    for (name, descriptor) in rest {
      store.forget(name)
      close(descriptor)
    }
    return rest.keys.sorted()
  }

  private func take(_ name: String) -> Int32? { left.withLock { $0.removeValue(forKey: name) } }
}
