import BrokerAPI
import TestSupport
import Testing

@testable import UnixSocket

@Suite struct FramingTests {
  /// What a framer with a limit of 32 bytes makes of some reads; `!` stands for a line that is too long.
  private func frames(_ reads: [[UInt8]], stopAfter: Int = .max) -> [String] {
    var framer = LineFramer(limit: 32)
    var frames: [String] = []
    for read in reads {
      func take(_ received: UnsafeRawBufferPointer?) {
        var taken = 0
        framer.consumeLines(of: received) { frame in
          switch frame {
          case .line(let line): frames.append(String(decoding: line, as: UTF8.self))
          case .tooLong: frames.append("!")
          }
          taken += 1
          return taken < stopAfter ? .next : .stop
        }
      }
      read.withUnsafeBytes { take($0) }
      while framer.isStopped { take(nil) }
    }
    return frames
  }

  @Test(
    "a text has the same lines wherever the reads cut it",
    arguments: [
      ("a\nb\n", ["a", "b"]),
      ("\n\n", ["", ""]),
      ("unfinished", []),
      (String(repeating: "x", count: 31) + "\n", [String(repeating: "x", count: 31)]),
      (String(repeating: "x", count: 32) + "\nnext\n", ["!", "next"]),
      (String(repeating: "x", count: 500) + "\nnext\n", ["!", "next"]),
      ("before\n" + String(repeating: "x", count: 500), ["before", "!"]),
      ("a\r\n", ["a\r"]),
    ])
  func aTextHasTheSameLinesWherever(text: String, expected: [String]) {
    let bytes = Array(text.utf8)
    #expect(frames([bytes]) == expected)
    #expect(frames(bytes.map { [$0] }) == expected)
    var random = Seeded(state: 7)
    for round in 0..<50 {
      var reads: [[UInt8]] = []
      var rest = bytes[...]
      while !rest.isEmpty {
        let count = Int.random(in: 1...rest.count, using: &random)
        reads.append(Array(rest.prefix(count)))
        rest = rest.dropFirst(count)
      }
      #expect(frames(reads, stopAfter: 1 + round % 3) == expected)
    }
  }

  @Test("requests split over any reads are each answered") func requestsSplitOverAnyReadsAreEach() async throws {
    try await Served.with { served in
      var random = Seeded(state: 42)
      for _ in 0..<8 {
        let client = try served.client()
        let text = (0..<30).map { $0 % 3 == 0 ? call($0, "echo", #"{"n":\#($0)}"#) : tokenGet($0) }.joined()
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
          let count = min(rest.count, Int.random(in: 1...200, using: &random))
          try await client.send(Array(rest.prefix(count)))
          rest = rest.dropFirst(count)
          await Task.yield()
        }
        var ids: Set<Int64> = []
        for line in try await client.lines(30) {
          let reply = try JSON.parse(Array(line.utf8))
          #expect(reply["error"] == nil)
          ids.insert(reply["id"]?.integer ?? -1)
        }
        #expect(ids == Set(0..<30))
      }
    }
  }

  @Test("a line that is too long is refused once and harms no other") func aLineThatIsTooLongIs() async throws {
    try await Served.with { served in
      let client = try served.client()
      try await client.send(tokenGet(1))
      try await client.send(Array(repeating: UInt8(ascii: "x"), count: 700_000))
      try await client.send("\n" + tokenGet(2))
      let lines = try await client.lines(3)
      #expect(lines[0].contains(#""id":1,"#))
      #expect(lines[1].contains(#""id":null,"error":{"code":-32600"#))
      #expect(lines[1].contains("line longer than 262144 bytes"))
      #expect(lines[2].contains(#""id":2,"#))
    }
  }

  @Test("the longest line is answered") func theLongestLineIsAnswered() async throws {
    try await Served.with { served in
      let client = try served.client()
      let frame = call(1, "echo", #"{"x":""}"#)
      let filler = String(repeating: "y", count: 262_144 - frame.utf8.count)
      let line = call(1, "echo", #"{"x":"\#(filler)"}"#)
      #expect(line.utf8.count == 262_144)
      try await client.send(line)
      #expect(try await client.json()["result"]?["x"]?.string == filler)
    }
  }
}
