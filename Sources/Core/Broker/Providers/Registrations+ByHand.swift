import BrokerAPI
import FoundationEssentials
import Grants
import OAuth

// Clients that were registered by hand, and providers of the store as sections of the configuration.
extension Registrations {
  /// Longest client ID and secret, in bytes; the same as for those of a registration response.
  private static let longestClientID = 2048
  private static let longestSecret = 16 << 10

  func check(_ params: ProviderRegister.Params) throws(RPCError) {
    if let uri = params.redirect_uri {
      do throws(RedirectURIError) {
        _ = try RedirectURI(uri)
      } catch {
        throw .invalidParams("params.redirect_uri: \(error.description)")
      }
    }
    if let method = params.auth_method, !ProviderRegister.authMethods.contains(method) {
      throw .invalidParams(
        "params.auth_method: expected one of \(ProviderRegister.authMethods.joined(separator: ", "))",
        hint: "Without --auth-method the broker chooses it: `grantctl provider register "
          + "\(params.issuer.printable(limit: 256))`.")
    }
  }

  /// The client of `client_id`: printable ASCII (RFC 6749 appendix A.1, A.2).
  func givenClient(_ params: ProviderRegister.Params) throws(RPCError) -> GivenClient? {
    guard let id = params.client_id else {
      guard params.client_secret == nil else { throw .invalidParams("params.client_secret: it needs client_id") }
      return nil
    }
    guard params.initial_access_token == nil else {
      throw .invalidParams("params.initial_access_token: with client_id no client is registered")
    }
    func isPlain(_ text: String, _ most: Int) -> Bool {
      !text.isEmpty && text.utf8.count <= most && text.utf8.allSatisfy { (0x20...0x7E).contains($0) }
    }
    guard isPlain(id, Self.longestClientID) else {
      throw .invalidParams("params.client_id: expected 1 to \(Self.longestClientID) characters of printable ASCII")
    }
    // Exposed to be checked and kept.
    let secret = params.client_secret?.exposed
    guard secret.map({ isPlain($0, Self.longestSecret) }) != false else {
      throw .invalidParams("params.client_secret: expected 1 to \(Self.longestSecret) characters of printable ASCII")
    }
    return GivenClient(id: id, secret: secret.map { Secret($0) })
  }

  /// A client that was registered by hand, with the authentication that the token endpoint accepts. A secret that it
  /// refuses is not kept.
  func accepted(
    _ client: GivenClient, _ asked: RegistrationRequest, at candidate: ProviderConnection, _ metadata: ServerMetadata,
    _ registrar: any Registrar
  ) async throws(RPCError) -> SavedRegistration {
    let given: SavedRegistration
    do throws(ProviderFailure) {
      given = try registrar.registration(of: client, asked, at: candidate.provider, metadata: metadata, now: now)
    } catch {
      throw .invalidParams("params.auth_method: \(error.message)")
    }
    switch await candidate.converse(registrar.authentication(of: given, metadata: metadata), for: .logins) {
    case .success(nil):
      throw RPCError(
        .registrationRejected, "\(given.issuer) refuses the client ID and secret",
        hint: "Copy both again from the provider's page; a secret belongs to one client ID.")
    case .success(let found?): return found
    // Without an answer the given method is used; the first login tries it.
    case .failure: return given
    }
  }

  /// The same provider as a section of the configuration: its keys, and the keys that name files. Nil: it is not one of
  /// the store.
  func section(of name: ProviderName) -> (keys: [String: JSON], files: [String], base: ProviderName?)? {
    guard !configured.contains(name), let registration = saved[name] else { return nil }
    // The client of a configured provider is in its own section, with keys that are not known here.
    let base = registration.options.base.flatMap(ProviderName.init(rawValue:))
    let source = base.flatMap { configured.contains($0) ? $0 : nil }
    var keys: [String: JSON] = ["scopes": .array(registration.scopes.map { .string($0) })]
    if source == nil {
      keys["kind"] = .string(registration.discovery.isOpenID ? "oidc" : "oauth2")
      keys["issuer"] = .string(registration.issuer.rawValue)
      keys["client_id"] = .string(registration.clientID)
    }
    keys["redirect_uri"] = registration.redirectURI.map { .string($0) }
    keys["resource"] = registration.options.resource.map { .string($0) }
    keys["api_base"] = registration.options.apiBase.map { .string($0.absoluteString) }
    guard source == nil else { return (keys, [], source) }
    var files: [String] = []
    // The client may be that of another provider.
    let client = base.flatMap { saved[$0] } ?? registration
    if client.authMethod != "none" {
      keys["token_endpoint_auth_method"] = .string(client.authMethod)
      files.append("client_secret_file")
    }
    if registration.options.authorities != nil { files.append("tls_ca_file") }
    return (keys, files, nil)
  }
}
