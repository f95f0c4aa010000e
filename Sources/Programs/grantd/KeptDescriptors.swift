import Glibc
import Listening
import Synchronization
import Systemd
import UnixSocket

/// The listening sockets that systemd holds while this process is down, so that a restart refuses no client: the
/// earlier process's sockets by name, until they are taken; and the way to leave some.
final class KeptDescriptors: Sendable {
  private let store: DescriptorStore
  private let left: Mutex<[String: Int32]>
  /// The names of the descriptors that this process left.
  private let kept = Mutex<Set<String>>([])

  /// - Parameter inherited: systemd's descriptors; those outside the store are ignored.
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

  /// For the sockets that a listener binds itself, such as `callback`.
  func keeper(_ listener: String) -> SocketKeeper {
    @Sendable func full(_ name: String) -> String { name == SocketKeeper.only ? listener : "\(listener)-\(name)" }
    return SocketKeeper(
      earlier: { [self] name in claim(full(name)) },
      keep: { [self] descriptor, name in keep(descriptor, as: full(name)) },
      remove: { [self] name in remove(full(name)) })
  }

  /// For connections of units that wait for a credential. Their names are of this process, so that no two are the same.
  func waiting() -> CredentialServer.Waiting {
    let prefix = "waiting-"
    let names = left.withLock { left in left.keys.filter { $0.hasPrefix(prefix) } }.sorted()
    let next = Mutex(0)
    return CredentialServer.Waiting(
      earlier: names.compactMap { name in
        claim(name).map { .init(descriptor: $0, letGo: { [store] in store.removeSoon(name) }) }
      },
      keep: { [self] descriptor in
        let number = next.withLock { number in
          number += 1
          return number
        }
        let name = "\(prefix)\(getpid())-\(number)"
        // From the loop that serves, which no manager may hold up.
        store.keepSoon(descriptor, as: name)
        kept.withLock { _ = $0.insert(name) }
        return { [self] in
          kept.withLock { _ = $0.remove(name) }
          store.removeSoon(name)
        }
      })
  }

  /// Closes unused sockets, here and in the store: they would hold a port or a file that is no longer needed.
  ///
  /// - Returns: their names.
  func removeRest() -> [String] {
    let rest = left.withLock { left in
      defer { left = [:] }
      return left
    }
    for (name, descriptor) in rest {
      store.remove(name)
      close(descriptor)
    }
    return rest.keys.sorted()
  }

  /// Makes the manager close all that this process left: a process that does not listen there follows.
  func removeAll() {
    let names = kept.withLock { kept in
      defer { kept = [] }
      return kept
    }
    for name in names { store.remove(name) }
  }

  private func keep(_ descriptor: Int32, as name: String) -> Bool {
    guard store.keep(descriptor, as: name) else { return false }
    kept.withLock { _ = $0.insert(name) }
    return true
  }

  private func remove(_ name: String) {
    kept.withLock { _ = $0.remove(name) }
    store.remove(name)
  }

  private func claim(_ name: String) -> Int32? { left.withLock { $0.removeValue(forKey: name) } }
}
