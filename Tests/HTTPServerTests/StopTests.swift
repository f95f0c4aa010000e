import Glibc
import NIOCore
import Synchronization
import TestSupport
import Testing

@testable import HTTPServer

/// What becomes of requests and answers when the server stops, and of the last answer of a connection.
@Suite(.timeLimit(.minutes(5)), .serialized) struct StopTests {
  /// Serves for the time of `body`. All limits are a minute, so that a busy machine reaches none of them.
  private func serve(_ body: (Served) async throws -> Void) async throws {
    try await Served.with(
      limits: { ($0.stop, $0.headTime, $0.stall) = (.seconds(60), .seconds(60), .seconds(60)) }, body)
  }

  @Test("A request without its body delays the stop by seconds at most, and is answered with 408")
  func halfSent() async throws {
    try await serve { served in
      let asking = try await served.asking()
      asking.answer()
      asking.client.send(served.half("POST"))
      try await asking.expect { if case .collecting = $0.state.phase { true } else { false } }
      let begun = ContinuousClock.now
      await served.server.stop()
      #expect(ContinuousClock.now - begun < .seconds(30))
      #expect(asking.client.text().contains("HTTP/1.1 408"))
    }
  }

  @Test("The same where the request is read after the stop has begun", arguments: ["GET /", "POST"])
  func halfAfterStop(_ half: String) async throws {
    try await serve { served in
      let asking = try await served.asking()
      asking.client.send(served.requests(4) + served.half(half))
      try await asking.expect { $0.hasMore }
      try await asking.on { handler in
        asking.answer()
        handler.connections.stop()
      }
      let begun = ContinuousClock.now
      await served.server.stop()
      #expect(ContinuousClock.now - begun < .seconds(30))
      #expect(asking.client.text().hasPrefix("HTTP/1.1 200 OK"))
    }
  }

  @Test("An answer that is being sent is completed")
  func whileSending() async throws {
    try await serve { served in
      let asking = try await served.asking("/large")
      let connection = try await asking.connection
      #expect(await eventually { connection.progress == .answering })
      async let stop: Void = served.server.stop()
      try await asking.expect { $0.state.isStopping }
      #expect(try asking.client.receive().get() > Answers.size)
      await stop
    }
  }

  @Test("Answers that were made can be read although the client sent more")
  func unread() async throws {
    try await serve { served in
      let asking = try await served.asking()
      let many = Array(served.requests(2000).utf8)
      asking.answer()
      try await asking.expect { handler in
        while let count = asking.client.offer(many), count == many.count {}
        return handler.flow.unwritten > 0 && handler.context?.channel.isWritable == false
      }
      async let stop: Void = served.server.stop()
      try await asking.expect { $0.state.isStopping }
      #expect(try asking.client.receive().get() > 0)
      await stop
    }
  }

  @Test("An answer that is made while the server stops is sent")
  func answerAtStop() async throws {
    try await serve { served in
      var all: [Asking] = []
      for _ in 0..<10 { all.append(try await served.asking()) }
      for one in all {
        one.loop.execute { usleep(20_000) }
        one.answer()
      }
      await served.server.stop()
      for one in all { #expect(one.client.text().hasSuffix("late")) }
    }
  }

  @Test("A handler that waits for its turn is released when its server has stopped")
  func forgotten() async throws {
    let kept = Mutex<[Weak]>([])
    try await serve { served in
      let asking = try await served.asking()
      asking.client.send(served.requests(100))
      try await asking.expect { $0.hasMore }
      served.answers.held.withLock { $0 = [] }
      try await asking.on { handler in
        asking.answer()
        kept.withLock { $0.append(Weak(handler)) }
        handler.connections.stop()
        handler.close()
      }
    }
    #expect(await eventually { kept.withLock { $0.allSatisfy { $0.value == nil } } })
  }

  @Test("A client that pauses gets all of the connection's last answer", arguments: ["close", "keep-alive"])
  func pause(_ kind: String) async throws {
    try await serve { served in
      let asking = try await served.asking("/large", "Connection: \(kind)\r\n")
      let connection = try await asking.connection
      #expect(await eventually { connection.progress == .answering })
      try await asking.on { $0.checkTime(.now() + TimeAmount($0.connections.limits.linger) + .seconds(1)) }
      #expect(try asking.client.receive(atMost: Answers.size).get() >= Answers.size)
    }
  }

  @Test("An answer that ends with its connection ends with a reset if it is cut", arguments: ["/endless", "/long"])
  func cut(_ path: String) async throws {
    try await serve { served in
      let asking = try await served.asking(path, version: "1.0")
      if path == "/long" {
        let connection = try await asking.connection
        #expect(await eventually { connection.progress == .answering })
      }
      await served.server.stop(within: .milliseconds(500))
      #expect(asking.client.receive() == .failure(Client.Failure(code: ECONNRESET)))
    }
  }
}

private final class Weak: @unchecked Sendable {
  weak var value: HTTPConnectionHandler?

  init(_ value: HTTPConnectionHandler) { self.value = value }
}
