import CLinux
import CSystemd
import Glibc

/// Sockets that the manager bound and passed at the start (sd_listen_fds(3)).
public enum ListenFDs {
  /// One descriptor, open and close-on-exec. The receiver owns it. A listening Unix stream socket, unless
  /// ``DescriptorStore`` holds it: that may be any that was kept.
  public struct Listener: Hashable, Sendable {
    public let descriptor: Int32
    /// `FileDescriptorName=` of the socket unit, or the name in the store; `unknown` where the manager sent none. Names
    /// can repeat.
    public let name: String

    public init(descriptor: Int32, name: String) {
      self.descriptor = descriptor
      self.name = name
    }
  }

  /// The reason why the passed descriptors cannot be used.
  public enum Failure: Error, Equatable, CustomStringConvertible {
    /// `LISTEN_FDS` and its companions contradict each other (errno).
    case unreadable(Int32)
    /// A socket unit of another kind was attached to this service.
    case notAUnixListener(descriptor: Int32, name: String)

    public var description: String {
      switch self {
      case .unreadable(let code):
        "the sockets passed by the service manager cannot be read: \(String(cString: strerror(code)))"
      case .notAUnixListener(let descriptor, let name):
        "descriptor \(descriptor) (\(LogText.escaped(name, limit: 64))) passed by the service manager is not a listening "
          + "Unix stream socket: the socket unit must use ListenStream= with a path"
      }
    }
  }

  /// Takes the manager's descriptors, first of the socket units, then of the store, and clears the variables so that no
  /// child takes them for its own. Empty without any.
  ///
  /// Call once, before other threads run: it changes the environment.
  public static func inherited() throws(Failure) -> [Listener] {
    var names: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
    let count = sd_listen_fds_with_names(1, &names)
    defer { release(names) }
    guard count >= 0 else { throw .unreadable(-count) }
    var listeners: [Listener] = []
    for offset in 0..<count {
      let name = names?[Int(offset)].map { String(cString: $0) } ?? "unknown"
      let isKept = DescriptorStore.holds(name)
      listeners.append(
        isKept ? Listener(descriptor: 3 + offset, name: name) : try listener(descriptor: 3 + offset, name: name))
    }
    return listeners
  }

  static func listener(descriptor: Int32, name: String) throws(Failure) -> Listener {
    guard clinux_is_unix_listener(descriptor) == 1 else {
      throw .notAUnixListener(descriptor: descriptor, name: name)
    }
    return Listener(descriptor: descriptor, name: name)
  }

  private static func release(_ names: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?) {
    guard let names else { return }
    var index = 0
    while let name = names[index] {
      free(name)
      index += 1
    }
    free(names)
  }
}
