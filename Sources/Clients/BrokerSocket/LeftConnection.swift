import CLinux
import Glibc

/// A connection with one request on it that is sent and not yet answered, left by a program to the one that its process
/// executes next. The front of grantctl leaves it to the full program (decision 50).
public enum LeftConnection {
  /// `PID:DESCRIPTOR`. With the process in it, a child that inherits the variable does not take it for its own, as with
  /// `LISTEN_PID` (sd_listen_fds(3)).
  private static let variable = "GRANTCTL_CONNECTION"
  /// The id of the request.
  public static let requestID: Int64 = 1

  /// Nil: there is none to leave, whatever the environment says.
  public static func leave(_ descriptor: Int32?) {
    unsetenv(variable)
    guard let descriptor, clinux_keep_over_exec(descriptor) == 0 else { return }
    setenv(variable, "\(getpid()):\(descriptor)", 1)
  }

  /// The descriptor, which belongs to the caller from now on. Only while the process has one thread: it changes the
  /// environment.
  public static func adopt() -> Int32? {
    guard let value = getenv(variable).map({ String(cString: $0) }) else { return nil }
    unsetenv(variable)
    let numbers = value.split(separator: ":", omittingEmptySubsequences: false).map { Int32($0) }
    guard numbers.count == 2, numbers[0] == getpid(), let descriptor = numbers[1], descriptor > 2,
      clinux_is_unix_stream(descriptor) == 1
    else { return nil }
    return descriptor
  }
}
