import BrokerAPI
import CLinux
import Glibc
import NIOCore
import Principals
import Synchronization
import TestSupport
import Testing

@testable import Callers
@testable import UnixSocket

/// Who gets a place, and who loses one, between several users.
@Suite(.timeLimit(.minutes(5))) struct PlacesTests {
  private func with(
    _ change: (inout SocketServer.Limits) -> Void, _ body: (Served, Users) async throws -> Void
  ) async throws {
    let users = Users()
    try await Served.with(change, system: users.system) { try await body($0, users) }
  }

  private static let half = #"{"jsonrpc":"2.0","id":7,"method":"echo","#
  private static let rest = #""params":[]}"# + "\n"

  private func isTold(_ client: RawClient, _ why: String) async throws -> Bool {
    let lines = try await client.linesToEnd()
    return lines.count == 1 && lines[0].contains(#""reason":"overloaded""#) && lines[0].contains(why)
  }

  @Test("a user at the limit takes no slot from another in the middle of a line") func ownLimit() async throws {
    try await with({ $0.connectionsPerUser = 2 }) { served, users in
      let other = try await users.client(2000, served)
      try await other.send(Self.half)
      var idle: [RawClient] = []
      for _ in 0..<2 {
        idle.append(try await users.client(1000, served))
        try await served.turn(for: idle[idle.count - 1])
      }
      #expect(try await isTold(try await users.client(1000, served), "2 connections of uid 1000"))
      try await other.send(Self.rest)
      #expect(try await other.json()["id"] == 7)
    }
  }

  @Test("of a user's unfinished lines the oldest loses its place, not the oldest connection") func oldestLine()
    async throws
  {
    try await with({ $0.connectionsPerUser = 3 }) { served, users in
      let first = try await users.client(1000, served)
      let second = try await users.client(1000, served)
      let third = try await users.client(1000, served)
      for client in [second, first] {
        try await client.send(Self.half)
        try await served.turn(for: third)
      }
      try await served.turn(for: try await users.client(1000, served))
      #expect(try await isTold(second, "the line was not finished"))
      try await first.send(Self.rest)
      #expect(try await first.json()["id"] == 7)
    }
  }

  @Test("if all slots are in use, an unfinished line of the largest user loses its slot") func largest()
    async throws
  {
    try await with({ $0.connections = 3 }) { served, users in
      let modest = try await users.client(2000, served)
      try await modest.send(Self.half)
      let whole = try await users.client(1000, served)
      try await served.turn(for: whole)
      let greedy = try await users.client(1000, served)
      try await greedy.send(Self.half)
      try await served.turn(for: whole)
      try await served.turn(for: try await users.client(3000, served))
      #expect(try await isTold(greedy, "the line was not finished"))
      try await modest.send(Self.rest)
      #expect(try await modest.json()["id"] == 7)
    }
  }

  @Test("a user who holds all places loses the one that is idle for longest, and none that is in use") func idle()
    async throws
  {
    try await with({ $0.connections = 4 }) { served, users in
      var held: [RawClient] = []
      for _ in 0..<4 { held.append(try await users.client(1000, served)) }
      try await held[0].send(call(1, "subscribe"))
      _ = try await held[0].line()
      try await held[1].send(call(1, "wait"))
      try await eventually("it runs") { served.dispatcher.seen.withLock { $0.running } == 1 }
      // The later connection is idle for longer.
      try await served.turn(for: held[3])
      try await served.turn(for: held[2])
      let others = [try await users.client(2000, served), try await users.client(3000, served)]
      for other in others { try await served.turn(for: other) }
      for loser in held[2...3] { #expect(try await isTold(loser, "idle")) }
      // Then the one whose request waits; events are sent to the other one.
      let last = try await users.client(4000, served)
      try await served.turn(for: last)
      #expect(try await isTold(held[1], "its requests were waiting"))
      // No user gets more than the one that would lose a connection.
      #expect(try await isTold(try await users.client(2000, served), "4 connections"))
      served.dispatcher.gate.open()
      try await eventually("the request has ended") { served.server.connectionCount == 4 }
      #expect(
        served.server.statistics
          == .init(
            connections: 4, accepted: 7, refused: 4, heldBack: [.connections: 1],
            latestHeldBack: "connections of uid 2000"))
    }
  }

  @Test("a connection with unread replies loses its slot after idle ones") func unreadLast() async throws {
    try await with({ $0.connections = 2 }) { served, users in
      users.state.withLock { $0.sendBuffer = 1 }
      let reader = try await users.client(1000, served)
      try await reader.send(call(1, "large", #"{"bytes":200000}"#))
      try await eventually("the kernel has a part of the reply") {
        var poll = pollfd(fd: reader.descriptor, events: Int16(POLLIN), revents: 0)
        return Glibc.poll(&poll, 1, 0) == 1
      }
      users.state.withLock { $0.sendBuffer = nil }
      let idle = try await users.client(1000, served)
      try await served.turn(for: idle)
      try await served.turn(for: try await users.client(2000, served))
      #expect(try await isTold(idle, "idle"))
      #expect(try await reader.json()["id"] == 1)
    }
  }

  @Test("who loses their place with unread replies is closed at once") func unread() async throws {
    try await with({
      $0.connectionsPerUser = 1
      $0.linger = .seconds(600)
    }) { served, users in
      users.state.withLock { $0.sendBuffer = 1 }
      let reader = try await users.client(1000, served)
      try await reader.send(call(1, "large", #"{"bytes":20000}"#) + Self.half)
      try await eventually("the kernel has a part of the reply") {
        var poll = pollfd(fd: reader.descriptor, events: Int16(POLLIN), revents: 0)
        return Glibc.poll(&poll, 1, 0) == 1
      }
      try await served.turn(for: try await users.client(1000, served))
      try await eventually("its descriptor is closed") {
        var poll = pollfd(fd: reader.descriptor, events: 0, revents: 0)
        return Glibc.poll(&poll, 1, 0) == 1 && poll.revents & Int16(POLLHUP) != 0
      }
    }
  }

  @Test("a limited number of a user's refused clients is heard") func refused() async throws {
    try await with({
      $0.connectionsPerUser = 1
      $0.linger = .seconds(60)
    }) { served, users in
      var clients: [RawClient] = []
      for _ in 0...RefusedClients.absorbedPerUser { clients.append(try await users.client(1000, served)) }
      let beyond = try await users.client(1000, served)
      #expect(try await isTold(beyond, "1 connections of uid 1000"))
      #expect(beyond.sendSome([0x20]) < 0 && errno == EPIPE)
      let other = try await users.client(2000, served)
      try await served.turn(for: other)
      for client in clients[1...] + [try await users.client(2000, served)] {
        #expect(client.sendSome([0x20]) == 1)
        #expect(try await isTold(client, "1 connections of uid"))
      }
    }
  }

  @Test("a refusal is remembered for its holder and class, until a slot is free or its time is over")
  func remembered() {
    let (table, now) = (ConnectionTable(limits: SocketServer.Limits()), NIODeadline.now())
    let share = Share(holder: .user(1000), callerClass: .unnamed)
    func remember() { table.remember(share, "why", until: now + ConnectionTable.remembered) }
    remember()
    #expect(table.refusal(of: share, at: now) == "why")
    let unit = Holder.unit("a.service", user: 1000)
    for (holder, callerClass) in [(.user(1000), .named), (unit, .named), (unit, .unnamed)] as [(Holder, CallerClass)] {
      #expect(table.refusal(of: Share(holder: holder, callerClass: callerClass), at: now) == nil)
    }
    #expect(table.refusal(of: share, at: now + ConnectionTable.remembered) == nil)
    remember()
    table.giveBackPlace(Share(holder: .user(2000), callerClass: .named))
    #expect(table.refusal(of: share, at: now) == nil)
    let root = Share(holder: .root, callerClass: .privileged)
    table.remember(root, "why", until: now + ConnectionTable.remembered)
    #expect(table.refusal(of: root, at: now) == nil)
  }

  @Test("a refusal of a user's processes without a rule is none of a unit of the same user with a rule")
  func otherUnit() async throws {
    // One connection of each holder without a rule.
    try await with({ $0.connections = 64 }) { served, users in
      served.dispatcher.seen.withLock { seen in
        seen.classes[1000] = .unnamed
        seen.classesOfUnits["mail.service"] = .named
      }
      let held = try await users.client(1000, served)
      try await served.turn(for: held)
      #expect(try await isTold(try await users.client(1000, served), "1 connections of uid 1000"))
      users.state.withLock { $0.unit = "mail.service" }
      try await served.turn(for: try await users.client(1000, served))
      users.state.withLock { $0.unit = nil }
      #expect(try await isTold(try await users.client(1000, served), "1 connections of uid 1000"))
      try await served.turn(for: held)
    }
  }

  @Test(
    "a client that cannot be identified for lack of a descriptor or memory is refused for now",
    arguments: [EMFILE, ENFILE, ENOMEM]
  )
  func unidentified(code: Int32) async throws {
    try await with({ _ in }) { served, users in
      users.state.withLock { $0.failure = Peer.Failure.exhausted(by: code) }
      let begun = NIODeadline.now()
      let client = try await users.client(1000, served)
      #expect(try await isTold(client, String(cString: strerror(code))))
      #expect(served.server.connectionCount == 0)
      users.state.withLock { $0.failure = nil }
      try await served.turn(for: try served.client())
      // None was accepted until then.
      #expect(NIODeadline.now() - begun >= AcceptPace.pause)
    }
  }

  @Test("if no client can be identified, no unit gets an error for its credential") func credential() async throws {
    try await with({ _ in }) { served, users in
      users.state.withLock { $0.failure = .exhausted(EMFILE) }
      // Each name can be bound once on a machine.
      let number = String(Int.random(in: 1...Int.max), radix: 16)
      let reader = try CredentialReader(served.path, as: "\(number)/unit/a.service/token")
      #expect(isRefusedBySystemd(try await reader.readToEnd()))
    }
  }

  @Test("a process is not taken for unknown because of a missing descriptor") func noDescriptor()
    async throws
  {
    await #expect(processExitsWith: .success) {
      var ends: [Int32] = [-1, -1]
      precondition(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
      guard let credentials = Peer.credentials(of: ends[0]) else { preconditionFailure() }
      precondition((try? Peer(of: ends[0], credentials).caller.executable) != nil)
      // One for the pidfd, none for the control group; then none at all.
      for free in [Int32(1), 0] {
        var limit = rlimit(rlim_cur: rlim_t(ends[1] + 1 + free), rlim_max: 1024)
        precondition(setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0)
        do throws(Peer.Failure) {
          _ = try Peer(of: ends[0], credentials).caller
          preconditionFailure("\(free)")
        } catch {
          precondition(error == .exhausted(EMFILE))
        }
      }
      exit(0)
    }
  }
}
