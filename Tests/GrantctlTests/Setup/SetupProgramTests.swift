import BrokerAPI
import Testing

@testable import grantctl

/// The last step of setup, for an account that is signed in.
@Suite struct SetupProgramTests {
  private static let replies = [
    "broker.status": answer(DoctorTests.status()),
    "provider.list": answer(["providers": JSON(encoding: [DoctorTests.provider("google")])]),
    "provider.check": answer(DoctorTests.good),
    "account.get": answer(JSON(encoding: TableTests.account("work", .ok))),
    "account.list": answer(["accounts": JSON(encoding: [TableTests.account("work", .ok)])]),
  ]

  /// Ends standard input after the lines.
  private static func run(_ lines: [String]) async throws -> (status: ExitStatus, recorder: Recorder) {
    let recorder = Recorder()
    for line in lines { recorder.type(line) }
    recorder.endInput()
    var status = ExitStatus.failure
    try await ScriptedBroker.with(replies) { broker, _ async throws in
      status = try await broker.run(["setup", "google", "work"], recorder, environment: ["HOME": "/h"]) { terminal in
        terminal.canAsk = true
        let replace = terminal.files.replace
        terminal.files.rewrite = { path, bytes, _ in replace(path, String(decoding: bytes, as: UTF8.self)) }
      }
    }
    return (status, recorder)
  }

  @Test("a mistyped program gets the nearest name, and the question is repeated") func mistyped() async throws {
    let (status, recorder) = try await Self.run(["gti", "none"])
    let question = "Program, or none [none]: "
    #expect(status == .success)
    #expect(
      recorder.err.hasSuffix("\(question)There is no configuration for gti. Did you mean git?\n\(question)"))
  }

  @Test("the configuration is printed once, and then the file that was written") func written() async throws {
    let (status, recorder) = try await Self.run(["git", "git.example.com", "y"])
    let path = "/h/.gitconfig"
    #expect(status == .success, "\(recorder.err)")
    #expect(recorder.files[path]?.contains("[credential \"https://git.example.com\"]") == true)
    #expect(recorder.out.ranges(of: "[credential ").count == 1)
    #expect(recorder.err.ranges(of: "# \(path)").count == 1)
    #expect(recorder.out.contains("\(path): written\n✓ Program: git\n"))
  }

  @Test("the end of input at the optional question is the answer none") func endOfInput() async throws {
    let (status, recorder) = try await Self.run([])
    #expect(status == .success, "\(recorder.err)")
    #expect(recorder.err.hasSuffix("Program, or none [none]: \n"))
    #expect(recorder.out.hasSuffix("Get a token:\n  grantctl token work\n"))
  }
}
