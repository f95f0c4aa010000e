import BrokerAPI
import Foundation
import Testing

@Suite("Types from and to JSON")
struct CodingTests {
  struct Sample: Codable, Equatable {
    var text: String?
    var whole: Int64?
    var small: Int32?
    var number: Double?
    var flag: Bool?
    var list: [String]?
    var map: [String: Int]?
    var state: AccountState?
    var any: JSON?
  }

  @Test(
    "an error names the path, the expected and the actual value",
    arguments: [
      (#"{"number":"30"}"#, "params.number: expected a number, got a string"),
      (#"{"number":1e999}"#, "params.number: expected a finite number, got 1e999"),
      (#"{"whole":1.5}"#, "params.whole: expected an integer, got 1.5"),
      (
        #"{"whole":9223372036854775808}"#,
        "params.whole: expected an integer of at most 64 bits, got 9223372036854775808"
      ),
      (#"{"small":2147483648}"#, "params.small: expected an integer of at most 32 bits, got 2147483648"),
      (#"{"flag":1}"#, "params.flag: expected a boolean, got a number"),
      (#"{"list":["a",{}]}"#, "params.list[1]: expected a string, got an object"),
      (#"{"list":{}}"#, "params.list: expected an array, got an object"),
      (#"{"map":{"a":true}}"#, "params.map.a: expected an integer, got a boolean"),
      (
        #"{"state":"fine"}"#,
        #"params.state: expected one of "ok", "refreshing", "degraded", "login_required", "action_required", got "fine""#
      ),
      (#"[]"#, "params: expected an object, got an array"),
    ])
  func mismatch(text: String, message: String) throws {
    let json = try JSON.parse(text.utf8)
    let error = #expect(throws: ParamsError.self) { try json.decode(Sample.self) }
    #expect(error?.description == message)
  }

  @Test("a missing member is named")
  func missing() throws {
    let error = #expect(throws: ParamsError.self) { try JSON.object([]).decode(TokenGet.Params.self) }
    #expect(error?.description == "params.account: missing")
  }

  @Test("a value survives the way to JSON and back, its integers to the last digit")
  func roundTrip() throws {
    let sample = Sample(
      text: "é\n", whole: .max, small: .min, number: 0.1, flag: false, list: [], map: ["b": 2, "a": 1],
      state: .loginRequired, any: ["x": [1, "y", .null]])
    let text = String(decoding: JSON(encoding: sample).serialized(), as: UTF8.self)
    #expect(
      text
        == #"{"text":"é\n","whole":9223372036854775807,"small":-2147483648,"number":0.1,"flag":false,"list":[],"map":{"a":1,"b":2},"state":"login_required","any":{"x":[1,"y",null]}}"#
    )
    #expect(try JSON.parse(text.utf8).decode(Sample.self) == sample)
    #expect(try JSON(encoding: Sample()).decode(Sample.self) == Sample())
    #expect(JSON(encoding: Sample()) == .object([]))
  }

  @Test("null is absent for an optional member")
  func null() throws {
    #expect(try JSON.parse(#"{"text":null,"list":null}"#.utf8).decode(Sample.self) == Sample(any: nil))
  }

  @Test("numbers are written in their shortest form")
  func doubles() {
    #expect(JSON.double(30) == .number("30"))
    #expect(JSON.double(0.5) == .number("0.5"))
    #expect(JSON.double(.nan) == .null)
    #expect(JSON(encoding: [1.0, -.infinity]) == [1, .null])
  }

  @Test("a secret parameter is a plain string on the wire, and prints nowhere else")
  func secretText() throws {
    let params = AccountImport.Params(account: "work", provider: "google", refresh_token: SecretText("1//secret"))
    let json: JSON = ["account": "work", "provider": "google", "refresh_token": "1//secret"]
    #expect(JSON(encoding: params) == json)
    #expect(try json.decode(AccountImport.Params.self) == params)
    var dumped = ""
    dump(params, to: &dumped)
    for text in ["\(params)", "\(params.refresh_token)", String(reflecting: params), dumped] {
      #expect(!text.contains("secret") && text.contains("‹redacted›"))
    }
    let registration = ProviderRegister.Params(
      issuer: "https://a", initial_access_token: SecretText("iat-secret"), client_secret: SecretText("cs-secret"))
    #expect(!"\(registration)".contains("-secret"))
    let proof = DPoPProof.Params(account: "a", method: "GET", url: "https://a", access_token: SecretText("at-secret"))
    #expect(!"\(proof)".contains("at-secret"))
  }

  @Test("the claims of a provider are only an object")
  func claims() throws {
    let json: JSON = ["active": true, "claims": ["aud": ["a"], "exp": 1_767_229_199]]
    #expect(JSON(encoding: try json.decode(TokenIntrospect.Result.self)) == json)
    let wrong: JSON = ["claims": ["sub"]]
    let error = #expect(throws: ParamsError.self) { try wrong.decode(AccountUserinfo.Result.self, root: "result") }
    #expect(error?.description == "result.claims: expected an object, got an array")
  }

  @Test("other coders, which lose digits, are refused")
  func foundation() throws {
    let json: JSON = ["a": [1, true, .null, "x", .number("0.5")]]
    #expect(throws: EncodingError.self) { try JSONEncoder().encode(json) }
    #expect(throws: DecodingError.self) { try JSONDecoder().decode(JSON.self, from: Data("[]".utf8)) }
    #expect(JSON(encoding: [json]) == [json])
    #expect(try JSON.array([json]).decode([JSON].self) == [json])
  }
}
