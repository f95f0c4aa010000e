import Broker
import Foundation
import GrantdConfiguration
import Testing

@testable import grantd

/// One configuration has one verdict: of `--check-config`, of a start and of a reload.
@Suite struct ConfigurationVerdictTests {
  private static func verdict(_ sources: Settings.Sources) -> String {
    do throws(ConfigurationError) {
      _ = try Settings.load(sources)
      return "ok"
    } catch {
      return error.description.replacing("\(sources.file):", with: "")
    }
  }

  @Test(
    "a start and a reload give the same verdict, also for an empty or incomplete file",
    arguments: [
      ("", " is empty: write its settings, or a comment if it needs none"),
      (
        "[callback]\nport = 0",
        " does not end with a newline, so its end may be missing: complete its last line"
      ),
      ("# nothing\n", "ok"), ("[callback]\nport = 0\n", "ok"),
      ("[callback]\nprot = 0\n", "2: unknown key \"prot\" in [callback]: did you mean \"port\"?"),
    ])
  func same(_ text: String, _ verdict: String) throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "grantd-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let file = folder.appending(path: "grantd.toml")
    try Data(text.utf8).write(to: file)
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
    let places = try Places(
      instance: .user, config: file.path, state: nil, socket: nil, templates: [], environment: ["HOME": folder.path])
    #expect(Self.verdict(places.sources) == verdict)
    #expect(Self.verdict(places.reloadSources(after: [file.path])) == verdict)
  }
}
