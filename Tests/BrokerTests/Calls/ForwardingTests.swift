import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import Providers
import TestSupport
import Testing

@testable import Broker

/// What becomes of a forwarded request after its answer.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct ForwardingTests {
  private static let caller = Caller(uid: 0, gid: 0, groups: [], pid: 7, unit: nil)

  private func provider(_ change: (inout SteppedProvider) -> Void = { _ in }) -> SteppedProvider {
    var settings = ProviderSettings.plain()
    settings.api.errorPath = ["error"]
    return SteppedProvider(settings: settings) {
      $0.apiTraits = APITraits(
        base: URL(string: "https://api.example/v1/")!, origins: [URL(string: "https://files.example/")!])
      change(&$0)
    }
  }

  private func rig(_ rules: [Rule] = []) async throws -> Rig {
    let rig = try await Rig(configuration: .plain([provider()], rules: rules))
    rig.transport.answer(.token) { [transport = rig.transport] _ in
      reply(#"{"access_token":"access-token-\#(transport.count(.token))","token_type":"Bearer","refresh_token":"r"}"#)
    }
    _ = await rig.callBack(try await rig.start(), ["state": nil])
    return rig
  }

  private func authorize(_ rig: Rig, host: String? = nil) async throws -> AuthorizedRequest {
    let request = ForwardRequest(account: "work", method: "GET", target: "/x", host: host, headers: [])
    return try await rig.router.authorize(request, session: FakeSession(Self.caller)).get()
  }

  @Test("A refusal that repeats the token does not show it to the client")
  func echoed() async throws {
    let rig = try await rig()
    let first = try await authorize(rig)
    func judge(_ sent: AuthorizedRequest, _ token: String) async -> ForwardVerdict {
      await rig.router.judge(HTTPResponse(status: 401, body: Data(#"{"error":"no \#(token)"}"#.utf8)), to: sent)
    }
    guard case .again(let second) = await judge(first, "access-token-1") else { Issue.record("not sent again"); return }
    let token = try #require(second.headers.first { $0.name == "Authorization" }?.value.split(separator: " ").last)
    guard case .refused(let error) = await judge(second, String(token)) else { Issue.record("not refused"); return }
    #expect(error.message.contains("HTTP 401: no ") && !error.message.contains(token))
  }

  @Test("an allowed request and a refused one are recorded with account, rule and caller")
  func recorded() async throws {
    let feed = Caller(uid: 1000, gid: 1000, groups: [], pid: 7, unit: "feed.service")
    var rule = Rule(name: "feed", uid: 1000, gid: nil, accounts: ["work"], access: [.use])
    rule.requests = [try #require(RequestPattern("GET /v1/x"))]
    let rig = try await rig([rule])
    for (target, reason) in [("/x", nil), ("/y", .notPermitted), ("/x?y", nil)] as [(String, ErrorReason?)] {
      let request = ForwardRequest(account: "work", method: "GET", target: target, host: nil, headers: [])
      let found = await rig.reason { try await rig.router.authorize(request, session: FakeSession(feed)).get() }
      #expect(found == reason, "\(target)")
    }
    await rig.broker.trail.flush()
    let records = rig.audit.sinceStart.filter { $0.entry.method == RequestSend.name }
    let who = AuditCaller(.process(feed))
    #expect(
      records.map(\.entry) == [
        AuditEntry(action: .use, method: RequestSend.name, account: "work", who: who, rule: "feed"),
        AuditEntry(action: .use, method: RequestSend.name, account: "work", who: who, result: "not_permitted"),
      ])
    #expect(records.map(\.count) == [2, 1] && records.map(\.pid) == [7, 7])
    #expect(!"\(records)".contains("access-token"))
  }

  @Test("a request is sent again with the client's headers, and with the fresh token as its only credential")
  func headersAgain() async throws {
    let rig = try await rig()
    let own = RequestHeaders.allowed.map { HTTPRequest.Header($0, "own") }
    let spent = RequestHeaders.credentials.flatMap(RequestHeaders.spellings).map { HTTPRequest.Header($0, "spent") }
    let request = ForwardRequest(account: "work", method: "GET", target: "/x", host: nil, headers: own + spent)
    let first = try await rig.router.authorize(request, session: FakeSession(Self.caller)).get()
    guard case .again(let second) = await rig.router.judge(HTTPResponse(status: 401), to: first) else {
      Issue.record("not sent again")
      return
    }
    let added = [
      HTTPRequest.Header("Accept-Encoding", "identity"), HTTPRequest.Header("Authorization", "Bearer access-token-2"),
    ]
    #expect(second.headers == own + added)
  }

  @Test(
    "A challenge that only a login can answer costs no refresh, is reported once, and is asked for by the next login")
  func stepUp() async throws {
    let rig = try await rig()
    let sent = try await authorize(rig)
    let before = rig.transport.count(.token)
    for (status, value) in [
      (403, #"Bearer error="insufficient_scope", scope="openid notes.write""#),
      (401, #"Bearer error="insufficient_scope", scope="notes.write""#),
    ] {
      let response = HTTPResponse(status: status, headers: [.init("WWW-Authenticate", value)])
      guard case .stepUp(let error) = await rig.router.judge(response, to: sent) else {
        Issue.record("\(status)")
        return
      }
      #expect(error.reason == .scopeNotGranted && error.message.contains("notes.write"))
      #expect(error.hint?.contains("grantctl login example work") == true)
    }
    #expect(rig.transport.count(.token) == before)
    let view = try await rig.call(AccountGet.self, .init(account: "work"))
    #expect(view.required_scopes?.contains("notes.write") == true)
    let login = try await rig.start()
    let url = try #require(login.destinations.first { $0.kind == "manual" }?.url)
    #expect(url.contains("notes.write"))
    // Another 403 is the server's own.
    guard case .passed = await rig.router.judge(HTTPResponse(status: 403), to: sent) else {
      Issue.record("a plain 403")
      return
    }
  }

  @Test("A fresh token is not sent to an origin that a reload removed in the interim")
  func removedOrigin() async throws {
    let rig = try await rig()
    let sent = try await authorize(rig, host: "files.example")
    #expect(sent.request.url.host() == "files.example")
    let without = provider { $0.apiTraits = APITraits(base: URL(string: "https://api.example/v1/")!) }
    try await rig.reload(.plain([without]))
    let verdict = await rig.router.judge(HTTPResponse(status: 401), to: sent)
    guard case .refused = verdict else { Issue.record("\(verdict)"); return }
    await #expect(throws: RPCError.self) { _ = try await authorize(rig, host: "files.example") }
  }
}
