import ArgumentParser
import BrokerAPI
import Foundation
import Testing

@testable import grantctl

/// grantctl as the program for the addresses of an application's own scheme.
@Suite struct SchemeRegistrationTests {
  @Test("--register makes grantctl the program for a scheme, as often as one likes, and --unregister ends it")
  func registration() async throws {
    let recorder = Recorder()
    let environment = ["HOME": "/home/ada"]
    let path = "/home/ada/.local/share/applications/grantd-de.7pass.example.desktop"
    recorder.handlers = ["x-scheme-handler/de.7pass.example": "other.desktop"]
    for _ in 1...2 {
      let status = try await perform(
        ["handle-url", "--register", "DE.7pass.example", "--system"], recorder, environment: environment)
      #expect(status == .success)
    }
    #expect(
      recorder.out == String(repeating: "URLs that begin with de.7pass.example: now end a sign-in.\n", count: 2))
    #expect(recorder.err == "Until now other.desktop took them. `xdg-mime default` gives them back.\n")
    #expect(recorder.files.keys.sorted() == [path])
    let entry = try #require(recorder.files[path])
    #expect(entry.contains("\nExec=/usr/bin/grantctl handle-url --system -- %u\n"))
    #expect(entry.contains("\nMimeType=x-scheme-handler/de.7pass.example;\n"))
    let kind = "x-scheme-handler/de.7pass.example"
    #expect(recorder.asked.contains(["/usr/bin/xdg-mime", "default", "grantd-de.7pass.example.desktop", kind]))
    #expect(recorder.asked.contains(["/usr/bin/update-desktop-database", "/home/ada/.local/share/applications"]))
    let handlers = SchemeHandlers(terminal: recorder.terminal(environment: environment))
    let scheme = try #require(URLScheme("de.7pass.example"))
    #expect(await handlers.handler(of: scheme) == scheme.desktopFile)
    for _ in 1...2 {
      let status = try await perform(
        ["handle-url", "--unregister", "de.7pass.example"], recorder, environment: environment)
      #expect(status == .success)
    }
    // The record still names the removed file.
    #expect(recorder.files.isEmpty)
    #expect(await handlers.handler(of: scheme) == nil)
    let json = Recorder()
    let arguments = ["handle-url", "--register", "a.b", "--json"]
    #expect(try await perform(arguments, json, environment: ["XDG_DATA_HOME": "/d"]) == .success)
    #expect(
      try JSON.parse(Array(json.out.utf8))
        == ["scheme": "a.b", "registered": true, "desktop_file": "/d/applications/grantd-a.b.desktop"])
  }

  @Test(
    "a desktop that cannot be informed reports the reason and the next step",
    arguments: ["absent", "failing", "unwritable"])
  func notRegistered(how: String) async throws {
    let recorder = Recorder()
    if how == "absent" { recorder.absent = ["xdg-mime"] }
    if how == "failing" { recorder.failing = ["/usr/bin/xdg-mime"] }
    let status = try await perform(["handle-url", "--register", "a.b"], recorder, environment: ["HOME": "/h"]) {
      if how == "unwritable" { $0.files.replace = { _, _ in "Permission denied" } }
    }
    #expect(status == .failure && recorder.out.isEmpty)
    let words = [
      "absent": "Install xdg-utils, and run the same again.", "failing": "xdg-mime did not take grantd-a.b.desktop",
      "unwritable": "cannot be written: Permission denied",
    ]
    #expect(recorder.err.contains(words[how] ?? "?"))
  }

  @Test(
    "a scheme is one of an application's own",
    arguments: [
      ("com.example.app", true), ("db-1a2b", true), ("X+y", true), ("https", false), ("HTTP", false), ("file", false),
      ("mailto", false), ("javascript", false), ("1a", false), ("", false), ("a b", false), ("a/b", false),
      ("a:b", false), ("a;b", false), ("ä", false), ("a\n", false), ("../a", false),
      (String(repeating: "a", count: 101), false),
    ])
  func schemes(text: String, isGood: Bool) {
    #expect((URLScheme(text) != nil) == isGood)
    for option in ["--register", "--unregister"] where !isGood {
      #expect(throws: (any Error).self) { try Grantctl.parseAsRoot(["handle-url", option, text]) }
    }
  }

  @Test("the file that packages install is the one that is written") func template() throws {
    let top = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent()
    let text = try String(contentsOf: top.appendingPathComponent("config/grantd-handler.desktop"), encoding: .utf8)
    let entry = text.split(separator: "\n", omittingEmptySubsequences: false).filter { !$0.hasPrefix("#") }
    #expect(entry.joined(separator: "\n") == DesktopEntry(scheme: "SCHEME", program: "grantctl").text)
  }

  @Test(
    "words of the command keep their meaning in the file",
    arguments: [
      ("/opt/a b/grantctl", "\"/opt/a b/grantctl\""), ("/opt/100%/grantctl", "/opt/100%%/grantctl"),
      ("/o/a\"b$`\\c", "\"/o/a\\\\\"b\\\\$\\\\`\\\\\\\\c\""),
    ])
  func quoting(path: String, word: String) {
    let lines = DesktopEntry(scheme: "a.b", program: path).text.split(separator: "\n")
    #expect(lines.contains("Exec=\(word) handle-url -- %u"))
  }

  @Test("a file is replaced whole, with the folders above it, and removed") func files() throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("gh-\(UUID().uuidString)").path
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let path = folder + "/share/applications/a.desktop"
    for text in ["first", "second"] {
      #expect(ProcessFiles.replace(path, with: text) == nil)
      #expect(ProcessFiles.text(path) == .text(text, isOpenToOthers: true))
    }
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder + "/share/applications") == ["a.desktop"])
    #expect(ProcessFiles.remove(path) == nil && ProcessFiles.remove(path) == nil)
    #expect(ProcessFiles.replace("/proc/nothing/a", with: "") != nil)
    #expect(ProcessFiles.remove(folder) != nil)
  }
}
