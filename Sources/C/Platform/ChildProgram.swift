import CLinux
public import Glibc

/// A program to start as a child, by posix_spawn(3): the one way in which the project starts one
/// (decision 55). It gets the descriptors named here and no other, every signal at its
/// default and none blocked.
public struct ChildProgram: Sendable {
  public enum Group: Sendable {
    /// A process group of its own, which can be ended as a whole.
    case own
    /// A session of its own, without the terminal of this process.
    case ownSession
  }

  /// The path, and the arguments.
  public var command: [String]
  /// `NAME=value`, and no other variable.
  public var environment: [String]
  /// Its descriptors, from standard input on; nil: /dev/null.
  public var descriptors: [Int32?]
  /// The folder that it starts in; nil: this process's.
  public var folder: String?
  public var group: Group

  public init(
    _ command: [String], environment: [String], descriptors: [Int32?] = [nil, nil, nil], folder: String? = nil,
    group: Group = .own
  ) {
    self.command = command
    self.environment = environment
    self.descriptors = descriptors
    self.folder = folder
    self.group = group
  }

  /// - Returns: 0, or the error.
  public func start(_ pid: inout pid_t) -> Int32 {
    guard !command.isEmpty else { return ENOENT }
    return withCStrings(command) { arguments in
      withCStrings(environment) { variables in
        clinux_spawn(
          arguments, variables, descriptors.map { $0 ?? -1 }, Int32(descriptors.count), folder,
          group == .ownSession ? 1 : 0, &pid)
      }
    }
  }

  /// Takes the status of a child that has ended; waits for one that has not.
  ///
  /// - Returns: as waitpid(2) has it; nil: the kernel keeps none, as where SIGCHLD is ignored.
  public static func reap(_ pid: pid_t) -> Int32? {
    var status: Int32 = 0
    var found = waitpid(pid, &status, 0)
    while found < 0, errno == EINTR { found = waitpid(pid, &status, 0) }
    return found == pid ? status : nil
  }
}

/// The texts as C wants a list of them: pointers, and a null at the end.
private func withCStrings<R>(_ texts: [String], _ body: ([UnsafeMutablePointer<CChar>?]) -> R) -> R {
  var pointers: [UnsafeMutablePointer<CChar>?] = texts.map { strdup($0) }
  defer { for pointer in pointers { free(pointer) } }
  pointers.append(nil)
  return body(pointers)
}
