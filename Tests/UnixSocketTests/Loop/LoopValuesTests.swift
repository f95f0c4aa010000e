import BrokerAPI
import Glibc
import Listening
import NIOCore
import Principals
import Testing

@testable import UnixSocket

@Suite struct AcceptPaceTests {
  private static func at(_ milliseconds: Int64) -> NIODeadline {
    .uptimeNanoseconds(1_000_000_000_000) + .milliseconds(milliseconds)
  }

  private static func pace() -> AcceptPace { AcceptPace(lastDescriptor: 100) }

  @Test(
    "accepting takes half as long as the turn before, within its limits",
    arguments: [(10, 100), (200, 100), (1000, 500), (60_000, 5000)] as [(Int64, Int64)])
  func time(last: Int64, time: Int64) {
    var pace = Self.pace()
    #expect(pace.end(from: Self.at(0)) == Self.at(0) + .microseconds(100))
    pace.begin(after: .microseconds(last))
    #expect(pace.end(from: Self.at(0)) == Self.at(0) + .microseconds(time))
  }

  @Test(
    "the number of connections doubles in turns without a pause, up to its limit",
    arguments: [
      ([1], [2]), ([5], [1]), ([5, 6, 7], [1, 2, 4]), ([5, 6, 8, 9], [1, 2, 2, 4]), ([5, 5, 6], [1, 1, 2]),
      (Array(5...16), [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 512, 512]),
    ] as [([UInt64], [Int])])
  func doubling(turns: [UInt64], expected: [Int]) {
    var pace = Self.pace()
    #expect(turns.map { pace.connections(in: $0) } == expected)
  }

  @Test("an empty queue begins with one connection again") func emptied() {
    var pace = Self.pace()
    var counts = [5, 6].map { pace.connections(in: $0) }
    pace.emptied()
    counts += [8, 9].map { pace.connections(in: $0) }
    #expect(counts == [1, 2, 1, 2])
  }

  @Test("a pause begins once, and only the first one in a time is reported") func pauses() {
    var pace = Self.pace()
    #expect(!pace.isPaused)
    var pauses = [pace.pause(at: Self.at(0)), pace.pause(at: Self.at(1))]
    #expect(pace.isPaused)
    pace.goOn()
    #expect(!pace.isPaused)
    pauses.append(pace.pause(at: Self.at(200)))
    pace.goOn()
    pace.goOn()
    pauses.append(pace.pause(at: Self.at(200) + Refusals.pause))
    #expect(
      pauses == [
        .init(report: 0, end: Self.at(100)), nil, .init(report: nil, end: Self.at(300)),
        .init(report: 1, end: Self.at(300) + Refusals.pause),
      ])
  }

  @Test("the last descriptors are for the rest of the process", arguments: [(99, true), (100, false), (101, false)])
  func kept(descriptor: Int32, isFree: Bool) {
    #expect(Self.pace().isFree(descriptor) == isFree)
  }

  @Test(
    "some descriptors are only for root and the broker's own user",
    arguments: [(100, 87, true), (100, 88, false), (1000, 967, true), (1000, 968, false)] as [(Int32, Int32, Bool)])
  func reserved(last: Int32, descriptor: Int32, isFree: Bool) {
    #expect(AcceptPace(lastDescriptor: last).isFreeForUsers(descriptor) == isFree)
  }
}

@Suite struct RefusedClientsTests {
  private static func share(_ user: UInt32, _ callerClass: CallerClass) -> Share {
    Share(holder: Holder(uid: user), callerClass: callerClass)
  }

  /// How many of each share are listened to, one after the other.
  private static func absorbed(_ shares: [Share], of clients: inout RefusedClients) -> Int {
    shares.count { clients.startAbsorbing(of: $0) }
  }

  @Test("a holder, callers without a rule and all have their limits") func limits() {
    var clients = RefusedClients(connectsPerSecond: 1)
    let many = 2 * RefusedClients.absorbedAtOnce
    let own = Self.share(3001, .named)
    #expect(Self.absorbed(Array(repeating: own, count: many), of: &clients) == RefusedClients.absorbedPerUser)
    let unnamed = (0..<UInt32(many)).map { Self.share(4000 + $0, .unnamed) }
    #expect(Self.absorbed(unnamed, of: &clients) == RefusedClients.absorbedUnnamed)
    #expect(clients.mayAbsorb(Self.share(3002, .named)) && !clients.mayAbsorb(Self.share(3002, .unnamed)))
    let root = Array(repeating: Self.share(0, .privileged), count: many)
    #expect(
      Self.absorbed(root, of: &clients) == RefusedClients.absorbedAtOnce - RefusedClients.absorbedPerUser
        - RefusedClients.absorbedUnnamed)
    #expect(!clients.mayAbsorb(Self.share(3002, .named)))
  }

  @Test("a place is free again at the end, and an end without a beginning frees none") func ends() {
    var clients = RefusedClients(connectsPerSecond: 1)
    let own = Self.share(3001, .named)
    clients.endAbsorbing(of: own)
    let all = Array(repeating: own, count: RefusedClients.absorbedPerUser + 1)
    #expect(Self.absorbed(all, of: &clients) == RefusedClients.absorbedPerUser)
    clients.endAbsorbing(of: own)
    #expect(Self.absorbed(all, of: &clients) == 1)
  }

  @Test("the reply has the error, whether it is the one before or another") func lines() throws {
    var clients = RefusedClients(connectsPerSecond: 1)
    let errors = [1, 1, 2, 1].map { ConnectionHandler.tooMany("\($0)") }
    let lines = errors.map { clients.line(refusing: $0) }
    #expect(lines == errors.map { RPCReply.failure(.null, $0).line() })
    let line = try #require(clients.line(.rate))
    #expect(String(decoding: line, as: UTF8.self).contains("opens more than 1 in a second"))
    for cause in [RefusedClients.Cause.closing, .descriptors] { #expect(clients.line(cause) != nil) }
  }
}

@Suite struct LoopBuffersTests {
  @Test(
    "ready connections share the bytes of a turn",
    arguments: [(0, 65_536), (1, 65_536), (2, 32_768), (16, 4096), (1000, 4096)])
  func share(ready: Int, bytes: Int) {
    #expect(LoopBuffers.share(ready: ready) == bytes)
  }

  private static func withPair(_ body: (_ own: Int32, _ client: Int32) -> Void) {
    var ends: [Int32] = [-1, -1]
    let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
    #expect(socketpair(AF_UNIX, kind, 0, &ends) == 0)
    body(ends[0], ends[1])
    for end in ends { close(end) }
  }

  @Test("a connection gets its part, and received bytes are overwritten") func wiped() {
    Self.withPair { own, client in
      var buffers = LoopBuffers()
      let sent = [UInt8](repeating: UInt8(ascii: "x"), count: 3 * LoopBuffers.leastReceived)
      #expect(send(client, sent, sent.count, 0) == sent.count)
      buffers.begin(ready: 100)
      let (count, bytes) = buffers.receive(from: own, withoutDescriptors: false)
      #expect(count == LoopBuffers.leastReceived && bytes.allSatisfy { $0 == UInt8(ascii: "x") })
      let small = buffers.receive(from: own, atMost: 10, withoutDescriptors: false).count
      #expect(small == 10)
      buffers.spare.writeString("x")
      buffers.wipe()
      let spare = buffers.spare.readableBytes
      #expect(bytes.allSatisfy { $0 == 0 } && spare == 0)
    }
  }

  @Test("the input of a closing socket is emptied") func emptied() {
    Self.withPair { own, client in
      var buffers = LoopBuffers()
      let sent = [UInt8](repeating: 1, count: 100_000)
      #expect(send(client, sent, sent.count, 0) == sent.count)
      let isEmpty = buffers.emptyInput(of: own)
      #expect(isEmpty)
      // The client cannot send any more.
      #expect(send(client, sent, 1, Int32(MSG_NOSIGNAL)) == -1)
    }
  }
}
