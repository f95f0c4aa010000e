import BrokerAPI
import Listening
import NIOCore
import Principals
import Synchronization
import TestSupport
import Testing

@testable import UnixSocket

@Suite(.timeLimit(.minutes(5))) struct PaceTests {
  private func at(_ seconds: Double) -> NIODeadline { .uptimeNanoseconds(UInt64((1000 + seconds) * 1e9)) }

  private func share(_ uid: UInt32, _ callerClass: CallerClass) -> Share {
    Share(holder: .user(uid), callerClass: callerClass)
  }

  @Test("after a burst a holder has a rate, and an overdraft is waited for") func rate() {
    let pace = Pace<Int>(PaceRates(requests: 10, bytes: 1000), at: at(0))
    for _ in 0..<40 {
      #expect(pace.due(at: at(0)) == nil)
      pace.spend(requests: 1, bytes: 1)
    }
    #expect(pace.due(at: at(0)) == nil)
    pace.spend(requests: 1, bytes: 10_000)
    let due = pace.due(at: at(0))
    // 10,040 bytes were taken, and 4,000 were available.
    #expect(due.map { $0 > at(6) && $0 < at(6.1) } == true)
    #expect(pace.due(at: at(6)) != nil)
    #expect(pace.due(at: at(6.1)) == nil)
  }

  @Test("callers without a rule have a part together, others lose nothing by it, and root has no bound")
  func unnamed() {
    var paces = Paces<Int>(PaceRates(requests: 160, bytes: 1_000_000), unnamedShare: 0.25, at: at(0))
    for uid in UInt32(1000)..<1004 {
      let pace = paces.pace(of: share(uid, .unnamed), at: at(0))
      // A quarter of a quarter, and four seconds' worth.
      for _ in 0..<41 { pace?.spend(requests: 1, bytes: 0) }
      #expect(pace?.ownDue(at: at(0)) != nil)
    }
    let fifth = paces.pace(of: share(1004, .unnamed), at: at(0))
    #expect(fifth?.ownDue(at: at(0)) == nil && fifth?.due(at: at(0)) != nil)
    #expect(paces.pace(of: share(1000, .named), at: at(0))?.due(at: at(0)) == nil)
    #expect(paces.pace(of: Share(holder: .root, callerClass: .unnamed), at: at(0)) == nil)
    #expect(paces.pace(of: share(1, .privileged), at: at(0)) == nil)
  }

  @Test("the units of a user have a pace together, a quarter above that of one") func units() {
    var paces = Paces<Int>(PaceRates(requests: 100, bytes: 1_000_000), unnamedShare: 0.5, at: at(0))
    func pace(_ unit: String, _ callerClass: CallerClass = .named) -> Pace<Int>? {
      paces.pace(of: Share(holder: .unit(unit, user: 1000), callerClass: callerClass), at: at(0))
    }
    for unit in ["a", "b"] { pace(unit)?.spend(requests: 300, bytes: 0) }
    #expect(pace("a")?.ownDue(at: at(0)) != nil && pace("c")?.ownDue(at: at(0)) != nil)
    #expect(pace("c")?.due(at: at(0)) != nil)
    #expect(paces.pace(of: share(1001, .named), at: at(0))?.due(at: at(0)) == nil)
    #expect(pace("a", .unnamed)?.due(at: at(0)) == nil)
    paces.removeIdle(at: at(1000))
    #expect(pace("c")?.due(at: at(1000)) == nil)
  }

  @Test("a holder that connects again keeps its usage") func again() {
    var paces = Paces<Int>(PaceRates(requests: 1, bytes: 1), unnamedShare: 0.5, at: at(0))
    paces.pace(of: share(1000, .named), at: at(0))?.spend(requests: 100, bytes: 0)
    paces.removeIdle(at: at(1))
    #expect(paces.pace(of: share(1000, .named), at: at(1))?.due(at: at(1)) != nil)
    paces.removeIdle(at: at(200))
    #expect(paces.pace(of: share(1000, .named), at: at(200))?.due(at: at(200)) == nil)
  }

  private func with(
    _ change: (inout SocketServer.Limits) -> Void, _ body: (Served, Users) async throws -> Void
  ) async throws {
    let users = Users()
    try await Served.with(change, system: users.system) { try await body($0, users) }
  }

  @Test(
    "lines beyond the rate wait, regardless of content; cached tokens and other holders do not",
    arguments: [call(1, "echo"), call(1, "unknown"), "{\n", "\n", "[]\n"])
  func lines(line: String) async throws {
    try await with({ $0.linesPerSecond = 20 }) { served, users in
      let client = try await users.client(1000, served)
      // The burst is 80.
      try await client.send(call(1, "echo"))
      _ = try await client.line()
      let begun = NIODeadline.now()
      // Some are still over the rate if this machine pauses for five seconds during them.
      try await client.send(String(repeating: line, count: 200) + call(2, "echo"))
      let (cached, other) = (try await users.client(1000, served), try await users.client(2000, served))
      try await eventually("it is held back") { served.server.statistics.heldBack[.rate] != nil }
      for client in [cached, other] { try await served.turn(for: client) }
      try await other.send(call(3, "echo"))
      #expect(try await other.json()["id"] == 3)
      while try await !client.line().contains("\"id\":2") {}
      #expect(NIODeadline.now() - begun > .milliseconds(500))
    }
  }

  @Test("a delayed client that sends invalid requests is informed about its rate") func told() async throws {
    try await with({ $0.bytesPerSecond = 100_000 }) { served, users in
      let client = try await users.client(1000, served)
      let invalid = "[" + String(repeating: "1,", count: 100_000) + "1]\n"
      try await client.send(String(repeating: invalid, count: 5))
      var reasons: [String?] = []
      for _ in 0..<5 { reasons.append(try await client.json()["error"]?["data"]?["reason"]?.string) }
      // The burst is 400,000 bytes, and a little more while they are read. Lines of one connection are answered in any order.
      #expect(reasons.contains(nil) && reasons.contains("rate_limited"))
      try await client.send(call(2, "echo"))
      #expect(try await client.json()["id"] == 2)
    }
  }

  @Test("bytes beyond the rate wait, including replies and discarded input", arguments: ["large", "junk"])
  func bytes(what: String) async throws {
    try await with({ $0.bytesPerSecond = 100_000 }) { served, users in
      let client = try await users.client(1000, served)
      let begun = NIODeadline.now()
      switch what {
      case "large": try await client.send(call(1, "large", #"{"bytes":500000}"#))
      default: try await client.send(call(1, "echo") + String(repeating: "x", count: 600_000) + "\n")
      }
      _ = try await client.line()
      try await client.send(call(2, "echo"))
      while try await !client.line().contains("\"id\":2") {}
      #expect(NIODeadline.now() - begun > .milliseconds(500))
    }
  }

  @Test("who connects without a rule and without end is refused, and others are not") func connects() async throws {
    try await with({
      $0.linesPerSecond = 160
      $0.unnamedShare = 0.25
    }) { served, users in
      served.dispatcher.seen.withLock { $0.classes[1000] = .unnamed }
      users.state.withLock { $0.uid = 1000 }
      var clients: [RawClient] = []
      // At once: the burst is 40, and ten more are let in each second.
      try await served.server.holdingUp {
        for _ in 0..<120 {
          let client = try served.client()
          _ = client.sendSome(Array(tokenGet(1).utf8))
          clients.append(client)
        }
      }
      var refused = 0
      for client in clients { refused += try await client.json()["error"] == nil ? 0 : 1 }
      #expect(refused > 5)
      try await served.turn(for: try await users.client(2000, served))
    }
  }
}
