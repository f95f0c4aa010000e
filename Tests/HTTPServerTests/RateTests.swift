import Listening
import NIOCore
import TestSupport
import Testing

@testable import HTTPServer

/// Requests over the rate of their holder. The tests run as root, which has no rate: they set one.
@Suite(.timeLimit(.minutes(5))) struct RateTests {
  private func paced(_ served: Served, _ perSecond: Double) async throws -> Asking {
    let asking = try await served.asking()
    try await asking.on { $0.client.pace = Pace(PaceRates(requests: perSecond, bytes: 1e18), at: .now()) }
    asking.answer()
    return asking
  }

  @Test("requests over the rate wait, and answers from memory are not counted") func waits() async throws {
    try await Served.with { served in
      let asking = try await paced(served, 20)
      let began = ContinuousClock.now
      let free = String(repeating: served.request("/memory"), count: 200)
      asking.client.send(free + served.requests(100) + served.request("/last", "Connection: close\r\n"))
      let answers = asking.client.text().split(separator: "HTTP/1.1 ").count
      let taken = ContinuousClock.now - began
      #expect(answers == 302)
      // After a pause the holder has 80 requests, so 21 take a twentieth of a second each.
      #expect(taken > .milliseconds(900) && taken < .seconds(20))
    }
  }

  @Test("a connection that waits for its rate holds up no stop") func stop() async throws {
    try await Served.with(limits: { $0.stop = .seconds(60) }) { served in
      let asking = try await paced(served, 0.01)
      asking.client.send(served.requests(50))
      try await asking.expect { $0.turn.isPaced }
      let began = ContinuousClock.now
      await served.server.stop()
      #expect(ContinuousClock.now - began < .seconds(30))
      _ = asking.client.text()
    }
  }

  @Test("a connection that closes while it waits for its rate is forgotten") func closes() async throws {
    try await Served.with { served in
      let asking = try await paced(served, 2)
      asking.client.send(served.requests(50))
      try await asking.expect { $0.turn.isPaced }
      try await asking.on { $0.close() }
      #expect(await eventually { !asking.exchange.channel.isActive })
      // The timer of the pace finds a connection that is over.
      try await asking.loop.scheduleTask(in: .milliseconds(700)) {}.futureResult.get()
      #expect(try await asking.on { $0.context == nil })
    }
  }
}
