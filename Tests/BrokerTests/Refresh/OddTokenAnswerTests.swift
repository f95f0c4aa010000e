import BrokerAPI
import Foundation
import Grants
import Logging
import OAuth
import Providers
import TestSupport
import Testing

@testable import Broker

/// A success of the token endpoint with a new refresh token, and something in it that RFC 6749 §5.1 does not allow.
struct OddAnswer: Sendable, CustomTestStringConvertible {
  enum Judgement: Sendable, Equatable {
    /// Handed out, with so many seconds to live; nil: unknown.
    case taken(Int64?)
    case refused
  }

  let testDescription: String
  let judgement: Judgement
  let response: @Sendable (String, Int) -> HTTPResponse

  private static let members = [
    "access_token": #""NAME-aNEXT""#, "token_type": #""Bearer""#, "expires_in": "3600",
    "refresh_token": #""NAME-rNEXT""#,
  ]

  private init(
    _ name: String, _ judgement: Judgement, status: Int = 200, type: String? = "application/json", _ body: String
  ) {
    testDescription = name
    self.judgement = judgement
    response = { account, next in
      let body = body.replacing("NAME", with: account).replacing("NEXT", with: "\(next)")
      return HTTPResponse(
        status: status, headers: type.map { [.init("Content-Type", $0)] } ?? [], body: Data(body.utf8))
    }
  }

  /// With these members in the place of the usual ones; nil: without.
  private init(
    _ changes: KeyValuePairs<String, String?>, _ judgement: Judgement, status: Int = 200,
    type: String? = "application/json", before: String = ""
  ) {
    var members = Self.members
    for (name, value) in changes { members[name] = value }
    let body = members.sorted { $0.key < $1.key }.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",")
    let name = changes.map { "\($0): \($1 ?? "missing")" }.joined(separator: ", ")
    self.init(
      "\(name) \(status) \(type ?? "no type") \(before.isEmpty ? "" : "after a byte order mark")", judgement,
      status: status, type: type, "\(before){\(body)}")
  }

  private init(twice members: String, _ judgement: Judgement) {
    let body = Self.members.filter { !members.contains("\"\($0.key)\"") }
      .map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",")
    self.init("twice: \(members)", judgement, "{\(members)\(body.isEmpty ? "" : ",")\(body)}")
  }

  static let all: [OddAnswer] =
    ["-1", #""""#, #""abc""#, "true", "[]", "{}"].map { .init(["expires_in": $0], .taken(nil)) }
    + [
      .init(["expires_in": "null"], .taken(nil)), .init(["expires_in": nil], .taken(nil)),
      .init(["expires_in": "1e400"], .taken(315_360_000)), .init(["expires_in": #""3600""#], .taken(3600)),
      .init(["expires_in": "3600.5"], .taken(3600)),
      .init(["token_type": nil], .taken(3600)), .init(["token_type": "null"], .taken(3600)),
      .init(["token_type": #""""#], .taken(3600)), .init(["token_type": #""mac""#], .refused),
      .init(["token_type": "7"], .refused),
      .init(["scope": "7"], .taken(3600)), .init(["scope": #"{"a":1}"#], .taken(3600)),
      .init(["scope": #"["read",7]"#], .taken(3600)), .init(["scope": "null"], .taken(3600)),
      .init(["id_token": "7"], .taken(3600)), .init(["id_token": "[]"], .taken(3600)),
      .init(["refresh_in": #""soon""#, "refresh_token_expires_in": "[]"], .taken(3600)),
      .init(["access_token": nil], .refused), .init(["access_token": "null"], .refused),
      .init(["access_token": #""""#], .refused), .init(["access_token": "7"], .refused),
      .init(["error": #"{"code":1}"#], .refused), .init(["error": "null"], .taken(3600)),
      .init(["error": #""temporarily_unavailable""#], .refused),
      .init(twice: #""expires_in":5,"expires_in":3600"#, .taken(3600)),
      .init(twice: #""access_token":"NAME-a0","access_token":"NAME-aNEXT""#, .taken(3600)),
      .init(twice: #""refresh_token":"NAME-r0","refresh_token":"NAME-rNEXT""#, .taken(3600)),
      .init(twice: #""x":{"y":1,"y":2}"#, .taken(3600)),
      .init(["x": #""\ud800""#], .taken(3600)),
      .init(["x": "1"], .taken(3600), type: nil), .init(["x": "2"], .taken(3600), type: "text/html"),
      .init(["x": "3"], .taken(3600), before: "\u{FEFF}"),
      .init("nested", .refused, #"{"data":{"access_token":"NAME-aNEXT","refresh_token":"NAME-rNEXT"}}"#),
    ]
    + [201, 202, 203, 204].map { .init(["x": "4"], .taken(3600), status: $0) }
    + [201, 202].map { .init(["access_token": nil], .refused, status: $0) }
}

@Suite("Token answers outside the specification", .scheduled, .timeLimit(.minutes(5))) struct OddTokenAnswerTests {
  /// Answers a refresh with unusual members: the next tokens of its account.
  private func odd(_ answer: OddAnswer) -> ScriptedTransport.Answer {
    { request in
      let parts = (request.form["refresh_token"] ?? "\(request.form["code"] ?? "")-r0").components(separatedBy: "-r")
      return answer.response(parts[0], (Int(parts.last ?? "") ?? 0) + 1)
    }
  }

  @Test("A new refresh token is on disk, however unusual the success is", arguments: OddAnswer.all)
  func refresh(_ answer: OddAnswer) async throws {
    let rig = try await Rig(store: .expired("work"))
    rig.transport.answer(.token, odd(answer))
    switch answer.judgement {
    case .taken(let lifetime):
      let token = try await rig.token("work")
      // Without a lifetime of its own it has that of the token before it.
      #expect(token.access_token == "work-a2" && token.expires_in == lifetime ?? 3600 && token.token_type == "Bearer")
      #expect(token.scope == ["read"])
      #expect(try await rig.view("work").state == .ok)
      #expect(try await rig.view("work").last_error == nil)
      #expect(rig.store.token("work")?.accessToken == Secret("work-a2"))
    case .refused:
      #expect(await rig.reason { try await rig.token("work") } == .temporarilyUnavailable)
      let view = try await rig.view("work")
      #expect(view.state == .degraded && view.last_error?.reason == .temporarilyUnavailable)
      #expect(rig.store.token("work")?.accessToken == Secret("work-a1"))
    }
    #expect(rig.store.grant("work")?.refreshToken == Secret("work-r2"))
    #expect(rig.store.intent("work") == nil)
    // A restart continues with the state on disk.
    let restarted = try await Rig(clock: rig.clock, store: rig.store)
    rig.clock.advance(.seconds(3601))
    if answer.judgement == .taken(nil) {
      #expect(try await restarted.call(TokenReportRejected.self, .init(account: "work", generation: 2)).refreshed)
    } else if answer.judgement != .taken(315_360_000) {
      #expect(try await restarted.token("work").access_token == "work-a3")
    }
    #expect(restarted.transport.requests(.token).allSatisfy { $0.form["refresh_token"] == "work-r2" })
  }

  @Test("A login whose answer is odd and can be used succeeds; another is refused", arguments: OddAnswer.all)
  func login(_ answer: OddAnswer) async throws {
    let rig = try await Rig()
    rig.transport.answer(.token, odd(answer))
    let login = try await rig.start()
    let outcome = await rig.callBack(login)
    switch answer.judgement {
    case .taken:
      #expect(outcome.kind == .completed)
      #expect(rig.store.grant("work")?.refreshToken == Secret("work-r1"))
      #expect(try await rig.token("work").access_token == "work-a1")
    case .refused:
      #expect(outcome.kind == .providerFault)
      #expect(rig.store.grant("work") == nil)
    }
  }

  @Test("A harmless oddity is logged once with its treatment, and `status` has it until a reload")
  func saidOnce() async throws {
    let logged = LoggedLines()
    let rig = try await Rig(store: .expired("work", "home"), logger: logged.logger(.warning))
    rig.transport.answer(.token) { request in
      let parts = (request.form["refresh_token"] ?? "").components(separatedBy: "-r")
      let next = (Int(parts.last ?? "") ?? 0) + 1
      return reply(
        #"{"access_token":"\#(parts[0])-a\#(next)","expires_in":60,"refresh_token":"\#(parts[0])-r\#(next)","#
          + #""scope":7,"x":1,"x":2}"#)
    }
    for name in ["work", "home"] {
      for round in 2...4 {
        #expect(try await rig.token(name).access_token == "\(name)-a\(round)")
        rig.clock.advance(.seconds(60))
      }
    }
    let oddities = [
      "token_type is missing: taken as Bearer (assumed_token_type says which it is)",
      "scope is not a string: taken as what was asked for", "“x” occurs twice: the last one is used",
    ]
    #expect(logged.all.map(\.text) == oddities.map { "provider example answers outside the specification: \($0)" })
    #expect(
      logged.all.allSatisfy { $0.metadata["hint"] != nil && !$0.whole.contains("-a") && !$0.whole.contains("-r") })
    func condition() async throws -> BrokerStatus.ConditionView? {
      try await rig.call(BrokerStatus.self, NoParams()).provider_conditions?.first
    }
    #expect(try await condition()?.odd_answers == oddities)
    _ = try await rig.call(BrokerReload.self, NoParams())
    #expect(try await condition()?.odd_answers == nil)
  }

  private static let noToken = #"{"refresh_token":"work-r2"}"#

  @Test("A refresh token whose answer cannot be used is written until it is on disk, and nothing is sent before")
  func store() async throws {
    let rig = try await Rig(store: .expired("work"))
    rig.transport.answer(.token) { _ in reply(Self.noToken) }
    let isRotation: @Sendable ([Change]) -> Bool = { changes in
      changes.contains { if case .removeIntent = $0 { true } else { false } }
    }
    rig.store.set(.fails, concerning: isRotation)
    #expect(await rig.reason { try await rig.token("work") } == .storeFailure)
    #expect(rig.store.grant("work")?.refreshToken == Secret("work-r1"))
    rig.transport.answer(.token, TokenServer.rotating)
    rig.clock.advance(.seconds(60))
    await settle()
    #expect(rig.transport.count(.token) == 1)
    rig.store.set(.works)
    #expect(
      await rig.clock.reaches(by: .seconds(1)) { rig.store.grant("work")?.refreshToken == Secret("work-r2") })
    #expect(await rig.isQuiet())
    rig.clock.advance(.seconds(60))
    #expect(try await rig.token("work").access_token == "work-a3")
  }

  @Test("An answer without a token that repeats the refresh token, or builds on it, is not mistaken for a new one")
  func echo() async throws {
    let rig = try await Rig(store: .expired("a-long-name"))
    for (answered, kept) in [("a-long-name-r1", "a-long-name-r1"), ("a-long-name-r1.2", "a-long-name-r1.2")] {
      rig.transport.answer(.token) { _ in reply(#"{"refresh_token":"\#(answered)"}"#) }
      #expect(await rig.reason { try await rig.token("a-long-name") } == .temporarilyUnavailable)
      #expect(rig.store.grant("a-long-name")?.refreshToken == Secret(kept))
      rig.clock.advance(.seconds(60))
    }
  }

  @Test(
    "A token next to a permanent error ends no grant: the refresh token is kept, and the next answer decides",
    arguments: [#""refresh_token":"work-r2""#, #""access_token":"work-a2","token_type":"Bearer""#])
  func contradiction(member: String) async throws {
    let rig = try await Rig(store: .expired("work"))
    rig.transport.answer(.token) { _ in reply(#"{"error":"invalid_grant",\#(member)}"#) }
    #expect(await rig.reason { try await rig.token("work") } == .temporarilyUnavailable)
    let kept = try #require(rig.store.grant("work"))
    #expect(kept.refreshToken == Secret(member.contains("refresh_token") ? "work-r2" : "work-r1"))
    guard case .failing(let failure, _, _) = kept.standing else {
      Issue.record("\(kept.standing)")
      return
    }
    #expect(failure.message.contains("a token and the error invalid_grant"))
    rig.transport.answer(.token) { _ in reply(#"{"error":"invalid_grant"}"#, status: 400) }
    rig.clock.advance(.seconds(60))
    #expect(await rig.reasonInTime { try await rig.token("work") } == .loginRequired)
  }

  @Test("A refresh token next to another user's ID token is kept, and the grant ends")
  func ended() async throws {
    let openID = ProviderSettings.plain { settings in
      settings.server.kind = .oidc
      settings.access.scopes = ["openid"]
    }
    let other = try await Rig(store: .expired("work"), configuration: .plain([OAuthProvider(openID)]))
    func part(_ text: String) -> String { Data(text.utf8).base64EncodedString().replacing("=", with: "") }
    let token =
      "\(part(#"{"alg":"RS256"}"#)).\(part(#"{"iss":"i","sub":"mallory","aud":"client","exp":1,"iat":1}"#)).c2ln"
    other.transport.answer(.token) { request in
      reply(
        #"{"access_token":"a","token_type":"Bearer","refresh_token":"work-r2","id_token":"\#(token)"}"#)
    }
    #expect(await other.reason { try await other.token("work") } == .loginRequired)
    #expect(other.store.grant("work")?.refreshToken == Secret("work-r2"))
    #expect(other.store.grant("work")?.standing != .good)
  }

  @Test("Another broker at the same store continues with the refresh token of an unusable answer")
  func shared() async throws {
    let world = try await SharedWorld()
    world.provider.breakAnswers()
    #expect(await world.brokers[0].reason("work") == .temporarilyUnavailable)
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r2"))
    world.provider.breakAnswers(false)
    world.clock.advance(.seconds(60))
    #expect(try await world.brokers[1].token("work", timeout: 300) == "work-a3")
    #expect(try await world.brokers[0].token("work", timeout: 300) == "work-a3")
    #expect(world.provider.reuses == 0)
  }
}
