import Callers
import Glibc
import Logging
import NIOCore
import NIOPosix
import TestSupport
import Testing

@testable import HTTPServer

/// Connections of listening sockets that another part binds.
@Suite(.timeLimit(.minutes(5))) struct UncountedConnectionTests {
  @Test("a user who opens too many connections in a second is refused, other users are not") func rate() async throws {
    let loop = MultiThreadedEventLoopGroup.singleton.next()
    var limits = HTTPServer.Limits()
    limits.connectsPerSecond = 1
    let settled = limits
    let lines = LoggedLines()
    var channels: [any Channel] = []
    var clients: [Int32] = []
    defer { for client in clients { close(client) } }
    for _ in 0..<5 {
      let (channel, client) = try await accepted(on: loop, settled)
      channels.append(channel)
      clients.append(client)
    }
    let all = channels
    try await loop.submit {
      let served = NIOLoopBound(ServedConnections(settled, .programs, loop: loop), eventLoop: loop)
      let connections = Connections(
        settled, Answers(), lines.logger(), loop: loop, served: [ObjectIdentifier(loop): served])
      let now = NIODeadline.now()
      for (channel, uid) in zip(all, [60_001, 60_001, 60_001, 60_002, 60_001] as [UInt32]) {
        let peer = LoopbackPeer(uid: uid, group: 0, cookie: 1)
        connections.acceptUncounted(HTTPConnection(channel, .peer(peer), served), at: now)
      }
    }.get()
    // Twice the rate after a pause.
    #expect(await eventually { !all[2].isActive && !all[4].isActive })
    #expect([0, 1, 3].allSatisfy { all[$0].isActive })
    #expect(lines.all.count == 1)
    for channel in all { channel.close(promise: nil) }
  }
}
