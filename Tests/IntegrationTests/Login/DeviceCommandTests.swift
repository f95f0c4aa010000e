import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("grantctl login --device", .atMost)
struct DeviceCommandTests {
  @Test("grantctl login --device shows the code and the URL, and ends after the user's approval")
  func commandLine() async throws {
    try await DeviceLogin.with { rig in
      let output = rig.folder.path("login.out")
      let command = try Child(
        Programs.grantctl, ["login", "demo", "alice", "--device", "--socket", rig.socket],
        environment: Programs.environment(rig.folder), output: output)
      defer { command.kill9() }
      func said() -> String { (try? String(contentsOfFile: output, encoding: .utf8)) ?? "" }
      let code = try await eventually("the code is shown") {
        said().firstMatch(of: #/(?m)^([B-Z]{4}-[B-Z]{4})$/#).map { String($0.1) }
      }
      #expect(said().contains("\n\(rig.demo.issuer)/device?user_code=\(code)\n"))
      #expect(command.status == nil)
      try rig.demo.answerDevice(code.lowercased(), user: "bob")
      #expect(try await command.end() == 0, "\(said())")
      #expect(said().contains("Signed in to alice as bob@demo.example at demo"))
      #expect(!said().contains("\u{1B}"))
      let (status, token) = try await Programs.run(
        Programs.grantctl, ["token", "alice", "--socket", rig.socket], in: rig.folder)
      #expect(status == 0)
      #expect(try await works(token.trimmingCharacters(in: .whitespacesAndNewlines), at: rig.demo))
    }
  }

  @Test("grantctl login --device says what went wrong, and ends with its status", arguments: [false, true])
  func commandLineFails(isSupported: Bool) async throws {
    try await DeviceLogin.with { rig in
      if !isSupported { rig.demo.changeSettings { $0.metadata.oidc = .bare } }
      let output = rig.folder.path("login.out")
      let command = try Child(
        Programs.grantctl, ["login", "demo", "alice", "--device", "--socket", rig.socket],
        environment: Programs.environment(rig.folder), output: output)
      defer { command.kill9() }
      if isSupported {
        try await eventually("the user denies it") { (try? rig.demo.answerDevice(allow: false)) != nil }
      }
      #expect(try await command.end() != 0)
      let said = try String(contentsOfFile: output, encoding: .utf8)
      #expect(said.contains(isSupported ? "denied" : "device_authorization_endpoint"), "\(said)")
      try await DeviceLogin.expectNothingLeft(rig)
    }
  }
}
