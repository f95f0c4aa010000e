import AsyncClient
import BrokerAPI
import DemoProvider
import Foundation
import Glibc
import TestSupport
import Testing

@Suite("The end of the daemon")
struct EndTests {
  @Test("SIGTERM during a refresh: callers get the new token, it is on disk, and the end is in order")
  func refreshUnderWay() async throws {
    try await Rig.with { rig in
      try await rig.login()
      try rig.demo.fault(.delay, at: .tokenRefresh, times: 1) { $0.seconds = 60 }
      let rejected = Task {
        try await rig.call("token.report_rejected", ["account": "alice", "generation": 1])
      }
      // An account is refreshing before its request has gone: one that has not yet gone does not go any more.
      try await eventually("the refresh is under way") { rig.demo.stats().requests["token.refresh"] == 1 }
      let status = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"broker.status\"}"
      let late = try RawClient(rig.socket)
      // Its connection is there before the end begins.
      _ = try await late.ask(status)
      let waiting = try RawClient(rig.socket)
      // Requests are begun in their order: the first one waits when the second is answered.
      try await waiting.send(
        "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"token.get\",\"params\":{\"account\":\"alice\"}}\n")
      #expect(try await waiting.ask(status)["id"] == 1)
      try rig.daemon.signal(SIGTERM)
      try await eventually("the end begins") { rig.log.contains("stopping") }
      let line = "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"login.start\",\"params\":{\"provider\":\"demo\"}}"
      try await eventually("nothing new begins") {
        guard let refused = try? await late.ask(line)["error"] else { return false }
        return refused["data"]?["reason"] == "shutting_down"
      }
      rig.demo.release()
      #expect(try await rejected.value["refreshed"]?.bool == true)
      let token = try #require(try await waiting.json()["result"])
      #expect(token["generation"] == 2)
      #expect(try await rig.daemon.end() == 0)
      #expect(!FileManager.default.fileExists(atPath: rig.socket))
      #expect(rig.demo.stats().refreshes == 1)

      try await rig.start()
      #expect(try await rig.token().access_token == token["access_token"]?.string)
      // The rotated refresh token was kept: under strict rotation the old one would end the grant.
      #expect(
        try await rig.call("token.report_rejected", ["account": "alice", "generation": 2])["refreshed"]?.bool == true)
      #expect(rig.demo.stats().liveGrants == 1)
    }
  }

  @Test("SIGTERM during the exchange of a code: the login is completed and kept")
  func exchangeUnderWay() async throws {
    try await Rig.with { rig in
      let login = try await rig.startLogin()
      let callback = try await rig.callback(of: login)
      try rig.demo.fault(.delay, at: .tokenCode, times: 1) { $0.seconds = 60 }
      let page = Task { try await Browser.open(callback.url) }
      try await eventually("the exchange is under way") { rig.demo.stats().requests["token.code"] == 1 }
      try rig.daemon.signal(SIGTERM)
      try await eventually("the end begins") { rig.log.contains("stopping") }
      rig.demo.release()
      #expect(try await page.value.status == 200)
      #expect(try await rig.daemon.end() == 0)
      try await rig.start()
      #expect(try await rig.token().access_token.isEmpty == false)
    }
  }

  @Test("signals as soon as the socket answers are obeyed in order: SIGHUP reloads, SIGTERM ends")
  func early() async throws {
    for _ in 1...5 {
      try await Rig.with(starting: false) { rig in
        let child = try rig.launch()
        try await eventually("the socket file") { FileManager.default.fileExists(atPath: rig.socket) }
        child.signal(SIGHUP)
        child.signal(SIGTERM)
        #expect(try await child.end() == 0)
        #expect(!FileManager.default.fileExists(atPath: rig.socket))
      }
    }
  }

  @Test("SIGTERM and SIGINT end an idle daemon at once", arguments: [SIGTERM, SIGINT])
  func idle(signal: Int32) async throws {
    try await Rig.with { rig in
      try await rig.login()
      let start = ContinuousClock.now
      try rig.daemon.signal(signal)
      #expect(try await rig.daemon.end() == 0)
      // Callers would have ten seconds, refreshes more.
      #expect(ContinuousClock.now - start < .seconds(8) * slowness)
      #expect(!FileManager.default.fileExists(atPath: rig.socket))
      // On a busy machine the check of the database that a start begins may still read it, and keeps the log.
      let log = rig.state + "/grantd.db-wal"
      for _ in 0..<3 where FileManager.default.fileExists(atPath: log) {
        try await rig.start()
        #expect(try await rig.terminate() == 0)
      }
      #expect(!FileManager.default.fileExists(atPath: log), "\(rig.log)")
    }
  }
}

@Suite("Secrets")
struct SecretTests {
  @Test("after a busy run no secret is in the log, the state, the command line or the environment")
  func nowhere() async throws {
    let secret = "client-secret-b7bd0a4f"
    let wish = Wish.shortLived {
      $0.client = .init(id: "demo", secret: secret)
      $0.isRelayed = true
      $0.environment = ["GRANTD_TEST": "1"]
    }
    try await Rig.with(wish) { rig in
      var handed: Set<String> = []
      for account in ["alice", "bob"] {
        let login = try await rig.startLogin(account)
        let callback = try await rig.callback(of: login)
        for name in ["code", "state"] { handed.insert(try #require(callback.value(name))) }
        for item in URLComponents(string: login.url)?.queryItems ?? [] where item.name == "nonce" {
          handed.insert(try #require(item.value))
        }
        _ = try await Browser.open(callback.replacing("state", "forged").url)
        _ = try await Browser.open(callback.url)
        _ = try await Browser.open(callback.url)
      }
      let pending = try await rig.startLogin("user-1")
      handed.insert(try #require(try await rig.callback(of: pending).value("state")))
      // The truncated response is the last one: it may have had alice's next refresh token, and then her grant is lost.
      for kind in [DemoServer.Fault.Kind.status, .oauthError, .html200, .expiresInString, .truncated] {
        // What the fault before it left may be over, and the next one a second away.
        handed.insert(try await eventually("a token") { try? await rig.token().access_token })
        try rig.demo.fault(kind, at: .tokenRefresh, times: 1) { $0.error = "temporarily_unavailable" }
        let asked = rig.count(.tokenRefresh)
        try await eventually("a refresh that meets it") { rig.count(.tokenRefresh) > asked }
      }
      _ = try? await rig.call("token.report_rejected", ["account": "bob", "generation": 1])
      _ = try await rig.call("account.logout", ["account": "bob"])
      _ = try? await rig.call("login.handle_callback", ["url": "http://127.0.0.1:1/callback?code=c0de-by-hand&state=x"])
      handed.insert("c0de-by-hand")
      let secrets = handed.union(Self.secrets(in: try #require(rig.relay).record)).union([secret])
      #expect(secrets.count > 15)

      for place in ["cmdline", "environ"] { try Self.expectNone(of: secrets, in: "/proc/\(rig.daemon.pid)/\(place)") }
      try Self.expectNone(of: secrets, in: rig.folder.path("log"))
      for name in try FileManager.default.contentsOfDirectory(atPath: rig.state) {
        try Self.expectNone(of: secrets, in: "\(rig.state)/\(name)")
        let mode = try FileManager.default.attributesOfItem(atPath: "\(rig.state)/\(name)")[.posixPermissions] as? Int
        #expect(mode == 0o600, "\(name)")
      }
      try await rig.terminate()
      try Self.expectNone(of: secrets, in: rig.folder.path("log"))
      for name in try FileManager.default.contentsOfDirectory(atPath: rig.state) {
        try Self.expectNone(of: secrets, in: "\(rig.state)/\(name)")
      }
    }
  }

  /// The data between the daemon and the token endpoint, unchanged.
  private static func secrets(in record: String) -> Set<String> {
    let kinds = [
      /(?:[?&\s]|^)(?:code|code_verifier|refresh_token|client_secret)=([^&\s]{12,})/,
      /"(?:access_token|refresh_token|id_token)":"([^"]{12,})"/, /Authorization: Basic (\S{8,})/,
      /(?:\b)(rt-[A-Za-z0-9_-]{16,})/, /(?:\b)(at-[A-Za-z0-9_-]{16,})/,
    ]
    return Set(kinds.flatMap { record.matches(of: $0).map { String($0.1) } })
  }

  private static func expectNone(of secrets: Set<String>, in file: String) throws {
    let data = try Data(contentsOf: URL(fileURLWithPath: file))
    for secret in secrets {
      #expect(!contains(data, secret), "\(secret.prefix(6))… is in \(file)")
    }
  }

  /// Found with the C library: these are large files for a debug build's loops.
  private static func contains(_ data: Data, _ secret: String) -> Bool {
    let wanted = Array(secret.utf8)
    return data.withUnsafeBytes { bytes in
      guard var place = bytes.baseAddress, let first = wanted.first else { return false }
      let end = place + bytes.count
      while end - place >= wanted.count, let candidate = memchr(place, Int32(first), end - place) {
        place = UnsafeRawPointer(candidate)
        if end - place >= wanted.count, memcmp(place, wanted, wanted.count) == 0 { return true }
        place += 1
      }
      return false
    }
  }

  @Test("the process cannot be dumped or read by others of the same user")
  func undumpable() async throws {
    try await Rig.with { rig in
      let limits = try String(contentsOfFile: "/proc/\(rig.daemon.pid)/limits", encoding: .utf8)
      let core = limits.split(separator: "\n").first { $0.hasPrefix("Max core file size") }
      #expect(core?.split(separator: " ").dropFirst(4).first == "0")
    }
  }
}

@Suite("Telling systemd")
struct NotifyTests {
  @Test("READY comes when the socket answers, with the sockets kept; STATUS has the counts; STOPPING comes at the end")
  func notify() async throws {
    let folder = try Folder()
    let manager = try Manager(folder.path("notify"))
    let wish = Wish { $0.environment = ["NOTIFY_SOCKET": folder.path("notify"), "WATCHDOG_USEC": "400000"] }
    try await Rig.with(wish, starting: false) { rig in
      let starting = Task { try await rig.start() }
      try await eventually("READY=1") { manager.messages().contains { $0.contains("READY=1") } }
      // The very first attempt is answered.
      let client = try await SocketClient.connect(path: rig.socket)
      #expect(try await client.call(method: "broker.status", params: [:], timeout: .seconds(60))["state"] == "running")
      await client.close()
      try await starting.value
      #expect(manager.messages().contains { $0.contains("STATUS=no accounts yet") })
      // Each step that may be long, and time for it.
      #expect(manager.messages().contains("STATUS=preparing the database: step 7 of 7"))
      #expect(manager.messages().count { $0 == "EXTEND_TIMEOUT_USEC=300000000" } == 7)
      let kept = manager.messages().filter { $0.hasPrefix("FDSTORE=1") }.map { String($0.dropFirst(17)) }
      #expect(kept.contains("kept-grantd") && kept.contains("kept-credentials"))
      #expect(kept.count { $0.hasPrefix("kept-callback-") } == 2)
      try await rig.login()
      try await eventually("STATUS with counts") { manager.messages().contains { $0.contains("STATUS=1 ok") } }
      try rig.demo.revoke(user: "alice")
      _ = try await rig.failure("token.report_rejected", ["account": "alice", "generation": 1])
      _ = try await rig.failure("account.refresh", ["account": "alice", "now": true])
      try await eventually("STATUS with counts") { manager.messages().contains { $0.contains("1 needs login") } }
      let fed = manager.messages().count { $0 == "WATCHDOG=1" }
      try await eventually("the watchdog is fed again") { manager.messages().count { $0 == "WATCHDOG=1" } >= fed + 2 }
      try rig.daemon.signal(SIGHUP)
      try await eventually("a reload is announced and ended") {
        guard let start = manager.messages().firstIndex(where: { $0.hasPrefix("RELOADING=1\nMONOTONIC_USEC=") }) else {
          return false
        }
        return manager.messages()[start...].contains { $0.hasPrefix("READY=1") }
      }
      #expect(try await rig.terminate() == 0)
      #expect(manager.messages().contains { $0.hasPrefix("STOPPING=1") })
      try await rig.start()
      try await eventually("the status of the start") {
        manager.messages().contains("STATUS=reading accounts: 1 of 1")
      }
      try await eventually("the time for it is extended") {
        manager.messages().count { $0 == "EXTEND_TIMEOUT_USEC=300000000" } == 8
      }
    }
  }

  @Test("a manager that reads nothing keeps neither logins nor callers")
  func deaf() async throws {
    let folder = try Folder()
    let manager = try Manager(folder.path("notify"))
    let wish = Wish { $0.environment = ["NOTIFY_SOCKET": folder.path("notify"), "WATCHDOG_USEC": "20000"] }
    try await Rig.with(wish, starting: false) { rig in
      let starting = Task { try await rig.start() }
      try await eventually("READY=1") { manager.messages().contains { $0.contains("READY=1") } }
      try await starting.value
      try await eventually("the manager's queue is full") { try manager.isFull(folder.path("notify")) }
      for account in ["alice", "bob"] { try await rig.login(account) }
      #expect(try await rig.token("bob").generation == 1)
      #expect(try await rig.terminate() == 0)
    }
  }
}

/// What a service manager hears at `NOTIFY_SOCKET`.
private final class Manager: Sendable {
  private let descriptor: Int32
  private let heard = Heard()

  init(_ path: String) throws {
    let kind = Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
    descriptor = socket(AF_UNIX, kind, 0)
    var address = RawClient.address(of: path)
    let code = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard code == 0 else { throw POSIXError(.EADDRINUSE) }
  }

  deinit { close(descriptor) }

  /// Whether a sender would have to wait now. What it sends to learn this is a message too.
  func isFull(_ path: String) throws -> Bool {
    let sender = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    defer { close(sender) }
    var address = RawClient.address(of: path)
    let sent = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        sendto(sender, "x", 1, Int32(MSG_DONTWAIT), $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard sent < 0 else { return false }
    guard errno == EAGAIN else { throw POSIXError(.init(rawValue: errno) ?? .EIO) }
    return true
  }

  func messages() -> [String] {
    var buffer = [UInt8](repeating: 0, count: 8192)
    while true {
      let count = recv(descriptor, &buffer, buffer.count, 0)
      guard count > 0 else { return heard.all }
      heard.add(String(decoding: buffer[..<count], as: UTF8.self))
    }
  }
}
