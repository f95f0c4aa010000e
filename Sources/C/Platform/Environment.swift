import CLinux
import Glibc

/// The variables and the program of this process.
public enum Environment {
  /// Only where no other thread changes one.
  public static var own: [String: String] {
    var variables: [String: String] = [:]
    guard var entry = clinux_environment() else { return variables }
    while let text = entry.pointee {
      let parts = String(cString: text).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      // The first of one name counts, as with getenv(3).
      if parts.count == 2, variables[String(parts[0])] == nil { variables[String(parts[0])] = String(parts[1]) }
      entry += 1
    }
    return variables
  }

  /// The path of the executed file, even if an update has replaced the file.
  public static var ownProgram: String? {
    var path = [UInt8](repeating: 0, count: Int(PATH_MAX))
    let length = readlink("/proc/self/exe", &path, path.count)
    guard length > 0, length < path.count else { return nil }
    // The kernel adds this once the file has no name (proc_pid_exe(5)).
    let mark = " (deleted)"
    return String(validating: path[..<length], as: UTF8.self).map { path in
      path.hasSuffix(mark) ? String(path.dropLast(mark.count)) : path
    }
  }

  /// `NAME=value`, sorted.
  public static func list(_ variables: [String: String]) -> [String] {
    variables.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
  }
}
