import BrokerAPI
import Foundation
import Glibc
import Listening
import Logging
import NIOCore
import NIOPosix
import Principals
import Synchronization
import TestSupport
import Testing

@testable import UnixSocket

/// A credential server that accepts every name, its log, and its reports.
private struct Credentialed: Sendable {
  let path: String
  let server: CredentialServer
  let log: LoggedLines
  let withheld: Withheld

  final class Withheld: Sendable {
    private let told = Mutex<[CredentialWithheld]>([])
    var all: [CredentialWithheld] { told.withLock { $0 } }
    var causes: [CredentialWithheld.Cause] { all.map(\.cause) }
    func add(_ one: CredentialWithheld) { told.withLock { $0.append(one) } }
  }

  static func with(
    _ change: (inout CredentialServer.Limits) -> Void = { _ in }, judge: CredentialServer.Judge? = nil,
    waiting: CredentialServer.Waiting? = nil,
    source: @escaping CredentialSource = { .success(SecretText("token of \($0.id) for \($0.unit)")) },
    _ body: (Credentialed) async throws -> Void
  ) async throws {
    var limits = CredentialServer.Limits()
    change(&limits)
    let believing: CredentialServer.Judge = { name, caller throws(CredentialRefusal) in
      guard let name else { throw .unnamed }
      return CredentialRequest(unit: name.unit, id: name.id, caller: caller)
    }
    try await Served.inFolder { folder in
      let log = LoggedLines()
      let logger = log.logger()
      let withheld = Withheld()
      let server = CredentialServer(
        endpoint: .path(folder + "/c.sock"), folderMode: 0o700, waiting: waiting, judge: judge ?? believing,
        limits: limits, eventLoop: Served.group.next(), logger: logger, onWithheld: { withheld.add($0) },
        source: source)
      try await server.start()
      do {
        try await body(Credentialed(path: folder + "/c.sock", server: server, log: log, withheld: withheld))
      } catch {
        await server.drain(deadline: .zero)
        throw error
      }
      await server.drain(deadline: .zero)
    }
  }

  func reader(_ id: String = "token", unit: String = "a.service", number: Int = Int.random(in: 1...Int.max)) throws
    -> CredentialReader
  {
    let reader = try CredentialReader(path, as: "\(String(number, radix: 16))/unit/\(unit)/\(id)")
    reader.closeOutput()
    return reader
  }
}

@Suite(.timeLimit(.minutes(5))) struct CredentialServerTests {
  @Test("The source's value is written unchanged, then the end")
  func served() async throws {
    try await Credentialed.with { served in
      for id in ["token", "grantd.work", "odd id"] {
        let bytes = try await served.reader(id).readToEnd()
        #expect(String(decoding: bytes, as: UTF8.self) == "token of \(id) for a.service")
      }
      #expect(served.log.all.isEmpty && served.withheld.all.isEmpty)
      var status = stat()
      #expect(lstat(served.path, &status) == 0 && status.st_mode & 0o777 == 0o600)
    }
  }

  @Test("A whole token of some size arrives, and one that systemd would not take is refused")
  func sizes() async throws {
    for (count, isServed) in [(1, true), (200_000, true), ((1 << 20) - 1, true), (1 << 20, false), (0, false)] {
      try await Credentialed.with(source: { _ in .success(SecretText(String(repeating: "t", count: count))) }) {
        served in
        let bytes = try await served.reader().readToEnd()
        #expect(isServed ? bytes == [UInt8](repeating: 0x74, count: count) : isRefusedBySystemd(bytes))
        #expect(served.log.all.count == (isServed ? 0 : 1))
        #expect(served.withheld.causes == (isServed ? [] : [.undelivered]))
      }
    }
  }

  @Test("A refusal becomes the one that systemd sends, and the log has the next step once, with unit and id")
  func refused() async throws {
    let error = RPCError(.loginRequired, "account work needs a login", hint: "Run `grantctl login google work`.")
    try await Credentialed.with(source: { _ in .failure(error) }) { served in
      #expect(isRefusedBySystemd(try await served.reader("mail", unit: "mail.service").readToEnd()))
      let line = try #require(served.log.all.first)
      #expect(
        line.text == "credential mail for mail.service refused: account work needs a login. Run `grantctl login google "
          + "work`.")
      #expect(line.metadata["unit"] == "mail.service" && line.metadata["credential"] == "mail")
      #expect(line.metadata["reason"] == "login_required" && line.metadata["caller_uid"] == "\(geteuid())")
      // The source knows what it said.
      #expect(served.log.all.count == 1 && served.withheld.all.isEmpty)
    }
  }

  @Test("A process that only claims to belong to a unit gets nothing, for any name", arguments: [true, false])
  func forged(isSystem: Bool) async throws {
    let asked = Mutex(0)
    let manager: CredentialServer.Manager = isSystem ? .system : .user(geteuid())
    try await Credentialed.with(
      // A refusal is 1 MiB to read, and other tests may have the processors.
      { $0.foreignWrite = .seconds(60) },
      judge: { name, caller throws(CredentialRefusal) in try manager.request(name, from: caller) },
      source: { _ in
        asked.withLock { $0 += 1 }
        return .success(SecretText("stolen"))
      }
    ) { served in
      let begun = NIODeadline.now()
      // Each name can be bound once on a machine.
      let number = String(Int.random(in: 1...Int.max), radix: 16)
      for name in ["\(number)/unit/forged.service/token", "\(number)/unit/forged.service", "\(number) x", nil] {
        let reader = try CredentialReader(served.path, as: name)
        #expect(isRefusedBySystemd(try await reader.readToEnd()), "\(name ?? "no name")")
      }
      #expect(asked.withLock { $0 } == 0)
      // The first at once, the following ones together after a while; each is reported to the counter.
      let lines = served.log.all
      let pauses = Int((NIODeadline.now() - begun).nanoseconds / Refusals.pause.nanoseconds)
      #expect((1...1 + pauses).contains(lines.count) && lines[0].metadata["credential"] == "token")
      let told = served.withheld.all
      #expect(told.map(\.cause) == [.foreign, .foreign, .foreign, .foreign])
      #expect(told.map(\.unit) == ["forged.service", nil, nil, nil] && told.map(\.id) == ["token", nil, nil, nil])
      #expect(told.allSatisfy { $0.caller?.uid == geteuid() && $0.caller?.pid == getpid() && !$0.message.isEmpty })
    }
  }

  @Test("Who sends something is not systemd")
  func talks() async throws {
    let gate = Gate()
    try await Credentialed.with(
      { $0.foreignWrite = .seconds(60) },
      source: { _ in
        await gate.wait()
        return .success(SecretText("late"))
      }
    ) { served in
      let reader = try CredentialReader(
        served.path, as: "\(String(Int.random(in: 1...Int.max), radix: 16))/unit/a.service/x")
      reader.send("GET / HTTP/1.1\r\n")
      #expect(isRefusedBySystemd(try await reader.readToEnd()))
      #expect(served.log.all.first?.text.contains("sent something") == true)
      #expect(served.withheld.causes == [.foreign])
      gate.open()
    }
  }

  @Test("A source that hangs is not awaited: the unit is refused, and a later value is dropped")
  func hangs() async throws {
    let gate = Gate()
    try await Credentialed.with(
      { $0.answer = .milliseconds(50) },
      source: { _ in
        await gate.wait()
        return .success(SecretText("late"))
      }
    ) { served in
      let bytes = try await served.reader().readToEnd()
      #expect(isRefusedBySystemd(bytes))
      #expect(served.log.all.map { $0.metadata["reason"] } == ["timed_out"])
      #expect(served.withheld.causes == [.undelivered] && served.withheld.all.first?.unit == "a.service")
      gate.open()
    }
  }

  @Test("A waiting client and one that does not read delay no other")
  func slow() async throws {
    let gate = Gate()
    try await Credentialed.with(source: { request in
      if request.id == "slow" { await gate.wait() }
      return request.id == "no" ? .failure(RPCError(.unknownAccount, "no")) : .success(SecretText("at once"))
    }) { served in
      let waiting = try served.reader("slow")
      let deaf = try served.reader("no")
      #expect(try await served.reader("quick").readToEnd() == Array("at once".utf8))
      gate.open()
      #expect(try await waiting.readToEnd() == Array("at once".utf8))
      #expect(isRefusedBySystemd(try await deaf.readToEnd()))
    }
  }

  @Test("Who never reads loses the connection")
  func deaf() async throws {
    try await Credentialed.with({ $0.write = .milliseconds(50) }, source: { _ in .failure(RPCError(.overloaded, "x")) })
    {
      served in
      let deaf = try served.reader()
      // The kernel reports it only after the server has given up.
      try await eventually("the server hangs up") {
        var entry = pollfd(fd: deaf.descriptor, events: 0, revents: 0)
        return poll(&entry, 1, 0) > 0 && entry.revents & Int16(POLLHUP) != 0
      }
    }
  }

  @Test("Beyond the limit they wait, and get their answer when it is their turn")
  func crowd() async throws {
    let gate = Gate()
    let asked = Mutex(0)
    try await Credentialed.with(
      { $0.connections = 2 },
      source: { _ in
        asked.withLock { $0 += 1 }
        await gate.wait()
        return .success(SecretText("t"))
      }
    ) { served in
      let readers = try (0..<40).map { _ in try served.reader() }
      try await eventually("the first are asked for") { asked.withLock { $0 } >= 2 }
      #expect(asked.withLock { $0 } == 2)
      gate.open()
      for reader in readers { #expect(try await reader.readToEnd() == [0x74]) }
      #expect(asked.withLock { $0 } == 40)
    }
  }

  @Test("A closed client is forgotten, but counts until the source has answered")
  func hungUp() async throws {
    let gate = Gate()
    let asked = Mutex(0)
    try await Credentialed.with(
      { $0.connections = 1 },
      source: { _ in
        asked.withLock { $0 += 1 }
        await gate.wait()
        return .success(SecretText("t"))
      }
    ) { served in
      for _ in 0..<20 {
        let reader = try served.reader()
        try await eventually("it is asked for") { asked.withLock { $0 } >= 1 }
        _ = reader
      }
      #expect(asked.withLock { $0 } == 1)
      gate.open()
      #expect(try await served.reader().readToEnd() == [0x74])
    }
  }

  @Test("A client that closes before its answer did not get it, and that is reported")
  func hungUpEarly() async throws {
    let gate = Gate()
    let asked = Mutex(0)
    try await Credentialed.with(source: { _ in
      asked.withLock { $0 += 1 }
      await gate.wait()
      return .success(SecretText("t"))
    }) { served in
      var reader: CredentialReader? = try served.reader("mail", unit: "mail.service")
      try await eventually("it is asked for") { asked.withLock { $0 } == 1 }
      _ = reader
      reader = nil
      try await eventually("it is reported") { !served.withheld.all.isEmpty }
      gate.open()
      #expect(served.withheld.causes == [.undelivered])
      #expect(served.withheld.all.first?.unit == "mail.service" && served.withheld.all.first?.id == "mail")
      #expect(served.withheld.all.first?.message == "the asking process has ended")
    }
  }

  @Test("At the end no unit gets an empty credential: waiting ones are answered in time, or refused")
  func drained() async throws {
    let gate = Gate()
    try await Credentialed.with(source: { request in
      if request.id == "slow" { await gate.wait() }
      return .success(SecretText("t"))
    }) { served in
      let slow = try served.reader("slow")
      #expect(try await served.reader("quick").readToEnd() == [0x74])
      async let end: Void = served.server.drain(deadline: .milliseconds(100))
      #expect(isRefusedBySystemd(try await slow.readToEnd()))
      await end
      #expect(served.log.all.map { $0.metadata["reason"] } == ["shutting_down"])
      #expect(served.withheld.causes == [.undelivered])
      #expect(!FileManager.default.fileExists(atPath: served.path))
      gate.open()
    }
  }

  @Test("A waiting connection has a second holder until it is answered")
  func held() async throws {
    let gate = Gate()
    let held = Mutex<[Int32: Bool]>([:])
    let waiting = CredentialServer.Waiting(earlier: []) { descriptor in
      held.withLock { $0[descriptor] = true }
      return { held.withLock { $0[descriptor] = false } }
    }
    try await Credentialed.with(
      waiting: waiting,
      source: { _ in
        await gate.wait()
        return .success(SecretText("t"))
      }
    ) { served in
      let reader = try served.reader()
      try await eventually("it is held") { held.withLock { $0.values.contains(true) } }
      gate.open()
      #expect(try await reader.readToEnd() == [0x74])
      try await eventually("it is released") { held.withLock { $0.count == 1 && !$0.values.contains(true) } }
      // Who is refused at once was never held.
      _ = try await CredentialReader(served.path, as: nil).readToEnd()
      #expect(held.withLock { $0.count } == 1)
    }
  }

  @Test("The other side sees an end even if another process holds the connection")
  func endIsHeard() async throws {
    let copies = Mutex<[Int32]>([])
    let waiting = CredentialServer.Waiting(earlier: []) { descriptor in
      copies.withLock { $0.append(fcntl(descriptor, F_DUPFD_CLOEXEC, 0)) }
      return {}
    }
    try await Credentialed.with(waiting: waiting) { served in
      let bytes = try await served.reader().readToEnd()
      #expect(bytes == Array("token of token for a.service".utf8))
      #expect(copies.withLock { $0.count } == 1)
    }
    for copy in copies.withLock({ $0 }) { close(copy) }
  }

  @Test("The next process answers connections that an ended process left waiting")
  func resumed() async throws {
    try await Served.inFolder { folder in
      // Accepted by the previous process, and kept by its holder.
      let listener = try ListeningSocket.bound(at: folder + "/old.sock", mode: 0o600, folderMode: 0o700).descriptor
      defer { close(listener) }
      #expect(listen(listener, 1) == 0)
      let number = String(Int.random(in: 1...Int.max), radix: 16)
      let reader = try CredentialReader(folder + "/old.sock", as: "\(number)/unit/a.service/kept")
      reader.closeOutput()
      let descriptor = accept(listener, nil, nil)
      let gone = Mutex(0)
      let waiting = CredentialServer.Waiting(
        earlier: [.init(descriptor: descriptor, letGo: { gone.withLock { $0 += 1 } })],
        keep: { _ in
          Issue.record("it is held already")
          return {}
        })
      try await Credentialed.with(waiting: waiting) { _ in
        #expect(try await reader.readToEnd() == Array("token of kept for a.service".utf8))
        try await eventually("it is released") { gone.withLock { $0 } == 1 }
      }
    }
  }
}
