import Foundation
import Grants
import OAuth
import Testing

@testable import Providers

@Suite struct ClassificationTests {
  struct Answered: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let response: HTTPResponse
    var permanent: [String] = []
    var temporary: [String] = []
    let meaning: String

    init(_ response: HTTPResponse, permanent: [String] = [], temporary: [String] = [], _ meaning: String) {
      let text = String(decoding: response.body.prefix(40), as: UTF8.self)
      testDescription = "\(response.status) \(text) \(permanent) \(temporary)"
      self.response = response
      self.permanent = permanent
      self.temporary = temporary
      self.meaning = meaning
    }
  }

  static func error(_ code: String, _ status: Int = 400) -> HTTPResponse {
    answer(#"{"error":"\#(code)"}"#, status: status)
  }

  @Test(
    "Only a permanent code ends a grant; our own fault stops the provider; a refused request is not an outage",
    arguments: [
      Answered(error("invalid_grant"), "ended refused"), Answered(error("invalid_grant", 401), "ended refused"),
      Answered(error("invalid_grant", 500), "unclear"), Answered(error("invalid_grant", 503), "unclear"),
      Answered(error("invalid_grant", 200), "ended refused"),
      Answered(error("interaction_required"), "ended refused"), Answered(error("login_required"), "ended refused"),
      Answered(error("consent_required"), "ended refused"),
      Answered(error("account_selection_required"), "ended refused"),
      Answered(error("login_required"), temporary: ["login_required"], "try later"),
      Answered(error("interaction_required", 503), "unclear"),
      Answered(error("invalid_grant", 429), "rate limited"), Answered(error("invalid_grant", 408), "try later"),
      Answered(error("bad_refresh_token"), permanent: ["bad_refresh_token"], "ended refused"),
      Answered(error("bad_refresh_token"), "request refused"),
      Answered(error("invalid_request"), permanent: ["invalid_request"], "ended refused"),
      Answered(error("invalid_request"), "request refused"),
      Answered(
        answer(#"{"error":"invalid_request","error_description":"Gone"}"#, status: 400), permanent: ["Gone"],
        "ended refused"),
      Answered(
        answer(#"{"error":"unauthorized_client","error_description":"The refresh_token is invalid"}"#, status: 403),
        permanent: ["refresh_token is INVALID"], "ended refused"),
      Answered(error("invalid_grant"), temporary: ["invalid_grant"], "try later"),
      Answered(error("invalid_grant", 403), temporary: ["http_403"], "try later"),
      Answered(error("invalid_grant", 400), temporary: ["http_403"], "ended refused"),
      Answered(
        answer(#"{"error":"invalid_grant","error_description":"AADSTS90033: transient"}"#, status: 400),
        permanent: ["invalid_grant"], temporary: ["AADSTS90033"], "try later"),
      Answered(answer("", status: 403, type: ""), permanent: ["http_403"], temporary: ["http_403"], "try later"),
      Answered(error("invalid_client", 401), "misconfigured"), Answered(error("unauthorized_client"), "misconfigured"),
      Answered(error("unsupported_grant_type"), "misconfigured"), Answered(error("invalid_scope"), "misconfigured"),
      Answered(error("invalid_target"), "misconfigured"),
      Answered(error("unauthorized_client"), permanent: ["unauthorized_client"], "ended refused"),
      Answered(error("temporarily_unavailable"), "try later"), Answered(error("server_error"), "try later"),
      Answered(error("slow_down"), "rate limited"), Answered(error("temporarily_unavailable", 503), "unclear"),
      Answered(error("ratelimited", 200), "rate limited"), Answered(error("something_new", 200), "request refused"),
      Answered(error("something_new", 401), "request refused"), Answered(error("something_new", 500), "unclear"),
      Answered(answer("", status: 400, type: ""), "request refused"),
      Answered(answer("{}", status: 401), "request refused"),
      Answered(answer("", status: 400, type: ""), permanent: ["http_400"], "ended refused"),
      Answered(answer("", status: 403, type: ""), permanent: ["http_400"], "request refused"),
      Answered(error("invalid_request"), permanent: ["http_400"], "request refused"),
      Answered(error("server_error"), permanent: ["http_400"], "try later"),
      Answered(answer("<html>", type: "text/html"), "unclear"),
      Answered(answer("<html>", type: "text/html"), permanent: ["http_400"], "unclear"),
      Answered(answer("<html>", status: 502, type: "text/html"), "unclear"),
      Answered(answer("<html>", status: 400, type: "text/html"), "unclear"),
      Answered(answer("<html>", status: 400, type: "text/html"), permanent: ["http_400"], "unclear"),
      Answered(answer("", status: 503, type: ""), permanent: ["http_503"], "unclear"),
      Answered(answer("", status: 429, type: ""), permanent: ["http_429"], "rate limited"),
      Answered(answer("", status: 200, type: ""), permanent: ["http_200"], "unclear"),
      Answered(answer("", status: 429, type: ""), "rate limited"),
      Answered(answer("", status: 408, type: ""), "unclear"),
      Answered(answer("", status: 302, type: ""), "unclear"),
      Answered(answer("", status: 404, type: ""), "request refused"),
      Answered(answer(#"{"access_token":"a"}"#), "taken"), Answered(answer(#"{"access_tok"#), "unclear"),
      Answered(answer(#"{"access_token":"","token_type":"Bearer"}"#), "unclear"),
      Answered(answer(#"{"access_token":"a","token_type":"mac"}"#), "unclear"),
      Answered(answer(#"{"access_token":"a","token_type":"Bearer"}"#, status: 201), "taken"),
      Answered(answer(#"{"access_token":"a","token_type":"mac","refresh_token":"r"}"#), "unclear, rotated"),
      Answered(answer(#"{"refresh_token":"r"}"#, status: 202), "unclear, rotated"),
      Answered(answer(#"{"error":"invalid_grant","refresh_token":"r"}"#), "unclear, rotated"),
      Answered(answer(#"{"error":"invalid_grant","refresh_token":"r"}"#, status: 400), "ended refused"),
    ])
  func refresh(_ answered: Answered) {
    let provider = provider {
      $0.refresh.permanentErrors = answered.permanent.map(ErrorPattern.init)
      $0.refresh.temporaryErrors = answered.temporary.map(ErrorPattern.init)
    }
    var script = Script(answered.response)
    let result = script.run(
      provider.refresh(savedGrant(), token: Secret("refresh-1"), key: SavedToken.Key(), metadata: metadata))
    #expect(name(result) == answered.meaning)
    #expect(script.sent.count == 1)
    #expect(script.asked.isEmpty)
  }

  @Test("The provider's message and its requested delay are kept")
  func details() {
    let body = #"{"error":"invalid_grant","error_description":"Token has been expired or revoked."}"#
    var script = Script(answer(body, status: 400))
    let step = provider().refresh(savedGrant(), token: Secret("refresh-1"), key: SavedToken.Key(), metadata: metadata)
    guard case .failure(let failure) = script.run(step) else {
      Issue.record("taken")
      return
    }
    #expect(failure.oauth == OAuthError(code: .invalidGrant, description: "Token has been expired or revoked."))
    #expect(failure.message.contains("Token has been expired or revoked."))

    let waits = [429, 503].map { status in
      var script = Script(answer("", status: status, headers: [.init("Retry-After", "120")]))
      return script.run(step)
    }
    guard case .failure(.rateLimited(_, _, .seconds(120))) = waits[0],
      case .failure(.unclear(_, .seconds(120))) = waits[1]
    else {
      Issue.record("Retry-After is lost: \(waits)")
      return
    }
  }

  @Test("A failure's text has no secret of the answer in it")
  func noSecrets() {
    for body in [#"{"access_token":"SECRET"}"#, "<html>SECRET</html>", #"{"refresh_token":"SECRET"#] {
      var script = Script(answer(body))
      let step = provider().refresh(savedGrant(), token: Secret("SECRET"), key: SavedToken.Key(), metadata: metadata)
      #expect(!"\(script.run(step))".contains("SECRET"))
    }
  }

  @Test(
    "Metadata of another issuer or URL need an administrator; refusals and outages pass",
    arguments: [
      (answer(#"{"issuer":"https://login.example.com/"}"#), "misconfigured"),
      (answer("", status: 301), "misconfigured"), (answer("", status: 404), "request refused"),
      (answer("", status: 410), "request refused"), (answer("", status: 429), "unclear"),
      (answer("<html>", status: 403, type: "text/html"), "unclear"),
      (answer("", status: 408), "unclear"), (answer("", status: 500), "unclear"),
      (answer("<html>", type: "text/html"), "request refused"), (answer("{}"), "request refused"),
      (answer(#"{"issuer":"https://login.example.com"}"#), "none"),
    ] as [(HTTPResponse, String)])
  func discovery(response: HTTPResponse, meaning: String) {
    let provider = provider()
    #expect(thrown { () throws(ProviderFailure) in try provider.metadata(from: response) } == meaning)
  }
}
