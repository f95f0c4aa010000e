import AsyncClient
import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

/// Two machines: each daemon has a state folder and a key of its own, at the same provider.
@Suite("A backup from one machine to another", .atMost) struct BackupTransferTests {
  private static let passphrase = "correct-horse-battery-staple-1"

  /// A second daemon of the rig's configuration.
  private final class Second {
    let folder: Folder
    let child: Child
    let client: SocketClient

    init(_ rig: Rig) async throws {
      folder = try Folder()
      let socket = folder.path("s")
      let own = [
        "--user", "--config", rig.configurationFile, "--state", folder.path("state"), "--socket", socket, "--log-level",
        "debug",
      ]
      child = try Child(
        Programs.grantd, own, environment: Programs.environment(folder), output: folder.path("log"))
      let child = child
      client = try await eventually("the second daemon listens") {
        if let status = child.status { throw Failed("it ended with \(status)") }
        return try? await SocketClient.connect(path: socket)
      }
    }

    deinit { child.kill9() }

    func call(_ method: String, _ params: JSON) async throws -> JSON {
      try await client.call(method: method, params: params, timeout: .seconds(60))
    }
  }

  private func grantctl(_ arguments: [String], _ socket: String, _ folder: Folder) async throws -> (Int32, String) {
    try await Programs.run(Programs.grantctl, arguments + ["--socket", socket], in: folder)
  }

  @Test("is restored there, returns tokens, and refreshes continue; nothing of it is sent in clear")
  func moved() async throws {
    try await Rig.with(Wish { $0.isRelayed = true }) { rig in
      for account in ["alice", "bob"] { try await rig.login(account) }
      let before = try await rig.token()
      let secret = try rig.folder.write(Self.passphrase + "\n", to: "passphrase")
      let file = rig.folder.path("grantd.backup")
      let (status, said) = try await grantctl(["backup", file, "--passphrase-file", secret], rig.socket, rig.folder)
      #expect(status == 0 && said.hasPrefix("Backup of 2 accounts: \(file)"), "\(said)")
      #expect(try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int == 0o600)
      let again = try await grantctl(["backup", file, "--passphrase-file", secret], rig.socket, rig.folder)
      #expect(again.0 == 64 && again.1.contains("--force"))
      let leaks = Leaks()
      leaks.learn(from: rig.demo.requests)
      leaks.learn(from: try #require(rig.relay).record)
      leaks.know(before.access_token, Self.passphrase, "alice@demo.example")
      leaks.record(String(decoding: try Data(contentsOf: URL(fileURLWithPath: file)), as: UTF8.self), at: "the backup")
      leaks.record(rig.log, at: "the log")
      leaks.record(said, at: "what grantctl says")
      try await rig.terminate()

      let second = try await Second(rig)
      let socket = second.folder.path("s")
      // No user has confirmed that the first one is stopped, and the passphrase differs.
      let unsaid = try await grantctl(["restore", file, "--passphrase-file", secret], socket, second.folder)
      #expect(unsaid.0 == 64 && unsaid.1.contains("--moved"), "\(unsaid)")
      let wrong = try second.folder.write("another passphrase\n", to: "wrong")
      let refused = try await grantctl(["restore", file, "--moved", "--passphrase-file", wrong], socket, second.folder)
      #expect(refused.0 == 1 && refused.1.contains("the passphrase is not the one"), "\(refused)")
      let (restored, words) = try await grantctl(
        ["restore", file, "--moved", "--passphrase-file", secret], socket, second.folder)
      #expect(restored == 0 && words.contains("Restored (2): alice, bob\n"), "\(words)")
      leaks.record(words, at: "what grantctl says")
      let token = try await second.call("token.get", ["account": "alice"])
      #expect(token["access_token"]?.string == before.access_token)
      _ = try await second.call(
        "token.report_rejected", ["account": "alice", "generation": .integer(before.generation)])
      let fresh = try await second.call("token.get", ["account": "alice"])
      #expect((fresh["generation"]?.integer ?? 0) > before.generation)
      #expect(try await works(try #require(fresh["access_token"]?.string), at: rig.demo))
      // It was committed: the end of the process loses nothing.
      leaks.record(
        (try? String(contentsOfFile: second.folder.path("log"), encoding: .utf8)) ?? "", at: "the second log")
      #expect(leaks.count >= 8)
      #expect(leaks.found().isEmpty, "\(leaks.found().prefix(5))")
    }
  }

  @Test("restored accounts survive a kill, and existing ones are kept unless replaced")
  func keptOrReplaced() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let key = try rig.folder.write(String(repeating: "5a", count: 31) + "00", to: "backup.key")
      let file = rig.folder.path("b")
      #expect(try await grantctl(["backup", file, "--key-file", key], rig.socket, rig.folder).0 == 0)
      let old = try await rig.token()
      _ = try await rig.call("account.logout", ["account": "alice", "revoke": false])
      try await rig.login("alice", as: "alice")
      try await rig.login("bob")
      let now = try await rig.token()
      #expect(now.access_token != old.access_token)
      let arguments = ["restore", file, "--moved", "--key-file", key]
      let (kept, words) = try await grantctl(arguments, rig.socket, rig.folder)
      #expect(kept == 0 && words.contains("Kept as they were (1): alice\n"), "\(words)")
      #expect(try await rig.token().access_token == now.access_token)
      let (replaced, more) = try await grantctl(arguments + ["--replace", "--older"], rig.socket, rig.folder)
      #expect(replaced == 0 && more.contains("Replaced (1): alice\n"), "\(more)")
      for _ in 1...2 {
        #expect(try await rig.token().access_token == old.access_token)
        #expect(try await rig.token().generation > now.generation)
        #expect(try await rig.call("account.list")["accounts"]?.array?.count == 2)
        try await rig.restart()
      }
    }
  }

  @Test("is refused where it is damaged or cut off, and nothing changes")
  func damaged() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let key = try rig.folder.write(String(repeating: "5a", count: 31) + "00", to: "backup.key")
      let file = rig.folder.path("b")
      #expect(try await grantctl(["backup", file, "--key-file", key], rig.socket, rig.folder).0 == 0)
      let whole = try Data(contentsOf: URL(fileURLWithPath: file))
      var changed = whole
      changed[whole.count / 2] ^= 1
      for (bytes, word) in [
        (changed, "damaged"), (whole.prefix(whole.count / 2), "damaged"), (whole.prefix(50), "not whole"),
        (Data("SQLite format 3".utf8), "not a backup of grantd"),
      ] {
        let bad = rig.folder.path("bad")
        try Data(bytes).write(to: URL(fileURLWithPath: bad))
        let (status, said) = try await grantctl(["restore", bad, "--moved", "--key-file", key], rig.socket, rig.folder)
        #expect(status != 0 && said.contains(word), "\(said)")
      }
      #expect(try await rig.call("account.list")["accounts"]?.array?.count == 1)
      let names = try FileManager.default.contentsOfDirectory(atPath: rig.state)
      #expect(!names.contains { $0.hasPrefix("grantd.workplace") }, "\(names)")
    }
  }

  @Test("its passphrase is in no arguments and no environment of any process")
  func unseen() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let secret = try rig.folder.write(Self.passphrase, to: "passphrase")
      let child = try Child(
        Programs.grantctl,
        ["backup", rig.folder.path("b"), "--passphrase-file", secret, "--socket", rig.socket],
        environment: Programs.environment(rig.folder), output: rig.folder.path("said"))
      var looks = 0
      try await eventually("the backup has ended", every: .milliseconds(5)) {
        for pid in [child.pid, try rig.daemon.pid] {
          for name in ["cmdline", "environ"] {
            let contents = FileManager.default.contents(atPath: "/proc/\(pid)/\(name)") ?? Data()
            #expect(contents.range(of: Data(Self.passphrase.utf8)) == nil, "in \(name)")
            looks += 1
          }
        }
        return child.status != nil
      }
      #expect(child.status == 0 && looks >= 4)
    }
  }
}
