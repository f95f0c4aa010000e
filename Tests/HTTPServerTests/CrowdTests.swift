import Dispatch
import Glibc
import NIOCore
import NIOPosix
import Synchronization
import TestSupport
import Testing

@testable import HTTPServer

/// Clients that send many requests, read no answers, or end their side early.
// Alone: its answers have a limit of two seconds.
@Suite(.timeLimit(.minutes(5)), .serialized) struct CrowdTests {
  /// Sends requests until the server reads no more of them.
  private func fill(_ asking: Asking, _ served: Served) async throws {
    let many = Array(served.requests(2000).utf8)
    asking.answer()
    try await asking.expect { handler in
      while let count = asking.client.offer(many), count == many.count {}
      return handler.flow.unwritten > 0 && handler.context?.channel.isWritable == false
    }
  }

  @Test("A client that does not read its answers is not read, and is disconnected after the time for a stall")
  func unread() async throws {
    try await Served.with { served in
      let asking = try await served.asking()
      try await fill(asking, served)
      var sent = 0
      let many = Array(served.requests(2000).utf8)
      #expect(
        await eventually {
          let count = asking.client.offer(many)
          sent += count ?? 0
          return count == 0
        })
      #expect(sent < 16 << 20)
      try await asking.on { $0.checkTime(.now() + TimeAmount($0.connections.limits.stall)) }
      #expect(await eventually { !asking.exchange.channel.isActive })
    }
  }

  @Test("Pipelined requests of one user do not delay other connections")
  func crowd() async throws {
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
    try await Served.with(on: group) { served in
      let many = Array(String(repeating: served.request("/none"), count: 2000).utf8)
      let clients = try (0..<100).map { _ in try served.client() }
      let isOver = Mutex(false)
      let answered = Mutex(0)
      let flood = DispatchWorkItem {
        var (offsets, part) = (clients.map { _ in 0 }, [UInt8](repeating: 0, count: 1 << 20))
        while !isOver.withLock({ $0 }) {
          for (index, client) in clients.enumerated() {
            offsets[index] = (offsets[index] + (client.offer(many[offsets[index]...]) ?? 0)) % many.count
            while case let count = recv(client.descriptor, &part, part.count, Int32(MSG_DONTWAIT)), count > 0 {
              answered.withLock { $0 += count }
            }
          }
        }
      }
      DispatchQueue(label: "flood").async(execute: flood)
      #expect(await eventually { answered.withLock { $0 } > 1 << 20 })
      var times: [Duration] = []
      for _ in 0..<40 {
        let begun = ContinuousClock.now
        let answer = try exchange(served.request("/zero", "Connection: close\r\n"), with: served.address)
        #expect(answer.hasPrefix("HTTP/1.1 200 OK"))
        times.append(ContinuousClock.now - begun)
      }
      isOver.withLock { $0 = true }
      flood.wait()
      // Behind all that the hundred have sent it would be many seconds. Some may have met a pause of this machine.
      #expect(times.sorted()[30] < .seconds(2), "\(times.sorted())")
    }
    try await group.shutdownGracefully()
  }

  @Test("Pipelined requests are answered in their order")
  func pipelined() async throws {
    try await Served.with { served in
      let last = served.request("/zero", "Connection: close\r\n")
      let answer = try exchange(served.requests(3000) + last, with: served.address)
      let numbers = answer.split(separator: "number-").dropFirst().compactMap { Int($0.prefix { $0.isNumber }) }
      #expect(numbers == Array(1...3000))
    }
  }

  @Test("All requests from before a half-close are answered")
  func askedBeforeEnd() async throws {
    try await Served.with { served in
      let asking = try await served.asking()
      asking.client.send(served.requests(200))
      asking.client.endSide()
      try await asking.expect { $0.state.hasInputEnded }
      asking.answer()
      #expect(asking.client.text().answers == 201)
    }
  }

  @Test(
    "An incomplete request and a half-close behind a request do not affect its answer",
    arguments: ["\r\n", "GET /", "POST"])
  func halfBehindAnswer(_ half: String) async throws {
    try await Served.with { served in
      let asking = try await served.asking()
      asking.client.send(served.half(half))
      try await asking.expect { $0.hasMore }
      asking.client.endSide()
      try await asking.expect { $0.state.hasInputEnded }
      asking.answer()
      let answer = asking.client.text()
      #expect(answer.hasPrefix("HTTP/1.1 200 OK") && answer.hasSuffix("late"))
    }
  }

  @Test("A half-close within a chunked body is noticed at any chunk", arguments: 50...60)
  func endBehindChunks(_ chunks: Int) async throws {
    try await Served.with { served in
      let client = try served.client()
      let head = served.request("/whole", "Transfer-Encoding: chunked\r\n", method: "POST")
      client.send(head + String(repeating: "0000000001\r\nx\r\n", count: chunks))
      client.endSide()
      let begun = ContinuousClock.now
      _ = client.receive()
      // Unnoticed, it would end with the time for a stall.
      #expect(ContinuousClock.now - begun < .seconds(25))
    }
  }

  @Test("A stalled body is answered, and the connection is closed although the client keeps it open")
  func stalledBody() async throws {
    try await Served.with { served in
      let asking = try await served.asking("/body", "Content-Length: 5\r\n")
      asking.client.send("ab")
      try await asking.expect { $0.state.body?.left == 3 }
      try await asking.on { $0.checkTime(.now() + TimeAmount($0.connections.limits.stall)) }
      try await asking.expect { $0.state.isSent }
      try await asking.on { $0.checkTime(.now() + TimeAmount($0.connections.limits.linger)) }
      #expect(await eventually { !asking.exchange.channel.isActive })
      #expect(asking.client.text().hasPrefix("HTTP/1.1 408"))
    }
  }

  @Test("Invalid chunks are answered with 400, which the client can read although it sent more")
  func brokenChunks() async throws {
    try await Served.with { served in
      let asking = try await served.asking("/body", "Transfer-Encoding: chunked\r\n")
      asking.client.send("1\r\na\r\n")
      asking.client.send("zz\r\n" + String(repeating: "x", count: 200_000))
      try await asking.expect { $0.state.isSent }
      asking.client.endSide()
      #expect(asking.client.text().hasPrefix("HTTP/1.1 400"))
    }
  }

  @Test(
    "A body of a request that must have none is refused at once",
    arguments: ["Content-Length: 1", "Transfer-Encoding: chunked"])
  func noBody(_ header: String) async throws {
    try await Served.with { served in
      let begun = ContinuousClock.now
      let answer = try exchange(served.request("/zero", "\(header)\r\n"), with: served.address)
      // A body that is awaited has the time for a stall.
      #expect(answer.hasPrefix("HTTP/1.1 413") && ContinuousClock.now - begun < .seconds(25))
    }
  }
}
