import ArgumentParser
import BrokerAPI
import Foundation
import Glibc
import Synchronization
import TestSupport
import Testing

@testable import grantctl

@Suite("Backup, restore and key", .timeLimit(.minutes(5))) struct BackupCommandTests {
  private static let bytes = Array("grantd-backup\n".utf8) + (0..<200_000).map { UInt8(truncatingIfNeeded: $0 &* 3) }

  /// What was saved, by path, and the sizes of the parts that came.
  private final class Files: Sendable {
    let saved = Mutex<[String: [UInt8]]>([:])
    let received = Mutex<[UInt8]>([])
  }

  private static func making() -> [String: ScriptedBroker.Reply] {
    [
      "store.backup": answer(["backup_id": "b", "size": .integer(Int64(bytes.count)), "accounts": 13]),
      "store.backup_part": { params, _ in
        guard let offset = params["offset"]?.integer else { return .failure(.invalidParams("offset")) }
        let part = Data(bytes[Int(offset)...].prefix(128 << 10)).base64EncodedString()
        return .success(["data": .string(part)])
      },
    ]
  }

  private static func taking(_ files: Files, _ result: JSON) -> [String: ScriptedBroker.Reply] {
    [
      "store.restore": answer(["restore_id": "r"]),
      "store.restore_part": { params, _ in
        guard let data = params["data"]?.string.flatMap({ Data(base64Encoded: $0) }) else {
          return .failure(.invalidParams("data"))
        }
        let count = files.received.withLock { received in
          received += data
          return received.count
        }
        return .success(["received": .integer(Int64(count))])
      },
      "store.restore_look": { params, _ in
        guard params["passphrase"]?.string == "correct horse battery" || params["key"] != nil else {
          return .failure(RPCError(.invalidBackup, "the passphrase is not the one that the backup was made with"))
        }
        return .success([
          "host": "old.example", "made_at": .integer(Recorder.now - 7200), "version": "1.0", "accounts": 13, "known": 1,
        ])
      },
      "store.restore_apply": answer(result),
    ]
  }

  private static let applied: JSON = [
    "restored": ["work", "home"], "replaced": [], "kept": ["cameras"],
    "left_out": [["account": "robot", "why": "the configuration declares such accounts"]],
    "warnings": ["provider far is not configured here: its accounts wait until it is"],
  ]

  private static func atTerminal(_ terminal: inout Terminal, _ files: Files, present: Set<String> = []) {
    (terminal.isInTTY, terminal.canAsk) = (true, true)
    terminal.hideEcho = { {} }
    withFiles(&terminal, files, present: present)
  }

  private static func withFiles(_ terminal: inout Terminal, _ files: Files, present: Set<String> = []) {
    terminal.files.exists = { path in present.contains(path) || files.saved.withLock { $0[path] != nil } }
    terminal.files.save = { path, bytes, _ in
      files.saved.withLock { $0[path] = bytes }
      return nil
    }
    terminal.files.bytes = { path, _ in
      switch path {
      case "b": .bytes(bytes)
      case "key": .bytes(Array(repeating: 9, count: 32))
      case "other": .bytes(Array("SQLite format 3".utf8))
      default: .unreadable("No such file or directory")
      }
    }
    terminal.files.text = { path in
      path == "pass" ? .text("correct horse battery\n", isOpenToOthers: false) : .unreadable("no")
    }
  }

  @Test("a backup asks for its passphrase twice, and is written whole")
  func backup() async throws {
    try await ScriptedBroker.with(Self.making()) { broker, _ async throws in
      let (recorder, files) = (Recorder(), Files())
      async let status = broker.run(["backup", "b.out"], recorder) { Self.atTerminal(&$0, files) }
      let prompt = "Passphrase for the backup, 8 or more ASCII characters (it is not shown): "
      #expect(await eventually { recorder.err == prompt })
      recorder.type("correct horse battery")
      #expect(await eventually { recorder.err.hasSuffix("The same again: ") })
      recorder.type("correct horse battery")
      #expect(try await status == .success)
      #expect(files.saved.withLock { $0 } == ["b.out": Self.bytes])
      #expect(broker.params(of: "store.backup") == ["passphrase": "correct horse battery"])
      #expect(
        recorder.out == """
          Backup of 13 accounts: b.out (196 KiB)
          Keep the passphrase: the backup cannot be opened without it.
          Restore it with: grantctl restore b.out

          """)
      #expect(!recorder.err.contains("correct"))
    }
  }

  @Test(
    "two passphrases that differ, or one that is short, make no backup",
    arguments: [["one-and-two", "two-and-one"], ["short"]])
  func differs(lines: [String]) async throws {
    try await ScriptedBroker.with(Self.making()) { broker, _ async throws in
      let (recorder, files) = (Recorder(), Files())
      async let status = broker.run(["backup", "b.out"], recorder) { Self.atTerminal(&$0, files) }
      for line in lines { recorder.type(line) }
      #expect(try await status == .usage)
      #expect(recorder.err.contains("  Run the command again"))
      #expect(!broker.methods.contains("store.backup") && files.saved.withLock { $0.isEmpty })
    }
  }

  @Test("a caller without the right to back up is refused before the passphrase prompt")
  func notAllowed() async throws {
    let replies = Self.making().merging([
      "policy.explain": answer(["allowed": false, "why": "no rule allows this caller store.backup"]),
      "store.backup": refuse(RPCError(.notPermitted, "uid 1000 may not call store.backup", hint: "Ask an admin.")),
    ]) { $1 }
    try await ScriptedBroker.with(replies) { broker, _ async throws in
      let (recorder, files) = (Recorder(), Files())
      let status = try await broker.run(["backup", "b.out"], recorder) { Self.atTerminal(&$0, files) }
      #expect(status == .notPermitted && broker.methods == ["policy.explain", "store.backup"])
      #expect(broker.params(of: "policy.explain") == ["method": "store.backup"])
      #expect(recorder.err == "grantctl: uid 1000 may not call store.backup\n  Ask an admin.\n")
    }
  }

  @Test("a file that cannot be written is reported before the passphrase prompt")
  func unwritable() async throws {
    try await ScriptedBroker.with(Self.making()) { broker, _ async throws in
      let (recorder, files) = (Recorder(), Files())
      let status = try await broker.run(["backup", "none/b"], recorder) {
        Self.atTerminal(&$0, files)
        $0.files.obstacle = { path in path == "none/b" ? "No such file or directory" : nil }
      }
      #expect(status == .failure && broker.methods.isEmpty)
      #expect(
        recorder.err == """
          grantctl: the backup cannot be written to none/b: No such file or directory
            Give a file in a folder that exists, that you can write to, and that has space.

          """)
    }
  }

  @Test("for a folder the hint is a file in it, also with --force", arguments: ["out", "out/", "/"])
  func folder(path: String) async throws {
    for force in [[], ["--force"]] {
      let (recorder, files) = (Recorder(), Files())
      let status = try await perform(["backup", path] + force, recorder, environment: [:]) {
        Self.atTerminal(&$0, files, present: [path])
        $0.files.obstacle = { _ in TerminalFiles.folderObstacle }
      }
      #expect(status == .usage)
      let file = path == "/" ? "/grantd.backup" : "out/grantd.backup"
      #expect(recorder.err == "grantctl: \(path) is a folder\n  Name a file in it: `grantctl backup \(file)`\n")
    }
  }

  @Test("a locked broker is reported before the passphrase prompt")
  func locked() async throws {
    let refusal = RPCError(.locked, "the broker is locked")
    try await ScriptedBroker.with(["policy.explain": refuse(refusal)]) { broker, _ async throws in
      let (recorder, files) = (Recorder(), Files())
      let status = try await broker.run(["backup", "b.out"], recorder) { Self.atTerminal(&$0, files) }
      #expect(status == .temporarilyUnavailable && broker.methods == ["policy.explain"])
      #expect(recorder.err == "grantctl: the broker is locked\n  Unlock it with `grantctl unlock`.\n")
    }
  }

  @Test("the obstacle of a file is found, and no file is left")
  func obstacles() throws {
    let folder = NSTemporaryDirectory() + "gc-obstacle-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    #expect(FileManager.default.createFile(atPath: folder + "/file", contents: Data()))
    let table: [(String, String?)] = [
      ("/new", nil), ("/file", nil), ("", TerminalFiles.folderObstacle), ("/", TerminalFiles.folderObstacle),
      ("/none/b", "No such file or directory"), ("/none/", "No such file or directory"),
      ("/file/b", "\(folder)/file is not a folder"),
    ]
    for (path, reason) in table { #expect(ProcessFiles.obstacle(folder + path) == reason) }
    // To root it looks as if it could be written.
    #expect(ProcessFiles.obstacle("/proc/none") != nil && ProcessFiles.obstacle("") == "the path is empty")
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == ["file"])
  }

  @Test("a backup is a file: “-” is refused", arguments: ["backup", "restore"])
  func noStream(command: String) throws {
    let error = #expect(throws: (any Error).self) { try Grantctl.parseAsRoot([command, "-"]) }
    #expect(error.map { Grantctl.exitCode(for: $0).rawValue } == ExitStatus.usage.rawValue)
    #expect(error.map { Grantctl.message(for: $0) }?.contains("not a stream") == true)
    _ = try Grantctl.parseAsRoot([command, "./-"])
  }

  @Test(
    "without a terminal the secret comes from a file, or there is no backup",
    arguments: [
      (["--passphrase-file", "pass"], ["passphrase": "correct horse battery"]),
      (["--key-file", "key"], ["key": .string(Data(repeating: 9, count: 32).base64EncodedString())]), ([], nil),
      (["--key-file", "nowhere"], nil),
    ] as [([String], JSON?)])
  func unattended(options: [String], params: JSON?) async throws {
    try await ScriptedBroker.with(Self.making()) { broker, _ async throws in
      let (recorder, files) = (Recorder(), Files())
      let status = try await broker.run(["backup", "b.out", "--json"] + options, recorder) {
        Self.withFiles(&$0, files)
      }
      #expect(status == (params == nil ? .usage : .success))
      #expect(broker.params(of: "store.backup") == params)
      if params != nil {
        #expect(recorder.out == #"{"file":"b.out","size":200014,"accounts":13}"# + "\n")
      }
    }
  }

  @Test("an existing file is overwritten only with --force")
  func force() async throws {
    try await ScriptedBroker.with(Self.making()) { broker, _ async throws in
      for force in [[], ["--force"]] {
        let (recorder, files) = (Recorder(), Files())
        let arguments = ["backup", "there", "--key-file", "key"] + force
        let status = try await broker.run(arguments, recorder) { Self.withFiles(&$0, files, present: ["there"]) }
        #expect(status == (force.isEmpty ? .usage : .success))
        #expect(recorder.err.contains("there already exists") == force.isEmpty)
        #expect(files.saved.withLock { $0.isEmpty } == force.isEmpty)
      }
    }
  }

  @Test("a restore tells where the backup is from, warns, asks, and says what became of each account")
  func restore() async throws {
    let files = Files()
    try await ScriptedBroker.with(Self.taking(files, Self.applied)) { broker, _ async throws in
      let recorder = Recorder()
      async let status = broker.run(["restore", "b"], recorder) { Self.atTerminal(&$0, files) }
      #expect(await eventually { recorder.err == "The backup's passphrase (it is not shown): " })
      recorder.type("incorrect horse")
      #expect(await eventually { recorder.err.contains("not the one that the backup was made with") })
      recorder.type("correct horse battery")
      #expect(await eventually { recorder.err.hasSuffix("[y/N] ") })
      #expect(!broker.methods.contains("store.restore_apply"))
      recorder.type("y")
      #expect(try await status == .success)
      #expect(files.received.withLock { $0 } == Self.bytes)
      #expect(
        broker.params(of: "store.restore_apply") == [
          "restore_id": "r", "moved": true, "replace": false, "older": false,
        ])
      #expect(
        recorder.err.contains(
          "A backup of “old.example”, made 2025-12-31 22:00:00 (2 h ago): 13 accounts, 1 of\nwhich is here already.\n"))
      #expect(recorder.err.contains("Does the grantd of “old.example” no longer use them? [y/N] "))
      #expect(recorder.err.contains("warning: provider far is not configured here"))
      #expect(
        recorder.out == """
          Restored (2): work, home
          Kept as they were (1): cameras
          Left out: robot: the configuration declares such accounts
          Those that were kept are not the backup's: --replace takes them too.

          """)
      // The line of a question ends where the answer was typed.
      let seen = (recorder.out + recorder.err).replacing("[y/N] ", with: "\n")
      for line in seen.split(separator: "\n") { #expect(SafeText.width(String(line)) <= 80, "\(line)") }
    }
  }

  @Test("a restore without a yes restores nothing", arguments: ["", "n", "yep", "no"])
  func refused(word: String) async throws {
    let files = Files()
    try await ScriptedBroker.with(Self.taking(files, Self.applied)) { broker, _ async throws in
      let recorder = Recorder()
      async let status = broker.run(["restore", "b", "--key-file", "key"], recorder) { Self.atTerminal(&$0, files) }
      #expect(await eventually { recorder.err.hasSuffix("[y/N] ") })
      recorder.type(word)
      #expect(try await status == .failure)
      #expect(!broker.methods.contains("store.restore_apply"))
    }
  }

  @Test("a restore without an effect reports it, and asks nothing", arguments: [false, true])
  func nothingToTake(replace: Bool) async throws {
    let files = Files()
    var replies = Self.taking(files, Self.applied)
    replies["store.restore_look"] = answer([
      "host": "old.example", "made_at": .integer(Recorder.now - 7200), "version": "1.0", "accounts": 2, "known": 2,
    ])
    try await ScriptedBroker.with(replies) { broker, _ async throws in
      let recorder = Recorder()
      let arguments = ["restore", "b", "--key-file", "key"] + (replace ? ["--replace"] : [])
      recorder.type("n")
      let status = try await broker.run(arguments, recorder) { Self.atTerminal(&$0, files) }
      #expect(status == (replace ? .failure : .success))
      #expect(recorder.err.contains("[y/N]") == replace && recorder.err.contains("warning:") == replace)
      #expect(recorder.out.hasPrefix("All of them are here already: nothing is restored.") != replace)
      #expect(!broker.methods.contains("store.restore_apply"))
    }
  }

  @Test("a missing backup file is reported with the right argument")
  func absent() async throws {
    let (recorder, files) = (Recorder(), Files())
    let status = try await perform(["restore", "nowhere", "--moved", "--key-file", "key"], recorder, environment: [:]) {
      Self.withFiles(&$0, files)
    }
    #expect(status == .usage)
    #expect(
      recorder.err == """
        grantctl: the backup cannot be read from nowhere: No such file or directory
          Give the path of a file that `grantctl backup` wrote.

        """)
  }

  @Test("without a terminal a restore needs --moved, before anything is sent")
  func unattendedRestore() async throws {
    let files = Files()
    try await ScriptedBroker.with(Self.taking(files, Self.applied)) { broker, _ async throws in
      let recorder = Recorder()
      let arguments = ["restore", "b", "--passphrase-file", "pass", "--replace"]
      #expect(try await broker.run(arguments, recorder) { Self.withFiles(&$0, files) } == .usage)
      #expect(broker.methods.isEmpty && recorder.err.contains("--moved"))
      #expect(try await broker.run(arguments + ["--moved"], recorder) { Self.withFiles(&$0, files) } == .success)
      #expect(
        broker.params(of: "store.restore_apply") == ["restore_id": "r", "moved": true, "replace": true, "older": false])
      let other = try await broker.run(
        ["restore", "other", "--moved", "--key-file", "key"], recorder
      ) { Self.withFiles(&$0, files) }
      #expect(other == .usage && recorder.err.contains("other is not a backup of grantd"))
    }
  }

  @Test("parts that come too fast for the broker are sent again")
  func limited() async throws {
    let count = Counter()
    var replies = Self.making()
    let part = replies["store.backup_part"]
    replies["store.backup_part"] = { params, session in
      if count.next() % 2 == 1 { return .failure(RPCError(.rateLimited, "too often", retryAfter: 0.01)) }
      return await part?(params, session) ?? .failure(.invalidParams("none"))
    }
    try await ScriptedBroker.with(replies) { broker, _ async throws in
      let (recorder, files) = (Recorder(), Files())
      let status = try await broker.run(["backup", "x", "--key-file", "key"], recorder) { Self.withFiles(&$0, files) }
      #expect(status == .success && files.saved.withLock { $0["x"] } == Self.bytes)
    }
  }

  @Test("key rotate names the key's location, and the data left under the old one")
  func rotate() async throws {
    let result: JSON = [
      "key_file": "/var/lib/grantd/grantd.key", "accounts": 13, "seconds": 1, "warnings": ["a log still has some"],
    ]
    try await ScriptedBroker.with(["store.rotate_key": answer(result)]) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["--json", "key", "rotate"], Recorder()) == .success)
      #expect(try await broker.run(["key", "rotate"], recorder) == .success)
      #expect(
        recorder.out == """
          The state is sealed under a new key: 13 accounts
          Keep a copy of /var/lib/grantd/grantd.key where your other secrets are.

          """)
      #expect(recorder.err == "warning: a log still has some\n")
    }
  }

  @Test(
    "a path is the folder and the name in it, however short",
    arguments: [
      ("b", ".", "b"), ("-", ".", "-"), ("/b", "/", "b"), ("a/b", "a", "b"), ("/a/bc", "/a", "bc"), ("./-", ".", "-"),
      ("ä/東", "ä", "東"), ("", ".", ""), ("/", "/", ""), ("a/", "a", ""),
    ] as [(String, String, String)])
  func split(path: String, folder: String, name: String) {
    let parts = ProcessFiles.split(path)
    #expect(parts.folder == folder && parts.name == name)
  }

  @Test("a file is saved in the working folder under a name of one character")
  func savedHere() throws {
    // A unique one: the folder is that of all tests.
    let name = try #require("0123456789~".map(String.init).first { access($0, F_OK) != 0 })
    defer { unlink(name) }
    #expect(ProcessFiles.save(name, bytes: [1, 2], replacing: false) == nil)
    #expect(FileManager.default.contents(atPath: name) == Data([1, 2]))
  }

  @Test("a file is saved for its owner only, completely, and replaces another only on request")
  func saved() throws {
    let folder = NSTemporaryDirectory() + "gc-save-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let path = folder + "/b"
    #expect(ProcessFiles.save(path, bytes: [1, 2, 3], replacing: false) == nil)
    #expect(ProcessFiles.save(path, bytes: [4], replacing: false) == "File exists")
    #expect(FileManager.default.contents(atPath: path) == Data([1, 2, 3]))
    #expect(ProcessFiles.save(path, bytes: [4], replacing: true) == nil)
    #expect(FileManager.default.contents(atPath: path) == Data([4]))
    var status = stat()
    #expect(stat(path, &status) == 0 && status.st_mode & 0o777 == 0o600)
    #expect(ProcessFiles.save(folder + "/none/b", bytes: [4], replacing: true) == "No such file or directory")
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == ["b"])
  }
}
