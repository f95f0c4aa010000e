import BrokerAPI
import Grants
import Logging
import OAuth

// Providers for protected resources: with their own client, or with that of another provider.
extension Registrations {
  /// The provider whose client a further resource at the issuer uses: one of the configuration, else one of the store.
  func base(at issuer: Issuer) -> ProviderConnection? {
    let there = providers.sorted.filter { $0.provider.description.issuer == issuer.rawValue }
    let own = there.filter { saved[$0.provider.name]?.options.base == nil }
    return own.first { configured.contains($0.provider.name) } ?? own.first
  }

  /// Stores a provider with the client of another one. It changes with it.
  func derive(
    _ name: ProviderName, from base: any Provider, scopes: [String], _ options: SavedRegistration.Options
  ) async throws(RPCError) -> ProviderConnection {
    guard let issuer = base.description.issuer.flatMap(Issuer.init(rawValue:)) else {
      throw RPCError(.unsupportedByProvider, "provider \(base.name) has no issuer")
    }
    var options = options
    options.base = base.name.rawValue
    options.reach = base.reach
    let new = SavedRegistration(
      provider: name, issuer: issuer, discovery: saved[base.name]?.discovery ?? .oauth,
      clientID: base.description.clientID, clientSecret: nil, authMethod: "none", scopes: scopes, redirectURI: nil,
      managementToken: nil, managementURL: nil, secretExpiresAt: nil, createdAt: now, options: options)
    guard let provider = derived(new) else {
      throw RPCError(
        .unsupportedByProvider, "the client of provider \(base.name) cannot be used for other resources",
        hint: "Name a client of its own with --client-id.")
    }
    return try await store(new, provider)
  }

  /// The provider of a registration that has the client of another one; nil: that one is absent.
  func derived(_ registration: SavedRegistration) -> (any Provider)? {
    guard let name = registration.options.base.flatMap(ProviderName.init(rawValue:)),
      let base = configuredProviders[name] ?? saved[name].flatMap({ registrar?.provider($0) }),
      name != registration.provider
    else { return nil }
    return registrar?.provider(registration, over: base)
  }

  /// Stores a provider with its own client: a given one, or one registered now.
  func add(
    _ name: ProviderName, _ server: Resources.Server, scopes: [String], _ options: SavedRegistration.Options,
    client: GivenClient?
  ) async throws(RPCError) -> (connection: ProviderConnection, warnings: [String]) {
    guard let registrar else { throw RPCError(.unsupportedByProvider, "this broker registers no clients") }
    let candidate = providers.connection(
      to: registrar.candidate(server.issuer, server.style, name: name, reach: options.reach))
    var asked = RegistrationRequest(
      provider: name, clientName: "grantd", scopes: scopes, redirectURIs: ownRedirectURIs, fixedRedirectURI: nil,
      initialAccessToken: nil)
    asked.options = options
    let warnings = try await register(asked, client, at: candidate, server.metadata, registrar).warnings
    guard let connection = providers[name] else { throw providers.unknown(name.rawValue) }
    return (connection, warnings)
  }

  private func store(
    _ new: SavedRegistration, _ provider: any Provider
  ) async throws(RPCError) -> ProviderConnection {
    let name = new.provider
    guard isFree(name), !pending.contains(name) else { throw taken(name) }
    saved[name] = new
    do throws(StoreError) {
      try await journal.commit([.putRegistration(new)], expecting: journal.shared(.noRegistration(new.provider)))
    } catch {
      saved[name] = nil
      throw storeError(error)
    }
    guard saved[name] != nil, !configured.contains(name) else {
      throw RPCError(.registrationRejected, "provider \(name) was added to the configuration during the request")
    }
    logger.notice("added provider \(name)", metadata: ["provider": "\(name)"])
    return providers.add(provider)
  }

  /// Whether a new provider may have the name: accounts of a removed provider would send their refresh tokens to it.
  func isFree(_ name: ProviderName) -> Bool {
    providers[name] == nil && saved[name] == nil && accounts.count(at: name) == 0
  }

  func taken(_ name: ProviderName) -> RPCError {
    RPCError(
      .registrationRejected, "the name \(name) is used by another provider, or by accounts of one that was removed",
      hint: "Choose another name with --name, or remove those accounts with `grantctl logout`.")
  }

  /// The providers that use the client of this one.
  func derived(from name: ProviderName) -> [ProviderName] {
    saved.values.filter { $0.options.base == name.rawValue }.map(\.provider).sorted()
  }
}
