import Foundation
import Testing

/// The manual pages are those of these programs; `make docs` writes them.
@Suite(.timeLimit(.minutes(1))) struct ManualTests {
  @Test("The manual page says what the program does", arguments: [("grantctl", "1"), ("grantd", "8")])
  func current(_ name: String, _ section: String) async throws {
    let top = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().path
    let program = name == "grantd" ? Programs.grantd : Programs.grantctl
    let made = try await Programs.run(
      "/usr/bin/env", ["python3", "\(top)/scripts/package/manual", program, section], in: Folder())
    let kept = try String(contentsOfFile: "\(top)/docs/man/\(name).\(section)", encoding: .utf8)
    #expect(made.status == 0 && made.output == kept, "run make docs")
  }
}
