import Foundation
import Grants
import OAuth
import Testing

/// The ID token of a grant for callers: released with enough time left, else one refresh or an error, never a loop.
@Suite struct IDTokenAnswerTests {
  private static let reporter = Reporter(uid: 1000)

  /// An ID token of this lifetime, issued at `issued` seconds. Its signature was verified before it was stored.
  private static func token(lifetime: Double, issued: Double = 0) -> Secret {
    func segment(_ text: String) -> String {
      Data(text.utf8).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }
    let (from, to) = (at(issued).seconds, at(issued + lifetime).seconds)
    let claims = #"{"iss":"https://id.example","sub":"ada","aud":"client","iat":\#(from),"exp":\#(to)}"#
    return Secret("\(segment(#"{"alg":"RS256"}"#)).\(segment(claims)).c2ln")
  }

  private static func grant(_ idToken: Secret?, refreshToken: String? = "refresh-1") -> Grant {
    var saved = savedGrant(refreshToken: refreshToken)
    saved.idToken = idToken
    return Grant(saved: saved, token: savedToken(), jitter: 0)
  }

  private static func answer(_ grant: Grant, _ now: Double, minimumTTL: Double? = nil) -> String {
    switch grant.idTokenAnswer(
      minimumTTL: minimumTTL.map { .milliseconds(Int64($0 * 1000)) }, at: at(now), policy: steady, for: reporter)
    {
    case .token: "token"
    case .refresh: "refresh"
    case .lacking(let lack): "\(lack)".prefix { $0 != "(" }.description
    }
  }

  /// A refresh that returns this ID token, or none with a warning.
  private static func refreshed(_ grant: inout Grant, _ idToken: Secret?, warning: String? = nil, at now: Double) {
    var answer = issued(refresh: "refresh-\(now)")
    (answer.idToken, answer.warning) = (idToken, warning)
    grant.refreshed(answer, at: at(now))
  }

  @Test(
    "released with the wanted time left, else a refresh",
    arguments: [
      (now: 0.0, minimumTTL: nil, found: "token"), (3500, nil, "token"), (3580, nil, "refresh"), (4000, nil, "refresh"),
      (0, 3000, "token"), (700, 3000, "refresh"), (0, 7200, "refresh"),
    ] as [(Double, Double?, String)])
  func time(now: Double, minimumTTL: Double?, found: String) {
    #expect(Self.answer(Self.grant(Self.token(lifetime: 3600)), now, minimumTTL: minimumTTL) == found)
  }

  @Test(
    "a refresh that returns no newer one is not repeated for fifteen minutes",
    arguments: [(nil, nil), (nil, "the refreshed ID token was not taken"), (token(lifetime: 3600), nil)]
      as [(Secret?, String?)])
  func noLoop(idToken: Secret?, warning: String?) {
    var grant = Self.grant(Self.token(lifetime: 3600))
    Self.refreshed(&grant, idToken, warning: warning, at: 3000)
    // Without a wish it is released until its end.
    #expect(Self.answer(grant, 3598) == "token" && Self.answer(grant, 3598, minimumTTL: 30) == "notRenewed")
    #expect(Self.answer(grant, 3700) == "notRenewed")
    #expect(Self.answer(grant, 3000 + 899) == "notRenewed")
    #expect(Self.answer(grant, 3000 + 901) == "refresh")
    // A new ID token is released again.
    Self.refreshed(&grant, Self.token(lifetime: 3600, issued: 4000), at: 4000)
    #expect(Self.answer(grant, 4001) == "token")
  }

  @Test("a fresh one that is too short is an error without a refresh")
  func tooShort() {
    var grant = Self.grant(Self.token(lifetime: 60))
    Self.refreshed(&grant, Self.token(lifetime: 60, issued: 10), at: 10)
    #expect(Self.answer(grant, 11, minimumTTL: 300) == "tooShort")
    #expect(Self.answer(grant, 11, minimumTTL: 40) == "token" && Self.answer(grant, 11, minimumTTL: 58) == "token")
    #expect(Self.answer(grant, 14, minimumTTL: 58) == "tooShort")
    #expect(Self.answer(grant, 40, minimumTTL: 40) == "refresh")
    // Expired on arrival.
    Self.refreshed(&grant, Self.token(lifetime: 60, issued: 20), at: 100)
    #expect(Self.answer(grant, 101) == "tooShort")
  }

  @Test("none is released after the provider ended the grant, or to its reporter")
  func ended() {
    var reported = Self.grant(Self.token(lifetime: 3600))
    reported.idTokenReported(by: Self.reporter)
    #expect(Self.answer(reported, 1) == "refresh")
    Self.refreshed(&reported, nil, at: 2)
    #expect(Self.answer(reported, 3) == "notRenewed")
    Self.refreshed(&reported, Self.token(lifetime: 3600, issued: 4), at: 4)
    #expect(Self.answer(reported, 5) == "token")
    var ended = Self.grant(Self.token(lifetime: 3600))
    _ = ended.failed(invalidGrant, at: at(10))
    #expect(Self.answer(ended, 11) == "refresh")
    #expect(Self.answer(Self.grant(nil, refreshToken: nil), 1) == "absent")
    #expect(Self.answer(Self.grant(Self.token(lifetime: 60), refreshToken: nil), 61) == "notRenewable")
    #expect(Self.answer(Self.grant(Secret("eyJh.b.c.d.e")), 1) == "encrypted")
  }

  @Test(
    "a resource and an audience are one text in the stores",
    arguments: [
      ("", nil), ("https://a.example/x", nil), ("audience:x", nil), ("", TokenAudience("api", .parameter)),
      ("https://a.example/", TokenAudience("https://b.example", .exchange)), ("", TokenAudience("c", .idToken)),
    ] as [(String, TokenAudience?)])
  func target(resource: String, audience: TokenAudience?) {
    let key = SavedToken.Key(scope: "a b", resource: resource, audience: audience)
    #expect(SavedToken.Key(scope: "a b", target: key.target) == key)
    #expect(audience != nil || key.target == resource)
  }
}
