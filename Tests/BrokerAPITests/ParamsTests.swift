import BrokerAPI
import Testing

@Suite("Parameters")
struct ParamsTests {
  @Test(
    "wrong parameters are refused by name",
    arguments: [
      (#"{"account":"a","scope":["x"]}"#, #"unknown member "scope"; did you mean "scopes"?"#),
      (#"{"acount":"a"}"#, #"unknown member "acount"; did you mean "account"?"#),
      (#"{"account":"a","zzz":1}"#, #"unknown member "zzz""#),
      (#"{}"#, "params.account: missing"),
      (#"{"account":null}"#, "params.account: expected a string, got null"),
      (#"{"account":"a","min_ttl":"30"}"#, "params.min_ttl: expected a number, got a string"),
      (#"{"account":"a","scopes":"x"}"#, "params.scopes: expected an array, got a string"),
      (#"["a"]"#, "params: expected an object, got an array"),
    ])
  func refused(text: String, message: String) throws {
    let params = try JSON.parse(Array(text.utf8))
    let error = #expect(throws: RPCError.self) { try decodeParams(TokenGet.self, from: params) }
    #expect(error?.message == "invalid params: \(message)")
    #expect(error?.code == -32602)
  }

  @Test("right parameters are read; absent ones are none")
  func accepted() throws {
    let params: JSON = ["account": "a", "scopes": ["x"], "timeout": .number("1.5"), "resource": .null]
    #expect(
      try decodeParams(TokenGet.self, from: params) == TokenGet.Params(account: "a", scopes: ["x"], timeout: 1.5))
    #expect(try decodeParams(BrokerStatus.self, from: nil) == NoParams())
    #expect(try decodeParams(BrokerStatus.self, from: .object([])) == NoParams())
    #expect(try decodeParams(AccountList.self, from: nil) == AccountList.Params())
    #expect(throws: RPCError.self) { try decodeParams(BrokerStatus.self, from: ["a": 1]) }
  }

  @Test("an unknown method's error names the one that was meant")
  func unknownMethod() {
    #expect(Methods.notFound("token.gte").hint == "Did you mean `token.get`?")
    #expect(Methods.notFound("accounts.list").hint == "Did you mean `account.list`?")
    #expect(Methods.notFound("x").hint == "`grantctl call rpc.discover` lists the methods.")
    #expect(Methods.notFound(String(repeating: "x", count: 100_000)).message.count < 200)
  }

  @Test(
    "a timeout is 30 s where absent, at most 300 s, and never negative",
    arguments: [
      (nil as Double?, Duration.seconds(30) as Duration?), (0, .zero), (0.25, .milliseconds(250)), (300, .seconds(300)),
      (1e300, .seconds(300)), (.infinity, .seconds(300)), (-1, nil), (-0.001, nil), (.nan, nil),
    ])
  func timeouts(seconds: Double?, expected: Duration?) {
    #expect((try? Timeouts.duration(seconds)) == expected)
  }
}
