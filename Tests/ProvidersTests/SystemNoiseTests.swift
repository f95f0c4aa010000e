import Foundation
import Grants
import OAuth
import Testing

@testable import Providers

@Suite("VMS and Zephr, for every answer of the server")
struct SystemNoiseTests {
  /// Repeatable noise (SplitMix64).
  struct Noise: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
      state &+= 0x9E37_79B9_7F4A_7C15
      var value = state
      value = (value ^ value >> 30) &* 0xBF58_476D_1CE4_E5B9
      value = (value ^ value >> 27) &* 0x94D0_49BB_1331_11EB
      return value ^ value >> 31
    }

    mutating func pick<Value>(_ values: [Value]) -> Value { values[Int.random(in: 0..<values.count, using: &self)] }

    static let names = [
      "id", "user", "access_token", "token", "key", "sessions", "sessions_limit", "last", "online", "is_current", "url",
      "is_external_auth_enabled", "available_locales", "version", "errors", "message", "cookie", "tracking_id",
      "user_id",
      "email", "name", "login", "permissions", "identifiers", "email_address",
    ]
    static let texts = [
      "\"\"", "\"x\"", "\"\\u001b[31m\\u202e\"", "\"https://a.example/\"", "\"blaize_session=s-1; Max-Age=9\"",
      "\"2026-11-21T10:00:00Z\"", "\"blaize_session=a b\"",
      "\"blaize_session=s; Expires=Fri, 15 Jan 9999 08:01:00 GMT\"",
    ]
    static let words = ["null", "true", "false", "0", "-1", "7", "1e999", "99999999999999999999999", "0.5"]

    mutating func value(_ depth: Int = 0) -> String {
      switch Int.random(in: 0..<(depth > 3 ? 2 : 5), using: &self) {
      case 0: return pick(Self.words)
      case 1: return pick(Self.texts)
      case 2:
        return "[" + (0..<Int.random(in: 0..<4, using: &self)).map { _ in value(depth + 1) }.joined(separator: ",")
          + "]"
      default:
        let names = Set((0..<Int.random(in: 0..<6, using: &self)).map { _ in pick(Self.names) }).sorted()
        return "{" + names.map { "\"\($0)\":\(value(depth + 1))" }.joined(separator: ",") + "}"
      }
    }

    mutating func response() -> HTTPResponse {
      let status = pick([200, 200, 200, 201, 204, 301, 302, 400, 401, 403, 404, 409, 419, 419, 422, 429, 500, 503, 999])
      var body = value()
      if Int.random(in: 0..<10, using: &self) == 0 { body = String(body.dropLast()) }
      var headers: [HTTPRequest.Header] = [.init("Content-Type", pick(["application/json", "text/html", ""]))]
      if Bool.random(using: &self) {
        headers.append(.init("Location", pick(["", "/a b", "https://a.example/", "::"])))
      }
      if Bool.random(using: &self) {
        headers.append(
          .init("Set-Cookie", pick(["blaize_session=s-2; Max-Age=-1", "blaize_session=s-3", ";=;", "a=b"])))
      }
      headers.append(.init("Retry-After", pick(["x", "5", "99999999999999999999"])))
      return HTTPResponse(status: status, headers: headers, body: Data(body.utf8))
    }
  }

  /// Leads a conversation with noise to its end, which is never far.
  private func talk<Value: Sendable>(
    _ first: Step<Value>, _ noise: inout Noise
  ) -> (end: Result<Value, ProviderFailure>, requests: Int) {
    var step = first
    for count in 0..<8 {
      switch step {
      case .done(let value): return (.success(value), count)
      case .failed(let failure): return (.failure(failure), count)
      case .send(_, let then): step = then(noise.response(), start)
      case .attempt(_, let then):
        step = then(Bool.random(using: &noise) ? .success(noise.response()) : .failure(.lost(message: "")), start)
      case .keys: break
      }
    }
    Issue.record("it does not end")
    return (.failure(.lost(message: "")), 8)
  }

  private func check(_ failure: ProviderFailure) {
    let texts =
      if case .rejected(let rejection) = failure {
        [rejection.message] + rejection.fields.flatMap { [$0.key] + $0.value }
      } else { [failure.message] }
    for text in texts {
      #expect(
        text.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control && $0 != "\u{202e}" }, "\(text)")
      #expect(text.utf8.count < 2500)
    }
  }

  private func check(_ answer: LoginAnswer) {
    switch answer {
    case .code: Issue.record("a code for a code")
    case .issued(let issued):
      #expect(!issued.tokens.accessToken.isEmpty)
      #expect(issued.identity?.subject.isEmpty != true)
      #expect(JSON(message: issued.tokens.extra)?.dictionary != nil)
      guard issued.tokens.tokenType == SavedToken.session else {
        #expect(issued.identity != nil)
        return
      }
      #expect(Cookies.isValue(issued.tokens.accessToken.exposed))
      #expect(issued.tokens.expiresIn.map { $0 > .zero && $0 <= .seconds(3650 * 86_400) } ?? true)
    case .action(.sessionLimit(_, let sessions), let memory):
      #expect(sessions.allSatisfy { !$0.id.isEmpty } && (!sessions.isEmpty || memory["key"] != nil))
      #expect(memory["key"] != nil || memory["code"] != nil)
    case .action(.registration, let memory): #expect(memory["state_key"] != nil)
    }
  }

  @Test("Every conversation ends, and its result can be used and shown", arguments: 0..<8)
  func noise(seed: Int) {
    var noise = Noise(state: UInt64(seed) &* 7919 &+ 1)
    let (cameras, news) = (vms { $0.replacing = noise.pick([nil, .oldest, .offline]) }, zephr())
    let success = ReturnedAddress("news://auth?status=success&session_id=s-1")
    for _ in 0..<50 {
      for place in [
        talk(cameras.authorization(loginRequest(), metadata: noMetadata), &noise).end,
        talk(news.authorization(loginRequest("news://auth", idp: "google"), metadata: noMetadata), &noise).end,
      ] {
        switch place {
        case .success(let place): #expect(place.url.scheme == "https")
        case .failure(let failure): check(failure)
        }
      }
      let answers = [
        talk(cameras.exchange(code: Secret("c"), login: systemLogin(), metadata: noMetadata), &noise).end,
        talk(cameras.resume(systemLogin(["key": "k"]), with: .session("1"), metadata: noMetadata), &noise).end,
        talk(
          news.resume(
            systemLogin(["state_key": "k"]), with: .attributes(Data("{}".utf8)), metadata: noMetadata), &noise
        ).end,
      ]
      for answer in answers {
        switch answer {
        case .success(let answer): check(answer)
        case .failure(let failure): check(failure)
        }
      }
      let callback = talk(
        news.answer(to: success, login: systemLogin([:], redirect: "news://auth"), metadata: noMetadata), &noise)
      if case .success(.success(let answer)) = callback.end { check(answer) }
      _ = cameras.examine(noise.response())
      _ = news.examine(noise.response())
      let sessions = talk(
        cameras.sessions(of: VMSSessionTests.grant, token: VMSSessionTests.token, metadata: noMetadata), &noise)
      if case .failure(let failure) = sessions.end { check(failure) }
    }
  }
}
