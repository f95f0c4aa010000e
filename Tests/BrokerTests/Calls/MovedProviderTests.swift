import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// A provider that a reload moves to another server while a call waits: what one server issued never goes to the other.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct MovedProviderTests {
  enum Question: CaseIterable {
    case introspect, userInfo, sessions, endSession, sendPath, sendAddress, exchange, exchangeActing

    var purpose: HTTPRequest.Purpose {
      switch self {
      case .introspect: .introspection
      case .userInfo: .userinfo
      case .sessions, .endSession, .sendPath, .sendAddress: .resource
      case .exchange, .exchangeActing: .token
      }
    }

    /// Asked again where the provider refuses the token.
    var isRepeated: Bool { self != .introspect && purpose != .token }
    var usesMetadata: Bool { self != .sendPath && self != .sendAddress }
  }

  enum Wait: CaseIterable {
    /// The request for the account's token is sent to the first server.
    case inFlight
    /// It waits for a place, and is sent to the second one.
    case queued
    /// The first server is about to refuse the token.
    case refused
    /// It has refused it, and the fresh one is asked for there.
    case refusedInFlight
    /// It has refused it, and the fresh one waits for a place.
    case refusedQueued
    /// The metadata are asked for.
    case metadata

    var isOfRefusal: Bool { [.refused, .refusedInFlight, .refusedQueued].contains(self) }

    func concerns(_ question: Question) -> Bool {
      isOfRefusal ? question.isRepeated : self == .metadata ? question.usesMetadata : true
    }
  }

  static let waits = Question.allCases.flatMap { question in
    Wait.allCases.filter { $0.concerns(question) }.map { (question, $0) }
  }

  private static let accounts = ["work", "helper", "busy"]

  private func configuration(_ server: Server, _ wait: Wait = .inFlight) -> BrokerConfiguration {
    .at(
      server, accounts: Self.accounts, isDiscovered: wait == .metadata,
      refresh: { if wait == .queued || wait == .refusedQueued { $0.concurrentPerProvider = 1 } })
  }

  private func ask(_ question: Question, _ rig: Rig, of server: Server = .first) async -> ErrorReason? {
    await rig.reason {
      switch question {
      case .introspect: _ = try await rig.call(TokenIntrospect.self, .init(account: "work"))
      case .userInfo: _ = try await rig.call(AccountUserinfo.self, .init(account: "work"))
      case .sessions: _ = try await rig.call(AccountSessions.self, .init(account: "work"))
      case .endSession: _ = try await rig.call(AccountEndSession.self, .init(account: "work", session_id: "s1"))
      case .sendPath: _ = try await rig.call(RequestSend.self, .init(account: "work", method: "GET", url: "/me"))
      case .sendAddress:
        let url = "https://\(server.host)/api/me"
        _ = try await rig.call(RequestSend.self, .init(account: "work", method: "GET", url: url))
      case .exchange: _ = try await rig.call(TokenExchange.self, .init(account: "work", audience: ["x"]))
      case .exchangeActing:
        _ = try await rig.call(TokenExchange.self, .init(account: "work", audience: ["x"], actor: "helper"))
      }
    }
  }

  /// Begins the call, and returns when it waits.
  private func begin(_ question: Question, _ wait: Wait, _ rig: Rig) async throws -> Task<ErrorReason?, Never> {
    let transport = rig.transport
    if wait.isOfRefusal || wait == .metadata { _ = try await rig.token("work") }
    if wait == .metadata {
      try await rig.reload(configuration(.first, wait))
      transport.hold(.discovery)
    }
    if wait == .refused { transport.hold(question.purpose) }
    if wait.isOfRefusal {
      transport.answer(question.purpose) { request in
        reply(#"{"sub":"work"}"#, status: Server.named(by: request) == .first ? 401 : 200)
      }
    }
    if wait == .inFlight || wait == .refusedInFlight { transport.hold(.token) }
    if wait == .queued || wait == .refusedQueued {
      transport.hold(.token)
      Task { try? await rig.token("busy") }
      #expect(await eventually { transport.held(.token) == 1 })
    }
    let call = Task { await ask(question, rig) }
    let held = wait == .metadata ? HTTPRequest.Purpose.discovery : wait == .refused ? question.purpose : .token
    #expect(await eventually { transport.held(held) == 1 })
    if wait == .queued || wait == .refusedQueued {
      #expect(await eventually { await rig.broker.engine.wantedCount(at: provider("example")) > 0 })
    }
    return call
  }

  @Test("A call that waits is refused, and asks the server of now when it is made again", arguments: waits)
  func moves(_ question: Question, _ wait: Wait) async throws {
    let rig = try await Rig.ofServers(configuration(.first, wait))
    let call = try await begin(question, wait, rig)
    try await rig.reload(configuration(.second, wait))
    for purpose in [HTTPRequest.Purpose.discovery, .token, question.purpose] { rig.transport.release(purpose) }
    #expect(await call.value == .unknownAccount)
    #expect(rig.astray.isEmpty)
    #expect(await rig.isQuiet())
    rig.clock.advance(.seconds(1))
    #expect(await ask(question, rig, of: .second) == nil)
    #expect(rig.astray.isEmpty)
    let asked = rig.transport.requests(question.purpose).last
    #expect(asked.flatMap(Server.named) == .second)
  }

  @Test("A reload that leaves the server disturbs no call", arguments: Question.allCases)
  func stays(_ question: Question) async throws {
    let rig = try await Rig.ofServers(configuration(.first))
    rig.transport.hold(.token)
    let call = Task { await ask(question, rig) }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    try await rig.reload(configuration(.first))
    rig.transport.release(.token)
    #expect(await call.value == nil)
    #expect(rig.astray.isEmpty)
  }

  @Test("A token is good again when the provider is where it was")
  func back() async throws {
    let rig = try await Rig.ofServers(configuration(.first))
    #expect(await ask(.userInfo, rig) == nil)
    try await rig.reload(configuration(.second))
    try await rig.reload(configuration(.first))
    #expect(await ask(.userInfo, rig) == nil)
    #expect(rig.transport.count(.token) == 1 && rig.transport.count(.userinfo) == 2)
  }

  @Test("A token that cannot be renewed is not sent during that time, and is kept")
  func unrenewable() async throws {
    let store = MemoryStore()
    try await store.signIn("work", refreshes: false)
    let rig = try await Rig.ofServers(configuration(.first), store: store)
    try await rig.reload(configuration(.second))
    #expect(await ask(.userInfo, rig) == .loginRequired)
    #expect(rig.transport.count(.userinfo) == 0)
    #expect(try await rig.view("work").state == .ok)
    try await rig.reload(configuration(.first))
    #expect(await ask(.userInfo, rig) == nil)
  }

  @Test("An account that trades another's token trades none that is of the server of before", arguments: [true, false])
  func trades(_ isBegun: Bool) async throws {
    func configuration(_ server: Server) -> BrokerConfiguration {
      var configuration = BrokerConfiguration.at(server, accounts: ["work"])
      configuration.accounts.append(.robot(ExchangeSource(from: account("work"))))
      return configuration
    }
    let rig = try await Rig.ofServers(configuration(.first))
    _ = try await rig.token("work")
    if isBegun {
      rig.store.set(.hangs) { $0.contains { if case .putIntent = $0 { true } else { false } } }
      let caller = Task { try await rig.token("robot", timeout: 300) }
      #expect(await eventually { rig.store.hanging == 1 })
      // Its end waits for the account's lock.
      let next = configuration(.second)
      let reload = Task { try await rig.reload(next) }
      let issuer = TokenIssuer(next.providers[0])
      #expect(await eventually { await rig.broker.providers.issuer(of: provider("example")) == issuer })
      rig.store.set(.works)
      try await reload.value
      #expect(try await caller.value.access_token?.hasSuffix("of-b.example") == true)
    } else {
      try await rig.reload(configuration(.second))
      #expect(try await rig.token("robot").access_token?.hasSuffix("of-b.example") == true)
    }
    #expect(rig.astray.isEmpty)
  }

  @Test("An answer applies to the server to which the request was sent")
  func issuers() {
    let all = Server.allCases.map { TokenIssuer(OAuthProvider($0.settings())) }
    let start = ManualClock.start
    var issuers = TokenIssuers(all[0])
    #expect(issuers.issuer(at: start + .seconds(99), now: start) == all[0])
    issuers.configure(all[1], at: start + .seconds(10))
    issuers.configure(all[1], at: start + .seconds(15))
    issuers.configure(all[0], at: start + .seconds(20))
    func issuer(_ seconds: Int64) -> TokenIssuer {
      issuers.issuer(at: start + .seconds(seconds), now: start + .seconds(100))
    }
    #expect([-1, 9, 10, 19, 20, 100].map(issuer) == [0, 0, 1, 1, 0, 0].map { all[$0] })
    #expect(issuer(101) == .unknown)
    issuers.clockStepped(by: .seconds(5))
    #expect([14, 15, 24, 25].map(issuer) == [0, 1, 1, 0].map { all[$0] })
    for round in 0..<TokenIssuers.most { issuers.configure(all[(round + 1) % 2], at: start + .seconds(50)) }
    #expect(issuer(40) == .unknown)
    let client = TokenIssuer(OAuthProvider(Server.first.settings { $0.client.id = "other" }))
    #expect(Set((all + [client, .unknown]).map(\.text)).count == 4)
  }
}
