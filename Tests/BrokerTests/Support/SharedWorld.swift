import BrokerAPI
import Foundation
import Grants
import Logging
import OAuth
import Providers
import Synchronization
import Testing

@testable import Broker

/// Two brokers on one store, at a provider that ends a grant whose refresh token is sent twice.
struct SharedWorld: Sendable {
  let clock = ManualClock()
  let database: SharedDatabase
  let provider: StrictProvider
  let brokers: [SharedSite]

  /// Every token has just expired.
  ///
  /// - Parameter others: the second broker's providers.
  init(
    accounts: [String] = ["work"], providers: [any Provider] = [OAuthProvider(.plain())],
    others: [any Provider]? = nil
  ) async throws {
    database = SharedDatabase(clock)
    provider = StrictProvider(clock)
    for name in accounts { try await database.disk.signIn(name, age: .seconds(3600)) }
    var brokers: [SharedSite] = []
    for providers in [providers, others ?? providers] {
      brokers.append(try await Self.start(database.join(), provider, clock, providers))
    }
    self.brokers = brokers
  }

  private static func start(
    _ store: SharedStore, _ transport: StrictProvider, _ clock: ManualClock, _ providers: [any Provider]
  ) async throws -> SharedSite {
    let broker = await Broker(
      store: store, transport: transport, system: clock.system,
      identity: BrokerIdentity(version: "0", pid: 1), configuration: .plain(providers),
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
      registrar: ClientRegistrar(), reloader: ScriptedReloads(ReloadBox(.success(.plain()))))
    try await broker.start()
    await broker.callbackListens(port: 8400, others: [], addresses: ["http://127.0.0.1:8400"])
    return SharedSite(store: store, broker: broker, router: Router(broker))
  }

  /// A broker that starts now.
  ///
  /// - Parameter site: whose next run it is.
  func another(
    _ providers: [any Provider] = [OAuthProvider(.plain())], of site: SharedSite? = nil
  ) async throws -> SharedSite {
    try await Self.start(database.join(of: site?.store), provider, clock, providers)
  }

  /// The refresh is sent, its answer is on its way, and both its holder's timer and who waits for it sleep.
  func isSent(sleepers: Int = 2) async -> Bool {
    await eventually { provider.held == 1 && clock.sleepers == sleepers }
  }

  /// The first broker has sent a refresh, and is cut off from the store for as long as its lease lasts. Then it is
  /// somebody else's.
  func loseLease(_ name: String) async throws -> (SharedStore, Lease) {
    #expect(await isSent())
    brokers[0].store.set(.cut)
    clock.advance(Limit.lease + .seconds(1))
    return try #require(try await takeLease(name))
  }

  /// Another broker refreshes the account whose lease has ended, and does not give it back.
  func takeLease(_ name: String, attempts: Int = 5) async throws -> (SharedStore, Lease)? {
    let store = database.join()
    let hash = database.disk.grant(name)?.refreshToken?.fingerprint ?? ""
    let intent = RefreshIntent(account: account(name), refreshTokenHash: hash, sentAt: clock.now, attempts: attempts)
    guard
      case .granted(let lease, _) = try await store.lease(
        intent, for: .seconds(60), Takeover(.none), expecting: [])
    else { return nil }
    return (store, lease)
  }
}

/// One of the brokers.
struct SharedSite: Sendable {
  let store: SharedStore
  let broker: Broker
  let router: Router

  func call<M: RPCMethod>(_ method: M.Type, _ params: M.Params) async throws -> M.Result {
    let request = RPCRequest(method: M.name, params: JSON(encoding: params), isNotification: false)
    return try await router.respond(to: request, session: FakeSession(.root)).get().decode(M.Result.self)
  }

  func token(_ account: String, timeout: Double? = nil) async throws -> String? {
    try await call(TokenGet.self, .init(account: account, timeout: timeout)).access_token
  }

  func reason(_ account: String) async -> ErrorReason? {
    do {
      _ = try await token(account, timeout: 300)
      return nil
    } catch {
      return (error as? RPCError)?.reason
    }
  }

  func phase(_ name: String) async -> Grant.Phase? { await broker.accounts[account(name)]?.phase }

  /// The store works, and has all that is in memory.
  @BrokerActor var isSaved: Bool { broker.journal.failure == nil && !broker.journal.hasUnsaved }

  func start(_ name: String) async throws -> LoginStart.Result {
    try await call(LoginStart.self, .init(provider: "example", account: name))
  }

  func callBack(_ login: LoginStart.Result, code: String = "new") async -> CallbackOutcome {
    await broker.handleCallback(url: login.callback(code: code))
  }
}

/// Rotates with each use; a refresh token that was used ends the grant. Requests are answered as they come, and the
/// answers to refreshes can be held back on the way.
final class StrictProvider: Transport {
  private struct State {
    /// How often each account was refreshed.
    var uses: [String: Int] = [:]
    var ended: Set<String> = []
    var isHolding = false
    var waiting: [CheckedContinuation<Void, Never>] = []
    /// The number of requests that never arrive here.
    var dropping = 0
    /// The number of requests that wait in the broker's transport.
    var stalling = 0
    /// Answers have no access token.
    var isBroken = false
    var refreshes = 0
    var reuses = 0
    var codes: [String] = []
    var revoked: [String] = []
  }

  private let state = Mutex(State())
  private let clock: ManualClock

  init(_ clock: ManualClock) { self.clock = clock }

  var held: Int { state.withLock { $0.waiting.count } }
  var refreshes: Int { state.withLock { $0.refreshes } }
  var reuses: Int { state.withLock { $0.reuses } }
  /// The authorization codes that came.
  var codes: [String] { state.withLock { $0.codes } }
  var revoked: [String] { state.withLock { $0.revoked } }
  func live(_ account: String) -> Secret { Secret("\(account)-r\(state.withLock { $0.uses[account] ?? 0 } + 1)") }
  func accessToken(_ account: String) -> String { "\(account)-a\(state.withLock { $0.uses[account] ?? 0 } + 1)" }

  func hold() { state.withLock { $0.isHolding = true } }

  func breakAnswers(_ isBroken: Bool = true) { state.withLock { $0.isBroken = isBroken } }

  /// The next so many requests are lost on their way, which shows when ``release()`` is called.
  func drop(_ count: Int) { state.withLock { $0.dropping = count } }

  /// The next so many requests wait for a connection until ``release()``.
  func stall(_ count: Int) { state.withLock { $0.stalling = count } }

  func release() {
    let waiting = state.withLock { state in
      state.isHolding = false
      defer { state.waiting = [] }
      return state.waiting
    }
    for continuation in waiting { continuation.resume() }
  }

  func send(
    _ request: HTTPRequest, over pool: ConnectionPool, late: LateAnswer?
  ) async throws(TransportError) -> HTTPResponse {
    let isStalled = state.withLock { state in
      guard state.stalling > 0 else { return false }
      state.stalling -= 1
      return true
    }
    if isStalled {
      await withCheckedContinuation { continuation in state.withLock { $0.waiting.append(continuation) } }
    }
    if let latest = request.latestSend, clock.elapsed > latest { throw TransportError(.notSent, "it is too late") }
    let isLost = state.withLock { state in
      guard state.dropping > 0 else { return false }
      state.dropping -= 1
      return true
    }
    if isLost {
      await withCheckedContinuation { continuation in state.withLock { $0.waiting.append(continuation) } }
      throw TransportError(.notSent, "the network was down")
    }
    let answer = answer(request)
    await withCheckedContinuation { continuation in
      let isHeld = state.withLock { state in
        let isHeld = state.isHolding && request.form["refresh_token"] != nil
        if isHeld { state.waiting.append(continuation) }
        return isHeld
      }
      if !isHeld { continuation.resume() }
    }
    return answer
  }

  private func answer(_ request: HTTPRequest) -> HTTPResponse {
    if request.purpose == .revocation {
      state.withLock { $0.revoked.append(request.form["token"] ?? "") }
      return HTTPResponse(status: 200)
    }
    if let code = request.form["code"] {
      state.withLock { $0.codes.append(code) }
      return TokenServer.granted(request, lifetime: 3600)
    }
    let parts = (request.form["refresh_token"] ?? "").components(separatedBy: "-r")
    guard parts.count == 2, let number = Int(parts[1]) else { return reply("{}", status: 404) }
    let isLive = state.withLock { state in
      state.refreshes += 1
      guard !state.ended.contains(parts[0]), number == (state.uses[parts[0]] ?? 0) + 1 else {
        state.reuses += 1
        state.ended.insert(parts[0])
        return false
      }
      state.uses[parts[0], default: 0] += 1
      return true
    }
    if isLive, state.withLock({ $0.isBroken }) { return reply(#"{"refresh_token":"\#(parts[0])-r\#(number + 1)"}"#) }
    return isLive
      ? TokenServer.granted(request, lifetime: 3600) : reply(#"{"error":"invalid_grant"}"#, status: 400)
  }
}
