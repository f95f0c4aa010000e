import BrokerAPI
import CLinux
import Glibc
import Listening
import NIOCore
import Principals
import Synchronization
import TestSupport
import Testing

@testable import Callers
@testable import UnixSocket

@Suite struct LimitsTests {
  @Test("one uid has a connection limit, and the next connection gets the reason") func oneUidGetsSoManyConnectionsAnd()
    async throws
  {
    try await Served.with({ $0.connectionsPerUser = 2 }) { served in
      var clients = [try served.client(), try served.client()]
      for client in clients {
        try await client.send(tokenGet(1))
        _ = try await client.line()
      }
      let refused = try await served.client().linesToEnd()
      #expect(refused.count == 1)
      #expect(refused[0].contains(#""id":null"#) && refused[0].contains(#""reason":"overloaded""#))
      clients.removeLast()
      #expect(await eventually { served.server.connectionCount == 1 })
      let next = try served.client()
      try await next.send(tokenGet(2))
      #expect(try await next.json()["id"] == 2)
      #expect(
        served.server.statistics
          == .init(
            connections: 2, accepted: 3, refused: 1, heldBack: [.connections: 1],
            latestHeldBack: served.server.statistics.latestHeldBack))
    }
  }

  @Test("a refused client that writes first, even a lot, finds its refusal to read")
  func refusedWriter() async throws {
    let change = { (limits: inout SocketServer.Limits) in (limits.connectionsPerUser, limits.linger) = (1, .seconds(60))
    }
    try await Served.with(change) { served in
      let first = try served.client()
      try await served.turn(for: first)
      let refused = try served.client()
      #expect(await eventually { served.server.statistics.refused == 1 })
      for id in 0..<100 { try await refused.send(tokenGet(id)) }
      try await served.turn(for: first)
      try await refused.send(tokenGet(100))
      let lines = try await refused.linesToEnd()
      #expect(lines.count == 1 && lines[0].contains(#""reason":"overloaded""#), "\(lines)")
      try await served.turn(for: first)
    }
  }

  @Test("a refused client that writes without end is closed, and those past the bound at once")
  func refusedFlood() async throws {
    var system = SystemCalls()
    // The number that is accepted from root.
    system.credentials = { Peer.credentials(of: $0).map { .init(pid: $0.pid, uid: 0, gid: $0.gid) } }
    try await Served.with({ $0.connectionsPerUser = 1 }, system: system) { served in
      let first = try served.client()
      try await served.turn(for: first)
      let waiting = try (0..<RefusedClients.absorbedAtOnce).map { _ in try served.client() }
      #expect(await eventually { served.server.statistics.refused == UInt64(waiting.count) })
      // This one is not served: it gets an error, and is closed.
      #expect(try await served.client().linesToEnd().count == 1)
      let flood = Array(String(repeating: "x", count: 64 * 1024).utf8)
      let pipe = waiting[0]
      #expect(
        await eventually {
          let sent = pipe.sendSome(flood)
          return sent < 0 && errno == EPIPE
        })
      try await served.turn(for: first)
    }
  }

  @Test("the oldest connection with an unfinished line is evicted first, with the reason")
  func halfLines() async throws {
    try await Served.with({ $0.connectionsPerUser = 4 }) { served in
      let whole = try served.client()
      try await served.turn(for: whole)
      let running = try served.client()
      try await running.send(call(1, "wait") + #"{"jsonrpc":"#)
      #expect(await eventually { served.dispatcher.seen.withLock { $0.running } == 1 })
      let halves = try (0..<2).map { _ in try served.client() }
      for half in halves {
        try await half.send(#"{"jsonrpc":"#)
        try await served.turn(for: whole)
      }
      let next = try served.client()
      try await served.turn(for: next)
      let told = try await halves[0].linesToEnd()
      #expect(told.count == 1 && told[0].contains(#""reason":"overloaded""#) && told[0].contains("not finished"))
      let afterwards = try served.client()
      try await served.turn(for: afterwards)
      #expect(try await halves[1].linesToEnd().count == 1)
      // No other one is idle in the middle of a line.
      #expect(try await served.client().linesToEnd().count == 1)
      served.dispatcher.gate.open()
      #expect(try await running.json()["result"] == "waited")
      try await served.turn(for: whole)
      #expect(served.server.connectionCount == 4)
    }
  }

  @Test("a burst of refused connections is logged in a few lines, and each is counted")
  func aStormOfRefusedConnectionsIsTold() {
    var refusals = Refusals()
    func at(_ seconds: Int64) -> NIODeadline { .uptimeNanoseconds(0) + .seconds(1000 + seconds) }
    #expect(refusals.refused(at: at(0)) == 0)
    #expect((1...500).map { _ in refusals.refused(at: at(1)) } == Array(repeating: nil, count: 500))
    #expect(refusals.due(at: at(9)) == nil)
    #expect(refusals.due(at: at(10)) == 500)
    #expect(refusals.due(at: at(30)) == nil)
    #expect(refusals.refused(at: at(15)) == nil)
    #expect(refusals.refused(at: at(20)) == 1)
    #expect(refusals.refused(at: at(40)) == 0)
  }

  @Test("a connection runs so many requests and is not read until one has ended")
  func aConnectionRunsSoManyRequestsAnd() async throws {
    try await Served.with({ $0.requestsInFlight = 4 }) { served in
      let client = try served.client()
      try await client.send((0..<10).map { call($0, "wait") }.joined() + tokenGet(10))
      #expect(await eventually { served.dispatcher.seen.withLock { $0.running } == 4 })
      let other = try served.client()
      try await other.send(tokenGet(1))
      _ = try await other.line()
      #expect(served.dispatcher.seen.withLock { $0.methods.count } == 4)
      served.dispatcher.gate.open()
      #expect(try await client.lines(11).count == 11)
      #expect(served.dispatcher.seen.withLock { $0.mostRunning } <= 4)
    }
  }

  @Test("a last line without a newline, behind more than may run at once, is answered after a half-close")
  func lastLine() async throws {
    try await Served.with({ $0.requestsInFlight = 4 }) { served in
      let client = try served.client()
      try await client.send((0..<9).map { call($0, "wait") }.joined() + tokenGet(9).dropLast())
      client.closeOutput()
      #expect(await eventually { served.dispatcher.seen.withLock { $0.running } == 4 })
      served.dispatcher.gate.open()
      let lines = try await client.linesToEnd()
      #expect(lines.count == 10 && lines.contains { $0.contains(#""id":9"#) && $0.contains("at-1") }, "\(lines)")
    }
  }

  @Test("a batch runs no more requests at a time than the connection may") func aBatchRunsNoMoreRequestsAt()
    async throws
  {
    try await Served.with({ $0.requestsInFlight = 4 }) { served in
      let client = try served.client()
      let batch = (0..<20).map { String(call($0, "wait").dropLast()) }.joined(separator: ",")
      try await client.send("[\(batch)]\n" + call(99, "echo", "[]"))
      #expect(await eventually { served.dispatcher.seen.withLock { $0.running } >= 3 })
      served.dispatcher.gate.open()
      _ = try await client.lines(2)
      #expect(served.dispatcher.seen.withLock { $0.mostRunning } <= 4)
    }
  }

  @Test("an idle connection is closed, but not one that waits for an answer or for events")
  func anIdleConnectionIsClosedButNot() async throws {
    try await Served.with({ $0.idle = .milliseconds(150) }) { served in
      var clients: [RawClient] = []
      // They have asked before they are accepted, so that no pause of this machine makes them idle.
      try await served.server.holdingUp {
        for method in ["wait", "subscribe"] {
          let client = try served.client()
          try #require(client.sendSome(Array(call(1, method).utf8)) > 0)
          clients.append(client)
        }
      }
      let (waiting, subscribed) = (clients[0], clients[1])
      let idle = try served.client()
      _ = try await subscribed.line()
      #expect(try await idle.linesToEnd() == [])
      // The client may see the end before the server has counted it.
      #expect(await eventually { served.server.connectionCount == 2 })
      let session = served.dispatcher.seen.withLock { $0.sessions[0] }
      #expect(session.notify(method: "event", params: .null))
      #expect(try await subscribed.json()["method"] == "event")
      served.dispatcher.gate.open()
      #expect(try await waiting.json()["result"] == "waited")
      #expect(try await waiting.linesToEnd() == [])
    }
  }

  @Test("a line that is not finished in time ends its connection with the reason") func aLineThatIsNotFinishedIn()
    async throws
  {
    try await Served.with({ $0.partialLine = .milliseconds(150) }) { served in
      let slow = try served.client()
      let other = try served.client()
      try await slow.send(#"{"jsonrpc":"#)
      let drip = Task { while !Task.isCancelled { try await slow.send(" ") } }
      let lines = try await slow.linesToEnd()
      drip.cancel()
      #expect(lines.count == 1 && lines[0].contains("-32600") && lines[0].contains("not finished"))
      try await other.send(tokenGet(1))
      #expect(try await other.json()["id"] == 1)
    }
  }

  @Test("a line is not late while a request before it runs") func aLineIsNotLateWhileARequestRuns() async throws {
    try await Served.with({ $0.partialLine = .milliseconds(100) }) { served in
      let (client, other) = (try served.client(), try served.client())
      try await client.send(call(1, "wait") + #"{"jsonrpc":"2.0","#)
      try await eventually("it runs") { served.dispatcher.seen.withLock { $0.running } == 1 }
      let end = ContinuousClock.now + .milliseconds(1500)
      while ContinuousClock.now < end { try await served.turn(for: other) }
      served.dispatcher.gate.open()
      #expect(try await client.json()["result"] == "waited")
      #expect(try await client.line().contains("not finished"))
    }
  }

  @Test("a line is not late while the server does not read it") func aLineIsNotLateWhileTheServer() async throws {
    try await Served.with({ $0.partialLine = .seconds(12) }) { served in
      let (client, other) = (try served.client(), try served.client())
      try await client.send(call(1, "subscribe"))
      _ = try await client.line()
      let session = served.dispatcher.seen.withLock { $0.sessions[0] }
      try await client.send(#"{"jsonrpc":"2.0","#)
      try await served.turn(for: other)
      // More than the kernel takes.
      let filler = JSON.string(String(repeating: "x", count: 50_000))
      for _ in 0..<8 { #expect(session.notify(method: "event", params: filler)) }
      let end = ContinuousClock.now + .seconds(13)
      while ContinuousClock.now < end {
        try await served.turn(for: other)
        try await Task.sleep(for: .milliseconds(20))
      }
      for _ in 0..<8 { #expect(try await client.json()["method"] == "event") }
      try await client.send(#""id":2,"method":"echo","params":[]}"# + "\n")
      #expect(try await client.json()["id"] == 2)
    }
  }

  @Test("blank lines keep no connection open") func blankLinesKeepNoConnectionOpen() async throws {
    try await Served.with({ $0.idle = .seconds(1) }) { served in
      let client = try served.client()
      let drip = Task {
        while !Task.isCancelled, client.sendSome([0x0A]) > 0 { try await Task.sleep(for: .milliseconds(5)) }
      }
      #expect(try await client.linesToEnd() == [])
      drip.cancel()
    }
  }

  @Test("a client that does not read its replies is not read, and delays no other") func aClientThatDoesNotReadIts()
    async throws
  {
    try await Served.with({ $0.outbound = 64 * 1024 }) { served in
      let slow = try served.client()
      let other = try served.client()
      let request = Array((0..<4000).map { tokenGet($0) }.joined().utf8)
      var sent = 0
      var stalled = 0
      // Nothing more is taken of it while the other one is served, again and again.
      while stalled < 100, sent < 200_000_000 {
        let from = sent % request.count
        let count = slow.sendSome(Array(request[from...]))
        stalled = count > 0 ? 0 : stalled + 1
        sent += max(0, count)
        if count <= 0 { try await served.turn(for: other) }
      }
      #expect(stalled == 100, "the server took \(sent) bytes from a client that reads nothing")
      // It is served again when it reads.
      let wanted = (sent / request.count + 1) * 4000
      async let rest: Void = slow.send(Array(request[(sent % request.count)...]))
      #expect(try await slow.lines(wanted).count == wanted)
      try await rest
    }
  }

  @Test("a subscriber that does not read is closed when its queue is full") func aSubscriberThatDoesNotReadIs()
    async throws
  {
    try await Served.with({ $0.outbound = 64 * 1024 }) { served in
      let (client, session) = try await served.subscriber()
      // It stays connected.
      defer { withExtendedLifetime(client) {} }
      let filler = JSON.string(String(repeating: "x", count: 1000))
      let other = try served.client()
      var taken = 0
      while taken < 100_000, session.notify(method: "event", params: filler) {
        taken += 1
        if taken % 16 == 0 { try await served.turn(for: other) }
      }
      #expect(taken > 60 && taken < 100_000)
      #expect(await eventually { served.server.connectionCount == 1 })
      #expect(await eventually { served.dispatcher.seen.withLock { $0.closed } == 1 })
    }
  }

  @Test("pending data for a subscriber that does not read are one block, and arrive in order")
  func whatWaitsForASubscriberIsOnePiece() async throws {
    try await Served.with { served in
      let (client, session) = try await served.subscriber()
      // More than the kernel takes, and less than closes the connection.
      let count = 4000
      let other = try served.client()
      for number in 0..<count {
        #expect(session.notify(method: "event", params: ["number": .number("\(number)"), "filler": .string(filler)]))
        if number % 8 == 0 { try await served.turn(for: other) }
      }
      #expect(served.server.connectionCount == 2)
      for number in 0..<count { #expect(try await client.json()["params"]?["number"]?.integer == Int64(number)) }
      try await client.send(tokenGet(2))
      #expect(try await client.json()["id"] == 2)
    }
  }

  private var filler: String { String(repeating: "x", count: 150) }

  @Test("a subscriber that reads is never closed for its total amount") func aSubscriberThatReadsIsNeverClosed()
    async throws
  {
    try await Served.with({ $0.outbound = 64 * 1024 }) { served in
      let (client, session) = try await served.subscriber()
      let filler = JSON.string(String(repeating: "x", count: 1000))
      for _ in 0..<400 {
        #expect(session.notify(method: "event", params: filler))
        _ = try await client.line()
      }
    }
  }

  @Test("a large reply arrives whole") func aLargeReplyArrivesWhole() async throws {
    try await Served.with({ $0.outbound = 64 * 1024 }) { served in
      let client = try served.client()
      try await client.send(call(1, "large", #"{"bytes":3000000}"#) + tokenGet(2))
      var replies = [try await client.json(), try await client.json()]
      replies.sort { ($0["id"]?.integer ?? 0) < ($1["id"]?.integer ?? 0) }
      #expect(replies[0]["result"]?.string?.utf8.count == 3_000_000)
      #expect(replies[1]["id"] == 2)
    }
  }
}
