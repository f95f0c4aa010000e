import BrokerAPI
import Glibc
import Listening
import NIOCore
import Synchronization
import TestSupport
import Testing

@testable import UnixSocket

/// Connections that a user opens in a second.
@Suite(.timeLimit(.minutes(5))) struct ConnectRatesTests {
  private func at(_ seconds: Double) -> NIODeadline { .uptimeNanoseconds(UInt64((1000 + seconds) * 1e9)) }

  @Test("a user opens twice the rate after a pause, then the rate, and takes nothing from others") func rate() {
    var rates = ConnectRates(perSecond: 10, at: at(0))
    func taken(_ user: UInt32, of count: Int, at now: NIODeadline) -> Int {
      (0..<count).count { _ in rates.acquire(user, at: now) }
    }
    #expect(taken(1, of: 30, at: at(0)) == 20)
    #expect(taken(2, of: 5, at: at(0)) == 5)
    #expect(taken(1, of: 30, at: at(1)) == 10)
    #expect(taken(1, of: 30, at: at(60)) == 20)
    rates.giveBack(1)
    #expect(taken(1, of: 30, at: at(60)) == 1)
    rates.removeIdle(at: at(61))
    #expect(taken(1, of: 30, at: at(61)) == 10)
    rates.removeIdle(at: at(63))
    #expect(taken(1, of: 30, at: at(63)) == 20)
  }

  @Test("users beyond the remembered ones share an allowance") func further() {
    var rates = ConnectRates(perSecond: 1, at: at(0))
    func taken(_ users: Range<Int>) -> Int { users.count { rates.acquire(UInt32($0), at: at(0)) } }
    #expect(taken(0..<ConnectRates.mostUsers) == ConnectRates.mostUsers)
    #expect(taken(ConnectRates.mostUsers..<ConnectRates.mostUsers + 10) == 2)
    #expect(taken(0..<1) == 1)
    // Later the first ones are forgotten, and each has an allowance again.
    let later = (5000..<5010).count { user in
      rates.acquire(UInt32(user), at: at(3)) && rates.acquire(UInt32(user), at: at(3))
    }
    #expect(later == 10)
  }

  private func with(
    _ change: (inout SocketServer.Limits) -> Void = { _ in }, _ body: (Served, Users) async throws -> Void
  ) async throws {
    let users = Users()
    try await Served.with(change, system: users.system) { try await body($0, users) }
  }

  @Test("a client that has closed is not identified, whether it has sent a request or not", arguments: [false, true])
  func closed(sends: Bool) async throws {
    try await with { served, users in
      users.state.withLock { $0.uid = 1000 }
      try await served.server.holdingUp {
        for _ in 0..<50 {
          let client = try served.client()
          if sends { #expect(client.sendSome(Array(call(1, "echo").utf8)) > 0) }
        }
      }
      try await eventually("all were accepted") { users.state.withLock { $0.connected } == 50 }
      let other = try await users.client(2000, served)
      try await served.turn(for: other)
      #expect(users.state.withLock { $0.identified } == 1)
      #expect(served.server.statistics == .init(connections: 1, accepted: 1, refused: 0))
      #expect(served.dispatcher.seen.withLock { $0.running } == 0)
      withExtendedLifetime(other) {}
    }
  }

  @Test("a request is answered if the client only ended its output") func halfClosed() async throws {
    try await with { served, users in
      users.state.withLock { $0.uid = 1000 }
      var client: RawClient?
      try await served.server.holdingUp {
        client = try served.client()
        _ = client?.sendSome(Array(tokenGet(1).utf8))
        _ = client.map { shutdown($0.descriptor, Int32(SHUT_WR)) }
      }
      #expect(try await client?.json()["id"] == 1)
    }
  }

  @Test("a user over the limit is refused by user id, and others are not") func refused() async throws {
    try await with({ $0.connectsPerSecond = 1 }) { served, users in
      var clients: [RawClient] = []
      for _ in 0..<30 { clients.append(try await users.client(1000, served)) }
      // Each second another one is let in, so which ones are refused depends on this machine. Only they get something.
      let told = try await eventually("all others get the reason") { () -> [RawClient]? in
        let told = clients.filter { client in
          var poll = pollfd(fd: client.descriptor, events: Int16(POLLIN), revents: 0)
          return Glibc.poll(&poll, 1, 0) == 1
        }
        return told.count == 30 - users.state.withLock { $0.identified } ? told : nil
      }
      let lines = try await #require(told.first).linesToEnd()
      #expect(lines.count == 1 && lines[0].contains("your user opens more than 1 in a second"))
      #expect(served.server.statistics.refused == UInt64(told.count))
      try await served.turn(for: try await users.client(2000, served))
      for _ in 0..<30 { try await served.turn(for: try await users.client(0, served)) }
    }
  }

  @Test("connections that get a cached token are not limited") func cached() async throws {
    try await with({ $0.connectsPerSecond = 1 }) { served, users in
      for _ in 0..<30 { try await served.turn(for: try await users.client(1000, served)) }
    }
  }
}
