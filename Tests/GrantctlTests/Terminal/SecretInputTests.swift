import BrokerAPI
import Foundation
import Glibc
import Synchronization
import TestSupport
import Testing

@testable import grantctl

@Suite struct SecretInputTests {
  static let imported = JSON(encoding: TableTests.account("work", .ok))
  private static let arguments = ["import", "work", "--provider", "google"]

  @Test("a refresh token comes from standard input, without the white space around it")
  func fromAPipe() async throws {
    try await ScriptedBroker.with(["account.import": answer(Self.imported)]) { broker, _ async throws in
      let recorder = Recorder()
      for line in ["\u{FEFF}", "  1//0g-secret \r", ""] { recorder.type(line) }
      recorder.endInput()
      let status = try await broker.run(
        Self.arguments + ["--scope", "openid email", "--resource", "urn:r"], recorder)
      #expect(status == .success)
      #expect(
        broker.params(of: "account.import") == [
          "account": "work", "provider": "google", "refresh_token": "1//0g-secret", "scopes": ["openid", "email"],
          "resource": "urn:r",
        ])
      #expect(
        recorder.out == "Imported: work (ada@example.com) at google\nGet a token with: grantctl token work\n")
      #expect(recorder.err.isEmpty)
    }
  }

  @Test(
    "input that is not a token is refused, and not shown",
    arguments: [[], [" ", "\t"], ["a", "b"], ["1//ä"], ["a\u{1B}[31mb"]])
  func refused(lines: [String]) async throws {
    try await ScriptedBroker.with(["account.import": answer(Self.imported)]) { broker, _ async throws in
      let recorder = Recorder()
      for line in lines { recorder.type(line) }
      recorder.endInput()
      #expect(try await broker.run(Self.arguments, recorder) == .usage)
      #expect(broker.methods.isEmpty && recorder.out.isEmpty)
      #expect(recorder.err.hasPrefix("grantctl: no refresh token was given\n  Give ") || !lines.isEmpty)
      #expect(!recorder.err.contains("1//"))
    }
  }

  /// What happened to the echo, in order.
  private final class Echo: Sendable {
    private let happened = Mutex<[String]>([])
    var all: [String] { happened.withLock { $0 } }
    func note(_ what: String) { happened.withLock { $0.append(what) } }
  }

  @Test("at a terminal the token is requested, and the echo is off until it is entered", arguments: [true, false])
  func atATerminal(isTyped: Bool) async throws {
    try await ScriptedBroker.with(["account.import": answer(Self.imported)]) { broker, _ async throws in
      let (recorder, echo) = (Recorder(), Echo())
      async let status = broker.run(Self.arguments, recorder) {
        ($0.isInTTY, $0.canAsk) = (true, true)
        $0.hideEcho = {
          echo.note("off")
          return { echo.note("on") }
        }
      }
      #expect(await eventually { recorder.err == "Refresh token (it is not shown): " })
      #expect(echo.all == ["off"])
      if isTyped { recorder.type("1//0g-secret") } else { recorder.interrupt() }
      #expect(try await status == (isTyped ? .success : .interrupted))
      #expect(echo.all == ["off", "on"])
      #expect(broker.params(of: "account.import")?["refresh_token"] == (isTyped ? "1//0g-secret" : nil))
    }
  }

  @Test("a terminal that would show the token is refused", arguments: [true, false])
  func echoStays(canAsk: Bool) async throws {
    try await ScriptedBroker.with([:]) { broker, _ async throws in
      let recorder = Recorder()
      let status = try await broker.run(Self.arguments, recorder) {
        $0.isInTTY = true
        $0.canAsk = canAsk
        if !canAsk { $0.hideEcho = { {} } }
      }
      #expect(status == .usage)
      #expect(recorder.err.hasPrefix("grantctl: standard input is a terminal that would show the refresh token\n"))
    }
  }

  @Test("a typed line that is too long is refused, and so is the end of the input")
  func tooLong() async throws {
    for line in [String(repeating: "a", count: SecretInput.longestTyped), nil] {
      try await ScriptedBroker.with([:]) { broker, _ async throws in
        let recorder = Recorder()
        if let line { recorder.type(line) } else { recorder.endInput() }
        let status = try await broker.run(Self.arguments, recorder) {
          ($0.isInTTY, $0.canAsk) = (true, true)
          $0.hideEcho = { {} }
        }
        #expect(status == .usage && broker.methods.isEmpty && !recorder.err.contains("aaaa"))
      }
    }
  }

  @Test("the echo of a real terminal goes off and comes back") func realTerminal() throws {
    let terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY)
    try #require(terminal >= 0)
    defer { close(terminal) }
    func echoes() -> Bool {
      var settings = termios()
      return tcgetattr(terminal, &settings) == 0 && settings.c_lflag & tcflag_t(ECHO) != 0
    }
    #expect(echoes())
    let restore = try #require(TerminalSettings.hideEcho(terminal))
    #expect(!echoes())
    restore()
    #expect(echoes())
    let file = open("/dev/null", O_RDONLY)
    defer { close(file) }
    #expect(TerminalSettings.hideEcho(file) == nil)
  }

  @Test("a file is read where it is one, is not too long, and says whether others can read it")
  func files() throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("gc-\(UUID().uuidString.prefix(8))").path
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    func write(_ text: String, mode: Int) -> String {
      let isMade = FileManager.default.createFile(
        atPath: folder + "/f", contents: Data(text.utf8), attributes: [.posixPermissions: mode])
      #expect(isMade)
      return folder + "/f"
    }
    #expect(ProcessFiles.text(write("secret\n", mode: 0o600)) == .text("secret\n", isOpenToOthers: false))
    #expect(ProcessFiles.text(write("secret", mode: 0o644)) == .text("secret", isOpenToOthers: true))
    #expect(
      ProcessFiles.text(write(String(repeating: "a", count: 65_537), mode: 0o600))
        == .unreadable("it is longer than 64 KiB"))
    #expect(ProcessFiles.text(folder) == .unreadable("it is not a file"))
    #expect(ProcessFiles.text(folder + "/none") == .unreadable("No such file or directory"))
    #expect(mkfifo(folder + "/pipe", 0o600) == 0)
    #expect(ProcessFiles.text(folder + "/pipe") == .unreadable("it is not a file"))
  }
}
