import ArgumentParser
import BrokerAPI
import BrokerSocket
import Testing

@testable import grantctl
@testable import grantctl_front

/// What the front makes of command lines and answers, beside the full program. Tests/front compares the programs.
@Suite struct FrontTests {
  private static let words = [
    "token", "token", "token", "token", "work", "work", "home", "help", "list", "-", "--", "--as-header", "--user",
    "--user",
    "--system", "--socket", "--socket", "/s", "--socket=/s", "--socket=", "--min-ttl", "--min-ttl=5", "60", "1.5", "-1",
    "--timeout", "--timeout=9", "86401", "--scope", "--scope=a b", "a  b", "--resource", "--resource=https://a/?b=c",
    "--json", "--cookie", "--help", "-h", "", "ä", "--as-header=1", "--as-head", "a\"b",
  ]

  @Test("the front's requests are equal to the parser's, for the same broker")
  func sameRequest() throws {
    var random = Numbers(state: 7)
    var understood = 0
    for _ in 0..<40_000 {
      let count = Int.random(in: 1...7, using: &random)
      let line = (0..<count).map { _ in Self.words.randomElement(using: &random) ?? "" }
      guard let arguments = TokenArguments(line) else { continue }
      understood += 1
      let parsed = try Grantctl.parseAsRoot(GlobalOptions.moved(line))
      let command = try #require(parsed as? TokenCommand, "\(line)")
      let call = OutgoingCall(method: TokenGet.name, params: JSON(encoding: command.params), id: .number("1"))
      #expect(arguments.line == call.line(), "\(line)")
      #expect(arguments.wish == command.options.settings.wish, "\(line)")
      #expect(arguments.isHeader == command.form.asHeader && !command.cookie && !command.options.json, "\(line)")
    }
    #expect(understood > 200)
  }

  private static let answer = """
    {"jsonrpc":"2.0","id":1,"result":{"access_token":"ya29.a0","token_type":"Bearer","kind":"k","cookie":"a=b",\
    "expires_at":1767229199,"expires_in":3599,"scope":["openid"],"account":"work","provider":"google","issuer":"i",\
    "generation":7,"dpop_thumbprint":"t"}}
    """
  private static let pieces = [
    "null", "1", "\"x\"", "[]", "{}", "\"\"", ",", ":", "\\n", "\\u0000", "ä", "1.0", "session_id", "error", "method",
    "access_token", "token_type", "extra", " ", "-", "e5",
  ]

  @Test("the front prints the same output as the full program", arguments: [false, true])
  func sameText(isHeader: Bool) throws {
    var random = Numbers(state: 11)
    let command = try #require(
      try Grantctl.parseAsRoot(["token", "work"] + (isHeader ? ["--as-header"] : [])) as? TokenCommand)
    var (printed, left) = (0, 0)
    for _ in 0..<40_000 {
      let line = Self.changed(using: &random)
      guard let answer = TokenAnswer(line) else {
        left += 1
        continue
      }
      printed += 1
      guard case .reply(.number("1"), .success(let result)) = try ServerMessage.parse(line) else {
        Issue.record("\(String(decoding: line, as: UTF8.self))")
        continue
      }
      let text = try command.text(try MethodResult<TokenGet>(json: result).value())
      #expect(answer.text(isHeader: isHeader) == text + "\n")
    }
    #expect(printed > 500 && left > 1000, "\(printed) printed, \(left) left")
  }

  /// The answer with one to three changes.
  private static func changed(using random: inout Numbers) -> [UInt8] {
    var line = Array(answer.utf8)
    for _ in 0..<Int.random(in: 1...3, using: &random) {
      let start = Int.random(in: 0..<line.count, using: &random)
      let end = min(line.count, start + Int.random(in: 0...20, using: &random))
      switch Int.random(in: 0..<5, using: &random) {
      case 0: line.removeSubrange(start..<end)
      case 1: line.insert(contentsOf: (pieces.randomElement(using: &random) ?? "").utf8, at: start)
      case 2: line.insert(contentsOf: line[start..<end], at: Int.random(in: 0...line.count, using: &random))
      // A value, or a name, for another.
      case 3:
        let texts = String(decoding: line, as: UTF8.self).split(separator: ",", omittingEmptySubsequences: false)
        var parts = texts.map { $0.split(separator: ":", omittingEmptySubsequences: false).map(String.init) }
        let part = Int.random(in: 0..<parts.count, using: &random)
        let half = Int.random(in: 0..<parts[part].count, using: &random)
        parts[part][half] = pieces.randomElement(using: &random) ?? ""
        line = Array(parts.map { $0.joined(separator: ":") }.joined(separator: ",").utf8)
      default: line[start] = UInt8.random(in: 0...255, using: &random)
      }
      if line.isEmpty { line = Array("x".utf8) }
    }
    return line
  }

  @Test(
    "the full program is below the front's prefix, or next to it under its own name",
    arguments: [
      ("/usr/bin/grantctl", "/usr/lib/grantd/grantctl"), ("/opt/a/sbin/grantctl", "/opt/a/lib/grantd/grantctl"),
      ("/grantctl", "/lib/grantd/grantctl"), ("/b/debug/grantctl-front", "/b/debug/grantctl"), ("grantctl", nil),
      (nil, nil),
    ] as [(String?, String?)])
  func places(front: String?, full: String?) {
    #expect(FullProgram.location(of: front) == full)
  }

  @Test("users and desktops get the path of the front, if one exists")
  func ownPath() {
    let table = [
      ("/usr/lib/grantd/grantctl", "/usr/bin/grantctl"), ("/opt/lib/grantd/grantctl", "/opt/lib/grantd/grantctl"),
      ("/b/debug/grantctl", "/b/debug/grantctl"),
    ]
    for (own, told) in table { #expect(ProcessFront.path(of: own) { $0 == "/usr/bin/grantctl" } == told) }
  }
}

/// SplitMix64: the same numbers each time.
private struct Numbers: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = (state ^ (state >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }
}
