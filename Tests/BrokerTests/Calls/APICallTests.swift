import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import Providers
import Testing

@testable import Broker

/// The meaning of an answer of a provider's API, for `request.send` and for `/forward`.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct APICallTests {
  enum Meaning { case passed, nonce, stepUp, tokenRefused, refused }

  struct Case: CustomTestStringConvertible {
    var testDescription: String
    var status: Int
    var challenge = ""
    var code = ""
    /// Whether the token has been renewed for the call.
    var isFresh = false
    var collected: Meaning
    var streamed: Meaning
  }

  static let cases: [Case] = [
    Case(testDescription: "success", status: 200, collected: .passed, streamed: .passed),
    Case(testDescription: "a plain 403", status: 403, collected: .passed, streamed: .passed),
    Case(testDescription: "not found", status: 404, collected: .passed, streamed: .passed),
    Case(testDescription: "a fault of the server", status: 500, collected: .passed, streamed: .passed),
    Case(testDescription: "a plain 401", status: 401, collected: .tokenRefused, streamed: .tokenRefused),
    Case(testDescription: "an unknown code", status: 401, code: "x", collected: .tokenRefused, streamed: .tokenRefused),
    Case(testDescription: "a missing permission", status: 401, code: "login", collected: .refused, streamed: .refused),
    Case(testDescription: "a blocked user", status: 401, code: "blocked", collected: .refused, streamed: .refused),
    Case(
      testDescription: "a scope that was not granted, by 401", status: 401,
      challenge: #"Bearer error="insufficient_scope", scope="write""#, collected: .stepUp, streamed: .stepUp),
    Case(
      testDescription: "a scope that was not granted, by 403", status: 403,
      challenge: #"Bearer error="insufficient_scope", scope="write""#, collected: .stepUp, streamed: .stepUp),
    Case(
      testDescription: "a granted scope, by 401", status: 401,
      challenge: #"Bearer error="insufficient_scope", scope="read""#, collected: .passed, streamed: .tokenRefused),
    Case(
      testDescription: "a granted scope, by 403", status: 403,
      challenge: #"Bearer error="insufficient_scope", scope="read""#, collected: .passed, streamed: .passed),
    Case(
      testDescription: "a newer sign-in", status: 401,
      challenge: #"Bearer error="insufficient_user_authentication", max_age="60""#, collected: .stepUp,
      streamed: .stepUp),
    Case(
      testDescription: "a resource's metadata", status: 401,
      challenge: #"Bearer resource_metadata="https://api.example/meta""#, collected: .tokenRefused,
      streamed: .tokenRefused),
    Case(
      testDescription: "a resource's metadata, after a renewal", status: 401,
      challenge: #"Bearer resource_metadata="https://api.example/meta""#, isFresh: true, collected: .tokenRefused,
      streamed: .refused),
  ]

  private func sent() async throws -> (rig: Rig, request: AuthorizedRequest) {
    var settings = ProviderSettings.plain()
    settings.api.errorPath = ["error"]
    settings.api.errors = ["login": .login, "blocked": .blocked]
    let provider = SteppedProvider(settings: settings) {
      $0.apiTraits = APITraits(base: URL(string: "https://api.example/v1/")!)
    }
    let rig = try await Rig(configuration: .plain([provider]))
    _ = await rig.callBack(try await rig.start(), ["state": nil])
    let forward = ForwardRequest(account: "work", method: "GET", target: "/x", host: nil, headers: [])
    let request = try await rig.router.authorize(forward, session: FakeSession(Caller.root)).get()
    return (rig, request)
  }

  @Test("An answer has one meaning", arguments: cases)
  func verdict(_ test: Case) async throws {
    let (rig, sent) = try await sent()
    let calls = rig.broker.tokens.calls
    var call = sent.call
    if test.isFresh { _ = call.renewed.claimToken() }
    let response = HTTPResponse(
      status: test.status, headers: test.challenge.isEmpty ? [] : [.init("WWW-Authenticate", test.challenge)],
      body: Data(#"{"error":"\#(test.code)"}"#.utf8))
    let collected = await call.verdict(on: .collected(response), of: call.question.provider, by: calls)
    let streamed = await call.verdict(
      on: .streamed(response, to: sent.request, unsigned: nil), of: call.question.provider, by: calls)
    #expect(collected.meaning == test.collected)
    #expect(streamed.meaning == test.streamed)
  }

  @Test("A request is signed again with a server's nonce once")
  func nonce() async throws {
    let (rig, sent) = try await sent()
    let calls = rig.broker.tokens.calls
    var call = sent.call
    let answer = APICall.Answer.streamed(HTTPResponse(status: 401), to: sent.request, unsigned: sent.request)
    let first = await call.verdict(on: answer, of: call.question.provider, by: calls)
    call.renewed.nonce = true
    let second = await call.verdict(on: answer, of: call.question.provider, by: calls)
    #expect(first.meaning == .nonce && second.meaning == .tokenRefused)
  }

  @Test("A call's token is renewed once")
  func once() {
    var renewed = APICall.Renewed()
    let tries = [renewed.claimToken(), renewed.claimToken(), renewed.claimToken()]
    #expect(tries == [true, false, false])
  }
}

extension APICall.Verdict {
  fileprivate var meaning: APICallTests.Meaning {
    switch self {
    case .passed: .passed
    case .nonce: .nonce
    case .stepUp: .stepUp
    case .tokenRefused: .tokenRefused
    case .refused: .refused
    }
  }
}
