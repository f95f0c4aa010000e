import Glibc
import Platform
import Testing

@Suite struct ChildProgramTests {
  /// What a shell prints, started in this way.
  private func printed(
    _ script: String, environment: [String] = [], folder: String? = nil, group: ChildProgram.Group = .own
  ) throws -> String {
    var pipe = ChildPipe(keeping: 1 << 12)
    let isOpen = pipe.open(keeping: .reading)
    try #require(isOpen)
    let program = ChildProgram(
      ["/bin/sh", "-c", script], environment: environment, descriptors: [nil, pipe.writing, pipe.writing],
      folder: folder, group: group)
    var pid = pid_t()
    try #require(program.start(&pid) == 0)
    pipe.closeWriting()
    #expect(ChildProgram.reap(pid) == 0)
    pipe.drain()
    return String(decoding: pipe.kept, as: UTF8.self)
  }

  @Test("it has its environment, its folder and no input") func surroundings() throws {
    #expect(try printed("echo $A; pwd; cat", environment: ["A=b c"], folder: "/") == "b c\n/\n")
  }

  @Test("it has the descriptors that are named and no other") func descriptors() throws {
    let open = dup(1)
    defer { close(open) }
    #expect(try printed("for n in 0 1 2 3 4 5 6 7 8 9; do [ ! -e /proc/$$/fd/$n ] || echo $n; done") == "0\n1\n2\n")
  }

  @Test("each descriptor has its number, even if another had it before") func crossed() throws {
    let folder = "/tmp/crossed-\(getpid())"
    mkdir(folder, 0o700)
    defer { for name in ["one", "two", ""] { remove("\(folder)/\(name)") } }
    let files = ["one", "two"].map { name -> Int32 in
      let file = open("\(folder)/\(name)", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
      _ = write(file, name, name.utf8.count)
      return file
    }
    var pipe = ChildPipe(keeping: 1 << 12)
    let isOpen = pipe.open(keeping: .reading)
    try #require(isOpen && files.allSatisfy { $0 > 2 })
    var descriptors = [Int32?](repeating: nil, count: Int(files.max() ?? 0) + 1)
    (descriptors[1], descriptors[Int(files[0])], descriptors[Int(files[1])]) = (pipe.writing, files[1], files[0])
    let script = "exec cat /proc/self/fd/\(files[0]) /proc/self/fd/\(files[1])"
    var pid = pid_t()
    try #require(ChildProgram(["/bin/sh", "-c", script], environment: [], descriptors: descriptors).start(&pid) == 0)
    pipe.closeWriting()
    #expect(ChildProgram.reap(pid) == 0)
    pipe.drain()
    for file in files { close(file) }
    #expect(String(decoding: pipe.kept, as: UTF8.self) == "twoone")
  }

  @Test("it leads its own group or session") func groups() throws {
    // pid, group and session: the fields 1, 5 and 6 of proc_pid_stat(5).
    let script = "read -r pid name state parent group session rest </proc/$$/stat; echo $pid $group $session"
    let inGroup = try printed(script).split(whereSeparator: \.isWhitespace)
    #expect(inGroup.count == 3 && inGroup[0] == inGroup[1] && inGroup[0] != inGroup[2])
    let inSession = try printed(script, group: .ownSession).split(whereSeparator: \.isWhitespace)
    #expect(inSession.count == 3 && Set(inSession).count == 1)
  }

  @Test("one that cannot be started says why") func missing() {
    var pid = pid_t()
    #expect(ChildProgram(["/nowhere/program"], environment: []).start(&pid) == ENOENT)
    #expect(ChildProgram([], environment: []).start(&pid) == ENOENT)
    #expect(ChildProgram(["/bin/true"], environment: [], folder: "/nowhere").start(&pid) == ENOENT)
  }

  @Test("the environment is this process's") func environment() {
    #expect(Environment.own["PATH"] == getenv("PATH").map { String(cString: $0) })
    #expect(Environment.list(["b": "2", "a": "1=1"]) == ["a=1=1", "b=2"])
  }

  @Test("a separate thread runs with the given stack") func threads() async {
    await withCheckedContinuation { waiter in
      #expect(OwnThread.start("test", stack: 256 << 10) { waiter.resume() } == 0)
    }
  }
}
