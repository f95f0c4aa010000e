import Foundation
import Grants
import OAuth
import Testing

@testable import Providers

@Suite("VMS, row by row: sessions, and the end")
struct VMSSessionTests {
  static let signedIn = VMSProviderTests.signedIn

  /// Too many sessions, as the server says it.
  static func limit(_ sessions: String = one, key: String? = "key-1", limit: Int? = 2) -> HTTPResponse {
    let more = (key.map { ",\"key\":\"\($0)\"" } ?? "") + (limit.map { ",\"sessions_limit\":\($0)" } ?? "")
    return answer("{\"sessions\":[\(sessions)]\(more),\"captcha_will_required_in\":3}", status: 419)
  }

  static let one =
    #"{"id":101,"user_agent":"Web","online":true,"client":"web","ip":"10.0.0.1","is_current":false,"last":"2026-11-01"}"#

  private static func exchange(
    _ provider: VMSProvider, _ answers: HTTPResponse...
  ) -> (Result<LoginAnswer, ProviderFailure>, Conversation) {
    var talk = Conversation(answers.map { .success($0) })
    let result = talk.run(provider.exchange(code: Secret("code-1"), login: systemLogin(), metadata: noMetadata))
    return (result, talk)
  }

  @Test("session limit: the login waits with the sessions, and with the key instead of the code")
  func action() throws {
    let (result, talk) = Self.exchange(vms(), Self.limit())
    let (action, memory) = try #require(result.action)
    let session = ProviderSession(
      id: "101", userAgent: "Web", client: "web", address: "10.0.0.1", isOnline: true, isCurrent: false,
      lastUsed: "2026-11-01")
    #expect(action == .sessionLimit(limit: 2, sessions: [session]))
    #expect(memory == ["device_uuid": deviceID, "key": "key-1", "session_numbers": "true"])
    #expect(talk.sent.count == 1)
  }

  @Test("session limit: a bare list of sessions has no key, and the code is remembered")
  func bareList() throws {
    let (result, _) = Self.exchange(vms(), answer(#"[{"id":"s-1"},{"client":"no id"}]"#, status: 419))
    let (action, memory) = try #require(result.action)
    #expect(action == .sessionLimit(limit: nil, sessions: [ProviderSession(id: "s-1")]))
    #expect(memory == ["device_uuid": deviceID, "code": "code-1"])
  }

  @Test(
    "session limit: without a session there is no choice, and the login ends", arguments: ["[]", "{}", "no"])
  func nothingToChoose(body: String) {
    #expect(Self.exchange(vms(), answer(body, status: 419)).0.failure.map(name) == "denied")
  }

  @Test("session limit: with a key but no session, the login waits and can continue with the key")
  func keyAlone() throws {
    let (result, _) = Self.exchange(vms(), answer(#"{"sessions_limit":2,"sessions":[],"key":"k"}"#, status: 419))
    let (action, memory) = try #require(result.action)
    #expect(action == .sessionLimit(limit: 2, sessions: []) && memory["key"] == "k")
  }

  @Test("session limit: a key that is the code itself, taken out of the answer as an echo, is the code")
  func echoedCode() throws {
    let (result, _) = Self.exchange(vms(), Self.limit(key: HTTPResponse.redacted))
    #expect(try #require(result.action).memory["code"] == "code-1")
  }

  @Test("replace: the key precedes the code, and the session's id is sent unchanged")
  func replace() {
    let cases: [(memory: [String: String], sent: String)] = [
      (["key": "key-1", "session_numbers": "true"], #"{"key":"key-1","session_id":101}"#),
      (["key": "key-1", "code": "code-1"], #"{"key":"key-1","session_id":"101"}"#),
      (["code": "code-1"], #"{"code":"code-1","session_id":"101"}"#),
    ]
    for (memory, sent) in cases {
      var talk = Conversation(Self.signedIn)
      let step = vms().resume(systemLogin(memory), with: .session("101"), metadata: noMetadata)
      #expect(talk.run(step).issued != nil)
      #expect(talk.lines == ["POST /api/v1/external/auth/callback \(sent)"])
    }
  }

  @Test("replace: the limit again means another choice, with the new key, or with the old one where none came")
  func again() throws {
    for (answer, key) in [(Self.limit(key: "key-2"), "key-2"), (Self.limit(key: nil), "key-1")] {
      var talk = Conversation(answer)
      let login = systemLogin(["device_uuid": deviceID, "key": "key-1"])
      let memory = try #require(
        talk.run(vms().resume(login, with: .session("7"), metadata: noMetadata)).action
      ).memory
      #expect(memory["key"] == key)
      #expect(memory["device_uuid"] == deviceID)
    }
  }

  @Test("replace: a refusal can be corrected, and an outage passes")
  func refused() {
    for (status, failure) in [(422, "rejected"), (503, "try later"), (401, "denied")] {
      var talk = Conversation(answer(#"{"errors":{"session_id":["is gone"]}}"#, status: status))
      let step = vms().resume(systemLogin(["key": "key-1"]), with: .session("7"), metadata: noMetadata)
      #expect(talk.run(step).failure.map(name) == failure)
    }
  }

  // MARK: replace_session

  static let list =
    #"{"id":1,"online":true,"last":"2026-11-01T10:00:00Z"},{"id":2,"online":false,"last":"2026-11-03T10:00:00Z"},"#
    + #"{"id":3,"online":true,"is_current":true,"last":"2025-01-01T10:00:00Z"},{"id":4,"online":false}"#

  @Test(
    "session limit: it replaces nothing automatically, except with replace_session",
    arguments: [
      (nil, list, nil), (VMSSettings.Replacing.oldest, list, "1"), (.offline, list, "2"),
      (.offline, #"{"id":4,"online":false}"#, "4"), (.offline, #"{"id":1,"online":true,"last":"1"}"#, nil),
      (.oldest, #"{"id":1},{"id":2}"#, nil), (.oldest, #"{"id":1,"last":1000},{"id":2,"last":999}"#, "2"),
      (.oldest, #"{"id":1,"is_current":true,"last":1}"#, nil),
    ])
  func replacing(setting: VMSSettings.Replacing?, sessions: String, chosen: String?) {
    var talk = Conversation([.success(Self.limit(sessions))] + (chosen == nil ? [] : [.success(Self.signedIn)]))
    let provider = vms { $0.replacing = setting }
    let result = talk.run(provider.exchange(code: Secret("c"), login: systemLogin(), metadata: noMetadata))
    #expect((result.sessions != nil) == (chosen == nil))
    #expect(
      talk.lines.dropFirst().first
        == chosen.map {
          "POST /api/v1/external/auth/callback {\"key\":\"key-1\",\"session_id\":\($0)}"
        })
  }

  @Test("session limit: replace_session ends with every answer of the server")
  func bounded() {
    let sessions = (1...9).map { "{\"id\":\($0),\"online\":false,\"last\":\($0)}" }.joined(separator: ",")
    var talk = Conversation((0..<4).map { _ in .success(Self.limit(sessions)) })
    let provider = vms { $0.replacing = .oldest }
    let result = talk.run(provider.exchange(code: Secret("c"), login: systemLogin(), metadata: noMetadata))
    #expect(result.sessions?.count == 9)
    #expect(talk.sent.count == 1 + VMSProvider.mostReplaced)
    // Not the same one again.
    #expect(talk.lines.dropFirst().map { $0.suffix(3) } == [":1}", ":2}", ":3}"])
  }

  // MARK: Signed in

  static let grant = systemGrant(#"{"device_uuid":"\#(deviceID)"}"#)
  static let token = SavedToken(
    account: account, accessToken: Secret("token-1"), type: "Bearer", scopes: [], generation: 1, issuedAt: start,
    expiresAt: nil)

  @Test("sessions: listed, in either shape", arguments: ["[\(one)]", "{\"sessions\":[\(one)]}"])
  func sessions(body: String) throws {
    var talk = Conversation(answer(body))
    let sessions = try talk.run(vms().sessions(of: Self.grant, token: Self.token, metadata: noMetadata)).get()
    #expect(sessions.map(\.id) == ["101"])
    #expect(talk.lines == ["GET /api/v1/sessions"])
    #expect(talk.sent[0].header("Authorization") == "Bearer token-1")
    #expect(talk.sent[0].header("X-UUID") == deviceID)
    #expect(vms().logoutTraits.listsSessions)
  }

  @Test(
    "sessions: one is deleted by its id, which stays within its place in the path",
    arguments: [
      ("101", "/api/v1/sessions/101"), ("a/../b?c", "/api/v1/sessions/a%2F..%2Fb%3Fc"),
      ("ä", "/api/v1/sessions/%C3%A4"),
    ])
  func delete(id: String, path: String) throws {
    for (status, ended) in [(200, true), (204, true), (404, false)] {
      var talk = Conversation(answer("", status: status))
      #expect(
        try talk.run(vms().endSession(id, of: Self.grant, token: Self.token, metadata: noMetadata)).get() == ended)
      #expect(talk.lines == ["POST \(path) {}"])
    }
  }

  @Test("sessions: no session is called a step up, and nothing is sent", arguments: [".", ".."])
  func steps(id: String) throws {
    var talk = Conversation()
    #expect(try talk.run(vms().endSession(id, of: Self.grant, token: Self.token, metadata: noMetadata)).get() == false)
  }

  @Test(
    "errors: with a token, 401 means that it has ended",
    arguments: [
      (401, "token refused"), (403, "invalid"), (404, "invalid"), (409, "misconfigured"), (422, "rejected"),
      (429, "rate limited"), (503, "try later"), (500, "unclear"), (200, "unclear"),
    ])
  func calls(status: Int, failure: String) {
    var talk = Conversation(answer("{}", status: status))
    let step = vms().sessions(of: Self.grant, token: Self.token, metadata: noMetadata)
    #expect(talk.run(step).failure.map(name) == failure)
  }

  @Test("headers: an authorised call has them as well, except headers of the caller")
  func authorised() {
    var request = HTTPRequest(
      purpose: .resource, method: "GET", url: URL(string: "https://vms.example.com/api/v1/user")!,
      headers: [.init("accept", "image/png")])
    request = vms().authorized(request, by: Self.token, of: Self.grant)
    #expect(request.headers.filter { $0.name.lowercased() == "accept" }.map(\.value) == ["image/png"])
    #expect(request.header("Authorization") == "Bearer token-1")
    #expect(request.header("X-UUID") == deviceID)
    #expect(vms().apiTraits.base?.absoluteString == "https://vms.example.com/api/v1")
    #expect(vms().apiTraits.origins == ["https://vms.example.com:443"])
  }

  @Test("logout: the device's uuid, by the token; each answer has a clear result")
  func logout() throws {
    let provider = vms()
    let context = provider.revocationContext(of: Self.grant, reach: nil)
    let request = try #require(
      provider.revocation(of: Secret("token-1"), hint: "access_token", context: context, metadata: noMetadata))
    #expect(request.url.absoluteString == "https://vms.example.com/api/v1/logout")
    #expect(request.body.map { String(decoding: $0, as: UTF8.self) } == "{\"uuid\":\"\(deviceID)\"}")
    #expect(request.header("Authorization") == "Bearer token-1")
    #expect(request.header("X-UUID") == deviceID)
    #expect(request.purpose == .revocation)
    for (status, outcome) in [
      (200, RevocationOutcome.revoked), (204, .revoked), (401, .revoked), (403, .refused(nil)), (404, .unsupported),
      (429, .retryLater(after: nil)), (503, .retryLater(after: nil)), (422, .refused(nil)),
    ] { #expect(provider.revocationOutcome(answer("", status: status)) == outcome, "\(status)") }
  }

  // MARK: What a check says

  @Test(
    "each statement of a check is true",
    arguments: [
      (VMSProviderTests.basic, "ok", "external login is on"),
      (answer(#"{"is_external_auth_enabled":false}"#), "failed", "external login is disabled on this server"),
      (answer("", status: 404), "failed", "/api/v1/static/basic answers HTTP 404"),
      (answer("{}", status: 409), "failed", "client_version"), (answer("", status: 503), "failed", "503"),
      (answer("<html>", type: "text/html"), "failed", "not a JSON object"),
    ])
  func examination(response: HTTPResponse, result: String, text: String) throws {
    let provider = vms()
    #expect(provider.probe()?.url.absoluteString == "https://vms.example.com/api/v1/static/basic")
    let examination = provider.examine(response)
    let finding = try #require(examination.findings.first { $0.name == .endpoints })
    #expect(result == "ok" ? finding.result == .ok : finding.result != .ok && finding.result != .skipped)
    #expect(finding.message.contains(text), "\(finding.message)")
    #expect(examination.findings.filter { $0.result == .skipped }.count == 6)
    #expect(examination.metadata?.endpoints[.revocation]?.absoluteString == "https://vms.example.com/api/v1/logout")
    #expect(provider.examineSettings().result == .ok)
  }
}
