import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import Providers
import Testing

@testable import Broker

/// The scopes that a user sees of a pending release, and the result of the approval: never more than these.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct ConfirmedScopesTests {
  /// What a provider gives that is asked for less than was granted.
  enum Narrowing {
    case asAsked, never, withMore
  }

  /// The scopes shown to the user, and the program's token, or the reason why it got none.
  struct Outcome: Equatable {
    var shown: [String]?
    var got: [String]?
    var reason: ErrorReason?
  }

  private static let program = Caller(
    uid: 1000, gid: 1000, groups: [], pid: 100, unit: "feed.service", executable: "/usr/bin/feed")

  private static func asking(_ scopes: Set<String>? = nil) -> Rule {
    Rule(
      name: "ask", who: .init(uid: 1000), accounts: ["work"], access: [.use], scopes: scopes, confirm: .seconds(60))
  }

  private static func configuration(_ narrowing: Narrowing, _ rules: [Rule]) -> BrokerConfiguration {
    .plain([OAuthProvider(.plain { $0.refresh.narrowing = narrowing == .never ? .never : .verified })], rules: rules)
  }

  private static func server(_ narrowing: Narrowing) -> ScriptedTransport.Answer {
    { request in
      let asked = request.form["scope"]?.replacing("+", with: " ") ?? "read write"
      return Self.issued(narrowing == .asAsked ? asked : "read write")
    }
  }

  private static func issued(_ scope: String) -> HTTPResponse {
    let name = scope.replacing(" ", with: ".")
    return reply(#"{"access_token":"\#(name)","token_type":"Bearer","expires_in":600,"scope":"\#(scope)"}"#)
  }

  /// The account `work`, which was granted `read` and `write`.
  private func rig(_ narrowing: Narrowing, _ rules: [Rule] = [asking()]) async throws -> Rig {
    let store = MemoryStore()
    try await store.signIn("work", scopes: ["read", "write"])
    let rig = try await Rig(store: store, configuration: Self.configuration(narrowing, rules))
    rig.transport.answer(.token, Self.server(narrowing))
    return rig
  }

  private func get(_ rig: Rig, _ scopes: [String]?, timeout: Double? = nil) async throws -> TokenGet.Result {
    try await rig.call(
      TokenGet.self, .init(account: "work", scopes: scopes, timeout: timeout), as: Self.program)
  }

  private func waiting(_ rig: Rig) async throws -> ReleaseView {
    #expect(try await eventually { try await !rig.call(ReleaseList.self, .init()).waiting.isEmpty })
    return try #require(try await rig.call(ReleaseList.self, .init()).waiting.first)
  }

  private func approve(_ rig: Rig, _ release: ReleaseView, for span: Double? = nil) async throws {
    #expect(try await rig.call(ReleaseApprove.self, .init(id: release.id, for: span)).approved)
  }

  /// Requests a token, and approves the request.
  private func allowed(_ rig: Rig, _ scopes: [String]?, for span: Double? = nil) async throws -> Outcome {
    let asked = Task { try await get(rig, scopes) }
    let release = try await waiting(rig)
    try await approve(rig, release, for: span)
    return await outcome(of: asked, release)
  }

  private func outcome(of asked: Task<TokenGet.Result, any Error>, _ release: ReleaseView) async -> Outcome {
    switch await asked.result {
    case .success(let token): Outcome(shown: release.scopes, got: token.scope.sorted())
    case .failure(let error): Outcome(shown: release.scopes, reason: (error as? RPCError)?.reason)
    }
  }

  @Test(
    "The user sees the exact result, and only that is released",
    arguments: [
      (.asAsked, nil, ["read"], Outcome(shown: ["read"], got: ["read"])),
      (.asAsked, nil, nil, Outcome(got: ["read", "write"])),
      (.never, nil, ["read"], Outcome(shown: ["read", "write"], got: ["read", "write"])),
      (.never, nil, nil, Outcome(got: ["read", "write"])),
      (.withMore, nil, ["read"], Outcome(shown: ["read"], reason: .notPermitted)),
      (.withMore, nil, nil, Outcome(got: ["read", "write"])),
      (.asAsked, ["read", "write"], ["read"], Outcome(shown: ["read"], got: ["read"])),
      (.never, ["read", "write"], ["read"], Outcome(shown: ["read", "write"], got: ["read", "write"])),
      (.withMore, ["read", "write"], ["read"], Outcome(shown: ["read"], reason: .notPermitted)),
    ] as [(Narrowing, Set<String>?, [String]?, Outcome)])
  func bound(narrowing: Narrowing, cap: Set<String>?, asked: [String]?, outcome: Outcome) async throws {
    let rig = try await rig(narrowing, [Self.asking(cap)])
    #expect(try await allowed(rig, asked) == outcome)
  }

  @Test("A token with more than was shown needs a new approval, even if one for less is active")
  func seen() async throws {
    let rig = try await rig(.withMore)
    #expect(try await allowed(rig, ["read"], for: 600) == Outcome(shown: ["read"], reason: .notPermitted))
    let whole = Outcome(shown: ["read", "write"], got: ["read", "write"])
    #expect(try await allowed(rig, ["read"], for: 600) == whole)
    #expect(try await get(rig, ["read"]).scope == ["read", "write"])
  }

  @Test("A word for some time holds for the scopes that were shown: an answer with more is refused under it")
  func standing() async throws {
    let rig = try await rig(.asAsked)
    #expect(try await allowed(rig, ["read"], for: 3600) == Outcome(shown: ["read"], got: ["read"]))
    rig.clock.advance(.seconds(601))
    #expect(try await get(rig, ["read"]).scope == ["read"])
    rig.transport.answer(.token, Self.server(.withMore))
    rig.clock.advance(.seconds(601))
    let error = await #expect(throws: RPCError.self) { _ = try await get(rig, ["read"]) }
    #expect(error?.reason == .notPermitted && error?.message.contains("write") == true)
    #expect(try await allowed(rig, ["read"]).shown == ["read", "write"])
  }

  @Test("A word for all holds for all, also for a part that comes with more")
  func standingForAll() async throws {
    let rig = try await rig(.withMore)
    #expect(try await allowed(rig, nil, for: 600) == Outcome(got: ["read", "write"]))
    #expect(try await get(rig, ["read"]).scope == ["read", "write"])
  }

  @Test("What the account gains during the approval is not released by it, nor later by an active one")
  func gained() async throws {
    let rig = try await rig(.never)
    let asked = Task { try await get(rig, ["read"]) }
    let release = try await waiting(rig)
    rig.transport.answer(.token) { _ in Self.issued("read write admin") }
    #expect(
      try await rig.call(TokenReportRejected.self, .init(account: "work", generation: 1)).refreshed)
    try await approve(rig, release, for: 600)
    #expect(await outcome(of: asked, release) == Outcome(shown: ["read", "write"], reason: .notPermitted))
    let next = Outcome(shown: ["admin", "read", "write"], got: ["admin", "read", "write"])
    #expect(try await allowed(rig, ["read"]) == next)
  }

  @Test("If a rule permits a part without approval, only that part is released during the wait")
  func noLongerNeeded() async throws {
    let reader = Rule(name: "reader", who: .init(uid: 1000), accounts: ["work"], access: [.use], scopes: ["read"])
    for narrowing in [Narrowing.asAsked, .withMore] {
      let rig = try await rig(narrowing)
      let asked = Task { try await get(rig, ["read"]) }
      let release = try await waiting(rig)
      rig.reading.value = .success(Self.configuration(narrowing, [Self.asking(), reader]))
      _ = try await rig.broker.reload()
      let part = Outcome(shown: ["read"], got: ["read"])
      #expect(
        await outcome(of: asked, release)
          == (narrowing == .asAsked ? part : Outcome(shown: ["read"], reason: .scopeNotGranted)))
    }
  }

  @Test("What needs no approval may be released together with approved scopes")
  func exempt() async throws {
    let reader = Rule(name: "reader", who: .init(uid: 1000), accounts: ["work"], access: [.use], scopes: ["read"])
    let rig = try await rig(.withMore, [Self.asking(), reader])
    #expect(try await allowed(rig, ["write"]) == Outcome(shown: ["write"], got: ["read", "write"]))
  }

  @Test("No approval is requested for a token that is not narrowed and exceeds the rule")
  func pointless() async throws {
    let rig = try await rig(.never, [Self.asking(["read"])])
    // Who is asked about has more time than this.
    for scopes in [["read"], nil] as [[String]?] {
      #expect(await rig.reason { try await get(rig, scopes, timeout: 0.5) } == .scopeNotGranted)
    }
  }

  @Test("An approved proof is for the token that was shown, not for its replacement")
  func proof() async throws {
    let store = MemoryStore()
    try await store.signIn("work")
    var grant = try #require(store.grant("work"))
    (grant.requestedScopes, grant.grantedScopes, grant.generation) = (["read", "write"], ["read", "write"], 2)
    grant.dpopKey = DPoPKey(randomBytes: [UInt8](repeating: 7, count: 32)).raw
    var part = try #require(store.token("work"))
    (part.key, part.accessToken, part.scopes, part.generation) = (
      .init(scopes: ["read"], resource: nil), Secret("part"), ["read"], 2
    )
    try await store.commit([.putGrant(grant), .putToken(part)])
    let rig = try await Rig(store: store, configuration: Self.configuration(.asAsked, [Self.asking()]))
    rig.transport.answer(.token, TokenServer.failing(.notSent))
    for isGone in [false, true] {
      let params = DPoPProof.Params(
        account: "work", method: "GET", url: "https://api.example/", access_token: .init("part"))
      let asked = Task { await rig.reason { try await rig.call(DPoPProof.self, params, as: Self.program) } }
      let release = try await waiting(rig)
      #expect(release.method == DPoPProof.name && release.scopes == ["read"])
      if isGone {
        rig.transport.answer(.token, TokenServer.rotating)
        _ = try? await rig.call(TokenReportRejected.self, .init(account: "work", generation: 2, timeout: 1))
      }
      try await approve(rig, release)
      #expect(await asked.value == (isGone ? .notPermitted : nil))
    }
  }
}
