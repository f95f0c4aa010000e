import BrokerAPI
import FoundationEssentials
import Grants
import Logging
import OAuth

/// One active provider: its settings, learned data, and whether it may be asked now.
@BrokerActor
final class ProviderConnection: Piece {
  let runtime: Runtime
  private let transport: any Transport
  private(set) var provider: any Provider
  /// Counts the settings: answers to requests under earlier settings are not kept.
  private(set) var settings: UInt64 = 0
  var metadata = Metadata()
  var keys = Keys()
  var history = RefreshHistory()
  var diagnostics = ProviderDiagnostics()
  /// Which refreshes it gets, and how fast.
  var gate = ProviderGate()
  /// How many refreshes may be in flight.
  var refreshesAtOnce: Int
  /// How old its refresh tokens get.
  var learned: LearnedLifetime
  private(set) var observed = Observed()

  /// Data of responses that remain valid under other settings.
  struct Observed {
    /// What servers want in the next DPoP proof, by origin (RFC 9449 §8).
    fileprivate var nonces: [String: String] = [:]
    fileprivate(set) var skew: ClockSkew?
  }

  /// Observations for users.
  struct ProviderDiagnostics {
    var lastError: String?
    /// The latest request, if no connection for it was made.
    fileprivate var unreachable: (error: TransportError, url: URL)?
    /// Tolerated deviations in its token responses: each is logged once.
    fileprivate(set) var oddities: [String] = []
    /// The last token response had no `scope`; nil: none was seen since the settings were read.
    var omitsScope: Bool?
    /// Scopes that an account lost at a refresh, as they were last reported.
    var lostScopes: [AccountName: [String]] = [:]
    /// Accounts whose lost scopes the provider refuses to return.
    var refusedScopes: Set<AccountName> = []
    /// It answered with 429, which was logged.
    var isLimited = false
  }

  /// What refreshes under these settings showed.
  struct RefreshHistory {
    /// The provider refuses this client: until then its refreshes rest.
    var suspension: (failure: FailureRecord, until: Timestamp)?
    /// Refreshes of several accounts that were refused with codes that usually concern the client.
    var clientRefusals = ClientRefusals()
    /// When the refresh token of any account was last accepted.
    var lastSuccess: Timestamp?
    var narrowingResult = NarrowingResult.unknown
  }

  struct Fetched<Value: Sendable>: Sendable {
    var value: Value
    var at: Timestamp

    mutating func moves(by step: Duration) { at = at + step }
  }

  /// The server's metadata (RFC 8414), and the one request for them that may be under way.
  struct Metadata {
    var known: Fetched<ServerMetadata>?
    var task: Task<Result<ServerMetadata, ProviderFailure>, Never>?
    var failure: (failure: ProviderFailure, at: Timestamp)?
    /// Since when the server answers that it has none, without having given any before. A time since boot.
    var absentSince: Duration?

    /// How the last fetch failed, if that was so short a time ago.
    func failed(within pause: Duration, at now: Timestamp) -> ProviderFailure? {
      guard let (failure, at) = failure, now >= at, now - at < pause else { return nil }
      return failure
    }
  }

  /// The server's signing keys (RFC 7517), and the one request for them that may be under way.
  struct Keys {
    var known: Fetched<JWKSet>?
    var task: Task<Result<JWKSet, ProviderFailure>, Never>?
    var refetchedAt: Timestamp?
    var failedAt: Timestamp?
    /// Logout tokens with an unknown key that wait for the request.
    var waitingLogouts = 0
  }

  init(
    _ provider: any Provider, learned: LearnedLifetime = LearnedLifetime(), refreshesAtOnce: Int,
    _ transport: any Transport, _ runtime: Runtime
  ) {
    self.provider = provider
    self.refreshesAtOnce = refreshesAtOnce
    self.learned = learned
    self.transport = transport
    self.runtime = runtime
  }

  // MARK: Settings

  /// A reload: data learned under other settings are dropped. Running requests continue.
  func configure(_ provider: any Provider) {
    let isSameServer = TokenIssuer(self.provider) == TokenIssuer(provider)
    let narrowingResult = history.narrowingResult
    self.provider = provider
    settings += 1
    metadata = Metadata()
    keys = Keys(waitingLogouts: keys.waitingLogouts)
    history = RefreshHistory()
    // A narrowed refresh that harmed a grant at this server would do so again.
    if isSameServer { history.narrowingResult = narrowingResult } else { gate.limit = RateLimit() }
    diagnostics = ProviderDiagnostics()
    gate.limit.release(at: uptime)
    gate.recheck(at: uptime)
  }

  /// The provider works for a client of these settings.
  ///
  /// - Parameter isRefresh: it took a refresh token, which shows that refreshes of others could succeed.
  func works(isRefresh: Bool) {
    history.suspension = nil
    history.clientRefusals = ClientRefusals()
    if isRefresh {
      history.lastSuccess = now
      gate.isCautious = false
    }
    diagnostics.lastError = nil
  }

  /// Something in a token answer was outside the specification, and did no harm.
  func passedOver(_ odd: [String]) {
    for text in odd where !diagnostics.oddities.contains(text) && diagnostics.oddities.count < Limit.oddities {
      diagnostics.oddities.append(text)
      let name = provider.name
      let hint =
        text == TokenResponse.unknownLifetime
        ? "Set access_token_lifetime in \(provider.section) if the provider documents it."
        : "Nothing to do: the tokens are used. Report it to the provider."
      logger.warning(
        "provider \(name) answers outside the specification: \(text)",
        metadata: ["provider": "\(name)", "hint": "\(hint)"])
    }
  }

  /// Why its refreshes rest now, if they do. A rest longer than any is from before the clock was set back.
  var suspended: FailureRecord? {
    guard let suspension = history.suspension, suspension.until > now, suspension.until - now <= Limit.suspension
    else { return nil }
    return suspension.failure
  }

  /// A permitted caller requests an attempt now.
  func release() {
    history.suspension = nil
    history.clientRefusals.until = nil
    gate.limit.release(at: uptime)
    recheck()
  }

  /// The network is back, the machine woke up, or its clock was set.
  func recheck() {
    // Those of a portal before the network are no longer there.
    if hasWrongMetadata { history.suspension = nil }
    metadata.failure = nil
    keys.failedAt = nil
    gate.recheck(at: uptime)
  }

  // MARK: Clocks

  func clockStepped(by step: Duration) {
    metadata.known?.moves(by: step)
    keys.known?.moves(by: step)
    metadata.failure = nil
    keys.refetchedAt = nil
    keys.failedAt = nil
    // A client that proves itself with the time may have been refused for that.
    history.suspension = nil
    history.clientRefusals = ClientRefusals()
    history.lastSuccess = nil
    observed.skew = nil
  }

  /// The difference between the provider's `Date` and this machine's clock (RFC 9110 §6.6.1).
  private func measureSkew(_ response: HTTPResponse, sent: Timestamp) {
    guard let date = response.date else { return }
    let received = now
    guard received >= sent, received - sent < Limit.skewWorthWarning else { return }
    // The header is rounded down, and the answer was dated somewhere between sending and receiving.
    let middle = sent + (received - sent).scaled(by: 0.5)
    let offset = middle - (date + .milliseconds(500))
    let size = max(offset, .zero - offset)
    let wasLarge = observed.skew?.isWorthWarning ?? false
    observed.skew = ClockSkew(offset: offset)
    guard size > Limit.skewWorthWarning, !wasLarge else { return }
    let name = provider.name
    logger.warning(
      "this machine's clock is \(size.wholeSeconds) s \(offset > .zero ? "ahead of" : "behind") that of provider \(name)",
      metadata: ["provider": "\(name)", "hint": "Check the clock with timedatectl."])
  }

  // MARK: Requests

  func pool(_ use: ConnectionPool.Use) -> ConnectionPool {
    let size =
      switch use {
      // Includes requests stuck since an outage. Late ones are no longer among the running refreshes; the metadata and
      // the keys are one request each.
      case .refreshes: 2 * max(refreshesAtOnce, 2) + Limit.lateAnswers + 2
      // Root and the broker's own user have separate slots; the check of the provider runs once.
      case .logins: Limit.loginStarts + 2 * Limit.loginStartsPerHolder + 2
      // Each pending login sends one request at a time, so none waits for a connection.
      case .exchanges: Limit.pendingLogins + 2 * Limit.pendingLoginsPerHolder
      case .logouts: Limit.logoutConnections
      // Revocations of logouts, in addition to automatic attempts.
      case .revocations: 2 * Limit.revocationsAtOnce
      // Root and the broker's own user have separate slots.
      case .callers: Limit.callerConnections + 2 * Limit.callsPerHolder
      // The listener that they come by has its own shares.
      case .forwarded: 2048
      }
    let isCall = use == .callers || use == .forwarded
    let reach = (isCall ? provider.apiTraits.reach : nil) ?? provider.reach
    return ConnectionPool(provider.name, use, size: size, reach: reach)
  }

  /// Sends a request, signed for this attempt if required; once more with the nonce that the server requires in its
  /// proof (RFC 9449 §8), since the first had no effect.
  func send(
    _ request: HTTPRequest, for use: ConnectionPool.Use, late: LateAnswer? = nil, latest: LatestSend? = nil
  ) async -> Result<HTTPResponse, ProviderFailure> {
    guard !request.signatures.isEmpty else { return await sendOnce(request, use, late, latest) }
    let origin = request.origin
    var nonce = observed.nonces[origin]
    for isLast in [false, true] {
      let signed: HTTPRequest
      do throws(SigningKeyError) {
        signed = try request.signed(at: now, identifier: { system.token(bytes: 16) }, nonce: nonce)
      } catch {
        return .failure(.misconfigured(message: error.description, nil))
      }
      let result = await sendOnce(signed, use, late, latest)
      guard case .success(let response) = result, let fresh = response.dpopNonce else { return result }
      if observed.nonces[origin] == nil, observed.nonces.count >= Limit.nonces { observed.nonces = [:] }
      observed.nonces[origin] = fresh
      guard response.asksForDPoPNonce, fresh != nonce, !isLast else { return result }
      nonce = fresh
    }
    return .failure(.unclear(message: "the provider wants another DPoP nonce each time", retryAfter: nil))
  }

  /// A request that other code sends: signed for this attempt if required.
  func signed(_ request: HTTPRequest) throws(SigningKeyError) -> HTTPRequest {
    guard !request.signatures.isEmpty else { return request }
    return try request.signed(
      at: now, identifier: { system.token(bytes: 16) }, nonce: observed.nonces[request.origin])
  }

  /// Its result.
  ///
  /// - Returns: whether it had no effect because the server's nonce was missing, which the next one has.
  func recordNonce(_ response: HTTPResponse, to request: HTTPRequest) -> Bool {
    guard !request.signatures.isEmpty, let fresh = response.dpopNonce else { return false }
    if observed.nonces[request.origin] == nil, observed.nonces.count >= Limit.nonces { observed.nonces = [:] }
    defer { observed.nonces[request.origin] = fresh }
    return response.asksForDPoPNonce && fresh != observed.nonces[request.origin]
  }

  /// The latest time since boot at which a request may be sent; nil: it may not be sent any more.
  typealias LatestSend = @BrokerActor () -> Duration?

  private func sendOnce(
    _ request: HTTPRequest, _ use: ConnectionPool.Use, _ late: LateAnswer?, _ latest: LatestSend? = nil
  ) async -> Result<HTTPResponse, ProviderFailure> {
    let sent = now
    var request = request
    if let latest {
      guard let moment = latest(), uptime <= moment else {
        return .failure(
          .notSent(message: "too late to send the request: another broker may have the account's lease"))
      }
      request.latestSend = moment
    }
    do throws(TransportError) {
      let response = try await transport.send(request, over: pool(use), late: late)
      measureSkew(response, sent: sent)
      diagnostics.unreachable = nil
      return .success(response.withoutEchoes(of: request))
    } catch {
      diagnostics.unreachable = error.kind == .notSent || error.kind == .timedOut ? (error, request.url) : nil
      switch error.kind {
      case .notSent where error.cause == .certificate:
        return .failure(.notSent(message: "\(error.message) (tls_ca_file adds a private authority)"))
      case .notSent: return .failure(.notSent(message: error.message))
      case .lost, .timedOut: return .failure(.lost(message: error.message))
      case .tooLarge, .unreadable: return .failure(.unclear(message: error.message, retryAfter: nil))
      }
    }
  }

  /// The fix for a failure that comes from the latest connection attempt; nil: it has another cause.
  ///
  /// - Parameter setting: the place of the server's URL, as in "correct the URL in SETTING"; nil: the provider is being
  ///   added.
  func transportHint(for failure: ProviderFailure, setting: String?) -> String? {
    guard let (error, url) = diagnostics.unreachable else { return nil }
    switch failure {
    case .notSent(let message), .lost(let message):
      return message.hasPrefix(error.message) ? error.hint(for: url, section: setting) : nil
    default: return nil
    }
  }

  /// Runs an exchange to its end. What is sent in it, and where, is of the provider that made its first step: a reload in
  /// its middle changes neither.
  ///
  /// - Parameters:
  ///   - use: a refresh uses the signing keys at hand. An answer that may hold a rotated refresh token waits for no other
  ///     request before it is on disk.
  ///   - late: how each answer is read on after its time is over.
  ///   - latest: the latest time at which each request is sent; nil: any time.
  func converse<Output: Sendable>(
    _ first: Step<Output>, for use: ConnectionPool.Use, late: LateAnswer? = nil, latest: LatestSend? = nil
  ) async -> Result<Output, ProviderFailure> {
    var step = first
    for _ in 0..<Limit.steps {
      switch step {
      case .done(let issued): return .success(issued)
      case .failed(let failure): return .failure(failure)
      case .send(let request, let then):
        switch await send(request, for: use, late: late, latest: latest) {
        case .success(let response): step = then(response, now)
        case .failure(let failure): return .failure(failure)
        }
      case .attempt(let request, let then): step = then(await send(request, for: use, late: late, latest: latest), now)
      case .keys(let unknown, let then):
        step = then(await signingKeys(unknown: unknown, for: use), now)
      }
    }
    return .failure(.unclear(message: "the conversation with the provider did not end", retryAfter: nil))
  }
}

/// How far this machine's clock and a provider's are apart. Positive: ours is ahead.
struct ClockSkew: Sendable, Equatable {
  var offset: Duration

  var isWorthWarning: Bool { max(offset, .zero - offset) > Limit.skewWorthWarning }
}
