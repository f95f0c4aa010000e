import AsyncClient
import BrokerAPI
import Foundation
import Glibc
import TestSupport
import Testing

@Suite("the socket for LoadCredential= at the real daemon", .atMost)
struct UnitCredentialTests {
  private static let configuration = "[[credential]]\nid = \"token\"\naccount = \"alice\""

  private func credentials(_ rig: Rig) -> String { rig.folder.path("s-credentials.sock") }

  /// It is made after the other one, which answers already.
  private func ready(_ rig: Rig) async throws {
    try await eventually("the socket is served, or cannot be") {
      rig.log.contains("serving credentials of units") || rig.log.contains("units cannot load credentials: ")
    }
  }

  @Test("it is next to the other, only for its user, and removed at the end")
  func place() async throws {
    try await Rig.with { rig in
      var file = stat()
      try await ready(rig)
      #expect(lstat(credentials(rig), &file) == 0)
      #expect(file.st_mode & S_IFMT == S_IFSOCK && file.st_mode & 0o777 == 0o600)
      let status = try await rig.terminate()
      #expect(status == 0)
      #expect(!FileManager.default.fileExists(atPath: credentials(rig)))
    }
  }

  @Test("a process that binds a unit's name gets the refusal that systemd sends, never a token")
  func forged() async throws {
    try await Rig.with(Wish { $0.configuration = Self.configuration }) { rig in
      try await ready(rig)
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
      #expect(await eventually { rig.log.contains("credential token for backup.service refused: ") })
      #expect(!rig.log.contains(token))
      // A record may follow its refusal.
      let refused = try await eventually("all are recorded") { () -> [AuditList.Line]? in
        let records = try await rig.client.call(AuditList.self, .init(refused: true), timeout: .seconds(60)).records
        return records.map(\.count).reduce(0, +) >= 6 ? records : nil
      }
      #expect(refused.allSatisfy { $0.method == "credential" && $0.result == "not_permitted" && $0.action == .release })
      #expect(refused.allSatisfy { $0.uid == getuid() && $0.pid == getpid() })
      #expect(refused.map(\.count).reduce(0, +) == 6, "\(refused)")
      for id in ["token", "grantd.alice"] {
        let forged = try #require(refused.first { $0.detail?.hasPrefix("\(id) for backup.service: ") == true })
        #expect(forged.account == "alice")
      }
      // The other socket is as it was.
      #expect(try await rig.token().access_token == token)
    }
  }

  @Test("a unit that names the socket for programs gets the refusal, and the log names the right socket")
  func otherSocket() async throws {
    try await Rig.with(Wish { $0.configuration = Self.configuration }) { rig in
      try await rig.login()
      let number = String(UInt32.random(in: .min ... .max), radix: 16)
      let reader = try CredentialReader(rig.socket, as: "\(number)/unit/backup.service/grantd.alice")
      reader.closeOutput()
      #expect(isRefusedBySystemd(try await reader.readToEnd()))
      #expect(await eventually { rig.log.contains("LoadCredential= must name credentials.sock") })
      // A program may have bound its end to any address.
      let program = try CredentialReader(rig.socket, as: "\(number)-program")
      program.closeOutput()
      #expect(try await program.readToEnd().isEmpty)
      #expect(try await rig.token().generation == 1)
    }
  }

  @Test("many clients that never read delay no other")
  func crowd() async throws {
    try await Rig.with { rig in
      try await ready(rig)
      try await rig.login()
      // The names are the whole machine's.
      let number = String(UInt32.random(in: .min ... .max), radix: 16)
      let readers = try (0..<100).map { try CredentialReader(credentials(rig), as: "\(number)-\($0)-none") }
      _ = try await rig.token()
      #expect(isRefusedBySystemd(try await CredentialReader(credentials(rig), as: nil).readToEnd()))
      #expect(try await rig.terminate() == 0)
      _ = readers
    }
  }

  @Test("a file in its place prevents no token, and the log reports it")
  func taken() async throws {
    try await Rig.with(starting: false) { rig in
      try rig.folder.write("mine", to: "s-credentials.sock")
      try await rig.start()
      try await ready(rig)
      try await rig.login()
      _ = try await rig.token()
      #expect(await eventually { rig.log.contains("units cannot load credentials: ") })
      #expect(try String(contentsOfFile: credentials(rig), encoding: .utf8) == "mine")
    }
  }
}
