import BrokerAPI
import TestSupport
import Testing

@Suite("The hand scan of token.get")
struct PlainTokenGetTests {
  private func scan(_ bytes: [UInt8]) -> PlainTokenGet? { bytes.withUnsafeBytes { PlainTokenGet.scan($0) } }

  @Test(
    "plain requests are recognised",
    arguments: [
      (#"{"jsonrpc":"2.0","id":1,"method":"token.get","params":{"account":"work"}}"#, "1", "work", nil as Int64?),
      (
        "  { \"params\" : {\t\"min_ttl\" : 120 , \"account\":\"a.b_c@d+e-F9\" } ,\r\n\"id\":\"x y\",\"method\":\"token.get\",\"jsonrpc\":\"2.0\"}\n",
        "\"x y\"", "a.b_c@d+e-F9", 120
      ),
      (
        #"{"jsonrpc":"2.0","id":-0,"method":"token.get","params":{"account":"w","min_ttl":0}}"#, "-0", "w", 0
      ),
      (
        #"{"jsonrpc":"2.0","id":"","method":"token.get","params":{"account":"w","min_ttl":999999999999999}}"#, "\"\"",
        "w", 999_999_999_999_999
      ),
    ])
  func plain(line: String, id: String, account: String, minTTL: Int64?) throws {
    let bytes = Array(line.utf8)
    let found = try #require(scan(bytes))
    #expect(String(decoding: bytes[found.id], as: UTF8.self) == id)
    #expect(String(decoding: bytes[found.account], as: UTF8.self) == account)
    #expect(found.minTTL == minTTL)
  }

  @Test("a list of scopes has a bound, spaces included", arguments: [(2000, true), (2100, false)])
  func longScopes(spaces: Int, isPlain: Bool) {
    let scopes = "[" + String(repeating: " ", count: spaces) + "\"mail\"]"
    let line = #"{"jsonrpc":"2.0","id":1,"method":"token.get","params":{"account":"a","scopes":\#(scopes)}}"#
    #expect((scan(Array(line.utf8)) != nil) == isPlain)
  }

  @Test(
    "anything else takes the full road",
    arguments: [
      "", "{}", #"[{"jsonrpc":"2.0","id":1,"method":"token.get","params":{"account":"work"}}]"#,
      #"{"jsonrpc":"2.0","method":"token.get","params":{"account":"work"}}"#,
      #"{"jsonrpc":"2.0","id":null,"method":"token.get","params":{"account":"work"}}"#,
      #"{"jsonrpc":"2.0","id":1.5,"method":"token.get","params":{"account":"work"}}"#,
      #"{"jsonrpc":"2.0","id":01,"method":"token.get","params":{"account":"work"}}"#,
      #"{"jsonrpc":"2.0","id":1,"method":"token.gets","params":{"account":"work"}}"#,
      #"{"jsonrpc":"2.0","id":1,"method":"token\u002eget","params":{"account":"work"}}"#,
      #"{"jsonrpc":"2.0","id":1,"method":"token.get","params":{}}"#,
      #"{"jsonrpc":"2.0","id":1,"method":"token.get","params":["work"]}"#,
      #"{"jsonrpc":"2.0","id":1,"method":"token.get","params":{"account":""}}"#,
      #"{"jsonrpc":"2.0","id":1,"method":"token.get","params":{"account":"a b"}}"#,
      #"{"jsonrpc":"2.0","id":1,"method":"token.get","params":{"account":"a","account":"b"}}"#,
      #"{"jsonrpc":"2.0","id":1,"method":"token.get","params":{"account":"a","timeout":-1}}"#,
      #"{"jsonrpc":"2.0","id":1,"method":"token.get","params":{"account":"a","timeout":null}}"#,
      #"{"jsonrpc":"2.0","id":1,"method":"token.get","params":{"account":"a","scopes":["a b"]}}"#,
      #"{"jsonrpc":"2.0","id":1,"method":"token.get","params":{"account":"a","scopes":[""]}}"#,
      #"{"jsonrpc":"2.0","id":1,"method":"token.get","params":{"account":"a","scopes":["a",]}}"#,
      #"{"jsonrpc":"2.0","id":1,"method":"token.get","params":{"account":"a","scopes":"a"}}"#,
      #"{"jsonrpc":"2.0","id":1,"method":"token.get","params":{"account":"a","resource":"https://a.example/"}}"#,
      #"{"jsonrpc":"2.0","id":1,"method":"token.get","params":{"account":"a","min_ttl":-1}}"#,
      #"{"jsonrpc":"2.0","id":1,"method":"token.get","params":{"account":"a","min_ttl":1.0}}"#,
      #"{"jsonrpc":"2.0","id":1,"method":"token.get","params":{"account":"a","min_ttl":1000000000000000}}"#,
      #"{"jsonrpc":"2.0","id":1,"id":2,"method":"token.get","params":{"account":"a"}}"#,
      #"{"jsonrpc":"2.0","id":1,"method":"token.get","params":{"account":"a"},"x":1}"#,
      #"{"jsonrpc":"2.0","id":1,"method":"token.get","params":{"account":"a"}} {}"#,
      #"{"jsonrpc":"2.0","id":1,"method":"token.get","params":{"account":"a"},}"#,
      #"{"jsonrpc":"1.0","id":1,"method":"token.get","params":{"account":"a"}}"#,
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"token.get\",\"params\":{\"account\":\"a\"}}\u{0}",
      #"{"jsonrpc":"2.0","id":"\#(String(repeating: "i", count: 65))","method":"token.get","params":{"account":"a"}}"#,
      #"{"jsonrpc":"2.0","id":1,"method":"token.get","params":{"account":"\#(String(repeating: "a", count: 129))"}}"#,
    ])
  func other(line: String) {
    #expect(scan(Array(line.utf8)) == nil)
  }

  @Test("texts that the scan accepts are parsed with the same meaning")
  func agreement() throws {
    var random = SeededGenerator(seed: 20)
    var accepted = 0
    for _ in 0..<45_000 {
      var line = generated(&random)
      for _ in 0..<max(0, Int.random(in: -2...2, using: &random)) { mutate(&line, &random) }
      guard let found = scan(line) else { continue }
      accepted += 1
      guard case .single(.call(let request, let id)) = Incoming.parse(line), request.method == "token.get" else {
        Issue.record("the parser refuses \(String(decoding: line, as: UTF8.self))")
        continue
      }
      #expect(id.json.serialized() == Array(line[found.id]))
      let params = try decodeParams(TokenGet.self, from: request.params)
      #expect(params.account == String(decoding: line[found.account], as: UTF8.self))
      let scopes = try found.scopes.map { try JSON.parse(Array(line[$0])).decode([String].self) }
      #expect(
        params
          == TokenGet.Params(
            account: params.account, scopes: scopes, min_ttl: found.minTTL.map { Double($0) },
            timeout: found.timeout.map { Double($0) }))
    }
    #expect(accepted > 3_000, "the generator makes too few plain lines: \(accepted)")
  }

  private func generated(_ random: inout SeededGenerator) -> [UInt8] {
    func space() -> String { ["", "", "", " ", "\t", "\r\n "].randomElement(using: &random) ?? "" }
    func pick(_ values: [String]) -> String { values.randomElement(using: &random) ?? "" }
    func object(_ members: [String]) -> String {
      space() + "{" + members.shuffled(using: &random).map { space() + $0 + space() }.joined(separator: ",") + "}"
    }
    var params = [
      #""account""# + space() + ":" + space()
        + pick([#""work""#, #""a@b.c""#, #""x+1""#, #""w-2_3""#, #""ä""#, #""a/b""#])
    ]
    if Bool.random(using: &random) {
      params.append(
        #""min_ttl":"# + space() + pick(["0", "60", "86400", "120", "30", "1.5", "-1", "1e3", #""60""#, "null"]))
    }
    if Int.random(in: 0..<4, using: &random) == 0 {
      params.append(#""timeout":"# + pick(["5", "0", "1e9", "-1", "9"]))
    }
    if Int.random(in: 0..<4, using: &random) == 0 {
      params.append(
        #""scopes":"# + space()
          + pick([
            "[]", "[ ]", #"["a"]"#, #"["c"]"#, #"["d","e"]"#, #"["a","b","c"]"#, #"[ "a" , "b/c" ]"#, #"["a b"]"#,
            #"[""]"#, #"["a",]"#, #"["ä"]"#, "null",
          ]))
    }
    var members = [
      #""jsonrpc":"# + space() + #""2.0""#,
      #""method":"# + space() + pick([#""token.get""#, #""token.get""#, #""token.get""#, #""token.put""#]),
      #""params":"# + object(params),
    ]
    if Int.random(in: 0..<8, using: &random) > 0 {
      members.append(#""id":"# + space() + pick(["1", "-20", "0", #""a-1""#, #""\n""#, "null", "1.0"]))
    }
    return Array((object(members) + space()).utf8)
  }

  private func mutate(_ line: inout [UInt8], _ random: inout SeededGenerator) {
    let at = Int.random(in: 0..<max(line.count, 1), using: &random)
    guard at < line.count else { return }
    switch Int.random(in: 0..<5, using: &random) {
    case 0: line[at] = .random(in: 0...255, using: &random)
    case 1: line.remove(at: at)
    case 2: line.insert(line[at], at: at)
    case 3: line[at] = Array(#"{}[]",:\0 "#.utf8).randomElement(using: &random) ?? 0
    default:
      let end = min(line.count, at + Int.random(in: 1...20, using: &random))
      line.insert(contentsOf: line[at..<end], at: at)
    }
  }
}
