import CSystemd

/// The service manager's store of this service's descriptors (`FileDescriptorStoreMax=`, sd_pid_notify_with_fds(3)).
///
/// What is in it outlives the process over a restart and a crash, and comes back among the inherited descriptors
/// (``ListenFDs``). It is emptied when the service is stopped.
public struct DescriptorStore: Sendable {
  /// What the names of stored descriptors begin with; those of socket units do not.
  public static let prefix = "kept-"

  private let send: @Sendable (String, [Int32]) -> Bool

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

  /// Makes the manager close its copy of what was kept under this name.
  public func forget(_ name: String) {
    _ = send("FDSTOREREMOVE=1\nFDNAME=\(Self.prefix)\(name)", [])
  }
}
