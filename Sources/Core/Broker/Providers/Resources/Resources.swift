import BrokerAPI
import FoundationEssentials
import Grants
import Logging
import OAuth

/// Sign-in from the URL of a protected resource (RFC 9728): finds its authorization server, and stores a provider for it
/// with the client of a provider that exists, of a metadata document, or of a registration.
@BrokerActor
final class Resources: Piece {
  let runtime: Runtime
  let transport: any Transport
  let providers: ProviderDirectory
  private let registrations: Registrations
  /// The URL of the client ID metadata document.
  private(set) var clientMetadata: String?
  /// Providers that are about to be stored. The same request waits for the first one.
  private var adding: [ResourceAdd.Params: Task<Result<ResourceAdd.Result, RPCError>, Never>] = [:]

  init(
    _ runtime: Runtime, transport: any Transport, providers: ProviderDirectory, registrations: Registrations,
    clientMetadata: String?
  ) {
    self.runtime = runtime
    self.transport = transport
    self.providers = providers
    self.registrations = registrations
    self.clientMetadata = clientMetadata
  }

  /// A reload.
  func configure(clientMetadata: String?) { self.clientMetadata = clientMetadata }

  private enum Client {
    /// The client of a provider at the same issuer.
    case base(ProviderConnection)
    /// An identifier: a document's URL, or one that was registered by hand.
    case identifier(String, ResourceClient)
    case registration

    var word: ResourceClient {
      switch self {
      case .base: .provider
      case .identifier(_, let word): word
      case .registration: .registration
      }
    }
  }

  // MARK: Methods

  func discover(_ params: ResourceDiscover.Params) async throws(RPCError) -> ResourceDiscover.Result {
    let found = try await found(params.url, issuer: params.issuer)
    let own = existing(found, named: nil, client: nil)
    let server = try await server(of: found)
    return .init(
      resource: found.resource, metadata_url: found.document?.absoluteString, issuer: server.issuer.rawValue,
      issuers: found.issuers.map(\.rawValue), scopes: scopes(nil, found, server.metadata),
      client: client(nil, server)?.word, provider: own?.provider.name.rawValue)
  }

  /// Processes that start together store one provider.
  func add(_ params: ResourceAdd.Params) async throws(RPCError) -> ResourceAdd.Result {
    if let work = adding[params] {
      var result = try await work.value.get()
      (result.created, result.client) = (false, .provider)
      return result
    }
    let work = Task { () -> Result<ResourceAdd.Result, RPCError> in
      do throws(RPCError) { return .success(try await addNew(params)) } catch { return .failure(error) }
    }
    adding[params] = work
    let result = await work.value
    adding[params] = nil
    return try result.get()
  }

  private func addNew(_ params: ResourceAdd.Params) async throws(RPCError) -> ResourceAdd.Result {
    guard !isDraining else { throw shuttingDown() }
    let wanted = try params.provider.map { text throws(RPCError) in try providerName(text) }
    try checkScopes(params.scopes)
    let found = try await found(params.url, issuer: params.issuer)
    if let own = existing(found, named: wanted, client: params.client_id) {
      return result(of: own, found, isNew: false, .provider, [])
    }
    try checkIssuer(found, named: wanted)
    let server = try await server(of: found)
    let name = try newName(wanted, found.url)
    guard let client = client(params.client_id, server) else { throw noClient(found, server) }
    if case .base = client {} else { try checkTime(found.bounds, found.url.description) }
    var options = SavedRegistration.Options(resource: found.resource, apiBase: URL(string: found.url.origin))
    (options.url, options.reach, options.apiReach) = (found.url.description, found.reach, found.reach)
    let scopes = scopes(params.scopes, found, server.metadata)
    let made: (connection: ProviderConnection, warnings: [String])
    do throws(RPCError) {
      switch client {
      case .base(let base):
        made = (try await registrations.derive(name, from: base.provider, scopes: scopes, options), [])
      case .identifier(let id, _):
        made = try await registrations.add(
          name, server, scopes: scopes, options, client: GivenClient(id: id, secret: nil))
      case .registration:
        made = try await registrations.add(name, server, scopes: scopes, options, client: nil)
      }
    } catch {
      throw error.reason == .registrationRejected ? refused(error, found, server) : error
    }
    return result(of: made.connection, found, isNew: true, client.word, made.warnings)
  }

  private func result(
    of connection: ProviderConnection, _ found: Found, isNew: Bool, _ client: ResourceClient, _ warnings: [String]
  ) -> ResourceAdd.Result {
    let provider = connection.provider
    return .init(
      provider: provider.name.rawValue, created: isNew, resource: found.resource,
      issuer: provider.description.issuer ?? "", client: client, client_id: provider.description.clientID,
      scopes: provider.tokenTraits.scopes, forward_path: forwardPath(found.url, provider), warnings: warnings)
  }

  /// The path of a provider's resource below `/forward/ACCOUNT`: of the URL that the user named, else of the resource.
  func forwardPath(of provider: any Provider) -> String? {
    let text = registrations.saved[provider.name]?.options.url ?? provider.tokenTraits.resource
    guard let url = text.flatMap({ ResourceURL($0) }), provider.apiTraits.origins.contains(where: url.hasOrigin(of:))
    else { return nil }
    return forwardPath(url, provider)
  }

  /// Below `/forward/ACCOUNT`, which leads to the provider's API base.
  private func forwardPath(_ url: ResourceURL, _ provider: any Provider) -> String {
    let base = provider.apiTraits.base?.path(percentEncoded: true) ?? ""
    let prefix = base.hasSuffix("/") ? String(base.dropLast()) : base
    return url.path.hasPrefix(prefix) ? String(url.path.dropFirst(prefix.count)) : url.path
  }

  // MARK: What the broker has

  /// The provider for this resource at one of its authorization servers.
  private func existing(_ found: Found, named name: ProviderName?, client: String?) -> ProviderConnection? {
    providers.sorted.first { connection in
      let provider = connection.provider
      guard let issuer = provider.description.issuer, found.issuers.contains(where: { $0.rawValue == issuer }),
        provider.tokenTraits.resource == found.resource,
        provider.apiTraits.origins.contains(where: { found.url.hasOrigin(of: $0) })
      else { return false }
      return (name.map { $0 == provider.name } ?? true) && (client.map { $0 == provider.description.clientID } ?? true)
    }
  }

  /// A resource that names other authorization servers than before may be in other hands: the grant stays at the old one.
  private func checkIssuer(_ found: Found, named name: ProviderName?) throws(RPCError) {
    guard name == nil, let old = registrations.saved.values.first(where: { $0.options.url == found.url.description }),
      !found.issuers.contains(old.issuer)
    else { return }
    let now = found.issuers.map { $0.rawValue.printable(limit: 200) }.joined(separator: ", ")
    throw RPCError(
      .providerMisconfigured,
      "\(place(found)) names the authorization server \(now); provider \(old.provider) of this URL is at \(old.issuer)",
      hint:
        "Ask the operator of \(found.url.host). If the move is intended: `grantctl login \(found.url) --name NAME`. "
        + "Provider \(old.provider) is unchanged.")
  }

  // MARK: The client

  private func client(_ given: String?, _ server: Server) -> Client? {
    if let given { return .identifier(given, .given) }
    if let base = registrations.base(at: server.issuer) { return .base(base) }
    let methods = server.metadata.supported.clientAuthentication
    if let clientMetadata, server.metadata.supported.clientMetadataDocuments, methods?.contains("none") ?? true {
      return .identifier(clientMetadata, .metadata_document)
    }
    return server.metadata.endpoints[.registration] == nil ? nil : .registration
  }

  private func byHand(_ found: Found, _ server: Server) -> String {
    "Register a public client at \(server.issuer) by hand, with the redirect URI http://127.0.0.1/callback. Then: "
      + "`grantctl login \(found.url) --client-id ID`."
  }

  private func noClient(_ found: Found, _ server: Server) -> RPCError {
    RPCError(
      .unsupportedByProvider,
      "\(server.issuer) registers no clients by itself: its metadata at "
        + "\(server.issuer.discoveryURL(server.style).absoluteString) have no registration_endpoint",
      hint: byHand(found, server), detail: "client_id")
  }

  private func refused(_ error: RPCError, _ found: Found, _ server: Server) -> RPCError {
    var error = error
    error.hint = error.hint ?? byHand(found, server)
    return error
  }

  // MARK: Scopes and names

  /// Those of the challenge or the resource; `offline_access` if the server lists it, for a refresh token.
  private func scopes(_ wanted: [String]?, _ found: Found, _ metadata: ServerMetadata) -> [String] {
    if let wanted { return wanted }
    let offline = "offline_access"
    let isListed = metadata.supported.scopes?.contains(offline) ?? false
    var scopes: [String] = []
    for scope in found.scopes + (isListed ? [offline] : []) where !scopes.contains(scope) && scopes.count < Limit.scopes
    {
      scopes.append(scope)
    }
    return scopes
  }

  private func checkScopes(_ scopes: [String]?) throws(RPCError) {
    guard (scopes?.count ?? 0) <= Limit.scopes else {
      throw .invalidParams("params.scopes: more than \(Limit.scopes)")
    }
  }

  /// The user's choice, or the first free name from the URL: the host, with the port, with the path.
  private func newName(_ wanted: ProviderName?, _ url: ResourceURL) throws(RPCError) -> ProviderName {
    if let wanted {
      guard registrations.isFree(wanted) else {
        throw .invalidParams(
          "params.provider: the name \(wanted) is used by another provider, or by accounts of one that was removed",
          hint: "Choose another name with --name.")
      }
      return wanted
    }
    let host = url.host.filter { $0 != "[" && $0 != "]" }.replacing(":", with: "-")
    let port = url.url.port.map { "-\($0)" } ?? ""
    let path = url.path.split(separator: "/").map { "-" + $0 }.joined()
    let texts = [host, host + port, host + path, host + port + path]
    for text in texts {
      if let name = ProviderName(rawValue: String(text.prefix(64))), registrations.isFree(name) { return name }
    }
    throw .invalidParams(
      "params.provider: providers named \(host) exist for other resources",
      hint: "Name this one: `grantctl login \(url) --name NAME`.")
  }
}
