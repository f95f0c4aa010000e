import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("systemd credentials")
struct DaemonCredentialTests {
  @Test("the state is sealed under the credential, no key file is made, and without the credential it stays shut")
  func sealingKey() async throws {
    let credentials = try Folder()
    try credentials.write((1...32).map { String($0 + 100, radix: 16) }.joined() + "\n", to: "grantd.key")
    let wish = Wish { $0.environment = ["CREDENTIALS_DIRECTORY": credentials.root] }
    try await Rig.with(wish) { rig in
      try await rig.login()
      let token = try await rig.token().access_token
      #expect(!FileManager.default.fileExists(atPath: rig.state + "/grantd.key"))
      try await rig.restart()
      #expect(try await rig.token().access_token == token)
      #expect(try await rig.terminate() == 0)
      let run = try await Programs.runGrantd(rig.arguments, in: rig.folder)
      #expect(run.status == 65)
      #expect(run.output.contains("grantd.key"), "\(run.output)")
      #expect(!FileManager.default.fileExists(atPath: rig.state + "/grantd.key"))
      try await rig.start()
      #expect(try await rig.token().access_token == token)
    }
  }

  @Test("a credential that is not a key is refused by its name, and no key is made")
  func badKey() async throws {
    let credentials = try Folder()
    try credentials.write("short", to: "grantd.key")
    let wish = Wish { $0.environment = ["CREDENTIALS_DIRECTORY": credentials.root] }
    try await Rig.with(wish, starting: false) { rig in
      await #expect(throws: Failed.self) { try await rig.start() }
      let daemon = try rig.daemon
      #expect(daemon.status == 65)
      #expect(await eventually { rig.log.contains(credentials.path("grantd.key")) })
      #expect(!FileManager.default.fileExists(atPath: rig.state + "/grantd.db"))
    }
  }

  @Test("a client secret can be a credential, and authenticates the client")
  func clientSecret() async throws {
    let credentials = try Folder()
    try credentials.write("s3cret-of-this-client\n", to: "demo-secret")
    let wish = Wish {
      $0.environment = ["CREDENTIALS_DIRECTORY": credentials.root]
      $0.client = .init(id: "demo", secret: "s3cret-of-this-client")
    }
    try await Rig.with(wish, starting: false) { rig in
      let file = try String(contentsOfFile: rig.configurationFile, encoding: .utf8)
      let lines = file.split(separator: "\n").map { line in
        line.hasPrefix("client_secret_file") ? "client_secret_credential = \"demo-secret\"" : String(line)
      }
      try rig.folder.write(lines.joined(separator: "\n") + "\n", to: "grantd.toml")
      try await rig.start()
      try await rig.login()
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
    }
  }
}
