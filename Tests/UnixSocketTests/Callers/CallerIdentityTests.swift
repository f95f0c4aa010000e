import BrokerAPI
import Foundation
import Glibc
import Principals
import Synchronization
import TestSupport
import Testing

@testable import Callers
@testable import UnixSocket

/// Who the other end is taken for while processes end, and their numbers become others'.
@Suite(.timeLimit(.minutes(5))) struct CallerIdentityTests {
  private static let perl = "/usr/bin/perl"
  private static let hasPerl = access(perl, X_OK) == 0
  /// Root where it is not in a sandbox. The systemd suite does the same, and must be able to.
  private static let choosesNumbers: Bool = {
    let path = "/proc/sys/kernel/ns_last_pid"
    guard let number = try? String(contentsOfFile: path, encoding: .utf8) else { return false }
    let descriptor = open(path, O_WRONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    return number.withCString { write(descriptor, $0, strlen($0)) } > 0
  }()

  /// Connects in children that end at once, and tells their process ids. Their ends of the connections live on in here.
  private static let leaving = """
    use Socket; my ($path, $count, $line) = @ARGV; $| = 1;
    for (1..$count) {
      socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die; push @kept, $s;
      my $pid = fork; die unless defined $pid;
      if ($pid == 0) { connect($s, sockaddr_un($path)) or exit 1; syswrite($s, "$line\\n") if $line; require POSIX; POSIX::_exit(0) }
      if ($_ % 2) { waitpid($pid, 0); $? == 0 or die }
      print "$pid\\n";
    }
    print "done\\n"; <STDIN>;
    """

  /// Connects in a child that ends, has another program run under its number, and tells that.
  private static let reusing = """
    use Socket; my ($path) = @ARGV; $| = 1;
    socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die;
    my $first = fork; die unless defined $first;
    if ($first == 0) { connect($s, sockaddr_un($path)) or exit 1; require POSIX; POSIX::_exit(0) }
    waitpid($first, 0); $? == 0 or die;
    for (1..500) {
      open(my $last, ">", "/proc/sys/kernel/ns_last_pid") or do { print "no\\n"; exit };
      syswrite($last, $first - 1) or do { print "no\\n"; exit }; close $last;
      my $next = fork; die unless defined $next;
      if ($next == 0) { require POSIX; if ($$ == $first) { exec "/bin/sleep", "60" } POSIX::_exit(0) }
      if ($next == $first) { print "$first\\n"; <STDIN>; kill 9, $next; waitpid($next, 0); exit }
      waitpid($next, 0);
    }
    print "no\\n";
    """

  /// Asks by a connection of its own, and then has another program ask by the same one.
  private static let handing = """
    use Socket; my ($path, $line) = @ARGV; $| = 1;
    $^F = 255; socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die; connect($s, sockaddr_un($path)) or die;
    syswrite($s, "$line\\n"); print scalar <$s>;
    my $fd = fileno $s; $ENV{LINE} = $line;
    my $child = fork; die unless defined $child;
    if ($child == 0) { exec "/bin/sh", "-c", "printf '%s\\\\n' \\"\\$LINE\\" >&$fd; read -r answer <&$fd; printf '%s\\\\n' \\"\\$answer\\"" }
    waitpid($child, 0);
    """

  /// A listening socket from which only the test accepts.
  private struct Listener: ~Copyable {
    let descriptor: Int32

    init(_ path: String) throws {
      descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
      var address = RawClient.address(of: path)
      let code = withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
        }
      }
      try #require(code == 0 && listen(descriptor, 512) == 0)
    }

    deinit { close(descriptor) }

    func identified(_ groups: ControlGroups?) throws -> Caller {
      let connection = accept(descriptor, nil, nil)
      try #require(connection >= 0)
      defer { close(connection) }
      let credentials = try #require(Peer.credentials(of: connection))
      return try Peer(of: connection, credentials, groups: groups).caller
    }
  }

  private static let own = (try? CallerOrigin(pid: getpid()) { true }) ?? CallerOrigin()

  @Test(
    "a process that ends during its identification is itself or unknown, and its uid is known",
    .enabled(if: hasPerl, "there is no perl here to connect and end at once"), arguments: [true, false])
  func leaving(isKnown: Bool) async throws {
    let groups = isKnown ? ControlGroups() : nil
    try await Served.inFolder { folder in
      let listener = try Listener(folder + "/l")
      let program = try Program(Self.perl, ["-e", Self.leaving, folder + "/l", "200"])
      var pids: [Int32] = []
      while let line = try await program.line(), line != "done" { pids.append(try #require(Int32(line))) }
      try #require(pids.count == 200)
      var seen: [Int32: Caller] = [:]
      for _ in pids {
        let caller = try listener.identified(groups)
        #expect(caller.uid == getuid() && caller.gid == getgid())
        #expect([nil, Self.perl].contains(caller.executable))
        #expect([nil, Self.own.unit].contains(caller.unit) && [nil, Self.own.userUnit].contains(caller.userUnit))
        seen[caller.pid] = caller
      }
      #expect(Set(seen.keys) == Set(pids))
      // Every other one had ended, and was reaped, before it was looked at.
      for pid in pids.enumerated().filter({ $0.offset % 2 == 0 }).map(\.element) {
        #expect(seen[pid]?.executable == nil && seen[pid]?.unit == nil)
      }
    }
  }

  @Test(
    "a server whose clients end while it looks at them takes none for another, and serves on",
    .enabled(if: hasPerl, "there is no perl here to connect and end at once"))
  func serving() async throws {
    try await Served.with({ $0.connectionsPerUser = 1000 }) { served in
      let program = try Program(Self.perl, ["-e", Self.leaving, served.path, "200", call(1, "who")])
      while let line = try await program.line(), line != "done" { #expect(Int32(line) != nil) }
      try await eventually("all were answered") { served.dispatcher.seen.withLock { $0.callers.count } >= 200 }
      for caller in served.dispatcher.seen.withLock({ $0.callers }) {
        #expect(caller.uid == getuid() && [nil, Self.perl].contains(caller.executable))
      }
      let client = try served.client()
      try await client.send(call(2, "who"))
      #expect(try await client.json()["result"]?["pid"]?.integer == Int64(getpid()))
    }
  }

  @Test(
    "a process that has the number of the one that connected is not taken for it",
    .enabled(if: hasPerl && choosesNumbers, "the user may not choose the number of a new process"),
    arguments: [true, false])
  func reused(isKnown: Bool) async throws {
    let groups = isKnown ? ControlGroups() : nil
    try await Served.inFolder { folder in
      for attempt in 0..<10 {
        let listener = try Listener(folder + "/l\(attempt)")
        let program = try Program(Self.perl, ["-e", Self.reusing, folder + "/l\(attempt)"])
        // Any new process on this machine may get the number, and keep it.
        guard let pid = try await program.line().flatMap({ Int32($0) }) else { continue }
        let impostor = try await eventually("the other program runs") { () -> String? in
          let path = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(pid)/exe")
          return path.flatMap { $0 == Self.perl ? nil : $0 }
        }
        let caller = try listener.identified(groups)
        #expect(caller.pid == pid && caller.uid == getuid())
        #expect(caller.executable == nil && caller.unit == nil && caller.userUnit == nil, "it is not \(impostor)")
        return
      }
      Issue.record("no other program got the number")
    }
  }

  @Test(
    "a connection passed to another process keeps its maker",
    .enabled(if: hasPerl, "there is no perl here to pass it on"))
  func handedOn() async throws {
    try await Served.with { served in
      let program = try Program(Self.perl, ["-e", Self.handing, served.path, call(1, "who")])
      let first = try #require(try await program.line())
      #expect(try await program.line() == first)
      #expect(try JSON.parse(Array(first.utf8))["result"]?["pid"]?.integer == Int64(program.pid))
    }
  }
}

/// A program whose lines are read, without blocking a thread; it is ended with this.
private final class Program: Sendable {
  let pid: pid_t
  private let output: Int32
  private let input: Int32
  private let received = Mutex<[UInt8]>([])

  init(_ path: String, _ arguments: [String]) throws {
    var (out, into): ([Int32], [Int32]) = ([-1, -1], [-1, -1])
    try #require(pipe(&out) == 0 && pipe(&into) == 0)
    for descriptor in out + into { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_adddup2(&actions, into[0], 0)
    posix_spawn_file_actions_adddup2(&actions, out[1], 1)
    var argv: [UnsafeMutablePointer<CChar>?] = ([path] + arguments).map { strdup($0) } + [nil]
    var environment: [UnsafeMutablePointer<CChar>?] = [strdup("PATH=/usr/bin:/bin"), nil]
    defer { for text in argv + environment { free(text) } }
    var pid = pid_t()
    let code = posix_spawn(&pid, path, &actions, nil, &argv, &environment)
    close(out[1])
    close(into[0])
    try #require(code == 0)
    self.pid = pid
    (input, output) = (into[1], out[0])
    _ = fcntl(output, F_SETFL, O_NONBLOCK)
  }

  deinit {
    // It reads on until then.
    close(input)
    close(output)
    var status: Int32 = 0
    waitpid(pid, &status, 0)
  }

  /// The next line; nil at the end.
  func line() async throws -> String? {
    try await eventually("a line of the program", within: .seconds(60), every: .milliseconds(1)) { () -> String?? in
      if let line = self.take() { return .some(line) }
      var bytes = [UInt8](repeating: 0, count: 4096)
      let count = read(self.output, &bytes, bytes.count)
      if count > 0 { self.received.withLock { $0 += bytes.prefix(count) } }
      if count == 0 { return .some(nil) }
      return self.take().map { .some($0) }
    }
  }

  private func take() -> String? {
    received.withLock { received in
      guard let end = received.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
      defer { received.removeFirst(end + 1) }
      return String(decoding: received[..<end], as: UTF8.self)
    }
  }
}
