import BrokerAPI
import Foundation
import Grants
import Logging
import OAuth

// Providers that were made by registering a client (RFC 7591). They are on disk beside the accounts; the configuration's
// own providers win where the names are the same.
extension Broker {
  /// `provider.register`.
  func register(_ params: ProviderRegister.Params) async throws(RPCError) -> ProviderRegister.Result {
    guard !isDraining else { throw shuttingDown() }
    guard let registrar else { throw RPCError(.unsupportedByProvider, "this broker registers no clients") }
    let name = try newName(params)
    if let uri = params.redirect_uri {
      do throws(RedirectURIError) {
        _ = try RedirectURI(uri)
      } catch {
        throw .invalidParams("params.redirect_uri: \(error.description)")
      }
    }
    let (candidate, metadata) = try await discover(params.issuer, name, registrar)
    try demand(.registration, of: metadata, name)
    let asked = RegistrationRequest(
      provider: name, clientName: "grantd", scopes: params.scopes, redirectURIs: ownRedirectURIs,
      fixedRedirectURI: params.redirect_uri, initialAccessToken: params.initial_access_token.map { Secret($0.exposed) })
    let saved: SavedRegistration
    switch await converse(registrar.registration(asked, at: candidate, metadata: metadata), with: name) {
    case .success(let registered): saved = registered
    case .failure(let failure): throw rejected(failure, issuer: params.issuer)
    }
    guard let provider = registrar.provider(saved), providers[name] == nil else {
      await remove(saved)
      throw RPCError(.registrationRejected, "a provider of that name came meanwhile: \(name)")
    }
    do throws(StoreError) {
      try await commit([.putRegistration(saved)])
    } catch {
      await remove(saved)
      throw storeError(error)
    }
    registrations[name] = saved
    providers[name] = newLine(provider)
    logger.notice("registered a client as provider \(name)", metadata: ["provider": "\(name)"])
    var warnings: [String] = []
    if let end = saved.secretExpiresAt {
      warnings.append("the client's secret ends in \(Self.words(end - now)): register again before")
    }
    if saved.managementURL == nil { warnings.append("the issuer gave no way to remove the client again (RFC 7592)") }
    return .init(provider: name.rawValue, client_id: saved.clientID, issuer: saved.issuer.rawValue, warnings: warnings)
  }

  /// `provider.unregister`.
  func unregister(_ params: ProviderUnregister.Params) async throws(RPCError) -> ProviderUnregister.Result {
    let name = try providerName(params.provider)
    guard let saved = registrations[name] else {
      guard providers[name] != nil else { throw unknownProvider(params.provider) }
      throw RPCError(
        .unsupportedByProvider, "provider \(name) is one of the configuration's",
        hint: "Remove [provider.\(name)] there, then `grantctl reload`.")
    }
    let own = grants.values.filter { $0.saved.provider == name }.map(\.saved.account).sorted()
    guard own.isEmpty else {
      throw .invalidParams(
        "provider \(name) has accounts: \(own.prefix(5).map(\.rawValue).joined(separator: ", "))",
        hint: "`grantctl logout \(own[0])` first.")
    }
    let step = await remove(saved)
    do throws(StoreError) {
      try await commit([.removeRegistration(name)])
    } catch {
      throw storeError(error)
    }
    registrations[name] = nil
    providers[name] = nil
    measures.forget(name)
    return .init(steps: [step, .init(step: "forget", result: "done")])
  }

  /// The providers in force: those of the configuration, and those that were registered.
  func allProviders(_ configured: [any Provider]) -> [any Provider] {
    let names = Set(configured.map(\.name))
    let registered = registrations.values.filter { !names.contains($0.provider) }.compactMap {
      registrar?.provider($0)
    }
    return configured + registered.sorted { $0.name < $1.name }
  }

  // MARK: Steps

  private func newName(_ params: ProviderRegister.Params) throws(RPCError) -> ProviderName {
    let host = URL(string: params.issuer)?.host ?? ""
    let name = try providerName(params.provider ?? String(host.prefix(64)))
    guard providers[name] == nil else {
      throw .invalidParams("provider \(name) is there already", hint: "Choose another name.")
    }
    return name
  }

  private var ownRedirectURIs: [String] {
    // Servers that compare the port want the one that we have (RFC 8252 §7.3 has them not compare it).
    ["http://127.0.0.1/callback"] + (callbackPort.map { ["http://127.0.0.1:\($0)/callback"] } ?? [])
  }

  private func discover(
    _ issuer: String, _ name: ProviderName, _ registrar: any Registrar
  ) async throws(RPCError) -> (any Provider, ServerMetadata) {
    var first: ProviderFailure?
    let candidates: [any Provider]
    do throws(ProviderFailure) {
      candidates = try registrar.candidates(issuer: issuer, name: name)
    } catch {
      throw .invalidParams("params.issuer: \(error.message)")
    }
    for candidate in candidates {
      guard let request = candidate.discovery() else { continue }
      switch await send(request, to: name) {
      case .failure(let failure): first = first ?? failure
      case .success(let response):
        do throws(ProviderFailure) {
          return (candidate, try candidate.metadata(from: response))
        } catch {
          first = first ?? error
        }
      }
    }
    throw error(first ?? .invalid(message: "no metadata", nil), provider: name)
  }

  private func rejected(_ failure: ProviderFailure, issuer: String) -> RPCError {
    guard !failure.isOfProvider else {
      return RPCError(.temporarilyUnavailable, "\(issuer.prefix(256)): \(failure.message)", retryAfter: 30)
    }
    return RPCError(
      .registrationRejected, "\(issuer.prefix(256)) refused the registration: \(failure.message)",
      hint: "Does it want an initial access token? Else register a client by hand, and write a [provider.NAME].",
      oauth: failure.oauth.map { OAuthDetail($0) })
  }

  @discardableResult
  private func remove(_ saved: SavedRegistration) async -> AccountLogout.Step {
    let step = "delete_registration"
    guard let registrar, let request = registrar.removal(of: saved) else {
      return .init(step: step, result: "unsupported", message: "the issuer gave no way to remove the client")
    }
    switch await send(request, to: saved.provider) {
    case .success(let response) where registrar.isRemoved(response): return .init(step: step, result: "done")
    case .success(let response):
      return .init(step: step, result: "refused", message: "the issuer answered \(response.status)")
    case .failure(let failure): return .init(step: step, result: "refused", message: failure.message)
    }
  }
}
