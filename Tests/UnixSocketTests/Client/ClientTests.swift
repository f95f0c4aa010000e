import BlockingClient
import BrokerAPI
import BrokerSocket
import Foundation
import Glibc
import Principals
import Synchronization
import TestSupport
import Testing

@testable import AsyncClient
@testable import UnixSocket

@Suite struct ClientTests {
  @Test("a method's result comes back as its type") func aMethodsResultComesBackAsIts() async throws {
    try await Served.with { served in
      let client = try await SocketClient.connect(path: served.path)
      let token = try await client.call(TokenGet.self, .init(account: "alice"))
      #expect(token.access_token == "at-1" && token.expires_in == 3599 && token.generation == 7)
      await client.close()
    }
  }

  @Test("a refusal before an immediate close is read, even when its owner is checked")
  func refusedAtOnce() async throws {
    try await Served.with({ $0.connectionsPerUser = 1 }) { served in
      let first = try served.client()
      try await served.turn(for: first)
      for _ in 0..<50 {
        do throws(SocketClientError) {
          let client = try await SocketClient.connect(path: served.path) { _ in true }
          _ = try await client.call(TokenGet.self, .init(account: "alice"))
          Issue.record("it was let in")
        } catch .rpc(let error) {
          #expect(error.reason == .overloaded)
        } catch {
          Issue.record(error)
        }
      }
    }
  }

  @Test("a server of another user is sent nothing")
  func foreignServer() async throws {
    try await Served.with { served in
      let path = served.path
      await #expect(throws: SocketClientError.foreignServer(path, uid: geteuid())) {
        try await SocketClient.connect(path: path) { $0 != geteuid() }
      }
      let client = try await SocketClient.connect(path: path) { ServerOwner.isExpected($0, at: path) }
      #expect(try await client.call(TokenGet.self, .init(account: "alice")).access_token == "at-1")
      #expect(served.dispatcher.seen.withLock { $0.methods.count } <= 1)
      await client.close()
    }
  }

  @Test(
    "the owner of the socket's folder may be its server, if only root can have made the folder",
    .enabled(if: geteuid() == 0, "only root can give a folder to another user"))
  func folderOwner() async throws {
    try await Served.inFolder { folder in
      let (above, inner) = (folder + "/run", folder + "/run/grantd")
      for path in [above, inner] { mkdir(path, 0o755) }
      chown(inner, 4242, 4242)
      func isExpected() -> Bool { ServerOwner.isExpected(4242, at: inner + "/grantd.sock") }
      #expect(isExpected() && !ServerOwner.isExpected(4243, at: inner + "/grantd.sock"))
      for (path, mode) in [(above, UInt32(0o777)), (above, 0o1777), (inner, 0o777)] {
        chmod(path, mode)
        #expect(!isExpected())
        chmod(path, 0o755)
      }
      chown(above, 4243, 4243)
      #expect(!isExpected())
      // In the runtime folder of another user everything is that user's: root must not be led there.
      chown(above, 4242, 4242)
      #expect(!isExpected())
      chown(above, 0, 0)
      #expect(isExpected())
      #expect(!ServerOwner.isExpected(4242, at: "grantd.sock"))
    }
  }

  @Test("many calls at once each get their own answer") func manyCallsAtOnceEachGetTheir() async throws {
    try await Served.with { served in
      let client = try await SocketClient.connect(path: served.path)
      await withTaskGroup(of: Bool.self) { group in
        for number in 0..<200 {
          group.addTask {
            (try? await client.call(method: "echo", params: ["n": .integer(number)])) == ["n": .integer(number)]
          }
        }
        for await isRight in group { #expect(isRight) }
      }
    }
  }

  @Test("an error of the broker keeps its reason") func anErrorOfTheBrokerKeepsIts() async throws {
    try await Served.with { served in
      let client = try await SocketClient.connect(path: served.path)
      await #expect(throws: SocketClientError.rpc(RPCError(.loginRequired, "no"))) {
        try await client.call(method: "fail")
      }
    }
  }

  @Test("a result of another shape is malformed") func aResultOfAnotherShapeIsMalformed() async throws {
    try await Served.with { served in
      let client = try await SocketClient.connect(path: served.path)
      let error = await #expect(throws: SocketClientError.self) {
        try await client.call(TokenGet.self, .init(account: "endless"))
      }
      guard case .malformed = error else {
        Issue.record("\(String(describing: error))")
        return
      }
    }
  }

  @Test("a call ends at its time-out and the connection stays good") func aCallEndsAtItsTimeOut() async throws {
    try await Served.with { served in
      let client = try await SocketClient.connect(path: served.path)
      await #expect(throws: SocketClientError.timedOut) {
        try await client.call(method: "wait", timeout: .milliseconds(20))
      }
      served.dispatcher.gate.open()
      #expect(try await client.call(method: "echo", params: [1], timeout: .seconds(60)) == [1])
    }
  }

  @Test("a cancelled call waits no longer") func aCancelledCallWaitsNoLonger() async throws {
    try await Served.with { served in
      let client = try await SocketClient.connect(path: served.path)
      let task = Task { try await client.call(method: "wait") }
      #expect(await eventually { served.dispatcher.seen.withLock { $0.running } == 1 })
      task.cancel()
      await #expect(throws: SocketClientError.timedOut) { try await task.value }
    }
  }

  @Test("calls fail when the broker goes, those in flight and later ones") func callsFailWhenTheBrokerGoesThose()
    async throws
  {
    try await Served.with { served in
      let client = try await SocketClient.connect(path: served.path)
      let early = Task { try await client.call(method: "echo") }
      _ = try await early.value
      await served.server.drain(deadline: .zero)
      try await eventually("the client learns that it has gone") {
        do {
          _ = try await client.call(method: "echo")
          return false
        } catch { return error as? SocketClientError == .disconnected }
      }
    }
  }

  @Test("a refused connection tells the callers why") func aRefusedConnectionTellsTheCallersWhy() async throws {
    try await Served.with({ $0.connectionsPerUser = 0 }) { served in
      let client = try await SocketClient.connect(path: served.path)
      let error = await #expect(throws: SocketClientError.self) { try await client.call(method: "echo") }
      guard case .rpc(let rpc) = error else {
        Issue.record("\(String(describing: error))")
        return
      }
      #expect(rpc.reason == .overloaded)
    }
  }

  @Test("notifications arrive in order") func notificationsArriveInOrder() async throws {
    try await Served.with { served in
      let client = try await SocketClient.connect(path: served.path)
      _ = try await client.call(method: "subscribe")
      let session = served.dispatcher.seen.withLock { $0.sessions[0] }
      for number in 0..<50 { #expect(session.notify(method: "event", params: .integer(number))) }
      var expected = 0
      for await notification in client.notifications {
        #expect(notification == .init(method: "event", params: .integer(expected)))
        expected += 1
        if expected == 50 { break }
      }
    }
  }

  @Test("beyond its limit of notifications a connection ends") func beyondItsLimitOfNotifications() async throws {
    try await Served.with { served in
      var limits = SocketClient.Limits()
      (limits.notifications, limits.dropsNotifications) = (10, false)
      let client = try await SocketClient.connect(path: served.path, limits: limits)
      _ = try await client.call(method: "subscribe")
      #expect(!client.hasEnded)
      let session = served.dispatcher.seen.withLock { $0.sessions[0] }
      for number in 0..<50 { #expect(session.notify(method: "event", params: .integer(number))) }
      let error = await #expect(throws: SocketClientError.self) {
        // Behind the notifications.
        try await client.call(method: "echo")
      }
      #expect(error == .disconnected && client.hasEnded)
      var kept = 0
      for await notification in client.notifications {
        #expect(notification == .init(method: "event", params: .integer(kept)))
        kept += 1
      }
      #expect(kept == 10)
    }
  }

  @Test("a line beyond the limit of the connection ends it") func aLineBeyondTheLimit() async throws {
    try await Served.with { served in
      var limits = SocketClient.Limits()
      limits.line = 100_000
      let client = try await SocketClient.connect(path: served.path, limits: limits)
      let large = try await client.call(method: "large", params: ["bytes": 90_000])
      #expect(large.string?.utf8.count == 90_000)
      let error = await #expect(throws: SocketClientError.self) {
        try await client.call(method: "large", params: ["bytes": 300_000])
      }
      guard case .malformed = error else {
        Issue.record("\(String(describing: error))")
        return
      }
    }
  }

  @Test("a broker that does not run is told from one that does not let us in") func aBrokerThatDoesNotRunIs()
    async throws
  {
    try await Served.inFolder { folder in
      let stale = folder + "/stale.sock"
      close(try ListeningSocket.bound(at: stale, mode: 0o600, folderMode: 0o700).descriptor)
      let long = folder + String(repeating: "/long", count: 40)
      for path in [folder + "/none.sock", stale, long] {
        await #expect(throws: SocketClientError.notRunning(path)) { try await SocketClient.connect(path: path) }
      }
    }
  }

  @Test("a socket that refuses access is reported", .enabled(if: getuid() != 0, "root may connect to any socket"))
  func aSocketThatIsClosedToUs() async throws {
    try await Served.with(mode: 0) { served in
      await #expect(throws: SocketClientError.permissionDenied(served.path)) {
        try await SocketClient.connect(path: served.path)
      }
    }
  }
}
