import NIOCore
import Synchronization
import TestSupport
import Testing

@testable import HTTPServer

/// Which connections may be closed to free their place for another.
@Suite(.timeLimit(.minutes(5)), .serialized) struct PlaceTests {
  @Test("A connection keeps its place until its answer is sent")
  func whileSending() async throws {
    try await Served.with { served in
      let asking = try await served.asking("/large")
      let connection = try await asking.connection
      #expect(await eventually { connection.progress == .answering })
      #expect(!connection.close(upTo: .inHead))
      #expect(try asking.client.receive(atMost: Answers.size).get() >= Answers.size)
      #expect(await eventually { connection.progress == .silent })
      #expect(connection.close(upTo: .inHead))
    }
  }

  @Test("A connection keeps its place until the requests that were read are answered")
  func whileBehind() async throws {
    try await Served.with { served in
      let asking = try await served.asking()
      let connection = try await asking.connection
      asking.client.send(served.requests(30))
      try await asking.expect { $0.hasMore }
      let isTaken = try await asking.loop.flatSubmit {
        asking.answer()
        // When that is sent, and before the connection has its next turn.
        return asking.loop.submit { connection.close(upTo: .inHead) }
      }.get()
      #expect(!isTaken)
      asking.client.endSide()
      #expect(asking.client.text().answers == 31)
    }
  }

  @Test("No request of a connection whose place was taken is handled")
  func evicted() async throws {
    try await Served.with { served in
      let asking = try await served.asking()
      let connection = try await asking.connection
      #expect(!connection.close(upTo: .inHead))
      asking.answer()
      #expect(await eventually { connection.progress == .silent })
      // The next request comes as its place is taken away.
      try await asking.loop.submit {
        asking.client.send(served.request("/later"))
        #expect(connection.close(upTo: .inHead))
      }.get()
      _ = asking.client.receive()
      #expect(served.answers.held.withLock { $0.count } == 1)
    }
  }
}
