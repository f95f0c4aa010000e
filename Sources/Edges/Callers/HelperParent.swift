/// The program that a helper asks for: git executes `grantctl`, and the audit trail names both. It is information for
/// people and never a permission, since a process chooses its own name.
enum HelperParent {
  private static let helpers: Set<String> = ["grantctl", "grantctl-front"]
  /// Between the helper and its program.
  private static let shells: Set<String> = ["sh", "bash", "dash", "zsh", "env"]
  private static let mostShells = 4
  private static let longest = 1024

  /// A file of a process below `/proc`; nil if it cannot be read, or is longer than the limit.
  typealias Read = (_ pid: Int32, _ file: String, _ limit: Int) -> String?

  /// Nil if the process is not the helper. Its executable is unknown to a broker of another user; its name is not.
  static func name(
    of pid: Int32, executable: String?,
    read: Read = { try? CallerOrigin.contents(of: "/proc/\($0)/\($1)", atMost: $2) }
  ) -> String? {
    let isHelper = executable.map { helpers.contains($0.split(separator: "/").last.map(String.init) ?? "") }
    // Most connections cost only this short file, not `stat`.
    guard pid > 0, isHelper ?? isNamedHelper(pid, read), var (name, parent) = process(pid, read) else { return nil }
    for _ in 0..<mostShells where parent > 1 {
      guard let next = process(parent, read) else { return nil }
      (name, parent) = next
      if !shells.contains(name) { return name }
    }
    return nil
  }

  private static func isNamedHelper(_ pid: Int32, _ read: Read) -> Bool {
    read(pid, "comm", 64).map { helpers.contains(String($0.prefix { $0 != "\n" })) } ?? false
  }

  /// The name and the parent in `/proc/PID/stat` (proc_pid_stat(5)). The name may contain parentheses and spaces.
  private static func process(_ pid: Int32, _ read: Read) -> (name: String, parent: Int32)? {
    guard let stat = read(pid, "stat", longest), let start = stat.firstIndex(of: "("),
      let end = stat.lastIndex(of: ")"),
      let parent = stat[end...].split(separator: " ").dropFirst(2).first.flatMap({ Int32($0) })
    else { return nil }
    return (String(stat[stat.index(after: start)..<end]), parent)
  }
}
