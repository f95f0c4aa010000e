import CSystemd
import Glibc

/// The service manager's store of this service's descriptors (`FileDescriptorStoreMax=`, sd_pid_notify_with_fds(3)).
///
/// Its content survives a restart and a crash of the process, and returns among the inherited descriptors
/// (``ListenFDs``). It is emptied when the service is stopped.
public struct DescriptorStore: Sendable {
  /// The prefix of stored descriptors' names; names of socket units do not have it.
  public static let prefix = "kept-"

  /// Messages without a waiting caller.
  private static let pendingLimit = 1024

  private let send: @Sendable (String, [Int32]) -> Bool
  /// sd_pid_notify_with_fds(3) blocks where the manager does not read.
  private let queue = BoundedQueue(label: "grantd.fdstore")

  /// Speaks to the manager that `NOTIFY_SOCKET` names, if any.
  public init() {
    self.init { message, descriptors in
      sd_pid_notify_with_fds(0, 0, message, descriptors, UInt32(descriptors.count)) > 0
    }
  }

  /// Passes each message to `send` instead, which returns whether it was accepted.
  public init(send: @escaping @Sendable (String, [Int32]) -> Bool) {
    self.send = send
  }

  /// Whether a descriptor of this name came from a store.
  public static func holds(_ name: String) -> Bool { name.hasPrefix(prefix) }

  /// Gives the manager a copy of the descriptor, which must be a listening socket: it drops others when their peer
  /// closes.
  ///
  /// - Parameter name: without the prefix; letters, digits and dashes.
  /// - Returns: false without a manager. Whether there is room is unknown.
  public func keep(_ descriptor: Int32, as name: String) -> Bool {
    send("FDSTORE=1\nFDNAME=\(Self.prefix)\(name)", [descriptor])
  }

  /// The same from a thread that must not wait: soon, and in the order of such calls.
  public func keepSoon(_ descriptor: Int32, as name: String) {
    // A number closed in the interim may be another file's by then.
    let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
    guard copy >= 0 else { return }
    let isTaken = queue.add(atMost: Self.pendingLimit) {
      _ = keep(copy, as: name)
      close(copy)
    }
    if !isTaken { close(copy) }
  }

  /// ``remove(_:)`` in the order of ``keepSoon(_:as:)``.
  public func removeSoon(_ name: String) {
    queue.add(atMost: Self.pendingLimit) { remove(name) }
  }

  /// Makes the manager close its copy of the descriptor with this name.
  public func remove(_ name: String) {
    _ = send("FDSTOREREMOVE=1\nFDNAME=\(Self.prefix)\(name)", [])
  }
}
