import BrokerAPI
import Glibc
import Principals
import Synchronization
import TestSupport
import Testing

@testable import UnixSocket

/// Lines that wait for their turn, and the memory that they may take.
@Suite(.timeLimit(.minutes(5))) struct LineQueueTests {
  private static let kilobyte = String(repeating: "x", count: 1000)

  /// A call of so many bytes, about.
  private func long(_ id: Int, _ method: String, kilobytes: Int) -> String {
    call(id, method, "[\"\(String(repeating: Self.kilobyte, count: kilobytes))\"]")
  }

  private func with(
    _ change: (inout SocketServer.Limits) -> Void, _ body: (Served, Users) async throws -> Void
  ) async throws {
    let users = Users()
    try await Served.with(
      { limits in
        limits.line = 64 * 1024
        change(&limits)
      }, system: users.system
    ) { try await body($0, users) }
  }

  private func methods(_ served: Served) -> Int { served.dispatcher.seen.withLock { $0.methods.count } }

  @Test("lines of one holder that wait for their answers are so many bytes, and the next is read when one is answered")
  func perHolder() async throws {
    try await with({
      $0.unansweredPerHolder = 140_000
    }) { served, users in
      let clients = [
        try await users.client(1000, served), try await users.client(1000, served),
        try await users.client(1000, served),
      ]
      // Two fit.
      for (number, client) in clients.enumerated() { try await client.send(long(number, "wait", kilobytes: 60)) }
      try await eventually("two of them run") { self.methods(served) == 2 }
      let other = try await users.client(2000, served)
      try await other.send(long(7, "echo", kilobytes: 60))
      #expect(try await other.json()["id"] == 7)
      // What is cached is answered to the same holder.
      try await served.turn(for: try await users.client(1000, served))
      #expect(methods(served) == 3)
      served.dispatcher.gate.open()
      for client in clients { #expect(try await client.json()["result"] == "waited") }
    }
  }

  @Test("lines of one connection that wait for their answers are so many bytes, unless it is one line")
  func perConnection() async throws {
    try await with({ $0.unansweredOfConnection = 40_000 }) { served, users in
      let client = try await users.client(1000, served)
      try await client.send(long(1, "wait", kilobytes: 50) + call(2, "echo"))
      try await eventually("the first runs") { self.methods(served) == 1 }
      try await served.turn(for: try await users.client(1000, served))
      #expect(methods(served) == 1)
      served.dispatcher.gate.open()
      #expect(Set(try await client.lines(2).map { $0.contains("waited") }) == [true, false])
    }
  }

  @Test("callers without a rule wait for each other, and not others for them") func unnamed() async throws {
    try await with({
      $0.unanswered = 1_000_000
      $0.unnamedShare = 0.2
    }) { served, users in
      served.dispatcher.seen.withLock { seen in
        for uid in UInt32(1000)..<1004 { seen.classes[uid] = .unnamed }
      }
      var held: [RawClient] = []
      for uid in UInt32(1000)..<1004 {
        let client = try await users.client(uid, served)
        try await client.send(long(1, "wait", kilobytes: 60))
        held.append(client)
      }
      // A line of 200,000 bytes.
      try await eventually("three of them run") { self.methods(served) == 3 }
      for uid in [2000, 0] as [UInt32] {
        let other = try await users.client(uid, served)
        try await other.send(long(7, "echo", kilobytes: 60))
        #expect(try await other.json()["id"] == 7)
      }
      #expect(methods(served) == 5)
      served.dispatcher.gate.open()
      for client in held { #expect(try await client.json()["result"] == "waited") }
    }
  }

  @Test("requests that wait for room are served in their order, and the memory is complete again")
  func order() async throws {
    try await with({ $0.unansweredPerHolder = 140_000 }) { served, users in
      let clients = try await (0..<12).asyncMap { _ in try await users.client(1000, served) }
      for (number, client) in clients.enumerated() {
        try await client.send(long(number, "wait", kilobytes: 60))
        try await served.turn(for: try await users.client(2000, served))
      }
      try await eventually("two of them run") { self.methods(served) == 2 }
      served.dispatcher.gate.open()
      for client in clients { #expect(try await client.json()["result"] == "waited") }
      // As much as before.
      let again = try await users.client(1000, served)
      for id in 0..<50 {
        try await again.send(long(id, "echo", kilobytes: 50))
        #expect(try await again.json()["id"] == .integer(id))
      }
    }
  }

  @Test("unfinished long lines delay only their holder's other long lines")
  func unfinished() async throws {
    try await with({
      $0.unansweredPerHolder = 140_000
      $0.partialLine = .seconds(3)
    }) { served, users in
      let line = long(1, "echo", kilobytes: 60)
      var halves: [RawClient] = []
      for _ in 0..<3 {
        let client = try await users.client(1000, served)
        try await client.send(String(line.dropLast(10)))
        halves.append(client)
      }
      let own = try await users.client(1000, served)
      try await own.send(line)
      let other = try await users.client(2000, served)
      try await other.send(line)
      #expect(try await other.json()["id"] == 1)
      // Short ones are served.
      let short = try await users.client(1000, served)
      try await short.send(call(3, "echo"))
      #expect(try await short.json()["id"] == 3)
      // When those have lost their time, the others are read.
      #expect(try await own.json()["id"] == 1)
    }
  }

  @Test("a closed client leaves none of its lines") func gone() async throws {
    try await with({ $0.unansweredPerHolder = 140_000 }) { served, users in
      for _ in 0..<4 {
        let half = try await users.client(1000, served)
        try await half.send(String(long(1, "echo", kilobytes: 50).dropLast(10)))
        let waiting = try await users.client(1000, served)
        _ = waiting.sendSome(Array(long(1, "echo", kilobytes: 50).utf8))
      }
      try await eventually("they are closed") { served.server.connectionCount == 0 }
      let client = try await users.client(1000, served)
      for id in 0..<8 {
        try await client.send(long(id, "echo", kilobytes: 50))
        #expect(try await client.json()["id"] == .integer(id))
      }
    }
  }

  @Test("a single request is answered between the lines of a client that sent thousands") func turns() async throws {
    try await with({ _ in }) { served, users in
      let greedy = try await (0..<8).asyncMap { _ in try await users.client(1000, served) }
      let modest = try await users.client(2000, served)
      // Junk that takes as long as a line can.
      let junk = Array(("{\"a\":[" + String(repeating: "[1],", count: 8000) + "1]}\n").utf8)
      // The time of one such line on this machine.
      let other = try await users.client(3000, served)
      let start = ContinuousClock.now
      try await other.send(junk)
      _ = try await other.line()
      let one = ContinuousClock.now - start
      let floods = greedy.map { client in
        Task {
          var replies = [UInt8](repeating: 0, count: 4096)
          while !Task.isCancelled {
            try await client.send(junk)
            _ = recv(client.descriptor, &replies, replies.count, Int32(MSG_DONTWAIT))
          }
        }
      }
      defer { for flood in floods { flood.cancel() } }
      let clock = ContinuousClock()
      var times: [Duration] = []
      for id in 0..<50 {
        let begun = clock.now
        try await modest.send(call(id, "echo"))
        #expect(try await modest.json()["id"] == .integer(id))
        times.append(clock.now - begun)
      }
      // All that the eight have sent takes as long as a hundred and more.
      #expect(times.sorted()[40] < Duration.milliseconds(1000) * slowness + one * 20, "\(one): \(times.sorted())")
    }
  }

  @Test("the size of a parsed line counts until its answer: only its holder's next line waits")
  func parsed() async throws {
    try await with({
      // Twice as much for parsed values.
      $0.unansweredPerHolder = 600_000
    }) { served, users in
      // 16 KiB, counted as half a megabyte and more.
      let dense = call(1, "wait", "[" + String(repeating: "1,", count: 8000) + "1]")
      let clients = try await (0..<6).asyncMap { _ in try await users.client(1000, served) }
      for client in clients { try await client.send(dense) }
      // Each worker may have taken one before the other's was counted.
      try await eventually("three or four run") { self.methods(served) >= 3 }
      let other = try await users.client(2000, served)
      try await other.send(dense.replacing("wait", with: "echo"))
      #expect(try await other.json()["id"] == 1)
      #expect(methods(served) <= 5)
      served.dispatcher.gate.open()
      for client in clients { #expect(try await client.json()["result"] == "waited") }
    }
  }
}

extension Sequence {
  func asyncMap<Result>(_ change: (Element) async throws -> Result) async rethrows -> [Result] {
    var results: [Result] = []
    for element in self { results.append(try await change(element)) }
    return results
  }
}
