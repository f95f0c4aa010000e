import BrokerAPI
import FoundationEssentials
import Grants
import OAuth

/// The active providers by name: configured and registered ones.
@BrokerActor
final class ProviderDirectory: Piece {
  let runtime: Runtime
  private let transport: any Transport
  private let journal: Journal
  /// Limits requests that begin a login or test one.
  let loginStarts: ProviderCallLimiter
  private var connections: [ProviderName: ProviderConnection] = [:]
  /// Includes removed providers: accounts keep their tokens. Limited by the names that were ever configured.
  private var issuers: [ProviderName: TokenIssuers] = [:]
  private var refreshesAtOnce: Int

  init(
    _ configured: [any Provider], refreshesAtOnce: Int, _ transport: any Transport, journal: Journal,
    _ runtime: Runtime
  ) {
    self.runtime = runtime
    self.refreshesAtOnce = refreshesAtOnce
    self.transport = transport
    self.journal = journal
    loginStarts = .loginStarts(runtime.waiters)
    for provider in configured { add(provider) }
  }

  subscript(name: ProviderName) -> ProviderConnection? { connections[name] }

  var names: some Collection<ProviderName> { connections.keys }
  var all: some Collection<ProviderConnection> { connections.values }
  var sorted: [ProviderConnection] { connections.values.sorted { $0.provider.name < $1.provider.name } }
  var count: Int { connections.count }

  @discardableResult
  func add(_ provider: any Provider) -> ProviderConnection {
    let connection = connection(to: provider)
    connections[provider.name] = connection
    recordIssuer(of: provider)
    return connection
  }

  func remove(_ name: ProviderName) {
    connections[name] = nil
    measures.remove(name)
  }

  /// A connection to a provider that is not active, or not yet.
  func connection(to provider: any Provider) -> ProviderConnection {
    let connection = ProviderConnection(
      provider, learned: learnedLifetime(of: provider.name), refreshesAtOnce: refreshesAtOnce, transport, runtime)
    connection.history.narrowingResult = narrowingResult(of: provider.name)
    connection.gate.limit = rateLimit(of: provider.name)
    return connection
  }

  /// After a start: what earlier runs learned.
  func takeOver(_ providers: [any Provider]) {
    for provider in providers where connections[provider.name] == nil { add(provider) }
    for (name, connection) in connections {
      connection.learned = learnedLifetime(of: name)
      connection.history.narrowingResult = narrowingResult(of: name)
      connection.gate.limit = rateLimit(of: name)
    }
  }

  /// Each provider gets one refresh at a time until one succeeds.
  func refreshCautiously() { for connection in connections.values { connection.gate.isCautious = true } }

  /// A reload.
  func configure(_ providers: [any Provider], refreshesAtOnce: Int) {
    self.refreshesAtOnce = refreshesAtOnce
    for connection in connections.values { connection.refreshesAtOnce = refreshesAtOnce }
    let kept = Set(providers.map(\.name))
    for name in Array(connections.keys) where !kept.contains(name) { remove(name) }
    for provider in providers {
      (connections[provider.name] ?? add(provider)).configure(provider)
      recordIssuer(of: provider)
    }
  }

  func clockStepped(by step: Duration) {
    for connection in connections.values { connection.clockStepped(by: step) }
    for name in Array(issuers.keys) { issuers[name]?.clockStepped(by: step) }
  }

  // MARK: Who issued what

  private func recordIssuer(of provider: any Provider) {
    let issuer = TokenIssuer(provider)
    issuers[provider.name, default: TokenIssuers(issuer)].configure(issuer, at: now)
  }

  /// Who issues the provider's tokens now; nil: it is not configured.
  func issuer(of name: ProviderName) -> TokenIssuer? { connections[name].map { TokenIssuer($0.provider) } }

  /// The issuer of an answer to a request at that moment to the provider of this name; nil: not configured in this run.
  func issuer(of name: ProviderName, at moment: Timestamp) -> TokenIssuer? {
    issuers[name]?.issuer(at: moment, now: now)
  }

  /// Whether a request at that moment was sent to the server that is configured now.
  func isOwn(_ moment: Timestamp, of name: ProviderName) -> Bool {
    guard let issuer = issuer(of: name) else { return false }
    return self.issuer(of: name, at: moment) == issuer
  }

  // MARK: By name

  /// The provider and its metadata, both of the settings of now: a reload may come while metadata are waited for.
  func endpoints(of name: ProviderName) async -> Result<ProviderEndpoints, ProviderFailure> {
    for _ in 0..<Limit.conflicts {
      guard let connection = connections[name] else { return .failure(gone(name)) }
      let (provider, settings) = (connection.provider, connection.settings)
      let result = await connection.currentMetadata()
      guard isCurrent(connection, settings) else { continue }
      return result.map { .init(connection: connection, provider: provider, settings: settings, metadata: $0) }
    }
    return .failure(.notSent(message: "the configuration changes while the provider is asked"))
  }

  /// The same, once the metadata name the endpoint; `unsupported_by_provider` where they do not. Nil: any metadata.
  func endpoints(of name: ProviderName, with endpoint: Endpoint?) async throws(RPCError) -> ProviderEndpoints {
    switch await endpoints(of: name) {
    case .success(let endpoints):
      if let endpoint { try demand(endpoint, of: endpoints.metadata, endpoints.provider) }
      return endpoints
    case .failure(let failure): throw error(failure, at: name)
    }
  }

  /// Whether no reload has come since they were read.
  func isCurrent(_ endpoints: ProviderEndpoints) -> Bool {
    isCurrent(endpoints.connection, endpoints.settings)
  }

  /// Whether the provider still has these settings.
  func isCurrent(_ connection: ProviderConnection, _ settings: UInt64) -> Bool {
    connections[connection.provider.name] === connection && connection.settings == settings
  }

  func demand(_ endpoint: Endpoint, of metadata: ServerMetadata, _ provider: any Provider) throws(RPCError) {
    do throws(EndpointError) {
      _ = try metadata.endpoint(endpoint)
    } catch {
      let objection = provider.objection(to: endpoint, error)
      throw RPCError(.unsupportedByProvider, objection.message, hint: objection.hint)
    }
  }

  /// The name, if such a provider is active.
  func configured(_ text: String) throws(RPCError) -> ProviderName {
    let name = try providerName(text)
    guard connections[name] != nil else { throw unknown(text) }
    return name
  }

  /// A failed conversation, for the login or request that began it.
  func error(_ failure: ProviderFailure, at name: ProviderName) -> RPCError {
    var error = providerError(failure, provider: name, correction: correction(of: name))
    if let hint = connections[name]?.transportHint(for: failure, setting: section(of: name)) { error.hint = hint }
    return error
  }

  /// The section for a key of this provider, as in "set `KEY` in …".
  func section(of name: ProviderName) -> String { connections[name]?.provider.section ?? name.section }

  /// What to do if the provider's settings are wrong.
  func correction(of name: ProviderName) -> String {
    connections[name]?.provider.correction
      ?? "Add \(name.section) to the configuration again, then run `grantctl reload`."
  }

  func unknown(_ name: String) -> RPCError {
    let known = connections.keys.sorted().map(\.rawValue)
    return RPCError(
      .unknownProvider, "no provider \(name.prefix(64).debugDescription)",
      hint: known.isEmpty
        ? "No provider is configured: `grantctl setup` adds one, or a [provider.NAME] section and `grantctl reload`."
        : "Configured are: \(known.joined(separator: ", ")). `grantctl setup` adds another one.")
  }

  // MARK: How old refresh tokens get

  private func learnedLifetime(of name: ProviderName) -> LearnedLifetime {
    (try? journal.values[Self.lifetimeKey(name)].map { try JSON.parse($0.utf8).decode(LearnedLifetime.self) })
      ?? LearnedLifetime()
  }

  private static func narrowingKey(_ name: ProviderName) -> String { "narrowing.\(name)" }

  private func narrowingResult(of name: ProviderName) -> NarrowingResult {
    journal.values[Self.narrowingKey(name)].flatMap(NarrowingResult.init) ?? .unknown
  }

  /// Saves the result of the first narrowed refresh at the provider.
  func save(_ result: NarrowingResult, of name: ProviderName) async {
    connections[name]?.history.narrowingResult = result
    await journal.put(Self.narrowingKey(name), result.rawValue, "what a narrowed refresh does at \(name)")
  }

  // MARK: The request rate that the provider allows

  /// The rate of ``RateLimit``, in requests per second, and the time of the last 429.
  private struct SavedLimit: Codable {
    var rate: Double
    var at: Timestamp
  }

  private static func limitKey(_ name: ProviderName) -> String { "rate_limit.\(name)" }

  private func rateLimit(of name: ProviderName) -> RateLimit {
    guard let text = journal.values[Self.limitKey(name)], let saved = try? JSON.parse(text.utf8).decode(SavedLimit.self)
    else { return RateLimit() }
    return RateLimit(rate: saved.rate, age: now - saved.at, at: uptime)
  }

  /// Saves the rate after a burst of 429s.
  func saveLimit(of name: ProviderName) async {
    guard let limit = connections[name]?.gate.limit, let rate = limit.rate, let at = limit.limitedAt else { return }
    await journal.put(
      Self.limitKey(name), JSON(encoding: SavedLimit(rate: rate, at: wall(at))).text(),
      "the request rate that \(name) allows")
  }

  private static func lifetimeKey(_ name: ProviderName) -> String { "refresh_token_lifetime.\(name)" }

  /// Saves the learned lifetime of the provider's refresh tokens.
  func saveLearned(_ name: ProviderName) async {
    guard let learned = connections[name]?.learned else { return }
    await journal.put(
      Self.lifetimeKey(name), JSON(encoding: learned).text(), "how old refresh tokens of \(name) get")
  }
}
