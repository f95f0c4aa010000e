import BrokerAPI
import CLinux
import Glibc
import Synchronization
import TestSupport
import Testing

@testable import Callers
@testable import UnixSocket

/// Replies that clients do not read: how much of them waits.
// Alone: what waits for a client is limited in time too, and a busy machine makes the client late.
@Suite(.timeLimit(.minutes(5))) struct UnreadTests {
  private static let refusal = "overloaded"

  private func large(_ id: Int) -> String { call(id, "large", #"{"bytes":1000000}"#) }

  private func awaitReply(_ client: RawClient) async throws {
    try await eventually("something to read") {
      var poll = pollfd(fd: client.descriptor, events: Int16(POLLIN), revents: 0)
      return Glibc.poll(&poll, 1, 0) == 1
    }
  }

  @Test("where much waits for a client the next results become errors, in batches too, until it reads")
  func ofOneClient() async throws {
    try await Served.with({ $0.unsent = 500_000 }) { served in
      let client = try served.client()
      try await client.send(call(0, "subscribe"))
      _ = try await client.line()
      let connection = try #require(served.dispatcher.seen.withLock { $0.sessions[0] } as? Connection)
      try await client.send(large(1) + large(2) + "[\(large(3).dropLast()),\(large(4).dropLast())]\n")
      try await awaitReply(client)
      try await eventually("all are answered") { connection.running == 0 }
      var (results, refused): ([Int64], [Int64]) = ([], [])
      var lines = 0
      for _ in 0..<3 {
        let json = try await client.json()
        lines += json["result"] != nil || json.array?.first?["result"] != nil ? 1 : 0
        for reply in json.array ?? [json] {
          let id = try #require(reply["id"]?.integer)
          if reply["result"] != nil { results.append(id) } else { refused.append(id) }
          if reply["result"] == nil { #expect(reply["error"]?["data"]?["reason"]?.string == Self.refusal) }
        }
      }
      #expect(lines == 1 && Set(results + refused) == [1, 2, 3, 4])
      try await client.send(large(5))
      #expect(try await client.json()["result"]?.string?.utf8.count == 1_000_000)
    }
  }

  @Test("pending replies of a user's clients count together, and not for others", arguments: [1000, 0] as [UInt32])
  func ofOneUser(uid: UInt32) async throws {
    let next = Mutex(uid)
    var system = SystemCalls()
    system.credentials = { socket in
      var credentials = Peer.credentials(of: socket)
      next.withLock { credentials?.uid = $0 }
      return credentials
    }
    let change: (inout SocketServer.Limits) -> Void = {
      $0.unsentOfUser = 500_000
      $0.unsentOfAll = uid == 0 ? 1 : 64_000_000
    }
    try await Served.with(change, system: system) { served in
      let idle = try served.client()
      try await served.turn(for: idle)
      var lazy: RawClient? = try served.client()
      try await lazy?.send(large(1))
      try await awaitReply(try #require(lazy))
      try await idle.send(call(2, "echo", "[]"))
      let refused = try await idle.json()
      #expect(refused["id"] == 2 && refused["error"]?["data"]?["reason"]?.string == Self.refusal)
      // Cached requests are answered, and so are other callers.
      try await served.turn(for: idle)
      next.withLock { $0 = 2000 }
      let other = try served.client()
      try await other.send(large(3))
      #expect(try await other.json()["id"] == 3)
      // Unread answers of a closed client are not counted.
      lazy = nil
      try await eventually("it is closed") { served.server.connectionCount == 2 }
      try await idle.send(call(4, "echo", "[]"))
      #expect(try await idle.json()["result"] == [])
    }
  }

  @Test("who does not even read the errors is closed") func errors() async throws {
    try await Served.with({ $0.unsent = 100_000 }) { served in
      let client = try served.client()
      let id = String(repeating: "i", count: 200_000)
      for _ in 0..<4 { try await client.send(#"{"jsonrpc":"2.0","id":"\#(id)","method":"wait"}"# + "\n") }
      try await eventually("they run") { served.dispatcher.seen.withLock { $0.running } == 4 }
      served.dispatcher.gate.open()
      try await eventually("it is closed") { served.server.connectionCount == 0 }
    }
  }
}
