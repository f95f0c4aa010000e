import AsyncClient
import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("Bad configuration")
struct BadConfigurationTests {
  struct Case: Sendable, CustomTestStringConvertible {
    var testDescription: String
    /// From line 1.
    var text: String
    var line: Int
    var says: [String]

    private static let provider = "[provider.demo]\nissuer = \"https://login.example.com\"\nclient_id = \"c\"\n"

    static let all = [
      Case(
        testDescription: "an unknown key", text: provider + "scope = [\"openid\"]\n", line: 4,
        says: ["\"scope\"", "did you mean \"scopes\"?"]),
      Case(
        testDescription: "an unknown section", text: "[refesh]\nshare = 0.5\n", line: 1,
        says: ["[refesh]", "did you mean [refresh]?"]),
      Case(testDescription: "a wrong type", text: "[callback]\nport = \"80\"\n", line: 2, says: ["port"]),
      Case(
        testDescription: "a number out of range", text: "[callback]\n\nport = 70000\n", line: 3,
        says: ["port", "65535"]),
      Case(testDescription: "broken TOML", text: "[callback]\nport = = 1\n", line: 2, says: []),
      Case(
        testDescription: "an inline secret", text: provider + "client_secret = \"hunter2\"\n", line: 4,
        says: ["client_secret_file"]),
      Case(
        testDescription: "a secret file that is not there",
        text: provider + "client_secret_file = \"/nonexistent/grantd/secret\"\n", line: 4,
        says: ["/nonexistent/grantd/secret"]),
      Case(
        testDescription: "no client", text: "\n[provider.demo]\nissuer = \"https://login.example.com\"\n", line: 2,
        says: ["client_id"]),
      Case(
        testDescription: "an unknown profile", text: "[provider.demo]\nprofile = \"gogle\"\nclient_id = \"c\"\n",
        line: 2,
        says: ["gogle", "google"]),
      Case(
        testDescription: "http to another machine",
        text: "[provider.demo]\nissuer = \"http://login.example.com\"\nclient_id = \"c\"\n", line: 2, says: ["http"]),
      Case(
        testDescription: "a rule without a caller", text: "[[rule]]\naccounts = [\"*\"]\naccess = [\"use\"]\n", line: 1,
        says: []),
      Case(
        testDescription: "a rule with an unknown right",
        text: "[[rule]]\nuid = 1\naccounts = [\"*\"]\naccess = [\"uses\"]\n", line: 4, says: ["use"]),
      Case(
        testDescription: "a bad duration", text: "[refresh]\nmargin = \"5 minutes\"\n", line: 2, says: ["margin", "5m"]),
    ]
  }

  @Test("is refused with file, line and what to do, status 78, before anything is touched", arguments: Case.all)
  func refused(_ bad: Case) async throws {
    let folder = try Folder()
    let file = try folder.write(bad.text, to: "grantd.toml")
    for more in [["--check-config"], []] {
      let run = try await Programs.runGrantd(
        ["--user", "--config", file, "--state", folder.path("state"), "--socket", folder.path("s")] + more, in: folder)
      #expect(run.status == 78)
      #expect(run.output.contains("\(file):\(bad.line):"), "\(run.output)")
      for fragment in bad.says { #expect(run.output.contains(fragment), "\(run.output)") }
      #expect(!run.output.contains("hunter2"))
    }
    #expect(!FileManager.default.fileExists(atPath: folder.path("state")))
    #expect(!FileManager.default.fileExists(atPath: folder.path("s")))
  }

  @Test("a missing file that was asked for is named; without one the defaults serve")
  func missing() async throws {
    let folder = try Folder()
    let run = try await Programs.runGrantd(
      ["--user", "--config", folder.path("none.toml"), "--check-config"], in: folder)
    #expect(run.status == 78)
    #expect(run.output.contains(folder.path("none.toml")))
    let defaults = try await Programs.runGrantd(["--user", "--check-config"], in: folder)
    #expect(defaults.status == 0)
    #expect(defaults.output.hasPrefix("ok:") && defaults.output.hasSuffix(": 0 providers, 0 rules\n"))
    let one = try folder.write("[[rule]]\nuid = 1\naccounts = [\"*\"]\naccess = [\"use\"]\n", to: "one.toml")
    let counted = try await Programs.runGrantd(["--user", "--config", one, "--check-config"], in: folder)
    #expect(counted.status == 0 && counted.output.hasSuffix(": 0 providers, 1 rule\n"), "\(counted.output)")
  }

  @Test(
    "an empty or incomplete file is refused by a check, a start and a reload",
    arguments: [("", "is empty"), ("# half of a line", "does not end with a newline")])
  func incomplete(text: String, says: String) async throws {
    try await Rig.with { rig in
      let file = try rig.folder.write(text, to: "grantd.toml")
      let error = try await rig.failure("broker.reload")
      #expect(error.reason == .invalidConfiguration && error.message.contains("\(file): \(says)"), "\(error)")
      for more in [["--check-config"], []] {
        let run = try await Programs.runGrantd(
          ["--user", "--config", file, "--state", rig.folder.path("other"), "--socket", rig.folder.path("s")] + more,
          in: rig.folder)
        #expect(run.status == 78 && run.output.contains("\(file): \(says)"), "\(run.output)")
      }
    }
  }

  @Test(
    "a limit of open files that is too low is reported with the number, before any change", arguments: [24, 64])
  func fewDescriptors(limit: Int) async throws {
    let folder = try Folder()
    let file = try folder.write("", to: "grantd.toml")
    let command = "ulimit -n \(limit); exec \"$0\" \"$@\""
    let arguments = ["--user", "--config", file, "--state", folder.path("state"), "--socket", folder.path("s")]
    let run = try await Programs.run("/bin/sh", ["-c", command, Programs.grantd] + arguments, in: folder)
    #expect(run.status == 78)
    #expect(run.output.contains("at most \(limit) files may be open here, and grantd needs 128"), "\(run.output)")
    #expect(!FileManager.default.fileExists(atPath: folder.path("state")))
  }

  @Test("a secret file that others can read is refused")
  func readableSecret() async throws {
    let folder = try Folder()
    let secret = try folder.write("hunter2\n", to: "secret", mode: 0o644)
    let file = try folder.write(
      "[provider.demo]\nissuer = \"https://login.example.com\"\nclient_id = \"c\"\nclient_secret_file = \"\(secret)\"\n",
      to: "grantd.toml")
    let run = try await Programs.runGrantd(["--user", "--config", file, "--check-config"], in: folder)
    #expect(run.status == 78)
    #expect(run.output.contains("\(file):4:"))
    #expect(run.output.contains("chmod"))
    #expect(!run.output.contains("hunter2"))
  }

  @Test("a reload of an invalid file changes nothing and reports it; a valid one is active at once")
  func reload() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let token = try await rig.token().access_token
      try rig.configure("[callbak]\nport = 1")
      let error = try await rig.failure("broker.reload")
      #expect(error.reason == .invalidConfiguration)
      #expect(error.message.contains(rig.configurationFile + ":"))
      #expect(error.message.contains("did you mean [callback]?"))
      try rig.daemon.signal(SIGHUP)
      try await eventually("the log reports it") { rig.log.contains("the old one stays active") }
      #expect(try await rig.token().access_token == token)
      #expect(try await rig.startLogin("bob").id.isEmpty == false)
      try rig.configure("[provider.new]\nissuer = \"\(rig.demo.issuer)\"\nclient_id = \"demo\"")
      _ = try await rig.call("broker.reload")
      #expect(try await rig.call("provider.list")["providers"]?.array?.count == 2)
      #expect(try await rig.token().access_token == token)
    }
  }
}

@Suite("A state folder that cannot be used")
struct BadStoreTests {
  struct Damage: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var status: Int32 = 65
    var says: [String]
    var act: @Sendable (String) throws -> Void

    static let all = [
      Damage(testDescription: "no database", says: ["grantd.db", "damaged", "backup"]) { folder in
        try overwrite(folder + "/grantd.db", at: 0, with: Data("nonsense, not SQLite".utf8))
      },
      Damage(testDescription: "cut short", says: ["grantd.db", "damaged", "backup"]) { folder in
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: folder + "/grantd.db"))
        try file.truncate(atOffset: try file.seekToEnd() / 2)
        try file.close()
      },
      Damage(testDescription: "sealed under another key", says: ["another key", "grantd.key"]) { folder in
        try overwrite(folder + "/grantd.key", at: 0, with: Data((1...32).map { UInt8($0 * 7) }).base64EncodedData())
      },
      Damage(testDescription: "without its key", says: ["grantd.key", "missing", "Restore the key"]) { folder in
        try FileManager.default.removeItem(atPath: folder + "/grantd.key")
      },
      Damage(testDescription: "with a key that others can read", says: ["grantd.key", "chmod 600"]) { folder in
        chmod(folder + "/grantd.key", 0o644)
      },
      Damage(testDescription: "with a key of no known form", says: ["grantd.key", "Restore the key"]) { folder in
        try Data("short".utf8).write(to: URL(fileURLWithPath: folder + "/grantd.key"))
        chmod(folder + "/grantd.key", 0o600)
      },
      Damage(testDescription: "writable by others", status: 1, says: ["others may write"]) { folder in
        chmod(folder, 0o777)
      },
    ]

    static func overwrite(_ path: String, at offset: UInt64, with data: Data) throws {
      let file = try FileHandle(forUpdating: URL(fileURLWithPath: path))
      try file.seek(toOffset: offset)
      try file.write(contentsOf: data)
      try file.close()
    }
  }

  @Test("is refused with the next step, and left unchanged", arguments: Damage.all)
  func refused(_ damage: Damage) async throws {
    try await Rig.with { rig in
      try await rig.login()
      #expect(try await rig.terminate() == 0)
      try damage.act(rig.state)
      let before = try Self.contents(rig.state)
      let run = try await Programs.runGrantd(rig.arguments, in: rig.folder)
      #expect(run.status == damage.status, "\(run.output)")
      for fragment in damage.says { #expect(run.output.contains(fragment), "\(run.output)") }
      #expect(try Self.contents(rig.state) == before)
      #expect(!FileManager.default.fileExists(atPath: rig.socket))
    }
  }

  @Test("damaged pages are replaced by the rows that can be read, and the damaged database is kept")
  func salvaged() async throws {
    try await Rig.with { rig in
      try await rig.login()
      #expect(try await rig.terminate() == 0)
      try Damage.overwrite(rig.state + "/grantd.db", at: 4096, with: Data(repeating: 0xA5, count: 3 * 4096))
      let damaged = try Data(contentsOf: URL(fileURLWithPath: rig.state + "/grantd.db"))
      try await rig.start()
      #expect(try await rig.call("broker.status")["state"] == "running")
      #expect(await eventually { rig.log.contains("was damaged") })
      #expect(try Self.contents(rig.state).values.contains(damaged))
      try await rig.login("bob")
      #expect(try await rig.token("bob").generation == 1)
    }
  }

  /// The files that hold something; the lock names the last owner, and SQLite's index of the log holds nothing.
  private static func contents(_ folder: String) throws -> [String: Data] {
    var contents: [String: Data] = [:]
    for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
      let data = try Data(contentsOf: URL(fileURLWithPath: "\(folder)/\(name)"))
      if name == "grantd.lock" || name.hasSuffix("-shm") || (name.hasSuffix("-wal") && data.isEmpty) { continue }
      contents[name] = data
    }
    return contents
  }

  @Test("a second daemon on the same state names the first, which is unharmed")
  func secondOwner() async throws {
    try await Rig.with { rig in
      try await rig.login()
      var arguments = rig.arguments
      arguments[arguments.firstIndex(of: rig.socket) ?? 0] = rig.folder.path("s2")
      let run = try await Programs.runGrantd(arguments, in: rig.folder)
      #expect(run.status == 1)
      #expect(run.output.contains("pid \(try rig.daemon.pid)"))
      #expect(try await rig.token().access_token.isEmpty == false)
      #expect(
        try await rig.call("token.report_rejected", ["account": "alice", "generation": 1])["refreshed"]?.bool == true)
    }
  }

  @Test("a second daemon on the same socket is refused, and the first is unharmed")
  func secondSocket() async throws {
    try await Rig.with { rig in
      try await rig.login()
      var arguments = rig.arguments
      arguments[arguments.firstIndex(of: rig.state) ?? 0] = rig.folder.path("state2")
      let run = try await Programs.runGrantd(arguments, in: rig.folder)
      #expect(run.status == 1)
      #expect(run.output.contains(rig.socket))
      let another = try await SocketClient.connect(path: rig.socket)
      #expect(try await another.call(method: "broker.status", params: [:])["pid"]?.integer == Int64(try rig.daemon.pid))
      await another.close()
    }
  }

  @Test("a socket of a killed daemon is replaced; a file that is not a socket is kept")
  func staleSocket() async throws {
    try await Rig.with { rig in
      try rig.kill9()
      #expect(FileManager.default.fileExists(atPath: rig.socket))
      try await rig.start()
      #expect(try await rig.call("broker.status")["state"] == "running")
      #expect(try await rig.terminate() == 0)
      #expect(!FileManager.default.fileExists(atPath: rig.socket))
      try rig.folder.write("something", to: "s")
      let run = try await Programs.runGrantd(rig.arguments, in: rig.folder)
      // Another try changes nothing.
      #expect(run.status == 78)
      #expect(run.output.contains("is not a socket"))
      #expect(try String(contentsOfFile: rig.socket, encoding: .utf8) == "something")
    }
  }
}
