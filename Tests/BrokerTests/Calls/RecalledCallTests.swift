import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import Providers
import Testing

@testable import Broker

/// A call that waits for the account's token while a reload changes what it was decided by.
@Suite("A call that waits for its token", .scheduled, .timeLimit(.minutes(5))) struct RecalledCallTests {
  private static let alice = Caller.user(1000)
  private static let rule = Rule(
    name: "alice", uid: 1000, gid: nil, accounts: ["work"], access: [.use, .observe, .manage])

  private func configuration(_ rules: [Rule], origin: String = "https://api.example:443") -> BrokerConfiguration {
    let settings = ProviderSettings.plain { settings in
      settings.server.endpoints[.introspection] = "https://id.example/introspect"
      settings.server.endpoints[.userinfo] = "https://id.example/userinfo"
    }
    let provider = SteppedProvider(settings: settings) { provider in
      provider.apiTraits = APITraits(base: URL(string: "https://api.example/"))
      provider.apiTraits.origins = [origin]
    }
    return .plain([provider], rules: rules)
  }

  private func rig(age: Duration = .seconds(4000)) async throws -> Rig {
    let store = MemoryStore()
    try await store.signIn("work", age: age)
    let rig = try await Rig(store: store, configuration: configuration([Self.rule]))
    for purpose in [HTTPRequest.Purpose.introspection, .userinfo, .resource] {
      rig.transport.answer(purpose) { _ in reply(#"{"sub":"work","active":true}"#) }
    }
    return rig
  }

  private func reload(_ rig: Rig, _ configuration: BrokerConfiguration) async throws {
    rig.reading.value = .success(configuration)
    _ = try await rig.call(BrokerReload.self, NoParams())
  }

  @Test("is not made once a reload has taken the permission back", arguments: OwnProviderTests.Question.allCases)
  func recalled(_ question: OwnProviderTests.Question) async throws {
    let rig = try await rig()
    rig.transport.hold(.token)
    let call = Task { await rig.reason { try await rig.ask(question, as: Self.alice) } }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    try await reload(rig, configuration([]))
    rig.transport.release(.token)
    #expect(await call.value == .notPermitted)
    #expect(rig.transport.count(question.purpose) == 0)
  }

  @Test("is not made a second time with a fresh token either")
  func secondTry() async throws {
    let rig = try await rig(age: .zero)
    rig.transport.answer(.resource) { _ in reply("{}", status: 401) }
    rig.transport.hold(.token)
    let call = Task { await rig.reason { try await rig.ask(.send, as: Self.alice) } }
    #expect(await eventually { rig.transport.held(.token) == 1 && rig.transport.count(.resource) == 1 })
    try await reload(rig, configuration([]))
    rig.transport.release(.token)
    #expect(await call.value == .notPermitted)
    #expect(rig.transport.count(.resource) == 1)
  }

  @Test("does not go to an origin that a reload has removed")
  func origins() async throws {
    let rig = try await rig()
    rig.transport.hold(.token)
    let call = Task { try await rig.ask(.send, as: Self.alice) }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    try await reload(rig, configuration([Self.rule], origin: "https://other.example:443"))
    rig.transport.release(.token)
    let error = await #expect(throws: RPCError.self) { try await call.value }
    #expect(error?.code == -32602 && error?.hint?.contains("https://other.example:443") == true)
    #expect(rig.transport.count(.resource) == 0)
  }

  enum Stricter: CaseIterable {
    case removed, asking, capped

    var rules: [Rule] {
      var rule = RecalledCallTests.rule
      switch self {
      case .removed: return []
      case .asking: rule.confirm = .seconds(60)
      case .capped: rule.scopes = ["other"]
      }
      return [rule]
    }
  }

  @Test("gets no token for a forwarded request under rules that became stricter", arguments: Stricter.allCases)
  func forwarded(_ stricter: Stricter) async throws {
    let rig = try await rig()
    rig.transport.hold(.token)
    let call = Task { await rig.reason { try await authorized(rig).get() } }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    try await reload(rig, configuration(stricter.rules))
    rig.transport.release(.token)
    #expect(await call.value == .notPermitted)
  }

  @Test("gets no fresh token for a second try under rules that became stricter", arguments: Stricter.allCases)
  func forwardedAgain(_ stricter: Stricter) async throws {
    let rig = try await rig(age: .zero)
    let sent = try await authorized(rig).get()
    rig.transport.hold(.token)
    let verdict = Task { await rig.router.judge(HTTPResponse(status: 401), to: sent) }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    try await reload(rig, configuration(stricter.rules))
    rig.transport.release(.token)
    guard case .refused(let error) = await verdict.value else { Issue.record("sent again"); return }
    #expect(error.reason == .notPermitted)
  }

  @Test("brings no token beyond a cap that a reload has added")
  func capped() async throws {
    let rig = try await rig()
    rig.transport.hold(.token)
    let call = Task { await rig.reason { try await rig.call(TokenGet.self, .init(account: "work"), as: Self.alice) } }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    try await reload(rig, configuration(Stricter.capped.rules))
    rig.transport.release(.token)
    #expect(await call.value == .scopeNotGranted)
  }

  @Test("returns no result of a refresh either once a reload has taken the permission back")
  func refresh() async throws {
    let rig = try await rig()
    rig.transport.hold(.token)
    let call = Task {
      await rig.reason { try await rig.call(AccountRefresh.self, .init(account: "work"), as: Self.alice) }
    }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    try await reload(rig, configuration([]))
    rig.transport.release(.token)
    #expect(await call.value == .notPermitted)
  }

  private func authorized(_ rig: Rig) async -> Result<AuthorizedRequest, RPCError> {
    let request = ForwardRequest(account: "work", method: "GET", target: "/x", host: nil, headers: [])
    return await rig.router.authorize(request, session: FakeSession(Self.alice))
  }
}
