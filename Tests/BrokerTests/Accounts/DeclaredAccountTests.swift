import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import Providers
import Testing

@testable import Broker

/// Accounts of the configuration: which definition a token belongs to.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct DeclaredAccountTests {
  private static let source = ExchangeSource(from: account("work"), audience: "one")

  static let changed: [ExchangeSource] = [
    ExchangeSource(from: account("home"), audience: "one"),
    ExchangeSource(from: account("work"), actor: account("home"), audience: "one"),
    ExchangeSource(from: account("work"), audience: "two"), ExchangeSource(from: account("work")),
    ExchangeSource(
      from: account("work"), audience: "one", requestedTokenType: "urn:ietf:params:oauth:token-type:access_token"),
  ]

  private func configuration(_ source: ExchangeSource?) -> BrokerConfiguration {
    var configuration = BrokerConfiguration.plain()
    configuration.accounts = source.map { [.robot($0)] } ?? []
    return configuration
  }

  private func store() async throws -> MemoryStore {
    let store = MemoryStore()
    for name in ["work", "home"] { try await store.signIn(name) }
    return store
  }

  private func rig(_ source: ExchangeSource, _ store: MemoryStore) async throws -> Rig {
    let rig = try await Rig(store: store, configuration: configuration(source))
    rig.transport.answer(.token, TokenServer.trading)
    return rig
  }

  @Test(
    "A definition that changed while the daemon was down is not served with the old one's token", arguments: changed)
  func changedWhileDown(_ changed: ExchangeSource) async throws {
    let store = try await store()
    let before = try await rig(Self.source, store)
    #expect(try await before.token("robot").access_token == "work-a1-for-one")
    let after = try await rig(changed, store)
    #expect(after.cached("robot") == nil)
    _ = try await after.token("robot")
    #expect(after.transport.count(.token) == 1)
  }

  @Test(
    "A reload looks at many accounts in turns with everything else, and changes those whose provider's scopes change")
  func manyAccounts() async throws {
    func configuration(_ scopes: [String]) -> BrokerConfiguration {
      var configuration = BrokerConfiguration.plain([OAuthProvider(.plain { $0.access.scopes = scopes })])
      configuration.accounts = (0..<2000).map {
        DeclaredAccount(
          name: account("robot-\($0)"), provider: provider("example"), source: .clientCredentials, scopes: nil,
          resource: nil)
      }
      return configuration
    }
    let rig = try await Rig(configuration: configuration(["a"]))
    func scopes() async -> [String]? { await rig.broker.accounts[account("robot-7")]?.saved.requestedScopes }
    let before = await scopes()
    #expect(before == ["a"])
    for wanted in [["a"], ["b"]] {
      rig.reading.value = .success(configuration(wanted))
      let epoch = rig.broker.door.authorizer.inForce.epoch
      let reload = Task { try await rig.broker.reload() }
      var turns = 0
      while rig.broker.door.authorizer.inForce.epoch == epoch {
        await yieldActor()
        turns += 1
      }
      // The order of the jobs can give the reload two turns in succession.
      #expect(turns >= 2000 / Batch.heavy / 2)
      _ = try await reload.value
      let after = await scopes()
      #expect(after == wanted)
    }
  }

  @Test("A definition that stayed the same keeps its token over a restart")
  func same() async throws {
    let store = try await store()
    let before = try await rig(Self.source, store)
    _ = try await before.token("robot")
    let after = try await rig(Self.source, store)
    #expect(try await after.token("robot").access_token == "work-a1-for-one")
    #expect(after.transport.count(.token) == 0)
  }

  @Test("One from before definitions were kept keeps its token, and is compared from then on")
  func older() async throws {
    let store = try await store()
    _ = try await rig(Self.source, store).token("robot")
    var old = try #require(store.grant("robot"))
    old.sourceFingerprint = nil
    try await store.commit([.putGrant(old)])
    let between = try await rig(Self.source, store)
    #expect(try await between.token("robot").access_token == "work-a1-for-one")
    #expect(between.transport.count(.token) == 0)
    #expect(store.grant("robot")?.sourceFingerprint == GrantSource.exchange(Self.source).fingerprint)
    let after = try await rig(Self.changed[2], store)
    #expect(try await after.token("robot").access_token == "work-a1-for-two")
  }

  @Test(
    "The answer to a request of the old definition is not taken for the new one's",
    arguments: [true, false])
  func answerOfBefore(_ isForgottenBetween: Bool) async throws {
    let rig = try await rig(Self.source, store())
    rig.transport.hold(.token)
    let caller = Task { try? await rig.token("robot", timeout: 300) }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    var other = Self.source
    other.audience = "two"
    for source in isForgottenBetween ? [nil, other] : [other] {
      rig.reading.value = .success(configuration(source))
      _ = try await rig.call(BrokerReload.self, NoParams())
    }
    let second = Task { try? await rig.token("robot", timeout: 300) }
    #expect(await eventually { rig.transport.held(.token) == 2 })
    rig.transport.releaseOne(.token)
    await settle()
    #expect(rig.store.token("robot") == nil)
    rig.transport.release(.token)
    #expect(await second.value?.access_token == "work-a1-for-two")
    _ = await caller.value
    #expect(rig.store.token("robot")?.accessToken == Secret("work-a1-for-two"))
  }

  @Test(
    "A reload that redefines or removes an account withdraws the old token before its policy is active",
    arguments: [true, false], [true, false])
  func withdrawnFirst(_ isRedefined: Bool, _ hangsWhole: Bool) async throws {
    let rig = try await rig(Self.source, store())
    let alice = Caller.user(1000)
    _ = try await rig.token("robot")
    #expect(rig.cached("robot") != nil)
    var other = Self.source
    other.audience = "two"
    var new = BrokerConfiguration.plain(rules: [
      Rule(name: "alice", uid: 1000, gid: nil, accounts: ["robot"], access: [.use])
    ])
    new.accounts = [.robot(Self.source, name: "first")] + (isRedefined ? [.robot(other)] : [])
    rig.reading.value = .success(new)
    rig.store.set(.hangs) { changes in
      hangsWhole
        || changes.contains { if case .putGrant(let grant) = $0 { grant.account == account("first") } else { false } }
    }
    let reload = Task { try await rig.call(BrokerReload.self, NoParams()) }
    #expect(await eventually { rig.store.hanging == 1 })
    #expect(rig.cached("robot", as: alice) == nil)
    let asked = Task {
      try? await rig.call(TokenGet.self, .init(account: "robot", timeout: 60), as: alice).access_token
    }
    // What was written while the reload still writes is not overwritten by it.
    if !hangsWhole { #expect(await asked.value == (isRedefined ? "work-a1-for-two" : nil)) }
    await settle()
    rig.store.set(.works)
    _ = try await reload.value
    #expect(await asked.value == (isRedefined ? "work-a1-for-two" : nil))
    #expect(await rig.isQuiet())
    #expect(rig.store.token("robot")?.accessToken == (isRedefined ? Secret("work-a1-for-two") : nil))
    #expect(
      rig.store.grant("robot")?.sourceFingerprint == (isRedefined ? GrantSource.exchange(other).fingerprint : nil))
  }

  @Test("A definition is active before it can be saved, and is saved later")
  func notWritten() async throws {
    let rig = try await rig(Self.source, store())
    _ = try await rig.token("robot")
    var other = Self.source
    other.audience = "two"
    rig.store.set(.fails)
    rig.reading.value = .success(configuration(other))
    _ = try await rig.call(BrokerReload.self, NoParams())
    #expect(rig.cached("robot") == nil)
    rig.store.set(.works)
    await rig.broker.journal.saveUnsaved()
    #expect(rig.store.grant("robot")?.sourceFingerprint == GrantSource.exchange(other).fingerprint)
    #expect(rig.store.token("robot") == nil)
  }
}

extension DeclaredAccount {
  /// An account of the provider `example` that trades another's token.
  static func robot(_ source: ExchangeSource, name: String = "robot") -> Self {
    DeclaredAccount(
      name: AccountName(rawValue: name)!, provider: ProviderName(rawValue: "example")!, source: .exchange(source))
  }
}

extension TokenServer {
  /// Trades `work-a1` for `work-a1-for-AUDIENCE`; rotates refresh tokens.
  static let trading: ScriptedTransport.Answer = { request in
    guard let subject = request.form["subject_token"] else { return granted(request, lifetime: 3600) }
    let token = "\(subject)-for-\(request.form["audience"] ?? "all")"
    return reply(
      #"{"access_token":"\#(token)","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","#
        + #""token_type":"Bearer","expires_in":3600}"#)
  }
}
