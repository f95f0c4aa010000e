import Grants
import Logging
import OAuth

// One request at a time for a provider's metadata and for its keys; whoever comes meanwhile shares the answer.
extension Broker {
  /// The provider's metadata, fetched where they are missing. Old ones serve at once, and new ones are fetched behind: a
  /// discovery that hangs holds no refresh up.
  func metadata(of name: ProviderName) async -> Result<ServerMetadata, ProviderFailure> {
    guard let line = providers[name] else { return .failure(gone(name)) }
    if let known = line.metadata {
      let isOld = now - known.at >= Limit.metadataLife
      if isOld, line.metadataTask == nil, line.metadataFailed(within: Limit.staleRefetchPause, at: now) == nil {
        _ = startMetadata(line)
      }
      return .success(known.value)
    }
    if let failure = line.metadataFailed(within: Limit.refetchPause, at: now) { return .failure(failure) }
    return await (line.metadataTask ?? startMetadata(line)).value
  }

  private func startMetadata(_ line: ProviderLine) -> Task<Result<ServerMetadata, ProviderFailure>, Never> {
    let task = Task {
      let result = await fetchMetadata(line.provider)
      keep(result, asked: line)
      return result
    }
    providers[line.provider.name]?.metadataTask = task
    return task
  }

  /// Whether the provider still has the settings that something was asked for under.
  func isCurrent(_ asked: ProviderLine) -> Bool {
    guard let line = providers[asked.provider.name] else { return false }
    return line.id == asked.id && line.settings == asked.settings
  }

  private func keep(_ result: Result<ServerMetadata, ProviderFailure>, asked: ProviderLine) {
    guard isCurrent(asked) else { return }
    let name = asked.provider.name
    providers[name]?.metadataTask = nil
    switch result {
    case .success(let metadata):
      providers[name]?.metadata = .init(value: metadata, at: now)
      providers[name]?.metadataFailure = nil
    case .failure(let failure):
      providers[name]?.metadataFailure = (failure, now)
      providers[name]?.lastError = failure.message
      logger.warning("no metadata of provider \(name): \(failure.message)", metadata: ["provider": "\(name)"])
    }
  }

  private func fetchMetadata(_ provider: any Provider) async -> Result<ServerMetadata, ProviderFailure> {
    var response: HTTPResponse?
    if let request = provider.discovery() {
      switch await send(request, to: provider.name) {
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

  /// The provider's signing keys; for an unknown one they are fetched again, at most once a minute.
  func keys(of name: ProviderName, unknown: String?) async -> Result<JWKSet, ProviderFailure> {
    guard let line = providers[name] else { return .failure(gone(name)) }
    if let task = line.keysTask { return await task.value }
    if let known = line.keys {
      let isFresh = now - known.at < Limit.metadataLife
      let mayRefetch = line.keysRefetchedAt.map { now - $0 >= Limit.unknownKeyPause || now < $0 } ?? true
      if isFresh, unknown == nil || !mayRefetch { return .success(known.value) }
      if unknown != nil { providers[name]?.keysRefetchedAt = now }
    }
    let task = Task { await fetchKeys(line) }
    providers[name]?.keysTask = task
    let result = await task.value
    if case .failure = result, unknown == nil, let known = providers[name]?.keys { return .success(known.value) }
    return result
  }

  private func keysAtHand(of name: ProviderName, unknown: String?) -> Result<JWKSet, ProviderFailure> {
    if unknown != nil { Task { await keys(of: name, unknown: unknown) } }
    guard let known = providers[name]?.keys else {
      return .failure(.notSent(message: "the provider's signing keys are not known yet"))
    }
    return .success(known.value)
  }

  /// Before a refresh is sent, so that its ID token can be verified without a request in between.
  func prepareKeys(of provider: any Provider) async {
    guard provider.about.usesIDTokens, let line = providers[provider.name], line.keys == nil else { return }
    if let failedAt = line.keysFailedAt, now - failedAt < Limit.unknownKeyPause, now >= failedAt { return }
    _ = await keys(of: provider.name, unknown: nil)
  }

  private func fetchKeys(_ line: ProviderLine) async -> Result<JWKSet, ProviderFailure> {
    let name = line.provider.name
    let result = await askForKeys(line.provider)
    guard isCurrent(line) else { return result }
    providers[name]?.keysTask = nil
    switch result {
    case .success(let keys):
      providers[name]?.keys = .init(value: keys, at: now)
      providers[name]?.keysFailedAt = nil
    case .failure(let failure):
      providers[name]?.keysFailedAt = now
      providers[name]?.lastError = failure.message
    }
    return result
  }

  private func askForKeys(_ provider: any Provider) async -> Result<JWKSet, ProviderFailure> {
    switch await metadata(of: provider.name) {
    case .failure(let failure): return .failure(failure)
    case .success(let metadata):
      do throws(ProviderFailure) {
        guard let request = try provider.keysRequest(metadata) else {
          return .failure(.misconfigured(message: "provider \(provider.name) has no signing keys", nil))
        }
        switch await send(request, to: provider.name) {
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

  func gone(_ name: ProviderName) -> ProviderFailure {
    .misconfigured(message: "provider \(name) is no longer configured", nil)
  }

  // MARK: Conversations

  /// Sends a request, signed for this one time where it has to be; once more with the nonce that the server wants in its
  /// proof (RFC 9449 §8), since it then did nothing else. `provider`: whose clock its answer tells.
  func send(_ request: HTTPRequest, to provider: ProviderName) async -> Result<HTTPResponse, ProviderFailure> {
    guard !request.signatures.isEmpty else { return await sendOnce(request, to: provider) }
    let origin = request.origin
    var nonce = providers[provider]?.nonces[origin]
    for isLast in [false, true] {
      let signed: HTTPRequest
      do throws(SigningKeyError) {
        signed = try request.signed(at: now, identifier: { surroundings.token(bytes: 16) }, nonce: nonce)
      } catch {
        return .failure(.misconfigured(message: error.description, nil))
      }
      let result = await sendOnce(signed, to: provider)
      guard case .success(let response) = result, let fresh = response.dpopNonce else { return result }
      remember(fresh, of: origin, at: provider)
      guard response.asksForDPoPNonce, fresh != nonce, !isLast else { return result }
      nonce = fresh
    }
    return .failure(.unclear(message: "the provider wants another DPoP nonce each time", retryAfter: nil))
  }

  private func remember(_ nonce: String, of origin: String, at provider: ProviderName) {
    guard let known = providers[provider]?.nonces else { return }
    if known[origin] == nil, known.count >= Limit.nonces { providers[provider]?.nonces = [:] }
    providers[provider]?.nonces[origin] = nonce
  }

  private func sendOnce(
    _ request: HTTPRequest, to provider: ProviderName
  ) async -> Result<HTTPResponse, ProviderFailure> {
    let sent = now
    do throws(TransportError) {
      let response = try await transport.send(request)
      measureSkew(response, from: provider, sent: sent)
      return .success(response.withoutEchoes(of: request))
    } catch {
      switch error.kind {
      case .notSent: return .failure(.notSent(message: error.message))
      case .lost, .timedOut: return .failure(.lost(message: error.message))
      case .tooLarge: return .failure(.unclear(message: error.message, retryAfter: nil))
      }
    }
  }

  /// Leads a conversation to its end.
  ///
  /// `isRefresh`: then the signing keys are those at hand. An answer that may hold a rotated refresh token waits for no
  /// other request before it is on disk.
  func converse<Output: Sendable>(
    _ first: Step<Output>, with name: ProviderName, isRefresh: Bool = false
  ) async -> Result<Output, ProviderFailure> {
    var step = first
    for _ in 0..<Limit.steps {
      switch step {
      case .done(let issued): return .success(issued)
      case .failed(let failure): return .failure(failure)
      case .send(let request, let then):
        switch await send(request, to: name) {
        case .success(let response): step = then(response, now)
        case .failure(let failure): return .failure(failure)
        }
      case .attempt(let request, let then): step = then(await send(request, to: name), now)
      case .keys(let unknown, let then):
        let keys = isRefresh ? keysAtHand(of: name, unknown: unknown) : await keys(of: name, unknown: unknown)
        step = then(keys, now)
      }
    }
    return .failure(.unclear(message: "the conversation with the provider did not end", retryAfter: nil))
  }
}
