import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import TestSupport
import Testing

@testable import Broker

/// What one connection keeps of the decisions for its requests to a provider's API.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct ConnectionForwardCacheTests {
  private static let feed = Caller(uid: 1000, gid: 1000, groups: [], pid: 7, unit: "feed.service")
  private static let rule = Rule(name: "feed", uid: 1000, gid: nil, accounts: ["work"], access: [.use])

  private func configuration(
    _ server: Server = .first, _ rules: [Rule] = [rule], base: String? = nil
  ) -> BrokerConfiguration {
    var configuration = BrokerConfiguration.at(server, accounts: ["work"])
    configuration.policy.rules = rules
    if let base, var provider = configuration.providers[0] as? SteppedProvider {
      provider.apiTraits = APITraits(base: URL(string: base)!)
      configuration.providers = [provider]
    }
    return configuration
  }

  private func request(
    _ target: String = "/x", _ method: String = "GET", _ headers: [HTTPRequest.Header] = [.init("Accept", "a/b")]
  ) -> ForwardRequest {
    ForwardRequest(account: "work", method: method, target: target, host: nil, headers: headers)
  }

  private func authorize(_ rig: Rig, _ request: ForwardRequest) async throws -> AuthorizedRequest {
    try await rig.router.authorize(request, session: FakeSession(Self.feed)).get()
  }

  /// The cache of a connection that has sent one request.
  private func cache(_ rig: Rig, by first: ForwardRequest? = nil) async throws -> ConnectionForwardCache {
    let cache = rig.router.forwardCache(for: .process(Self.feed))
    let first = first ?? request()
    #expect(cache.authorized(first) == nil)
    cache.keep(try await authorize(rig, first), of: first)
    return cache
  }

  @Test("A cached request is sent exactly as the broker would send it")
  func same() async throws {
    let rig = try await Rig.ofServers(configuration())
    let cache = try await cache(rig)
    for (target, method) in [
      ("/x", "GET"), ("/", "GET"), ("/a/b.json?x=1&y=/../z", "POST"), ("/me/messages?$top=5", "DELETE"), ("/a/", "GET"),
    ] {
      let request = request(target, method, [.init("X-One", "1"), .init("Accept", "b")])
      let (ours, theirs) = (try #require(cache.authorized(request)), try await authorize(rig, request))
      #expect(ours.method == theirs.method && ours.target == theirs.target && ours.headers == theirs.headers)
      #expect(ours.basis.server == theirs.basis.server && ours.request == theirs.request)
      #expect(ours.call.permission.request == theirs.call.permission.request && !ours.isSigned)
      #expect(ours.headers.contains(.init("Authorization", "Bearer access-1-of-a.example")))
    }
  }

  @Test("only verbatim paths are sent without the broker")
  func closer() async throws {
    let cache = try await cache(Rig.ofServers(configuration()))
    for path in RequestPaths.ambiguous + RequestPaths.emptySteps + RequestPaths.plain + ["x", ""] {
      #expect(cache.authorized(request(path)) == nil && cache.authorized(request(path + "?x=1")) == nil, "\(path)")
    }
    for path in RequestPaths.verbatim {
      #expect(cache.authorized(request(path)) != nil && cache.authorized(request(path + "?x=1")) != nil, "\(path)")
    }
  }

  @Test("Another account, another host and a header that the token brings are no reason to take it")
  func others() async throws {
    let cache = try await cache(Rig.ofServers(configuration()))
    var other = request()
    other.host = "a.example"
    #expect(cache.authorized(other) == nil)
    other = request()
    other.account = "home"
    #expect(cache.authorized(other) == nil)
    #expect(cache.authorized(request("/x", "GET", [.init("authorization", "Bearer other")])) == nil)
  }

  enum Change: CaseIterable { case rule, server, base, token, age, confirm, requests, cap, reported, removed }

  @Test("Nothing is kept longer than it is true", arguments: Change.allCases)
  func changes(_ change: Change) async throws {
    let rig = try await Rig.ofServers(configuration())
    let cache = try await cache(rig)
    #expect(cache.authorized(request()) != nil)
    var rule = Self.rule
    switch change {
    case .rule: try await rig.reload(configuration(.first, []))
    case .server: try await rig.reload(configuration(.second))
    case .base: try await rig.reload(configuration(base: "https://a.example/other"))
    case .token: _ = try await rig.call(AccountRefresh.self, .init(account: "work"))
    case .removed:
      var without = configuration()
      without.accounts = []
      try await rig.reload(without)
    case .age: rig.clock.advance(.seconds(3590))
    case .confirm:
      rule.confirm = .seconds(60)
      try await rig.reload(configuration(.first, [rule]))
    case .requests:
      rule.requests = [try #require(RequestPattern("GET /api/y"))]
      try await rig.reload(configuration(.first, [rule]))
    case .cap:
      rule.scopes = ["read"]
      try await rig.reload(configuration(.first, [rule]))
    case .reported:
      let token = try await rig.token("work")
      _ = try await rig.call(
        TokenReportRejected.self, .init(account: "work", generation: token.generation))
    }
    #expect(cache.authorized(request()) == nil)
    #expect(rig.astray.isEmpty)
  }

  @Test("Nothing of the request that it was asked for is kept")
  func released() async throws {
    let rig = try await Rig.ofServers(configuration())
    let cache = rig.router.forwardCache(for: .process(Self.feed))
    weak var kept: FakeSession?
    do {
      let session = FakeSession(Self.feed)
      kept = session
      cache.keep(try await rig.router.authorize(request(), session: session).get(), of: request())
    }
    #expect(cache.authorized(request()) != nil && kept == nil)
  }

  @Test("A header that a client sets instead of the provider's own stays with its request")
  func defaults() async throws {
    var configuration = configuration()
    var provider = try #require(configuration.providers[0] as? SteppedProvider)
    provider.defaults = [.init("X-App", "ours")]
    configuration.providers = [provider]
    let rig = try await Rig.ofServers(configuration)
    let cache = try await cache(rig, by: request("/x", "GET", [.init("X-App", "theirs")]))
    #expect(cache.authorized(request())?.headers.contains(.init("X-App", "ours")) != false)
    cache.keep(try await authorize(rig, request()), of: request())
    #expect(try #require(cache.authorized(request())).headers.contains(.init("X-App", "ours")))
    #expect(cache.authorized(request("/x", "GET", [.init("X-App", "theirs")])) == nil)
  }

  @Test("Rules by path hold for each request")
  func paths() async throws {
    var rule = Self.rule
    rule.requests = [try #require(RequestPattern("GET /api/a/*"))]
    let rig = try await Rig.ofServers(configuration(.first, [rule]))
    let cache = try await cache(rig, by: request("/a/1"))
    #expect(cache.authorized(request("/a/2")) != nil)
    #expect(cache.authorized(request("/b/2")) == nil)
    #expect(cache.authorized(request("/a/2", "POST")) == nil)
  }

  @Test("A rule with approval or with scopes for some requests holds on the same connection", arguments: [true, false])
  func stricter(_ asks: Bool) async throws {
    var (free, strict) = (Self.rule, Self.rule)
    free.requests = [try #require(RequestPattern("GET /api/a/*"))]
    strict.requests = [try #require(RequestPattern("GET /api/b/*"))]
    if asks { strict.confirm = .seconds(60) } else { strict.scopes = ["read"] }
    let rig = try await Rig.ofServers(configuration(.first, [free, strict]))
    let cache = try await cache(rig, by: request("/a/1"))
    #expect(cache.authorized(request("/a/2")) != nil)
    #expect(cache.authorized(request("/b/2")) == nil)
  }

  @Test("A token that the caller reported while its request was decided is not kept")
  func reported() async throws {
    let rig = try await Rig.ofServers(configuration())
    _ = try await rig.call(TokenGet.self, .init(account: "work"), as: Self.feed)
    let sent = try await authorize(rig, request())
    rig.transport.answer(.token, TokenServer.failing(.notSent))
    let report = TokenReportRejected.Params(account: "work", generation: sent.basis.token.generation)
    #expect(
      await rig.reason { try await rig.call(TokenReportRejected.self, report, as: Self.feed) }
        == .temporarilyUnavailable)
    sent.basis.record(rig.broker.cache.slot(of: account("work")))
    let (own, other) = (
      rig.router.forwardCache(for: .process(Self.feed)), rig.router.forwardCache(for: .process(.root))
    )
    for cache in [own, other] { cache.keep(sent, of: request()) }
    #expect(own.authorized(request()) == nil && other.authorized(request()) != nil)
  }

  @Test("They use their caller's rate, and each is counted")
  func counted() async throws {
    var configuration = configuration()
    configuration.callerLimits.burst = 5
    configuration.callerLimits.rate = 1
    let rig = try await Rig.ofServers(configuration)
    let cache = try await cache(rig)
    let allowed = (0..<8).filter { cache.authorized(request("/\($0)")) != nil }
    #expect(allowed.count == 4)
    let records = try await rig.call(AuditList.self, .init(account: "work")).records
    #expect(records.first { $0.method == RequestSend.name && $0.rule == "feed" }?.count == 5)
    #expect(await rig.reason { try await authorize(rig, request()) } == .rateLimited)
    let refused = AuditEntry(
      action: .use, method: RequestSend.name, who: AuditCaller(.process(Self.feed)), result: "rate_limited")
    #expect(await sent(rig).last?.entry == refused)
  }

  /// The records of requests to the provider's API.
  private func sent(_ rig: Rig) async -> [AuditRecord] {
    await rig.broker.trail.flush()
    return rig.audit.sinceStart.filter { $0.entry.method == RequestSend.name }
  }

  @Test("requests that are allowed with and without the broker are one record, and a capped one is another")
  func recorded() async throws {
    let rig = try await Rig.ofServers(configuration())
    let cache = try await cache(rig)
    #expect(cache.authorized(request()) != nil)
    var rule = Self.rule
    rule.scopes = ["read"]
    try await rig.reload(configuration(.first, [rule]))
    #expect(cache.authorized(request()) == nil)
    #expect(await rig.reason { try await authorize(rig, request()) } == .notPermitted)
    let (records, who) = (await sent(rig), AuditCaller(.process(Self.feed)))
    #expect(
      records.map(\.entry) == [
        AuditEntry(action: .use, method: RequestSend.name, account: "work", who: who, rule: "feed"),
        AuditEntry(action: .use, method: RequestSend.name, account: "work", who: who, result: "not_permitted"),
      ])
    #expect(records.map(\.count) == [2, 1] && records.map(\.pid) == [7, 7])
  }
}
