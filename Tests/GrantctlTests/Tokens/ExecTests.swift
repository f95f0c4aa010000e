import BrokerAPI
import Foundation
import Synchronization
import Testing

@testable import grantctl

@Suite struct ExecTests {
  private static func run(
    _ arguments: [String], _ recorder: Recorder = Recorder(), adjust: (inout Terminal) -> Void = { _ in }
  ) async throws -> (status: ExitStatus, start: ProgramStart?) {
    let started = Mutex<ProgramStart?>(nil)
    var status = ExitStatus.success
    try await withoutActuallyEscaping(adjust) { adjust in
      try await ScriptedBroker.with(["token.get": answer(HelperTests.token)]) { broker, _ async throws in
        status = try await broker.run(["exec"] + arguments, recorder, environment: ["A": "b"]) { terminal in
          adjust(&terminal)
          let become = terminal.programs.become
          terminal.programs.become = { start in
            started.withLock { $0 = start }
            return become(start)
          }
        }
      }
    }
    return (status, started.withLock { $0 })
  }

  @Test("the token is in the environment variable") func variable() async throws {
    for (options, name) in [([], "ACCESS_TOKEN"), (["--env", "GH_TOKEN"], "GH_TOKEN")] {
      let (status, start) = try await Self.run(["work"] + options + ["--", "gh", "--json", "-x"])
      #expect(status == .programNotStarted)
      #expect(start?.path == "/usr/bin/gh")
      #expect(start?.arguments == ["gh", "--json", "-x"])
      #expect(start?.variables == [name: "T"])
      #expect(start?.descriptor == nil)
    }
  }

  @Test("the token is at the descriptor, and not in the environment") func descriptor() async throws {
    let (_, start) = try await Self.run(["work", "--fd", "7", "--", "a"])
    #expect(start?.descriptor == .init(number: 7, content: [0x54]))
    #expect(start?.variables == [:])
  }

  @Test("the file is written, and a process keeps it") func file() async throws {
    let kept = Mutex<[[String]]>([])
    let (_, start) = try await Self.run(["work", "--file-env", "F", "--scope", "a", "--", "a"]) { terminal in
      terminal.files.privateFolder = { "/run/x" }
      terminal.files.save = { path, bytes, _ in path == "/run/x/token" && bytes == [0x54] ? nil : "no" }
      terminal.programs.startKeeper = { command in
        kept.withLock { $0.append(command) }
        return true
      }
    }
    #expect(start?.variables == ["F": "/run/x/token"])
    #expect(kept.withLock { $0 } == [["/usr/bin/grantctl", "keep-token", "work", "/run/x/token", "--scope", "a"]])
  }

  @Test("a program that is not there is 127") func noProgram() async throws {
    let recorder = Recorder()
    recorder.absent = ["gone"]
    let (status, start) = try await Self.run(["work", "--", "gone"], recorder)
    #expect(status == .noProgram && start == nil)
    #expect(recorder.err == "grantctl: there is no program gone\n")
  }

  @Test("a file without execute permission is 126") func notExecutable() async throws {
    let recorder = Recorder()
    recorder.absent = ["./noexec"]
    let (status, start) = try await Self.run(["work", "--", "./noexec"], recorder) { terminal in
      terminal.files.exists = { $0 == "./noexec" }
    }
    #expect(status == .programNotStarted && start == nil)
    #expect(recorder.err == "grantctl: ./noexec cannot be started: Permission denied\n")
  }

  @Test(
    "wrong options are refused",
    arguments: [
      ["work"], ["work", "env"], ["work", "--fd", "2", "--", "a"], ["work", "--env", "1A", "--", "a"],
      ["work", "--env", "A=B", "--", "a"], ["work", "--env", "A", "--file-env", "B", "--", "a"],
    ])
  func wrongOptions(arguments: [String]) async {
    await #expect(throws: (any Error).self) { try await Self.run(arguments) }
  }

  @Test("a token is replaced ahead of its end") func wait() {
    for (end, seconds) in [(nil, 60), (1000, 2), (1031, 2), (1040, 10), (2000, 60), (900, 2)] as [(Int64?, Int64)] {
      #expect(KeepTokenCommand.wait(until: end, now: 1000) == seconds)
    }
  }

  @Test("the keeper writes each new token once, and removes the folder") func keeper() async throws {
    let looks = Counter()
    let written = Mutex<[String]>([])
    let removed = Mutex<[String]>([])
    try await ScriptedBroker.with([
      "token.get": { _, _ in
        guard case .object(var members) = HelperTests.token else { return .success(HelperTests.token) }
        members[0].value = .string(looks.next() < 3 ? "A" : "B")
        return .success(.object(members))
      }
    ]) { broker, _ async throws in
      let rounds = Counter()
      let status = try await broker.run(["keep-token", "work", "/r/x/token"], Recorder()) { terminal in
        terminal.programs.isKeeper = { true }
        terminal.programs.watch = { _ in rounds.next() > 4 }
        terminal.files.save = { _, bytes, _ in
          written.withLock { $0.append(String(decoding: bytes, as: UTF8.self)) }
          return nil
        }
        let remove: @Sendable (String) -> String? = { path in
          removed.withLock { $0.append(path) }
          return nil
        }
        (terminal.files.remove, terminal.files.removeFolder) = (remove, remove)
      }
      #expect(status == .success)
    }
    #expect(written.withLock { $0 } == ["A", "B"])
    #expect(removed.withLock { $0 } == ["/r/x/token", "/r/x"])
  }

  @Test("a credential keeper started by hand does nothing") func keeperByHand() async throws {
    try await ScriptedBroker.with(["token.get": answer(HelperTests.token)]) { broker, _ async throws in
      let recorder = Recorder()
      let status = try await broker.run(["keep-token", "work", "/home/ada/notes"], recorder) { terminal in
        let remove: @Sendable (String) -> String? = { path in
          Issue.record("\(path) is removed")
          return nil
        }
        (terminal.files.remove, terminal.files.removeFolder) = (remove, remove)
      }
      #expect(status == .usage && broker.methods.isEmpty)
    }
  }

  @Test("a keeper whose broker is away looks less and less often, up to once a minute") func keeperAlone() async throws
  {
    let waits = Mutex<[Int64]>([])
    let refusal = RPCError(.temporarilyUnavailable, "no", hint: "Wait.")
    try await ScriptedBroker.with(["token.get": refuse(refusal)]) { broker, _ async throws in
      _ = try await broker.run(["keep-token", "work", "/r/x/token"], Recorder()) { terminal in
        terminal.programs.isKeeper = { true }
        terminal.programs.watch = { seconds in
          waits.withLock { $0.append(seconds) }
          return waits.withLock { $0.count } > 7
        }
      }
    }
    #expect(waits.withLock { $0 } == [2, 4, 8, 16, 32, 60, 60, 60])
  }

  @Test("sasl prints the response for the account's person, or for the user that is named") func sasl() async throws {
    let account: JSON = [
      "account": "work", "provider": "p", "state": "ok", "scopes": [], "generation": 1, "logged_in_at": 1,
      "identity": ["subject": "s", "email": "ada@example.com"],
    ]
    try await ScriptedBroker.with(["account.get": answer(account), "token.get": answer(HelperTests.token)]) {
      broker, _ async throws in
      for (arguments, text) in [
        (["work", "xoauth2"], "user=ada@example.com\u{1}auth=Bearer T\u{1}\u{1}"),
        (["work", "xoauth2", "--as", "x"], "user=x\u{1}auth=Bearer T\u{1}\u{1}"),
        (
          ["work", "oauthbearer", "--host", "h", "--port", "9"],
          "n,a=ada@example.com,\u{1}host=h\u{1}port=9\u{1}auth=Bearer T\u{1}\u{1}"
        ),
      ] {
        let recorder = Recorder()
        #expect(try await broker.run(["sasl"] + arguments, recorder) == .success)
        #expect(recorder.out == Data(text.utf8).base64EncodedString() + "\n")
      }
    }
  }
}
