import BrokerAPI
import Testing

@testable import grantctl

@Suite("Reading HTTP answers and event streams")
struct ReaderTests {
  /// The bytes arrive in pieces of this size.
  private static func parts(_ text: String, piece: Int) throws -> [AnswerReader.Part] {
    var reader = AnswerReader()
    var parts: [AnswerReader.Part] = []
    let bytes = Array(text.utf8)
    for start in stride(from: 0, to: bytes.count, by: piece) {
      parts += try reader.append(Array(bytes[start..<min(start + piece, bytes.count)]))
    }
    if reader.finish(), parts.last != .end { parts.append(.end) }
    return parts
  }

  private static func body(_ parts: [AnswerReader.Part]) -> String {
    String(decoding: parts.flatMap { if case .body(let bytes) = $0 { bytes } else { [UInt8]() } }, as: UTF8.self)
  }

  static let answers: [(String, status: Int, body: String, isWhole: Bool)] = [
    ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, "abc", true),
    ("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", 200, "abc", false),
    (
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nA: b\r\n\r\n", 200, "abcde",
      true
    ),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", 200, "abc", false),
    ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", 202, "", true),
    ("HTTP/1.1 204 No Content\r\n\r\n", 204, "", true),
    ("HTTP/1.0 200 OK\r\n\r\nto the end", 200, "to the end", true),
  ]

  @Test("An answer is the same in any pieces", arguments: [1, 2, 7, 1000])
  func answers(piece: Int) throws {
    for (text, status, body, isWhole) in Self.answers {
      let parts = try Self.parts(text, piece: piece)
      guard case .head(let head)? = parts.first else {
        Issue.record("no head: \(text)")
        continue
      }
      #expect(head.status == status, "\(text)")
      #expect(Self.body(parts) == body, "\(text)")
      #expect((parts.last == .end) == isWhole, "\(text)")
    }
  }

  @Test(
    "Bytes that are not an answer are refused",
    arguments: [
      "SSH-2.0\r\n\r\n", "HTTP/1.1 x OK\r\n\r\n", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
    ])
  func faults(text: String) { #expect(throws: AnswerReader.Fault.self) { try Self.parts(text, piece: 1000) } }

  @Test("Headers and lines have a limit")
  func limits() {
    #expect(throws: AnswerReader.Fault.self) {
      try Self.parts("HTTP/1.1 200 OK\r\nA: " + String(repeating: "a", count: 70_000), piece: 8192)
    }
    #expect(throws: AnswerReader.Fault.self) {
      let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
      return try Self.parts(head + String(repeating: "0", count: 9000), piece: 1000)
    }
  }

  private static func events(
    _ text: String, piece: Int = 1, longest: Int = 100
  ) throws -> (events: [EventStreamReader.Event], lastID: String?) {
    var reader = EventStreamReader(longest: longest)
    var events: [EventStreamReader.Event] = []
    let bytes = Array(text.utf8)
    for start in stride(from: 0, to: bytes.count, by: piece) {
      events += try reader.append(Array(bytes[start..<min(start + piece, bytes.count)]))
    }
    return (events, reader.lastID)
  }

  @Test("Events with any line ends, comments, ids and several lines of data", arguments: ["\n", "\r\n", "\r"])
  func eventsOfAnyLineEnd(end: String) throws {
    let lines = [
      ": hello", "id: 1", "data:", "", "event: ping", "data: x", "", "data: {\"a\":", "data: 1}", "id: 2", "",
      "retry: 50",
      "", "data: cut off",
    ]
    let found = try Self.events(lines.joined(separator: end) + end)
    #expect(found.events.map { String(decoding: $0.data, as: UTF8.self) } == ["", "x", "{\"a\": 1}"])
    #expect(found.events.map(\.type) == ["message", "ping", "message"])
    #expect(found.lastID == "2")
  }

  @Test("An event and a line that are too long end the stream")
  func tooLong() {
    let long = String(repeating: "a", count: 101)
    #expect(throws: EventStreamReader.TooLong.self) { try Self.events("data: \(long)\n\n") }
    #expect(throws: EventStreamReader.TooLong.self) { try Self.events(String(repeating: "a", count: 200)) }
    #expect(throws: EventStreamReader.TooLong.self) { try Self.events("data: \(long.dropLast(50))\ndata: \(long)\n\n") }
  }

  @Test("A message's kind, version and name")
  func messages() {
    let call = BridgedMessage(
      Array(
        #"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"käse","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#
          .utf8))
    #expect(call.kind == .request(id: 1, method: "tools/call"))
    #expect(call.version == "2026-07-28" && call.name == "käse" && !call.isRepeatable)
    #expect(BridgedMessage.headerValue("käse") == "=?base64?a8Okc2U=?=")
    #expect(BridgedMessage.headerValue("add") == "add")
    #expect(BridgedMessage(Array(#"{"id":"a","result":{}}"#.utf8)).kind == .response(id: "a"))
    #expect(BridgedMessage(Array(#"[{"id":"a","method":"x"}]"#.utf8)).kind == .batch)
    #expect(BridgedMessage(Array(#"{"id":null,"method":"x"}"#.utf8)).kind == .notification(method: "x"))
    #expect(BridgedMessage(Array("{".utf8)).kind == .other)
  }
}
