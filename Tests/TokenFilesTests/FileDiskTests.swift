import Broker
import Dispatch
import Foundation
import Glibc
import Grants
import Synchronization
import TestSupport
import Testing

@testable import TokenFiles

private final class Reports: Sendable {
  let paths = Mutex<[String]>([])
}

@Suite struct FileDiskTests {
  private final class Folder {
    let path: String
    init() throws {
      path = NSTemporaryDirectory() + "token-files-\(UUID().uuidString.prefix(8))"
      try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }
    deinit { try? FileManager.default.removeItem(atPath: path) }

    func names(_ below: String = "") -> [String] {
      ((try? FileManager.default.contentsOfDirectory(atPath: path + below)) ?? []).sorted()
    }
    func text(_ name: String) -> String? { try? String(contentsOfFile: path + "/" + name, encoding: .utf8) }
    func write(_ name: String, _ text: String) throws {
      try text.write(toFile: path + "/" + name, atomically: false, encoding: .utf8)
    }
    func mode(_ name: String) -> mode_t {
      var status = stat()
      return lstat(path + "/" + name, &status) == 0 ? status.st_mode & 0o7777 : 0
    }
  }

  private func file(
    _ path: String, member: TokenFile.Member? = nil, reader: TokenFile.Reader? = nil, mode: UInt32? = nil
  ) -> TokenFile {
    TokenFile(
      place: .init(path: path, member: member), name: path, account: AccountName(rawValue: "work")!,
      reader: reader ?? .user(geteuid(), gid: 0, groups: []), mode: mode)
  }

  private func write(_ text: String, _ file: TokenFile, own: String = "/none") async -> Result<Bool, TokenFileFailure> {
    await FileDisk(own: own).write(Array(text.utf8), to: file)
  }

  private func message(_ result: Result<Bool, TokenFileFailure>) -> String? {
    if case .failure(let failure) = result { failure.message } else { nil }
  }

  @Test("a user database that hangs for one user does not delay the files of others") func slowLookup() async {
    let gate = DispatchSemaphore(value: 0)
    let disk = FileDisk(own: "/none") { uid in
      if uid == 1000 { gate.wait() }
      return (uid, [uid, 50])
    }
    async let hanging = disk.current(.user(1000, gid: 7, groups: [7]))
    #expect(await eventually { !disk.isIdle })
    for uid in UInt32(1001)...1007 {
      // Where this machine needs more than the time for a lookup, the next one has its groups.
      let latest = TokenFile.Reader.user(uid, gid: uid, groups: [uid, 50])
      #expect(await eventually { await disk.current(.user(uid, gid: 7, groups: [7])) == latest })
    }
    // Only its own file waited, and has the groups of the configuration.
    #expect(await hanging == .user(1000, gid: 7, groups: [7]))
    gate.signal()
  }

  @Test("a reader has the latest groups that the user database returned, even while it fails or hangs")
  func groups() async {
    let count = Mutex(0)
    let gate = DispatchSemaphore(value: 0)
    let disk = FileDisk(own: "/none") { _ in
      let number = count.withLock { count in
        count += 1
        return count
      }
      switch number {
      case 1: return (7, [7, 50])
      case 2: return nil
      case 3: return (7, [7])
      default:
        gate.wait()
        return nil
      }
    }
    let reader = TokenFile.Reader.user(1000, gid: 1, groups: [1])
    for expected in [[7, 50], [7, 50], [7]] as [[UInt32]] {
      #expect(await disk.current(reader) == TokenFile.Reader.user(1000, gid: 7, groups: expected))
    }
    // The fourth lookup hangs: it is waited for once, and no other one is begun.
    for _ in 0..<3 { #expect(await disk.current(reader) == TokenFile.Reader.user(1000, gid: 7, groups: [7])) }
    #expect(count.withLock { $0 } == 4)
    #expect(await disk.current(.group(9)) == TokenFile.Reader.group(9))
    gate.signal()
  }

  @Test("changes by other programs are reported, even if the folder was removed and made again")
  func watched() async throws {
    let folder = try Folder()
    let own = folder.path + "/own"
    let disk = FileDisk(own: own)
    let reports = Reports()
    let changes = disk.changes
    let watching = Task { for await paths in changes { reports.paths.withLock { $0 += paths } } }
    defer { watching.cancel() }
    let path = own + "/sub/token"
    // Another disk writes them, so that this one reports nothing of them before they are changed below.
    let barriers = (0..<8).map { "\(own)/barrier-\($0)" }
    for barrier in barriers { #expect(await write("a", file(barrier), own: own) == .success(true)) }
    for barrier in barriers { #expect(await disk.write(Array("a".utf8), to: file(barrier)) == .success(false)) }
    var passed = 0
    /// Changes are reported in their order: after the report of one barrier, no earlier change is unreported.
    func settle() async throws {
      let barrier = barriers[passed]
      passed += 1
      try "b".write(toFile: barrier, atomically: false, encoding: .utf8)
      #expect(await eventually { reports.paths.withLock { $0.contains(barrier) } })
      reports.paths.withLock { $0 = [] }
    }
    func isReported(_ change: () throws -> Void) async throws -> Bool {
      // The broker's own change may be reported too.
      try await settle()
      try change()
      return await eventually { reports.paths.withLock { $0.contains(path) } }
    }
    for round in 0..<2 {
      #expect(message(await disk.write(Array("a\(round)".utf8), to: file(path))) == nil)
      #expect(try await isReported { try folder.write("own/sub/token", "b") })
      #expect(try await isReported { unlink(path) })
      #expect(message(await disk.write(Array("a\(round)".utf8), to: file(path))) == nil)
      #expect(try await isReported { try FileManager.default.removeItem(atPath: folder.path + "/own/sub") })
    }
    // The latest one may be reported once more.
    try await settle()
    try folder.write("own/other", "b")
    let last = barriers[passed]
    try "b".write(toFile: last, atomically: false, encoding: .utf8)
    #expect(await eventually { reports.paths.withLock { $0.contains(last) } })
    #expect(reports.paths.withLock { Set($0).isSubset(of: barriers) })
  }

  @Test("the removal of one value does not end the watch of a file with another one") func sharedWatch() async throws {
    let folder = try Folder()
    let disk = FileDisk(own: "/none")
    let reports = Mutex<[String]>([])
    let watching = Task { for await paths in disk.changes { reports.withLock { $0 += paths } } }
    defer { watching.cancel() }
    try folder.write("t.json", #"{"a":"1","b":"2"}"#)
    let path = folder.path + "/t.json"
    let files = ["a", "b"].map { file(path, member: .json([$0])) }
    for file in files { #expect(message(await disk.write(Array("\"x\"".utf8), to: file)) == nil) }
    #expect(await disk.remove(files[0].place) == nil)
    try await Task.sleep(for: .milliseconds(300))
    reports.withLock { $0 = [] }
    try folder.write("t.json", #"{"a":"1","b":"2"}"#)
    #expect(await eventually { reports.withLock { $0.contains(path) } })
  }

  @Test("A file is readable only by its owner, is written once, and leaves no temporary file") func plain() async throws
  {
    let folder = try Folder()
    let file = file(folder.path + "/t")
    #expect(await write("A", file) == .success(true))
    #expect(await write("A", file) == .success(false))
    #expect(await write("B", file) == .success(true))
    #expect(folder.names() == ["t"] && folder.text("t") == "B" && folder.mode("t") == 0o600)
    let disk = FileDisk(own: "/none")
    // What a crash left aside goes with the file.
    try folder.write(".t.grantd-new", "C")
    #expect(await disk.remove(file.place) == nil)
    #expect(folder.names().isEmpty)
    #expect(await disk.remove(file.place) == nil)
  }

  @Test("An existing file gets another mode and another reader") func readers() async throws {
    let folder = try Folder()
    let path = folder.path + "/t"
    #expect(await write("A", file(path)) == .success(true))
    #expect(await write("A", file(path, mode: 0o640)) == .success(true))
    #expect(folder.mode("t") == 0o640)
    for reader in [TokenFile.Reader.user(4242, gid: 1, groups: []), .group(4243)] {
      let result = await write("A", file(path, reader: reader))
      // Not every file system has lists.
      if message(result)?.contains("cannot be made readable") == true { continue }
      #expect(result == .success(true))
      // The group's place in the mode is the mask of the list.
      #expect(folder.mode("t") == 0o640)
      #expect(await write("A", file(path, reader: reader)) == .success(false))
    }
  }

  @Test("Below the broker's own folder folders are made; elsewhere a folder that is not there is refused")
  func folders() async throws {
    let folder = try Folder()
    let own = folder.path + "/files"
    #expect(await write("A", file(own + "/prometheus/token"), own: own) == .success(true))
    #expect(folder.text("files/prometheus/token") == "A" && folder.mode("files/prometheus") == 0o755)
    // Written aside in the folder above, for who watches this one.
    #expect(folder.names("/files") == ["prometheus"] && folder.names("/files/prometheus") == ["token"])
    let refused = await write("A", file(folder.path + "/gone/token"), own: own)
    #expect(message(refused)?.contains("the folder \(folder.path)/gone cannot be opened: No such file") == true)
  }

  @Test("Links, folders, pipes and folders that all users can write to are refused") func refused() async throws {
    let folder = try Folder()
    try folder.write("elsewhere", "X")
    #expect(symlink(folder.path + "/elsewhere", folder.path + "/link") == 0)
    #expect(symlink(folder.path, folder.path + "/loop") == 0)
    #expect(mkfifo(folder.path + "/pipe", 0o600) == 0)
    #expect(mkdir(folder.path + "/folder", 0o700) == 0)
    #expect(mkdir(folder.path + "/open", 0o700) == 0 && chmod(folder.path + "/open", 0o777) == 0)
    for (name, words) in [
      ("link", "is a link"), ("loop/t", "is a link"), ("pipe", "is not a file"), ("folder", "is not a file"),
      ("open/t", "every user can write"),
    ] {
      #expect(message(await write("A", file(folder.path + "/" + name)))?.contains(words) == true, "\(name)")
    }
    #expect(folder.text("elsewhere") == "X")
  }

  @Test("A full disk keeps the old file") func full() async throws {
    let folder = try Folder()
    // Who may not mount one has no full disk to try.
    guard mount("tmpfs", folder.path, "tmpfs", 0, "size=8k,mode=0700") == 0 else { return }
    defer { umount2(folder.path, 2) }
    let file = file(folder.path + "/t")
    #expect(await write("A", file) == .success(true))
    let result = await write(String(repeating: "B", count: 64 << 10), file)
    #expect(message(result)?.contains("No space left") == true)
    #expect(folder.names() == ["t"] && folder.text("t") == "A")
  }

  @Test("A reader never sees half a file, nor none") func whole() async throws {
    let folder = try Folder()
    let path = folder.path + "/t"
    let disk = FileDisk(own: "/none")
    let contents = ["a", "b"].map { String(repeating: $0, count: 60_000) }
    _ = await disk.write(Array(contents[0].utf8), to: file(path))
    let reader = Task.detached { () -> Int in
      var reads = 0
      // It may begin when all is written.
      repeat {
        guard let text = try? String(contentsOfFile: path, encoding: .utf8), contents.contains(text) else { return -1 }
        reads += 1
      } while !Task.isCancelled
      return reads
    }
    for round in 1...200 { _ = await disk.write(Array(contents[round % 2].utf8), to: file(path)) }
    reader.cancel()
    #expect(await reader.value > 0)
  }

  // MARK: Files of other programs

  private let rclone = """
    # mine
    [drive]
    type = drive
    token = {"access_token":"old"}
      scope=x

    [other]
    token = keep

    """

  @Test("A value of an INI file is replaced, added and removed; nothing else changes") func ini() async throws {
    let folder = try Folder()
    try folder.write("rclone.conf", rclone)
    chmod(folder.path + "/rclone.conf", 0o640)
    let path = folder.path + "/rclone.conf"
    let token = TokenFile.Member.ini(section: "drive", key: "token")
    #expect(await write("{\"access_token\":\"T\"}", file(path, member: token)) == .success(true))
    #expect(await write("{\"access_token\":\"T\"}", file(path, member: token)) == .success(false))
    let new = rclone.replacing("old", with: "T")
    #expect(folder.text("rclone.conf") == new && folder.mode("rclone.conf") == 0o640)
    let more = TokenFile.Member.ini(section: "drive", key: "more")
    #expect(await write("1", file(path, member: more)) == .success(true))
    #expect(folder.text("rclone.conf") == new.replacing("scope=x\n", with: "scope=x\nmore = 1\n"))
    let disk = FileDisk(own: "/none")
    #expect(await disk.remove(.init(path: path, member: more)) == nil)
    #expect(await disk.remove(.init(path: path, member: token)) == nil)
    #expect(folder.text("rclone.conf") == new.replacing("token = {\"access_token\":\"T\"}\n", with: ""))
    let none = TokenFile.Member.ini(section: "gone", key: "a")
    #expect(message(await write("1", file(path, member: none)))?.contains("has no section [gone]") == true)
    #expect(message(await write("1\n2", file(path, member: token)))?.contains("several lines") == true)
  }

  @Test("A member of a JSON file is replaced, added and taken away; numbers, order and indentation stay")
  func json() async throws {
    let folder = try Folder()
    let text = """
      {
          "big": 12345678901234567890.5e3,
          "auth": {
              "token": "old",
              "more": [
                  1
              ]
          }
      }

      """
    try folder.write("c.json", text)
    let path = folder.path + "/c.json"
    let token = TokenFile.Member.json(["auth", "token"])
    #expect(await write("\"T\"", file(path, member: token)) == .success(true))
    #expect(await write("\"T\"", file(path, member: token)) == .success(false))
    #expect(folder.text("c.json") == text.replacing("old", with: "T"))
    #expect(await write("\"U\"", file(path, member: .json(["new", "token"]))) == .success(true))
    #expect(folder.text("c.json")?.contains("\"new\": {\n        \"token\": \"U\"\n    }\n}\n") == true)
    let disk = FileDisk(own: "/none")
    #expect(await disk.remove(.init(path: path, member: .json(["new", "token"]))) == nil)
    #expect(folder.text("c.json")?.contains("\"new\": {}") == true)
    #expect(
      message(await write("\"T\"", file(path, member: .json(["big", "x"]))))?.contains("there is no object") == true)
    try folder.write("c.json", "{ broken")
    #expect(message(await write("\"T\"", file(path, member: token)))?.contains("is not JSON") == true)
    #expect(folder.text("c.json") == "{ broken")
    #expect(message(await write("\"T\"", file(folder.path + "/gone", member: token)))?.contains("is not there") == true)
  }
}
