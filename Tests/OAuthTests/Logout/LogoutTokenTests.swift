import Foundation
import Testing

@testable import OAuth

@Suite("Back-channel logout")
struct LogoutTokenTests {
  static let events: JSON = .object([LogoutToken.event: .object([:])])
  static let claims: [String: JSON] = [
    "iss": .string(Tokens.issuer), "aud": .string("client"), "iat": .number("1799999990"),
    "exp": .number("1800000110"), "jti": .string("j"), "events": events, "sub": .string("person-1"),
    "sid": .string("session-1"),
  ]

  func verdict(
    _ changes: [String: JSON?] = [:], header: [String: JSON?] = [:],
    _ checks: LogoutToken.Checks = Signed.checks()
  ) -> LogoutTokenError? {
    let compact = Signed.make(Self.claims, changes, header: header)
    return thrown { () throws(LogoutTokenError) in try LogoutToken.parse(compact).verify(checks, keys: Signed.keys) }
  }

  @Test("56. Back-channel logout: form `logout_token`; signature, iss, aud, iat, exp, events, sub or sid")
  func good() throws {
    let compact = Signed.make(Self.claims, header: ["typ": .string("logout+jwt")])
    let token = try LogoutToken.parse(form: Data("x=1&logout_token=\(compact.exposed)".utf8))
    try token.verify(Signed.checks(), keys: Signed.keys)
    #expect(token.subject == "person-1" && token.sessionID == "session-1")
    #expect(token.identifier == "j" && token.expiresAt.seconds == 1_800_000_110)
  }

  @Test(
    "56. the form has logout_token once",
    arguments: [
      "", "logout_token=", "logout_token=a.b.c&logout_token=a.b.c", "Logout_token=a", "%", "logout_token=%ff",
    ])
  func form(text: String) {
    #expect(throws: LogoutTokenError.noToken) { try LogoutToken.parse(form: Data(text.utf8)) }
    let huge = Data("logout_token=\(String(repeating: "a", count: 128 << 10))".utf8)
    #expect(throws: LogoutTokenError.noToken) { try LogoutToken.parse(form: huge) }
    #expect(throws: LogoutTokenError.noToken) { try LogoutToken.parse(form: Data([0xff])) }
  }

  @Test("56. every flaw of a token", arguments: Signed.common.indices)
  func common(index: Int) {
    let (name, changes, header, error) = Signed.common[index]
    #expect(verdict(changes, header: header) == .token(error), "\(name)")
  }

  @Test("56. each required claim is present", arguments: ["iss", "aud", "iat", "exp", "jti", "events"])
  func missing(claim: String) {
    #expect(verdict([claim: nil]) == .token(.malformed("it has no \(claim)")))
  }

  @Test(
    "56. the event, sub or sid, no nonce, and the type of a logout token",
    arguments: [
      ("sub", nil, nil), ("sid", nil, nil), ("sid", .string(""), nil), ("nonce", .string("n"), .nonce),
      ("nonce", .null, .nonce), ("events", .object([:]), .noEvent), ("events", .array([]), .noEvent),
      ("events", .object([LogoutToken.event: .bool(true)]), .noEvent), ("events", .string("x"), .noEvent),
      ("sub", .number("1"), .token(.malformed("sub is not a string"))),
      ("jti", .string(""), .token(.malformed("jti is not a non-empty string"))),
      ("jti", .number("7"), .token(.malformed("jti is not a string"))),
      ("sid", .bool(true), .token(.malformed("sid is not a string"))),
    ] as [(String, JSON?, LogoutTokenError?)])
  func claims(name: String, value: JSON?, error: LogoutTokenError?) {
    #expect(verdict([name: value]) == error)
  }

  @Test("56. neither sub nor sid is refused; so is another type of token, while older types are taken")
  func types() {
    #expect(verdict(["sub": nil, "sid": nil]) == .neitherSubjectNorSession)
    #expect(verdict(["sub": .string(""), "sid": .null]) == .neitherSubjectNorSession)
    for type in ["JWT", "logout+jwt", "LOGOUT+JWT", "application/logout+jwt"] {
      #expect(verdict(header: ["typ": .string(type)]) == nil)
    }
    #expect(verdict(header: ["typ": .string("at+jwt")]) == .wrongType("at+jwt"))
    let idToken = Tokens.make(["nonce": .string("n")])
    #expect(throws: LogoutTokenError.self) { try LogoutToken.parse(idToken) }
  }
}
