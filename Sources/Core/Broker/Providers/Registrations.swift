import BrokerAPI
import FoundationEssentials
import Grants
import Logging
import OAuth

/// Providers of the store, made by registering a client (RFC 7591) or with a client that was registered by hand. A
/// provider of the configuration with the same name takes precedence.
@BrokerActor
final class Registrations: Piece {
  let runtime: Runtime
  let providers: ProviderDirectory
  let accounts: Accounts
  let journal: Journal
  private let addresses: CallbackAddresses
  let registrar: (any Registrar)?
  var saved: [ProviderName: SavedRegistration] = [:]
  /// The providers and accounts of the configuration: they take precedence over others of the same name.
  var configured: Set<ProviderName> { Set(configuredProviders.keys) }
  private(set) var configuredProviders: [ProviderName: any Provider] = [:]
  private(set) var declared: Set<AccountName> = []
  /// Names whose registration is being written.
  private(set) var pending: Set<ProviderName> = []
  /// Running searches for a client authentication, and those without a result.
  var searches: [ProviderName: AuthenticationSearch] = [:]

  init(
    _ runtime: Runtime, providers: ProviderDirectory, accounts: Accounts, journal: Journal,
    addresses: CallbackAddresses, registrar: (any Registrar)?
  ) {
    self.runtime = runtime
    self.providers = providers
    self.accounts = accounts
    self.journal = journal
    self.addresses = addresses
    self.registrar = registrar
  }

  /// A reload: the providers and accounts of the configuration.
  func configure(_ configured: [any Provider], declared: [DeclaredAccount]) {
    configuredProviders = Dictionary(configured.map { ($0.name, $0) }) { first, _ in first }
    self.declared = Set(declared.map(\.name))
  }

  /// Takes over those of a backup, and the providers that they make.
  func restore(_ registrations: [SavedRegistration]) {
    takeOver(registrations)
    for provider in registered where providers[provider.name] == nil { providers.add(provider) }
  }

  /// Other brokers changed these registrations: memory and the providers follow.
  func changedElsewhere(_ names: Set<ProviderName>) async {
    let stored: [SavedRegistration]
    do throws(StoreError) { stored = try await journal.store.registrations() } catch {
      for name in names { journal.markUndecided(name) }
      return journal.failed(error)
    }
    for name in names where !pending.contains(name) || saved[name] == nil {
      let new = stored.first { $0.provider == name }
      // keep(over:) decides, or the next look at the disk.
      if new == nil, journal.store.isOtherCopy {
        journal.markUndecided(name)
        continue
      }
      saved[name] = new
    }
    for name in names where !configured.contains(name) {
      if let provider = registered.first(where: { $0.name == name }) {
        providers.add(provider)
      } else {
        providers.remove(name)
      }
    }
  }

  /// The database is another copy: registrations that it lacks are written back, unless it knows them as removed.
  func keep(over copy: AccountsOfCopy) async throws(StoreError) {
    let stored = Set(try await journal.store.registrations().map(\.provider))
    for (name, registration) in saved where !stored.contains(name) {
      // It may have been removed since.
      guard saved[name] == registration else { continue }
      guard copy.removedRegistrations[name].map({ $0 < registration.createdAt }) ?? true else {
        journal.markUndecided(name)
        continue
      }
      do throws(StoreError) {
        try await journal.commit([.putRegistration(registration)], expecting: journal.shared(.noRegistration(name)))
      } catch {
        // Another broker was quicker.
        guard error == .conflict else { throw error }
      }
    }
  }

  /// Adds the loaded registrations.
  func takeOver(_ registrations: [SavedRegistration]) {
    for registration in registrations { saved[registration.provider] = registration }
  }

  /// `provider.register`.
  func register(_ params: ProviderRegister.Params) async throws(RPCError) -> ProviderRegister.Result {
    guard !isDraining else { throw shuttingDown() }
    guard let registrar else { throw RPCError(.unsupportedByProvider, "this broker registers no clients") }
    let issuer = try issuer(params)
    let name = try newName(params)
    try check(params)
    let client = try givenClient(params)
    let options = try options(params)
    let (candidate, metadata) = try await discover(issuer, params, name, registrar)
    if client == nil { try providers.demand(.registration, of: metadata, candidate.provider) }
    var asked = RegistrationRequest(
      provider: name, clientName: "grantd", scopes: params.scopes, redirectURIs: ownRedirectURIs,
      fixedRedirectURI: params.redirect_uri, initialAccessToken: params.initial_access_token.map { Secret($0.exposed) })
    (asked.authMethod, asked.options) = (params.auth_method, options)
    let (new, warnings) = try await register(asked, client, at: candidate, metadata, registrar)
    return .init(provider: name.rawValue, client_id: new.clientID, issuer: new.issuer.rawValue, warnings: warnings)
  }

  /// Registers the client, or takes the given one, and stores its provider.
  func register(
    _ asked: RegistrationRequest, _ client: GivenClient?, at candidate: ProviderConnection, _ metadata: ServerMetadata,
    _ registrar: any Registrar
  ) async throws(RPCError) -> (SavedRegistration, warnings: [String]) {
    let name = asked.provider
    var new: SavedRegistration
    if let client {
      new = try await accepted(client, asked, at: candidate, metadata, registrar)
    } else {
      switch await candidate.converse(
        registrar.registration(asked, at: candidate.provider, metadata: metadata), for: .logins)
      {
      case .success(let registered): new = registered
      case .failure(let failure):
        throw rejected(failure, issuer: candidate.provider.description.issuer ?? metadata.issuer)
      }
    }
    // Servers that compare the port know this one: it is kept when the broker's own port changes.
    if !new.isByHand, new.redirectURI == nil { new.redirectURI = ownRedirectURI }
    // The provider of the same name is there afterwards, and its caller can use it.
    for _ in 0..<100 where pending.contains(name) { await system.sleep(.milliseconds(100)) }
    guard registrar.provider(new) != nil, providers[name] == nil, pending.insert(name).inserted else {
      await remove(new, over: candidate)
      throw taken(name)
    }
    defer { pending.remove(name) }
    do throws(StoreError) {
      try await journal.commit([.putRegistration(new)], expecting: journal.shared(.noRegistration(name)))
    } catch {
      await remove(new, over: candidate)
      guard error == .conflict else { throw storeError(error) }
      await changedElsewhere([name])
      throw taken(name)
    }
    saved[name] = new
    var warnings: [String] = []
    // Without an answer the registered method is used.
    if !new.isByHand,
      case .success(let found) = await candidate.converse(
        registrar.authentication(of: new, metadata: metadata), for: .logins)
    {
      if let found, found != new, saved[name] != nil {
        do throws(StoreError) {
          try await journal.commit([.putRegistration(found)])
          new = found
        } catch {
          warnings.append("the client authentication that works was not saved: \(error)")
        }
      } else if found == nil {
        warnings.append("the token endpoint accepts no way to present the client's secret")
      }
    }
    // It may have been removed while the provider was asked.
    guard saved[name] != nil, let provider = registrar.provider(new) else {
      throw RPCError(
        .registrationRejected, "provider \(name) was removed before its registration ended", hint: "Register it again.")
    }
    saved[name] = new
    logger.notice(
      "\(new.isByHand ? "added" : "registered") a client as provider \(name)", metadata: ["provider": "\(name)"])
    // A reload may have brought the name while it was written.
    if configured.contains(name) {
      warnings.append("\(name.section) of the configuration is used instead")
    } else {
      providers.add(provider)
    }
    if let end = new.secretExpiresAt {
      warnings.append("the client's secret ends in \((end - now).words): register again before")
    }
    if new.managementURL == nil, !new.isByHand {
      warnings.append("the issuer gave no way to remove the client again (RFC 7592)")
    }
    return (new, warnings)
  }

  /// `provider.unregister`.
  func unregister(_ params: ProviderUnregister.Params) async throws(RPCError) -> ProviderUnregister.Result {
    let name = try providerName(params.provider)
    guard let registration = saved[name] else {
      guard providers[name] != nil else { throw providers.unknown(params.provider) }
      throw RPCError(
        .unsupportedByProvider, "provider \(name) is one of the configuration's",
        hint: "Remove \(name.section) there, then `grantctl reload`.")
    }
    let own = accounts.names(at: name).after(nil, most: 5)
    guard own.isEmpty else {
      throw .invalidParams(
        "provider \(name) has accounts: \(own.map(\.rawValue).joined(separator: ", "))",
        hint: "`grantctl logout \(own[0])` first.")
    }
    if let other = derived(from: name).first {
      throw .invalidParams(
        "provider \(other) uses the client of provider \(name)", hint: "`grantctl provider unregister \(other)` first.")
    }
    guard
      let connection = providers[name] ?? registrar?.provider(registration).map(providers.connection(to:))
    else { throw providers.unknown(params.provider) }
    let step = await remove(registration, over: connection)
    try await stored { () async throws(StoreError) in try await journal.commit([.removeRegistration(name)]) }
    saved[name] = nil
    if !configured.contains(name) { providers.remove(name) }
    return .init(steps: [step, .init(step: "forget", result: "done")])
  }

  /// The registered providers that no provider of the configuration hides.
  var registered: [any Provider] {
    saved.values.filter { !configured.contains($0.provider) }
      .compactMap { $0.options.base == nil ? registrar?.provider($0) : derived($0) }
      .sorted { $0.name < $1.name }
  }

  // MARK: Steps

  private func issuer(_ params: ProviderRegister.Params) throws(RPCError) -> Issuer {
    do throws(IssuerError) {
      return try Issuer(params.issuer, allowInsecureHTTP: false)
    } catch {
      throw .invalidIssuer(error) { "grantctl provider register \($0)" }
    }
  }

  private func newName(_ params: ProviderRegister.Params) throws(RPCError) -> ProviderName {
    let host = URL(string: params.issuer)?.host ?? ""
    let name = try providerName(params.provider ?? String(host.prefix(64)))
    guard providers[name] == nil else {
      throw .invalidParams(
        "provider \(name) already exists",
        hint: "Choose another name: `grantctl provider register \(params.issuer.printable(limit: 256)) --name NAME`.")
    }
    return name
  }

  var ownRedirectURIs: [String] {
    // Servers that compare the port want the one that we have (RFC 8252 §7.3 has them not compare it).
    ["http://127.0.0.1/callback"] + [ownRedirectURI].compactMap(\.self)
  }

  private var ownRedirectURI: String? { addresses.port.map { "http://127.0.0.1:\($0)/callback" } }

  /// The loopback ports of redirect URIs that are registered.
  var callbackPorts: Set<Int> {
    Set(
      saved.values.compactMap { $0.redirectURI.flatMap { try? RedirectURI($0) } }.filter(\.isLoopback).compactMap(
        \.port))
  }

  private func options(_ params: ProviderRegister.Params) throws(RPCError) -> SavedRegistration.Options {
    var options = SavedRegistration.Options(resource: params.resource, authorities: params.ca_certificates)
    // RFC 8707 §2: an absolute URI without a fragment, as a redirect URI is.
    if let resource = params.resource, (try? RedirectURI(resource)) == nil {
      throw .invalidParams("params.resource: expected an absolute URI without a fragment")
    }
    if let text = params.api_base {
      guard let url = Endpoint.url(text, allowInsecureHTTP: false), !text.contains("?") else {
        throw .invalidParams("params.api_base: expected an https URL without user, query or fragment")
      }
      options.apiBase = url
    }
    if let text = params.ca_certificates, !text.contains("-----BEGIN CERTIFICATE-----") {
      throw .invalidParams("params.ca_certificates: expected certificates in PEM")
    }
    return options
  }

  private func discover(
    _ issuer: Issuer, _ params: ProviderRegister.Params, _ name: ProviderName, _ registrar: any Registrar
  ) async throws(RPCError) -> (ProviderConnection, ServerMetadata) {
    var first: (failure: ProviderFailure, hint: String?)?
    let candidates = registrar.candidates(issuer: issuer, name: name, authorities: params.ca_certificates)
    let began = uptime
    // Both documents are at one server: if it hangs, it is asked once.
    for candidate in candidates where first == nil || uptime - began < Limit.hanging {
      guard let request = candidate.discovery() else { continue }
      let connection = providers.connection(to: candidate)
      switch await connection.sendPublic(request, for: .logins) {
      case .failure(let failure):
        first = first ?? (failure, connection.transportHint(for: failure, setting: nil))
      case .success(let response):
        do throws(ProviderFailure) {
          return (connection, try candidate.metadata(from: response))
        } catch {
          first = first ?? (error, nil)
        }
      }
    }
    var error = providerError(
      first?.failure ?? .invalid(message: "no metadata", nil), provider: name,
      correction: "Register with the issuer exactly as the provider writes it, to the last slash.")
    if let hint = first?.hint {
      error.hint = hint
    } else if let cut = params.issuer.firstRange(of: "/.well-known/") {
      let whole = params.issuer[..<cut.lowerBound]
      error.hint = "The issuer is the URL before `/.well-known/`: `grantctl provider register \(whole)`."
    } else if case .requestRefused = first?.failure {
      error.hint =
        "Correct the issuer's URL: its metadata must be at `ISSUER/.well-known/openid-configuration`, or at "
        + "`/.well-known/oauth-authorization-server`. `curl -i` shows the answer there."
    }
    throw error
  }

  private func rejected(_ failure: ProviderFailure, issuer: String) -> RPCError {
    guard !failure.isOfProvider else {
      return RPCError(.temporarilyUnavailable, "\(issuer.prefix(256)): \(failure.message)", retryAfter: 30)
    }
    return RPCError(
      .registrationRejected, "\(issuer.prefix(256)) refused the registration: \(failure.message)",
      hint: "If it requires an initial access token, give it. Otherwise register a client by hand: "
        + "`grantctl provider register \(issuer.prefix(256)) --client-id ID --client-secret-file -`.",
      oauth: failure.oauth.map { OAuthDetail($0) })
  }

  @discardableResult
  private func remove(
    _ registration: SavedRegistration, over connection: ProviderConnection
  ) async -> AccountLogout.Step {
    let step = "delete_registration"
    if let base = registration.options.base {
      return .init(step: step, result: "unsupported", message: "the client is that of provider \(base)")
    }
    guard !registration.isByHand else {
      return .init(
        step: step, result: "unsupported", message: "it was registered by hand: delete it on the provider's page")
    }
    guard let registrar, let request = registrar.removal(of: registration) else {
      return .init(step: step, result: "unsupported", message: "the issuer gave no way to remove the client")
    }
    switch await connection.send(request, for: .logins) {
    case .success(let response) where registrar.isRemoved(response): return .init(step: step, result: "done")
    case .success(let response):
      return .init(step: step, result: "refused", message: "the issuer answered \(response.status)")
    case .failure(let failure): return .init(step: step, result: "refused", message: failure.message)
    }
  }
}

extension ProviderRegister: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.clients.registrations.register(call.params)
  }
}

extension ProviderUnregister: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.clients.registrations.unregister(call.params)
  }
}
