import CSystemd
import Glibc

/// The service manager's store of this service's descriptors (`FileDescriptorStoreMax=`, sd_pid_notify_with_fds(3)).
///
/// What is in it outlives the process over a restart and a crash, and comes back among the inherited descriptors
/// (``ListenFDs``). It is emptied when the service is stopped.
public struct DescriptorStore: Sendable {
  /// What the names of stored descriptors begin with; those of socket units do not.
  public static let prefix = "kept-"

  /// Of messages that nobody waits for.
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

  /// Hands each message to `send` instead, which says whether somebody took it.
  public init(send: @escaping @Sendable (String, [Int32]) -> Bool) {
    self.send = send
  }

  /// Whether a descriptor of this name came from a store.
  public static func holds(_ name: String) -> Bool { name.hasPrefix(prefix) }

  /// Gives the manager a copy of the descriptor, which has to be a listening socket: of others it hears that they hung
  /// up, and drops them.
  ///
  /// - Parameter name: without the prefix; letters, digits and dashes.
  /// - Returns: false where there is no manager. That it has room it does not say.
  public func keep(_ descriptor: Int32, as name: String) -> Bool {
    send("FDSTORE=1\nFDNAME=\(Self.prefix)\(name)", [descriptor])
  }

  /// The same from a thread that must not wait: soon, and in the order of such calls.
  public func keepSoon(_ descriptor: Int32, as name: String) {
    // What is closed meanwhile may be another file by then.
    let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
    guard copy >= 0 else { return }
    let isTaken = queue.add(atMost: Self.pendingLimit) {
      _ = keep(copy, as: name)
      close(copy)
    }
    if !isTaken { close(copy) }
  }

  /// ``forget(_:)`` in the order of ``keepSoon(_:as:)``.
  public func forgetSoon(_ name: String) {
    queue.add(atMost: Self.pendingLimit) { forget(name) }
  }

  /// Makes the manager close its copy of what was kept under this name.
  public func forget(_ name: String) {
    _ = send("FDSTOREREMOVE=1\nFDNAME=\(Self.prefix)\(name)", [])
  }
}
