import Testing

@testable import Callers

/// The program that a helper asks for, from the texts of proc_pid_stat(5).
@Suite struct HelperParentTests {
  /// Processes by number: the name that the kernel shows, and the parent.
  private func parent(
    of pid: Int32, _ executable: String?, _ processes: [Int32: (name: String, parent: Int32)]
  ) -> String? {
    HelperParent.name(of: pid, executable: executable) { pid, file, limit in
      guard let (name, parent) = processes[pid] else { return nil }
      let text = file == "comm" ? "\(name)\n" : "\(pid) (\(name)) S \(parent) 1 1 0 -1 4194560 100 0"
      return text.utf8.count < limit ? text : nil
    }
  }

  @Test(
    "the program that executed the helper, without the shells between them",
    arguments: [
      ([7: ("grantctl", 6), 6: ("git", 1)], "git"),
      ([7: ("grantctl", 6), 6: ("sh", 5), 5: ("git-remote-https", 4)], "git-remote-https"),
      ([7: ("grantctl", 6), 6: ("env", 5), 5: ("bash", 4), 4: ("dash", 3), 3: ("docker", 1)], "docker"),
      // More shells than a helper has.
      ([7: ("grantctl", 6), 6: ("sh", 5), 5: ("sh", 4), 4: ("sh", 3), 3: ("sh", 2), 2: ("git", 1)], nil),
      // Only shells up to the first process, or a process that has ended.
      ([7: ("grantctl", 6), 6: ("zsh", 1), 1: ("systemd", 0)], nil), ([7: ("grantctl", 6)], nil),
      ([7: ("grantctl", 1), 1: ("systemd", 0)], nil),
    ] as [([Int32: (String, Int32)], String?)])
  func programs(_ processes: [Int32: (name: String, parent: Int32)], _ name: String?) {
    #expect(parent(of: 7, "/usr/bin/grantctl", processes) == name)
    // The kernel shows no executable of another user's process, but its name.
    #expect(parent(of: 7, nil, processes) == name)
  }

  @Test(
    "only the helper has such a program",
    arguments: [
      ("/usr/bin/grantctl", "x", true), ("/opt/lib/grantctl-front", "x", true), (nil, "grantctl", true),
      (nil, "grantctl-front", true), (nil, "curl", false), (nil, "grantctl2", false),
      // The executable decides if it is known: a process chooses its own name.
      ("/usr/bin/curl", "grantctl", false), ("/usr/bin/grantctl/curl", "grantctl", false), ("", "grantctl", false),
    ] as [(String?, String, Bool)])
  func helpers(_ executable: String?, _ name: String, _ isHelper: Bool) {
    let found = parent(of: 7, executable, [7: (name, 6), 6: ("git", 1)])
    #expect(found == (isHelper ? "git" : nil))
  }

  @Test("a name may have parentheses and spaces", arguments: ["a b", "a) b", "(x)", "a) S 5 (b", ") S 5 "])
  func names(_ name: String) {
    #expect(parent(of: 7, "/bin/grantctl", [7: ("grantctl", 6), 6: (name, 1), 5: ("wrong", 1)]) == name)
    #expect(parent(of: 7, "/bin/grantctl", [7: (name, 6), 6: ("git", 1), 5: ("wrong", 1)]) == "git")
  }

  @Test(
    "texts that are not of this form name no program",
    arguments: ["", "7", "7 (git", "7 git) S 6", "7 (git) S", "7 (git) S x 1"])
  func damaged(_ stat: String) {
    let found = HelperParent.name(of: 7, executable: "/bin/grantctl") { pid, _, _ in
      pid == 7 ? stat : "6 (git) S 1 1"
    }
    #expect(found == nil && HelperParent.name(of: 0, executable: "/bin/grantctl") { _, _, _ in "7 (a) S 6 1" } == nil)
  }
}
