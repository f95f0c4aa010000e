import BrokerAPI
import Grants
import Logging
import OAuth

// One request at a time for the metadata and one for the keys; concurrent callers share the answer.
extension ProviderConnection {
  /// The metadata, fetched where they are missing. Old ones serve at once, and new ones are fetched behind: a discovery that
  /// hangs holds no refresh up.
  func currentMetadata() async -> Result<ServerMetadata, ProviderFailure> {
    if let known = metadata.known {
      let isOld = now - known.at >= Limit.metadataLife
      if isOld, metadata.task == nil, metadata.failed(within: Limit.staleRefetchPause, at: now) == nil {
        _ = startMetadata()
      }
      return .success(known.value)
    }
    if let failure = metadata.failed(within: Limit.refetchPause, at: now) { return .failure(failure) }
    return await (metadata.task ?? startMetadata()).value
  }

  /// There are none, and the provider's current ones belong to other settings.
  var hasWrongMetadata: Bool {
    if metadata.known == nil, case .misconfigured? = metadata.failure?.failure { true } else { false }
  }

  /// The next step if the server has no metadata: for a time it may be starting, or a gateway may answer for it; then
  /// `issuer` is probably wrong. It is asked again in both cases.
  func absentMetadata(_ message: String, retryAfter: Double?) -> RPCError? {
    guard metadata.known == nil, let since = metadata.absentSince else { return nil }
    let again = retryAfter.map { "it is asked again by itself in \(Int64($0)) s" } ?? "try again later"
    return RPCError(
      uptime - since < Limit.starting ? .temporarilyUnavailable : .providerMisconfigured, message,
      hint: "\(provider.metadataHint) If the provider is starting, \(again).",
      retryAfter: retryAfter)
  }

  private func startMetadata() -> Task<Result<ServerMetadata, ProviderFailure>, Never> {
    let asked = settings
    let task = Task {
      let result = await fetchMetadata(provider)
      if settings == asked { keep(result) }
      if case .success(let metadata) = result { supplement(metadata, asked) }
      return result
    }
    metadata.task = task
    return task
  }

  /// Fetches members of the server's other document while the first is in use: no caller waits for it.
  private func supplement(_ metadata: ServerMetadata, _ asked: UInt64) {
    guard settings == asked, let request = provider.supplement(to: metadata) else { return }
    Task {
      guard case .success(let response) = await sendPublic(request), settings == asked,
        let other = try? provider.metadata(from: response), let known = self.metadata.known, known.value == metadata
      else { return }
      self.metadata.known?.value = metadata.completed(by: other)
    }
  }

  private func keep(_ result: Result<ServerMetadata, ProviderFailure>) {
    metadata.task = nil
    switch result {
    case .success(let value):
      metadata.known = .init(value: value, at: now)
      metadata.failure = nil
      metadata.absentSince = nil
    case .failure(let failure):
      metadata.failure = (failure, now)
      if metadata.known == nil, case .requestRefused = failure {
        metadata.absentSince = metadata.absentSince ?? uptime
      }
      diagnostics.lastError = failure.message
      logger.warning(
        "no metadata of provider \(provider.name): \(failure.message)", metadata: ["provider": "\(provider.name)"])
    }
  }

  private func fetchMetadata(_ provider: any Provider) async -> Result<ServerMetadata, ProviderFailure> {
    var response: HTTPResponse?
    if let request = provider.discovery() {
      switch await sendPublic(request) {
      case .success(let answer): response = answer
      case .failure(let failure): return .failure(failure)
      }
    }
    do throws(ProviderFailure) {
      return .success(try provider.metadata(from: response))
    } catch {
      return .failure(error)
    }
  }

  /// Sends a request for metadata or keys, which carries no secret: redirects within the origin are followed.
  func sendPublic(
    _ request: HTTPRequest, for use: ConnectionPool.Use = .refreshes
  ) async -> Result<HTTPResponse, ProviderFailure> {
    var request = request
    for _ in 0..<Limit.redirects {
      let result = await send(request, for: use)
      guard case .success(let response) = result, let next = request.redirected(by: response) else { return result }
      request = next
    }
    return await send(request, for: use)
  }

  // MARK: Signing keys

  /// The signing keys for a conversation.
  func signingKeys(unknown: String?, for use: ConnectionPool.Use) async -> Result<JWKSet, ProviderFailure> {
    switch use {
    case .refreshes: keysAtHand(unknown: unknown)
    case .logouts: await keysForLogout(unknown: unknown)
    case .logins, .exchanges, .revocations, .callers, .forwarded: await fetchKeys(unknown: unknown)
    }
  }

  /// Any client of the endpoint can send logout tokens: only a few with an unknown key wait for the keys, so that slots
  /// remain for tokens with a known key.
  private func keysForLogout(unknown: String?) async -> Result<JWKSet, ProviderFailure> {
    guard unknown != nil, keys.known != nil else { return await fetchKeys(unknown: unknown) }
    guard keys.waitingLogouts < Limit.logoutsAwaitingKeys else {
      return .failure(.notSent(message: "too many logout tokens wait for the provider's signing keys"))
    }
    keys.waitingLogouts += 1
    defer { keys.waitingLogouts -= 1 }
    return await fetchKeys(unknown: unknown)
  }

  /// The signing keys; for an unknown one they are fetched again, at most once a minute.
  func fetchKeys(unknown: String?) async -> Result<JWKSet, ProviderFailure> {
    let isFresh = keys.known.map { now - $0.at < Limit.metadataLife } ?? false
    // Known keys are used even if they are being fetched for an unknown one.
    if unknown == nil, isFresh, let known = keys.known { return .success(known.value) }
    if let task = keys.task { return await task.value }
    if let known = keys.known {
      let mayRefetch = keys.refetchedAt.map { now - $0 >= Limit.unknownKeyPause || now < $0 } ?? true
      if isFresh, !mayRefetch { return .success(known.value) }
      if unknown != nil { keys.refetchedAt = now }
    }
    let asked = settings
    let task = Task {
      let result = await askForKeys(provider)
      if settings == asked { keep(result) }
      return result
    }
    keys.task = task
    let result = await task.value
    if case .failure = result, unknown == nil, let known = keys.known { return .success(known.value) }
    return result
  }

  /// The keys without a request; a missing one is fetched behind.
  func keysAtHand(unknown: String?) -> Result<JWKSet, ProviderFailure> {
    if unknown != nil { Task { await fetchKeys(unknown: unknown) } }
    guard let known = keys.known else {
      return .failure(.notSent(message: "the provider's signing keys are not known yet"))
    }
    return .success(known.value)
  }

  /// Before a refresh is sent, so that its ID token can be verified without a request in between.
  func prepareKeys() async {
    guard provider.tokenTraits.usesIDTokens, keys.known == nil else { return }
    if let failedAt = keys.failedAt, now - failedAt < Limit.unknownKeyPause, now >= failedAt { return }
    _ = await fetchKeys(unknown: nil)
  }

  private func keep(_ result: Result<JWKSet, ProviderFailure>) {
    keys.task = nil
    switch result {
    case .success(let value):
      keys.known = .init(value: value, at: now)
      keys.failedAt = nil
    case .failure(let failure):
      keys.failedAt = now
      diagnostics.lastError = failure.message
    }
  }

  private func askForKeys(_ provider: any Provider) async -> Result<JWKSet, ProviderFailure> {
    switch await currentMetadata() {
    case .failure(let failure): return .failure(failure)
    case .success(let metadata):
      do throws(ProviderFailure) {
        guard let request = try provider.keysRequest(metadata) else {
          return .failure(.misconfigured(message: "provider \(provider.name) has no signing keys", nil))
        }
        switch await sendPublic(request) {
        case .failure(let failure): return .failure(failure)
        case .success(let response): return parseKeys(response)
        }
      } catch {
        return .failure(error)
      }
    }
  }

  private func parseKeys(_ response: HTTPResponse) -> Result<JWKSet, ProviderFailure> {
    do throws(ResponseError) {
      return .success(try JWKSet.parse(response))
    } catch {
      return .failure(.unclear(message: "the provider's signing keys: \(error.description)", retryAfter: nil))
    }
  }
}
