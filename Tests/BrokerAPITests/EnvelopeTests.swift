import BrokerAPI
import Foundation
import Testing

@Suite("JSON-RPC 2.0")
struct EnvelopeTests {
  /// The server of the specification's examples (§7).
  private func answer(_ line: String) -> String {
    func reply(_ message: IncomingMessage) -> RPCReply? {
      switch message {
      case .call(let request, let id): RPCReply(id, result(request))
      case .notification: nil
      case .invalid(let id, let error): .failure(id, error)
      }
    }
    let bytes: [UInt8] =
      switch Incoming.parse(Array(line.utf8)) {
      case .single(let message): reply(message)?.line() ?? []
      case .batch(let messages): RPCReply.batchLine(messages.compactMap(reply))
      case .unreadable(let error): RPCReply.failure(.null, error).line()
      }
    return String(decoding: bytes, as: UTF8.self)
  }

  private func result(_ request: RPCRequest) -> Result<JSON, RPCError> {
    let numbers = (request.params?.array ?? []).compactMap(\.integer)
    switch request.method {
    case "subtract":
      let minuend = request.params?["minuend"]?.integer ?? numbers[0]
      let subtrahend = request.params?["subtrahend"]?.integer ?? numbers[1]
      return .success(.integer(minuend - subtrahend))
    case "sum": return .success(.integer(numbers.reduce(0, +)))
    case "get_data": return .success(["hello", 5])
    default: return .failure(.methodNotFound(request.method, nearest: nil))
    }
  }

  /// Messages are ours; the specification fixes the rest.
  private func withoutWords(_ text: String) throws -> JSON? {
    guard !text.isEmpty else { return nil }
    #expect(text.hasSuffix("\n") && text.dropLast().allSatisfy { $0 != "\n" })
    func strip(_ json: JSON) -> JSON {
      switch json {
      case .array(let elements): .array(elements.map(strip))
      case .object(let members) where json["error"] != nil:
        .object(
          members.map {
            $0.name == "error" ? JSON.Member(name: "error", value: $0.value["code"] ?? .null) : $0
          })
      default: json
      }
    }
    return strip(try JSON.parse(Array(text.utf8)))
  }

  @Test(
    "the specification's examples are answered as it says",
    arguments: [
      (
        #"{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}"#,
        #"{"jsonrpc":"2.0","id":1,"result":19}"#
      ),
      (
        #"{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}"#,
        #"{"jsonrpc":"2.0","id":2,"result":-19}"#
      ),
      (
        #"{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}"#,
        #"{"jsonrpc":"2.0","id":3,"result":19}"#
      ),
      (
        #"{"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 42, "subtrahend": 23}, "id": 4}"#,
        #"{"jsonrpc":"2.0","id":4,"result":19}"#
      ),
      (#"{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}"#, ""),
      (#"{"jsonrpc": "2.0", "method": "foobar"}"#, ""),
      (
        #"{"jsonrpc": "2.0", "method": "foobar", "id": "1"}"#, #"{"jsonrpc":"2.0","id":"1","error":-32601}"#
      ),
      (
        #"{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]"#,
        #"{"jsonrpc":"2.0","id":null,"error":-32700}"#
      ),
      (
        #"{"jsonrpc": "2.0", "method": 1, "params": "bar"}"#, #"{"jsonrpc":"2.0","id":null,"error":-32600}"#
      ),
      (
        #"[{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},{"jsonrpc": "2.0", "method"]"#,
        #"{"jsonrpc":"2.0","id":null,"error":-32700}"#
      ),
      ("[]", #"{"jsonrpc":"2.0","id":null,"error":-32600}"#),
      ("[1]", #"[{"jsonrpc":"2.0","id":null,"error":-32600}]"#),
      (
        "[1,2,3]",
        #"[{"jsonrpc":"2.0","id":null,"error":-32600},{"jsonrpc":"2.0","id":null,"error":-32600},{"jsonrpc":"2.0","id":null,"error":-32600}]"#
      ),
      (
        #"[{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},{"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},{"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"},{"foo": "boo"},{"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},{"jsonrpc": "2.0", "method": "get_data", "id": "9"}]"#,
        #"[{"jsonrpc":"2.0","id":"1","result":7},{"jsonrpc":"2.0","id":"2","result":19},{"jsonrpc":"2.0","id":null,"error":-32600},{"jsonrpc":"2.0","id":"5","error":-32601},{"jsonrpc":"2.0","id":"9","result":["hello",5]}]"#
      ),
      (
        #"[{"jsonrpc": "2.0", "method": "notify_sum", "params": [1,2,4]},{"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}]"#,
        ""
      ),
    ])
  func specification(line: String, expected: String) throws {
    let expectedJSON = expected.isEmpty ? nil : try JSON.parse(Array(expected.utf8))
    #expect(try withoutWords(answer(line)) == expectedJSON)
  }

  @Test(
    "an invalid request is refused, with its id if that is readable",
    arguments: [
      (#"{"method":"m","id":1}"#, RPCID.number("1"), "jsonrpc: must be \"2.0\""),
      (#"{"jsonrpc":"1.0","method":"m","id":1}"#, .number("1"), "jsonrpc: must be \"2.0\""),
      (#"{"jsonrpc":2.0,"method":"m","id":1}"#, .number("1"), "jsonrpc: must be \"2.0\""),
      (#"{"jsonrpc":"2.0","id":"a"}"#, .string("a"), "method: missing"),
      (#"{"jsonrpc":"2.0","method":null,"id":null}"#, .null, "method: expected a string, got null"),
      (#"{"jsonrpc":"2.0","method":"m","id":[]}"#, .null, "id: expected a string, a number or null, got an array"),
      (#"{"jsonrpc":"2.0","method":"m","id":true}"#, .null, "id: expected a string, a number or null, got a boolean"),
      (
        #"{"jsonrpc":"2.0","method":"m","params":null,"id":7}"#, .number("7"),
        "params: expected an object or an array, got null"
      ),
      (
        #"{"jsonrpc":"2.0","method":"m","params":"bar"}"#, .null, "params: expected an object or an array, got a string"
      ),
      (#"{"jsonrpc":"2.0","result":1,"id":7}"#, .number("7"), "method: missing"),
      (#""hello""#, .null, "expected an object, got a string"),
    ])
  func invalid(line: String, id: RPCID, message: String) {
    guard case .single(.invalid(let gotID, let error)) = Incoming.parse(Array(line.utf8)) else {
      Issue.record("accepted")
      return
    }
    #expect(gotID == id)
    #expect(error.message == "invalid request: \(message)")
  }

  @Test(
    "ids come back as they were written",
    arguments: ["null", "0", "-7", "1.50", "1e2", "18446744073709551616", #""é\n""#])
  func ids(id: String) {
    let line = #"{"jsonrpc":"2.0","method":"get_data","id":\#(id)}"#
    #expect(answer(line) == #"{"jsonrpc":"2.0","id":\#(id),"result":["hello",5]}"# + "\n")
  }

  @Test("a batch holds 64 requests and no more")
  func batchLimit() {
    func batch(_ count: Int) -> Incoming {
      let members = repeatElement(#"{"jsonrpc":"2.0","method":"m","id":1}"#, count: count).joined(separator: ",")
      return Incoming.parse(Array("[\(members)]".utf8))
    }
    guard case .batch(let messages) = batch(64) else {
      Issue.record("64 refused")
      return
    }
    #expect(messages.count == 64)
    guard case .single(.invalid(.null, let error)) = batch(65) else {
      Issue.record("65 accepted")
      return
    }
    #expect(error.code == -32600)
  }

  @Test(
    "a longer batch is refused as soon as that is known, and nothing of the rest is built",
    arguments: ["1", "[]", "{\"a\":1}", #"{"jsonrpc":"2.0","method":"m"}"#])
  func longBatch(member: String) {
    let members = repeatElement(member, count: Incoming.maximumLine / (member.utf8.count + 1) - 1)
    var values = 0
    // What follows need not be JSON.
    let answer = Incoming.parse(Array("[\(members.joined(separator: ",")),".utf8), values: &values)
    guard case .single(.invalid(.null, let error)) = answer else {
      Issue.record("accepted")
      return
    }
    #expect(error.code == -32600 && error.message.contains("64 requests"))
    #expect(values <= 3 * (Incoming.maximumBatch + 1))
  }

  @Test("a line holds 16384 values, wherever they are, and no more")
  func valueLimit() {
    func line(_ count: Int) -> Incoming {
      // The object, its members and the array are values too.
      let params = repeatElement("1", count: count - 5).joined(separator: ",")
      return Incoming.parse(Array(#"{"jsonrpc":"2.0","id":1,"method":"m","params":[\#(params)]}"#.utf8))
    }
    guard case .single(.call) = line(Incoming.maximumValues) else {
      Issue.record("\(Incoming.maximumValues) refused")
      return
    }
    guard case .single(.invalid(.null, let error)) = line(Incoming.maximumValues + 1) else {
      Issue.record("more accepted")
      return
    }
    #expect(error.code == -32600 && error.message.contains("values"))
  }

  @Test(
    "an error is read from its object unchanged",
    arguments: ErrorReason.allCases.map { RPCError($0, "what happened") } + [
      RPCError(
        .temporarilyUnavailable, "m", hint: "h", retryAfter: 2.5,
        oauth: OAuthDetail(error: "e", error_description: "d", error_uri: "u"), detail: "particulars"),
      .parseError("m"), .invalidRequest("m"), .methodNotFound("m", nearest: "n"), .invalidParams("m"),
      .internalError("m"),
    ])
  func errorRoundTrip(error: RPCError) throws {
    let line = RPCReply.failure(.string("a"), error).line()
    guard case .reply(.string("a"), .failure(let read)) = try ServerMessage.parse(line) else {
      Issue.record("no failure")
      return
    }
    #expect(read == error)
  }

  @Test("an error of a newer broker is still read")
  func foreignError() throws {
    let json: JSON = ["code": -32099, "message": "m", "data": ["reason": "new", "hint": "h", "oauth": 1]]
    let error = try #require(RPCError(json: json))
    #expect(error.reason == nil && error.hint == "h" && error.oauth == nil && error.code == -32099)
    #expect(error.unknownReason == "new" && error.json["data"]?["reason"] == "new")
    #expect(RPCError(json: RPCError(.loginRequired, "m").json)?.unknownReason == nil)
    #expect(RPCError(json: ["code": 1]) == nil)
    #expect(RPCError(json: "no") == nil)
  }

  @Test("codes are distinct and in the range for implementations")
  func codes() {
    let codes = ErrorReason.allCases.map(\.code)
    #expect(Set(codes).count == codes.count)
    #expect(codes.allSatisfy { (-32099 ... -32000).contains($0) })
  }

  @Test("the broker reads every request of a client")
  func outgoing() {
    let call = OutgoingCall(method: "token.get", params: ["account": "work"], id: .number("3"))
    guard case .single(.call(let request, id: .number("3"))) = Incoming.parse(call.line()) else {
      Issue.record("no call")
      return
    }
    #expect(request.method == "token.get" && request.params == ["account": "work"] && !request.isNotification)
    guard case .single(.notification(let request)) = Incoming.parse(OutgoingCall(method: "m", id: nil).line()) else {
      Issue.record("no notification")
      return
    }
    #expect(request.params == nil && request.isNotification)
  }

  @Test("a client reads replies and notifications, and refuses the rest")
  func serverMessages() throws {
    func parse(_ text: String) throws -> ServerMessage { try ServerMessage.parse(Array(text.utf8)) }
    guard case .reply(.number("1"), .success(.null)) = try parse(#"{"jsonrpc":"2.0","id":1,"result":null}"#),
      case .notification("event", ["at": 1]) = try parse(#"{"jsonrpc":"2.0","method":"event","params":{"at":1}}"#)
    else {
      Issue.record("misread")
      return
    }
    for text in [
      "1", #"{"id":1,"result":1}"#, #"{"jsonrpc":"2.0","result":1}"#, #"{"jsonrpc":"2.0","id":1}"#,
      #"{"jsonrpc":"2.0","id":1,"error":{}}"#, #"{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":""}}"#,
    ] {
      #expect(throws: JSONError.self, "\(text)") { try parse(text) }
    }
  }
}
