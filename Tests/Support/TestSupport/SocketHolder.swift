import Glibc
import Synchronization

/// Holds the sockets of a listener between two processes, as the service manager does. Its methods are those of a
/// `SocketKeeper`.
public final class SocketHolder: Sendable {
  private let held = Mutex<[String: Int32]>([:])
  private let removed = Mutex(0)

  public init() {}

  public var names: [String] { held.withLock { $0.keys.sorted() } }
  /// How often a socket was removed.
  public var removals: Int { removed.withLock { $0 } }

  public func descriptor(_ name: String) -> Int32? { held.withLock { $0[name] } }

  public func earlier(_ name: String) -> Int32? { descriptor(name).map { fcntl($0, F_DUPFD_CLOEXEC, 0) } }

  public func keep(_ descriptor: Int32, _ name: String) -> Bool {
    let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
    if let older = held.withLock({ $0.updateValue(copy, forKey: name) }) { close(older) }
    return true
  }

  public func remove(_ name: String) {
    if let descriptor = held.withLock({ $0.removeValue(forKey: name) }) { close(descriptor) }
    removed.withLock { $0 += 1 }
  }

  deinit { for (_, descriptor) in held.withLock({ $0 }) { close(descriptor) } }
}
