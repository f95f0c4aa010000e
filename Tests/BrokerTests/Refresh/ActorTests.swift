import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import Testing

@testable import Broker

/// The account that acts in a token exchange: its token is released as well.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct ActorTests {
  private static let program = Caller(uid: 1000, gid: 1000, groups: [], pid: 100)
  private static let asking = Rule(
    name: "ask", who: .init(uid: 1000), accounts: ["robot"], access: [.use], confirm: .seconds(120))
  private static let free = Rule(name: "free", uid: 1000, gid: nil, accounts: ["robot"], access: [.use])
  private static let reader = Rule(
    name: "reader", who: .init(uid: 1000), accounts: ["robot"], access: [.use], scopes: ["read"])

  /// Whatever holds for the actor, the caller may have the subject's token.
  private static func configuration(_ rule: Rule?) -> BrokerConfiguration {
    let subject = Rule(name: "subject", uid: 1000, gid: nil, accounts: ["work"], access: [.use])
    return .plain(rules: [subject] + (rule.map { [$0] } ?? []))
  }

  /// - Parameter burst: the caller's requests, of which none comes back.
  private func rig(_ rule: Rule?, burst: Int? = nil) async throws -> Rig {
    let store = MemoryStore()
    for name in ["work", "robot"] { try await store.signIn(name) }
    var configuration = Self.configuration(rule)
    if let burst { configuration.callerLimits.burst = burst }
    let rig = try await Rig(store: store, configuration: configuration)
    rig.transport.answer(.token) { request throws(TransportError) in
      guard request.form["subject_token"] != nil else { return try TokenServer.rotating(request) }
      return reply(
        #"{"access_token":"exchanged","token_type":"Bearer","issued_token_type":"urn:example:jwt"}"#
      )
    }
    return rig
  }

  private func exchange(_ rig: Rig, timeout: Double? = nil) -> Task<ErrorReason?, Never> {
    Task {
      await rig.reason {
        try await rig.call(
          TokenExchange.self, .init(account: "work", actor: "robot", timeout: timeout), as: Self.program)
      }
    }
  }

  private func waiting(_ rig: Rig) async throws -> ReleaseView {
    #expect(try await eventually { try await !rig.call(ReleaseList.self, .init()).waiting.isEmpty })
    return try #require(try await rig.call(ReleaseList.self, .init()).waiting.first)
  }

  private func approve(_ rig: Rig, _ release: ReleaseView) async throws {
    #expect(try await rig.call(ReleaseApprove.self, .init(id: release.id)).approved)
  }

  @Test("A person has the time of the rule where the caller named none, and the provider its own after that")
  func time() async throws {
    let rig = try await rig(Self.asking)
    rig.transport.hold(.token)
    let asked = exchange(rig)
    let release = try await waiting(rig)
    #expect(release.account == "robot" && release.until == ManualClock.start.seconds + 120)
    rig.clock.advance(.seconds(100))
    await settle()
    #expect(try await waiting(rig).id == release.id)
    try await approve(rig, release)
    #expect(await eventually { rig.transport.held(.token) == 1 })
    rig.clock.advance(.seconds(20))
    await settle()
    rig.transport.release(.token)
    #expect(await asked.value == nil)
  }

  @Test("The caller's limit covers the user and the provider together")
  func named() async throws {
    let rig = try await rig(Self.asking)
    rig.transport.hold(.token)
    let asked = exchange(rig, timeout: 50)
    let release = try await waiting(rig)
    #expect(release.until == ManualClock.start.seconds + 50)
    rig.clock.advance(.seconds(40))
    try await approve(rig, release)
    #expect(await eventually { rig.transport.held(.token) == 1 })
    rig.clock.advance(.seconds(10))
    #expect(await asked.value == .timedOut)
    rig.transport.release(.token)
  }

  @Test("The tokens sent to the provider are those after the approval")
  func fresh() async throws {
    let rig = try await rig(Self.asking)
    let asked = exchange(rig)
    let release = try await waiting(rig)
    for name in ["work", "robot"] {
      #expect(try await rig.call(TokenReportRejected.self, .init(account: name, generation: 1)).refreshed)
    }
    try await approve(rig, release)
    #expect(await asked.value == nil)
    let sent = try #require(rig.transport.requests(.token).last?.form)
    #expect(sent["subject_token"] == "work-a2" && sent["actor_token"] == "robot-a2")
    await rig.broker.trail.flush()
    let used = rig.audit.records.filter { $0.entry.method == TokenExchange.name && $0.entry.result == AuditEntry.ok }
    #expect(Set(used.compactMap(\.entry.account)) == ["work", "robot"])
  }

  private func get(_ rig: Rig) async -> ErrorReason? {
    await rig.reason { try await rig.call(TokenGet.self, .init(account: "robot"), as: Self.program) }
  }

  @Test("A use of the actor is recorded and counted as `token.get` of its account is", arguments: [true, false])
  func recorded(isPermitted: Bool) async throws {
    let rig = try await rig(isPermitted ? Self.free : nil)
    let reason = isPermitted ? nil : ErrorReason.notPermitted
    #expect(await exchange(rig).value == reason)
    #expect(await get(rig) == reason)
    await rig.broker.trail.flush()
    let records = rig.audit.records.map(\.entry).filter { $0.account == "robot" }
    #expect(Set(records.map(\.method)) == [TokenExchange.name, TokenGet.name])
    #expect(Set(records.map { [$0.actionName, $0.result, $0.rule ?? "", $0.provider ?? ""] }).count == 1)
    #expect(records.first { $0.method == TokenExchange.name }?.detail == "as the actor for work")
    let (counts, result) = (rig.broker.door.requests.all, reason?.rawValue ?? RequestTally.ok)
    #expect(counts[.init(method: TokenExchange.name, result: result)] == 2, "one for each account")
    #expect(counts[.init(method: TokenGet.name, result: result)] == 1)
  }

  @Test("An exchange with an actor costs the caller one request")
  func paced() async throws {
    let rig = try await rig(Self.free, burst: 2)
    #expect(await exchange(rig).value == nil)
    #expect(await get(rig) == nil)
    #expect(await get(rig) == .rateLimited)
  }

  @Test("A failure of the subject is not recorded as one of the actor")
  func subject() async throws {
    let rig = try await rig(Self.free)
    rig.transport.answer(.token, TokenServer.failing(.notSent))
    #expect(await exchange(rig).value == .temporarilyUnavailable)
    await rig.broker.trail.flush()
    let records = rig.audit.records.map(\.entry)
    #expect(records.filter { $0.account == "robot" }.map(\.result) == [AuditEntry.ok])
    #expect(records.allSatisfy { $0.account != "robot" || $0.scopes.isEmpty })
  }

  @Test("A refused actor costs the caller one refusal")
  func charged() async throws {
    let rig = try await rig(nil, burst: CallerLimits().refusalCost + 1)
    #expect(await exchange(rig).value == .notPermitted)
    #expect(await get(rig) == .notPermitted)
    #expect(await get(rig) == .rateLimited)
  }

  enum Change: CaseIterable {
    case gone, asks, capped, kept

    var rule: Rule? {
      switch self {
      case .gone: nil
      case .asks: ActorTests.asking
      case .capped: ActorTests.reader
      case .kept: ActorTests.free
      }
    }
  }

  @Test(
    "Who may no longer use the actor when the provider has answered gets nothing of the answer",
    arguments: Change.allCases)
  func changed(_ change: Change) async throws {
    let rig = try await rig(Self.free)
    rig.transport.hold(.token)
    let asked = exchange(rig)
    #expect(await eventually { rig.transport.held(.token) == 1 })
    rig.reading.value = .success(Self.configuration(change.rule))
    _ = try await rig.broker.reload()
    rig.transport.release(.token)
    #expect(await asked.value == (change == .kept ? nil : .notPermitted))
  }

  @Test("An approval for the actor does not outlast the caller's permission to use it")
  func confirmed() async throws {
    let rig = try await rig(Self.asking)
    rig.transport.hold(.token)
    let asked = exchange(rig)
    try await approve(rig, try await waiting(rig))
    #expect(await eventually { rig.transport.held(.token) == 1 })
    rig.reading.value = .success(Self.configuration(nil))
    _ = try await rig.broker.reload()
    rig.transport.release(.token)
    #expect(await asked.value == .notPermitted)
  }
}
