import Foundation
import Testing

/// The manual pages and the completion scripts are those of these programs; `make docs` writes them.
@Suite(.timeLimit(.minutes(5))) struct ManualTests {
  @Test("docs has the generated manual pages and completion scripts")
  func current() async throws {
    let top = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().path
    let programs = URL(fileURLWithPath: Programs.grantd).deletingLastPathComponent().path
    let arguments = ["python3", "\(top)/scripts/package/manual", "--check", programs, "\(top)/docs"]
    let checked = try await Programs.run("/usr/bin/env", arguments, in: Folder())
    #expect(checked.status == 0, "run make docs: \(checked.output)")
  }
}
