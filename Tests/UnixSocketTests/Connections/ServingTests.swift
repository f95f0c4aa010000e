import BrokerAPI
import Glibc
import NIOCore
import Principals
import Synchronization
import TestSupport
import Testing

@testable import UnixSocket

@Suite struct ServingTests {
  @Test(
    "a cached reply is byte for byte that of the comfortable road",
    arguments: ["1", "-7", #""text""#, #""with space""#, "123456789012345678901234567890"])
  func aCachedReplyIsByteForByte(id: String) async throws {
    try await Served.with { served in
      let client = try served.client()
      try await client.send(#"{"jsonrpc":"2.0","id":\#(id),"method":"token.get","params":{"account":"alice"}}"# + "\n")
      let cached = try await client.line()
      // An unknown member sends the same question along the comfortable road.
      try await client.send(
        #"{"jsonrpc":"2.0","id":\#(id),"x":1,"method":"token.get","params":{"account":"alice"}}"# + "\n")
      #expect(try await client.line() == cached)
      #expect(served.dispatcher.seen.withLock { $0.methods } == ["token.get"])
    }
  }

  @Test(
    "the seconds left are written in decimal",
    arguments: [
      (0, "0"), (7, "7"), (10, "10"), (3599, "3599"), (-1, "-1"), (-42, "-42"), (Int64.max, "9223372036854775807"),
      (Int64.min, "-9223372036854775808"),
    ])
  func theSecondsLeftAreWrittenInDecimal(number: Int64, digits: String) {
    var buffer = ByteBuffer()
    let body = CachedReply.Body(head: Array(#"{"e":"#.utf8), tail: Array(#","t":1}"#.utf8))
    Array("9".utf8).withUnsafeBytes { buffer.write(CachedReply(body: body, expiresIn: number), id: $0) }
    #expect(String(buffer: buffer) == #"{"jsonrpc":"2.0","id":9,"result":{"e":\#(digits),"t":1}}"# + "\n")
  }

  @Test("a token without an expiry is only its head") func aTokenWithoutAnExpiryIsIts() async throws {
    try await Served.with { served in
      let client = try served.client()
      try await client.send(tokenGet(1, "endless"))
      #expect(try await client.line() == #"{"jsonrpc":"2.0","id":1,"result":{"access_token":"at-2"}}"#)
    }
  }

  @Test(
    "a first line of another protocol closes the connection, and later lines are not answered",
    arguments: ["POST / HTTP/1.1\r\nHost: x\r\n\r\n", "\r\n  EHLO x\r\n", "\u{16}\u{3}\u{1}\n", "null\n"])
  func anotherProtocol(first: String) async throws {
    try await Served.with { served in
      let client = try served.client()
      try await client.send(first + tokenGet(1) + call(2, "echo", "[2]"))
      let lines = try await client.linesToEnd()
      #expect(lines.count == 1 && lines[0].contains("-32700"), "\(lines)")
      #expect(served.dispatcher.seen.withLock { $0.methods }.isEmpty)
      let long = try served.client()
      // All of it can be sent, so that a client which writes first reads why it was refused.
      try await long.send(String(repeating: "a", count: 600_000))
      try await long.send("\n" + tokenGet(1))
      #expect(try await long.linesToEnd().count == 1)
      let other = try served.client()
      try await other.send(tokenGet(3) + "POST / HTTP/1.1\n" + tokenGet(4))
      #expect(try await other.lines(3).count == 3)
    }
  }

  @Test("a slow request holds up neither its connection nor others") func aSlowRequestHoldsUpNeitherIts() async throws {
    try await Served.with { served in
      let client = try served.client()
      try await client.send(call(1, "wait") + call(2, "echo", "[2]") + tokenGet(3))
      var ids = Set(try await client.lines(2).map { try JSON.parse(Array($0.utf8))["id"]?.integer })
      #expect(ids == [2, 3])
      let other = try served.client()
      try await other.send(tokenGet(4))
      #expect(try await other.json()["id"] == 4)
      served.dispatcher.gate.open()
      ids = [try await client.json()["id"]?.integer]
      #expect(ids == [1])
    }
  }

  @Test("a thousand pipelined requests are all answered") func aThousandPipelinedRequestsAreAllAnswered() async throws {
    try await Served.with { served in
      let client = try served.client()
      async let sent: Void = client.send((0..<1000).map { tokenGet($0) }.joined())
      let ids = try await client.lines(1000).map { try JSON.parse(Array($0.utf8))["id"]?.integer }
      try await sent
      #expect(ids == (0..<1000).map { Int64($0) })
    }
  }

  @Test(
    "a batch is answered together in its order",
    arguments: [
      (
        #"[{"jsonrpc":"2.0","id":1,"method":"echo","params":[1]},{"jsonrpc":"2.0","method":"echo"},{"jsonrpc":"2.0","id":"b","method":"echo","params":[2]}]"#,
        #"[{"jsonrpc":"2.0","id":1,"result":[1]},{"jsonrpc":"2.0","id":"b","result":[2]}]"#
      ),
      (
        #"[{"jsonrpc":"2.0","id":1,"method":"token.get","params":{"account":"alice"}}]"#,
        #"[{"jsonrpc":"2.0","id":1,"result":{"access_token":"at-1","token_type":"Bearer","expires_in":3599,"scope":["openid"],"account":"alice","provider":"demo","generation":7}}]"#
      ),
    ])
  func aBatchIsAnsweredTogetherInIts(batch: String, expected: String) async throws {
    try await Served.with { served in
      let client = try served.client()
      try await client.send(batch + "\n")
      #expect(try await client.line() == expected)
    }
  }

  @Test("a batch waits for its slowest request and holds up no other line") func aBatchWaitsForItsSlowestRequest()
    async throws
  {
    try await Served.with { served in
      let client = try served.client()
      try await client.send("[\(call(1, "wait").dropLast()),\(call(2, "echo", "[]").dropLast())]\n" + tokenGet(3))
      #expect(try await client.json()["id"] == 3)
      served.dispatcher.gate.open()
      #expect(try await client.json().array?.count == 2)
    }
  }

  @Test(
    "what asks for no answer gets none",
    arguments: [
      #"{"jsonrpc":"2.0","method":"echo"}"#, #"{"jsonrpc":"2.0","method":"fail"}"#, #"{"jsonrpc":"2.0","method":"no"}"#,
      #"[{"jsonrpc":"2.0","method":"echo"},{"jsonrpc":"2.0","method":"fail"}]"#, "", "  \t\r",
    ])
  func whatAsksForNoAnswerGetsNone(line: String) async throws {
    try await Served.with { served in
      let client = try served.client()
      try await client.send(line + "\n")
      // All requests of the connection have ended before the end of input is answered with the end of output.
      try await client.send(tokenGet(1))
      client.closeOutput()
      let lines = try await client.linesToEnd()
      #expect(lines.count == 1 && lines[0].contains(#""id":1,"#))
    }
  }

  @Test(
    "broken lines get their error and harm no other request",
    arguments: [
      ("{", -32700), ("\u{0}", -32700), ("nonsense", -32700), ("[]", -32600), ("1", -32600), ("{}", -32600),
      (#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32600), (#"{"jsonrpc":"2.0","id":1,"method":"no"}"#, -32601),
    ])
  func brokenLinesGetTheirErrorAndHarm(line: String, code: Int64) async throws {
    try await Served.with { served in
      let client = try served.client()
      try await client.send(tokenGet(7) + line + "\n" + tokenGet(8))
      let replies = try await client.lines(3).map { try JSON.parse(Array($0.utf8)) }
      #expect(replies.compactMap { $0["error"]?["code"]?.integer } == [code])
      #expect(replies.filter { $0["result"] != nil }.compactMap { $0["id"]?.integer } == [7, 8])
    }
  }

  @Test("a client that ends its output still gets its answers, then the end") func aClientThatEndsItsOutputStill()
    async throws
  {
    try await Served.with { served in
      let client = try served.client()
      try await client.send(call(1, "wait") + String(tokenGet(2).dropLast()))
      client.closeOutput()
      #expect(try await client.json()["id"] == 2)
      served.dispatcher.gate.open()
      #expect(try await client.linesToEnd().count == 1)
      #expect(await eventually { served.server.connectionCount == 0 })
    }
  }

  @Test("a client that closes cancels nothing, and leaves its slot at once") func slot() async throws {
    try await Served.with({ $0.connectionsPerUser = 2 }) { served in
      let other = try served.client()
      for number in 0..<2 {
        var client: RawClient? = try served.client()
        try await client?.send(call(number, "wait"))
        #expect(await eventually { served.dispatcher.seen.withLock { $0.running } == number + 1 })
        client = nil
        // The end is read in one turn of the loop, and handled in the next.
        for _ in 0..<3 { try await served.turn(for: other) }
      }
      try await served.turn(for: try served.client())
      #expect(served.server.statistics.refused == 0)
      #expect(served.dispatcher.seen.withLock { $0.running } == 2)
      served.dispatcher.gate.open()
    }
  }

  @Test("a client that hangs up cancels nothing and is known until its requests have ended")
  func aClientThatHangsUpCancelsNothing() async throws {
    try await Served.with { served in
      do {
        let client = try served.client()
        try await client.send(call(1, "wait"))
        #expect(await eventually { served.dispatcher.seen.withLock { $0.running } == 1 })
      }
      let other = try served.client()
      try await other.send(tokenGet(1))
      _ = try await other.line()
      #expect(served.server.connectionCount == 2)
      #expect(served.dispatcher.seen.withLock { $0.running } == 1)
      served.dispatcher.gate.open()
      #expect(await eventually { served.server.connectionCount == 1 })
    }
  }

  @Test("the caller is who the kernel says") func theCallerIsWhoTheKernelSays() async throws {
    try await Served.with { served in
      let client = try served.client()
      try await client.send(call(1, "who"))
      var groups = [gid_t](repeating: 0, count: 65536)
      let count = getgroups(Int32(groups.count), &groups)
      let expected = ScriptedDispatcher.json(
        Caller(uid: getuid(), gid: getgid(), groups: Array(groups.prefix(Int(count))), pid: getpid()))
      #expect(try await client.json()["result"] == expected)
    }
  }

  @Test("notifications reach the subscriber, and its end is reported") func notificationsReachTheSubscriberAndItsEnd()
    async throws
  {
    try await Served.with { served in
      do {
        let client = try served.client()
        try await client.send(call(1, "subscribe"))
        _ = try await client.line()
        let session = served.dispatcher.seen.withLock { $0.sessions[0] }
        #expect(session.notify(method: "event", params: ["n": 1]))
        #expect(try await client.line() == #"{"jsonrpc":"2.0","method":"event","params":{"n":1}}"#)
      }
      #expect(await eventually { served.dispatcher.seen.withLock { $0.closed } == 1 })
      let session = served.dispatcher.seen.withLock { $0.sessions[0] }
      #expect(!session.notify(method: "event", params: .null))
      await confirmation { session.onClose { [told = $0] in told() } }
    }
  }
}
