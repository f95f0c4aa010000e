import Foundation
import Glibc
import TestSupport
import Testing

@Suite("the socket for LoadCredential= at the real daemon", .timeLimit(.minutes(2)))
struct UnitCredentialTests {
  private static let configuration = "[[credential]]\nid = \"token\"\naccount = \"alice\""

  private func credentials(_ rig: Rig) -> String { rig.folder.path("s-credentials.sock") }

  @Test("it is beside the other, for its user alone, and gone at the end")
  func place() async throws {
    try await Rig.with { rig in
      var file = stat()
      #expect(lstat(credentials(rig), &file) == 0)
      #expect(file.st_mode & S_IFMT == S_IFSOCK && file.st_mode & 0o777 == 0o600)
      let status = try await rig.terminate()
      #expect(status == 0)
      #expect(!FileManager.default.fileExists(atPath: credentials(rig)))
    }
  }

  @Test("a process that binds a unit's name gets what systemd refuses, never a token and never nothing")
  func forged() async throws {
    try await Rig.with(Wish { $0.configuration = Self.configuration }) { rig in
      try await rig.login()
      let token = try await rig.token().access_token
      let number = String(UInt32.random(in: .min ... .max), radix: 16)
      for name in [
        "\(number)/unit/backup.service/token", "\(number)/unit/backup.service/grantd.alice",
        "\(number)/unit/backup.service/../token", "\(number)/unit/backup.service/nothing", "\(number)", nil,
      ] {
        let reader = try CredentialReader(credentials(rig), as: name)
        reader.closeOutput()
        let bytes = try await reader.readToEnd()
        #expect(isRefusedBySystemd(bytes), "\(name ?? "no name"): \(bytes.count) bytes")
        #expect(!String(decoding: bytes, as: UTF8.self).contains(token))
      }
      #expect(rig.log.contains("credential token for backup.service refused: "))
      #expect(!rig.log.contains(token))
      // The other socket is as it was.
      #expect(try await rig.token().access_token == token)
    }
  }

  @Test("many that read nothing keep nobody from anything")
  func crowd() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let readers = try (0..<100).map { try CredentialReader(credentials(rig), as: "\($0)-none") }
      _ = try await rig.token()
      #expect(isRefusedBySystemd(try await CredentialReader(credentials(rig), as: nil).readToEnd()))
      #expect(try await rig.terminate() == 0)
      _ = readers
    }
  }

  @Test("what is in its place stops no token, and the log says so")
  func taken() async throws {
    try await Rig.with(starting: false) { rig in
      try rig.folder.write("mine", to: "s-credentials.sock")
      try await rig.start()
      try await rig.login()
      _ = try await rig.token()
      #expect(rig.log.contains("units cannot load credentials: "))
      #expect(try String(contentsOfFile: credentials(rig), encoding: .utf8) == "mine")
    }
  }
}
