import BrokerAPI
import Foundation
import Glibc
import Logging
import TestSupport
import Testing

@testable import Hooks

@Suite(.timeLimit(.minutes(5))) struct RunTests {
  @Test("a program has three descriptors, default signals, its own process group, and the folder /")
  func clean() async throws {
    let folder = try Folder()
    // Not close-on-exec: a descriptor that a library left open.
    let stray = open("/dev/null", O_RDONLY)
    defer { close(stray) }
    signal(SIGUSR1, SIG_IGN)
    defer { signal(SIGUSR1, SIG_DFL) }
    let program = try folder.script(
      "hook",
      """
      (cd /proc/$$/fd && echo * > $here/fds)
      cut -d' ' -f5 /proc/$$/stat > $here/group
      echo $$ > $here/pid
      readlink /proc/$$/cwd > $here/folder
      """)
    #expect(await Run.report(program, environment: ["PATH=/usr/bin:/bin"]).result == .succeeded)
    // The shell keeps the script itself open, above the standard ones.
    let descriptors = try #require(folder.read("fds")).split(whereSeparator: \.isWhitespace).compactMap { Int($0) }
    #expect(Array(descriptors.filter { $0 < 10 }) == [0, 1, 2])
    #expect(descriptors.count <= 4 && !descriptors.contains(Int(stray)))
    let status = await Run.report(["/bin/cat", "/proc/self/status"]).output
    let signals = String(decoding: status, as: UTF8.self).split(separator: "\n")
      .filter { $0.hasPrefix("SigBlk") || $0.hasPrefix("SigIgn") }.compactMap { UInt64($0.suffix(16), radix: 16) }
    // The C library keeps 32 and 33 for itself.
    #expect(signals.map { $0 & ~(0b11 << 31) } == [0, 0])
    #expect(folder.read("group") == folder.read("pid"))
    #expect(folder.read("folder") == "/\n")
  }

  @Test("one that takes too long is ended with all that it started", arguments: ["", "trap '' TERM"])
  func tooLong(_ trap: String) async throws {
    let folder = try Folder()
    let program = try folder.script(
      "hook", "\(trap)\nsleep 600 & echo $! > $here/1\nsh -c 'sleep 600 & echo $! > $0/2; wait' $here & wait\nsleep 600"
    )
    let begun = monotonic()
    let report = await Run.report(
      program, environment: ["PATH=/usr/bin:/bin"], timeout: .seconds(3), grace: .milliseconds(500))
    #expect(report.result == .timedOut)
    // Its children would run for ten minutes.
    #expect(monotonic() - begun < .seconds(60))
    for name in ["1", "2"] {
      let pid = try folder.pid(name)
      #expect(await eventually { !runs(pid) })
    }
  }

  @Test("processes that a program leaves in its group end with it, and delay nothing")
  func leftBehind() async throws {
    let folder = try Folder()
    let program = try folder.script("hook", "sleep 600 & echo $! > $here/pid")
    let report = await Run.report(program, environment: ["PATH=/usr/bin:/bin"])
    #expect(report.result == .succeeded)
    let pid = try folder.pid("pid")
    #expect(await eventually { !runs(pid) })
  }

  @Test(
    "how it ended is said",
    arguments: [
      ("exit 0", HookResult.succeeded, "ended"), ("exit 7", .failed, "ended with exit status 7"),
      ("kill -9 $$", .failed, "ended by signal 9"),
    ])
  func said(_ script: String, _ result: HookResult, _ text: String) async throws {
    let folder = try Folder()
    let report = await Run.report(try folder.script("hook", script))
    #expect(report.result == result && report.text == text)
  }

  @Test("a program that is not there, or may not be executed, is said to be")
  func notStarted() async throws {
    let folder = try Folder()
    folder.touch("plain")
    for (path, reason) in [("missing", "No such file or directory"), ("plain", "Permission denied")] {
      let report = await Run.report(["\(folder.path)/\(path)"])
      #expect(report.result == .notStarted && report.text == "could not be started: \(reason)")
    }
  }

  @Test("an input longer than a pipe is written as it is read, and need not be read")
  func longInput() async throws {
    let folder = try Folder()
    let input = String(repeating: "x", count: 1_000_000)
    let reader = try folder.script("reader", "sleep 0.2; wc -c")
    let read = await Run.report(reader, environment: ["PATH=/usr/bin:/bin"], input: input)
    #expect(String(decoding: read.output, as: UTF8.self) == "1000000\n" && read.result == .succeeded)
    #expect(await Run.report(try folder.script("deaf", "exec <&-; exit 0"), input: input).result == .succeeded)
  }

  @Test("of a flood of output a part is kept, and the program is not held up")
  func flood() async throws {
    let folder = try Folder()
    let program = try folder.script("hook", "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo last >&2; exit 1")
    let report = await Run.report(program, environment: ["PATH=/usr/bin:/bin"])
    #expect(report.result == .failed)
    #expect(report.output.count == Run.keptOutput && report.output.starts(with: Array("first\nxxx".utf8)))
  }

  @Test("the output of a failed hook is in one line of the log, without control characters")
  func logged() async throws {
    let folder = try Folder()
    let log = LoggedLines()
    let program = try folder.script("hook", "printf 'no \\033[31mway\\nout\\377'; exit 3")
    let hooks = Hooks([.test(program, name: "grantd.toml:7")], log: log)
    hooks.handle(.init(type: .loginRequired, at: 1, account: "work"))
    #expect(await eventually { hooks.count(.failed) == 1 })
    let line = try #require(log.all.first)
    #expect(line.level == .warning)
    #expect(
      line.whole
        == "the hook of grantd.toml:7 ended with exit status 3 account=work command=/bin/sh event=login.required "
        + "output=no [31mway out\u{fffd}")
  }

  @Test("runs leave no descriptor, no process and no thread behind")
  func noLeaks() async throws {
    let folder = try Folder()
    let program = try folder.script("hook", "cat > /dev/null; echo $$ >> $here/pids")
    _ = await Run.report(program, environment: ["PATH=/usr/bin:/bin"])
    let before = openDescriptors()
    for number in 1...40 {
      let command = number.isMultiple(of: 4) ? ["\(folder.path)/missing"] : program
      _ = await Run.report(command, environment: ["PATH=/usr/bin:/bin"], input: "x\n")
    }
    #expect(await eventually { openDescriptors() <= before })
    let pids = try #require(folder.read("pids")).split(separator: "\n").compactMap { pid_t($0) }
    #expect(pids.count == 31)
    // Not even as one that waits to be reaped.
    for pid in pids { #expect(kill(pid, 0) == -1 && errno == ESRCH) }
  }
}
