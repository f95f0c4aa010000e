// Compares the quick reader of answers with the one for all JSON: what it takes is valid and has the same meaning.
import BrokerAPI
@testable import Grantd

let answers = [
  #"{"jsonrpc":"2.0","id":1,"result":{"access_token":"secret","token_type":"Bearer","expires_at":1795833113,"#
    + #""expires_in":3336,"scope":["x","y"],"account":"work","provider":"people","issuer":"https://op.example","#
    + #""generation":7}}"#,
  #"{"jsonrpc":"2.0","id":0,"result":{"access_token":"s","token_type":"DPoP","scope":[],"generation":0}}"#,
]
let pieces = [
  "", "\"", "\\", "\\u0041", "{", "}", "[", "]", ",", ":", "0", "-", "1e3", " ", "null", "\n", "é", "\u{7F}", "x",
  #""generation":7,"#,
]

/// The same numbers in each run (Knuth's MMIX generator).
struct Numbers: RandomNumberGenerator {
  var state: UInt64 = 1
  mutating func next() -> UInt64 {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return state ^ (state >> 33)
  }
}

func quick(_ line: [UInt8], _ id: Int64) -> Token? {
  line.withUnsafeBufferPointer { PlainToken.parse($0, answering: id) }
}

func inGeneral(_ line: [UInt8], _ id: Int64) -> Token? {
  guard line.last == UInt8(ascii: "\n"), let message = try? ServerMessage.parse(line.dropLast()),
    case .reply(.number("\(id)"), .success(let result)) = message
  else { return nil }
  return try? Token(result)
}

func members(_ token: Token) -> [String] {
  [
    token.accessToken, token.account, token.provider, token.issuer ?? "none", token.type, "\(token.scope)",
    "\(token.generation)", "\(token.expiresAt ?? -1)", token.cookie ?? "none", token.sessionID ?? "none",
  ]
}

func changed(_ text: String, by numbers: inout Numbers) -> [UInt8] {
  var bytes = Array(text.utf8)
  for _ in 0..<Int.random(in: 1...3, using: &numbers) {
    let start = Int.random(in: 0..<bytes.count, using: &numbers)
    let most = Int.random(in: 0..<4, using: &numbers) == 0 ? bytes.count - start : min(2, bytes.count - start)
    let end = start + Int.random(in: 0...most, using: &numbers)
    bytes.replaceSubrange(start..<end, with: pieces.randomElement(using: &numbers)!.utf8)
    if bytes.isEmpty { bytes = [UInt8(ascii: "{")] }
  }
  return bytes
}

@main
struct Texts {
  static func main() {
    for (text, id) in zip(answers, [1, 0] as [Int64]) where quick(Array("\(text)\n".utf8), id) == nil {
      print("left to JSON in general: \(text)")
    }
    var (numbers, taken) = (Numbers(), 0)
    for turn in 0..<100_000 {
      let line = changed(answers[turn % answers.count], by: &numbers) + [UInt8(ascii: "\n")]
      let id = Int64(1 - turn % answers.count)
      guard let token = quick(line, id) else { continue }
      taken += 1
      if inGeneral(line, id).map(members) != members(token) {
        print("read differently: \(String(decoding: line, as: UTF8.self))")
      }
    }
    print(taken > 1000 ? "compared" : "only \(taken) texts were taken")
  }
}
