import Foundation
import NIOHTTP1
import Synchronization

extension Ledger {
  /// A client that registered itself (RFC 7591 §3.2.1), or was added by the control API.
  struct Registration: Sendable {
    var client: DemoServer.Client
    var metadata: [String: DemoServer.JSON]
    /// The registration access token; empty for a client that cannot manage itself.
    var token: String
    var knownFrom: Date
    var isDeleted = false
  }
}

extension Provider {
  /// The client registration endpoint (RFC 7591 §3), and each client's configuration endpoint (RFC 7592 §2).
  func register(_ turn: Turn) throws(OAuthFailure) -> Response {
    guard turn.request.path.hasPrefix(Self.registrationPrefix) else {
      guard turn.request.method == .POST else { return Response(status: 405, headers: [("Allow", "POST")]) }
      return try registerNew(turn)
    }
    let id = String(turn.request.path.dropFirst(Self.registrationPrefix.count))
    let bearer = turn.request.credentials(scheme: "Bearer")
    guard let registration = ledger.withLock({ $0.registrations[id] }), !registration.isDeleted,
      !registration.token.isEmpty, bearer == registration.token
    else { return .challenge("Bearer", OAuthFailure(code: "invalid_token", description: "not this client's")) }
    switch turn.request.method {
    case .GET:
      return answer(store(registration, .registrationRead), status: 200)
    case .PUT:
      guard case .object(let members)? = DemoServer.JSON(text: turn.request.body), members["client_id"]?.string == id
      else { throw .invalidMetadata("the body is the client's metadata, its client_id among them") }
      var changed = registration
      changed.client = try client(id, members, secret: registration.client.secret)
      changed.metadata = members
      return answer(store(changed, .registrationUpdated), status: 200)
    case .DELETE:
      var deleted = registration
      deleted.isDeleted = true
      _ = store(deleted, .registrationDeleted)
      return Response(status: 204)
    default: return Response(status: 405, headers: [("Allow", "GET, PUT, DELETE")])
    }
  }

  private func registerNew(_ turn: Turn) throws(OAuthFailure) -> Response {
    let settings = ledger.withLock { $0.settings.registration }
    guard settings.token.isEmpty || turn.request.credentials(scheme: "Bearer") == settings.token else {
      return .challenge("Bearer", OAuthFailure(code: "invalid_token", description: "an initial access token is needed"))
    }
    guard turn.request.headers.first(name: "content-type")?.lowercased().hasPrefix("application/json") ?? false,
      case .object(let members)? = DemoServer.JSON(text: turn.request.body)
    else { throw .invalidMetadata("the body is a JSON object") }
    let id = "client-\(Base64URL.random().prefix(16))"
    let registration = Ledger.Registration(
      client: try client(id, members, secret: nil), metadata: members, token: "reg-\(Base64URL.random())",
      knownFrom: turn.now.addingTimeInterval(settings.delay.asSeconds))
    return answer(store(registration, .registration), status: settings.status)
  }

  private func store(
    _ registration: Ledger.Registration, _ event: DemoServer.Stats.Event
  ) -> Ledger.Registration {
    ledger.withLock { ledger in
      var registration = registration
      if ledger.settings.registration.tokenRotates, event != .registration {
        registration.token = "reg-\(Base64URL.random())"
      }
      ledger.registrations.insert(registration, for: registration.client.id)
      ledger.count(event)
      return registration
    }
  }

  /// The client that metadata describe (RFC 7591 §2); one that authenticates with a secret gets one.
  private func client(
    _ id: String, _ members: [String: DemoServer.JSON], secret: String?
  ) throws(OAuthFailure) -> DemoServer.Client {
    guard let uris = (members["redirect_uris"] ?? []).strings else {
      throw OAuthFailure(code: "invalid_redirect_uri", description: "redirect_uris is a list of strings")
    }
    let grants = members["grant_types"]?.strings ?? ["authorization_code"]
    guard !grants.contains("authorization_code") || !uris.isEmpty else {
      throw OAuthFailure(code: "invalid_redirect_uri", description: "the authorization code grant needs redirect_uris")
    }
    for uri in uris {
      guard let url = URLComponents(string: uri), url.scheme != nil, url.fragment == nil else {
        throw OAuthFailure(code: "invalid_redirect_uri", description: "\(uri) is no redirect URI")
      }
    }
    let method = members["token_endpoint_auth_method"]?.string ?? "client_secret_basic"
    guard case .array(let known) = Self.authenticationMethods, known.contains(.string(method)) else {
      throw .invalidMetadata("token_endpoint_auth_method \(method) is not known here")
    }
    guard members["jwks_uri"] == nil else { throw .invalidMetadata("jwks_uri is not known here; send jwks") }
    let keys = members["jwks"]?.keys ?? []
    guard method != "private_key_jwt" || !keys.isEmpty else { throw .invalidMetadata("private_key_jwt needs jwks") }
    let needsSecret = method.hasPrefix("client_secret_")
    return DemoServer.Client(
      id: id, secret: needsSecret ? secret ?? "secret-\(Base64URL.random())" : nil, redirectURIs: uris, keys: keys,
      authenticationMethod: method)
  }

  /// The client information response (RFC 7591 §3.2.1).
  private func answer(_ registration: Ledger.Registration, status: Int) -> Response {
    let client = registration.client
    var members = registration.metadata
    members["client_id"] = .string(client.id)
    members["client_id_issued_at"] = .int(max(0, Int(options.now().timeIntervalSince1970)))
    members["client_secret"] = client.secret.map { .string($0) }
    members["client_secret_expires_at"] = client.secret == nil ? nil : 0
    members["token_endpoint_auth_method"] = client.authenticationMethod.map { .string($0) }
    members["registration_access_token"] = .string(registration.token)
    members["registration_client_uri"] = .string("\(issuer)\(Self.registrationPrefix)\(client.id)")
    let extra = ledger.withLock { $0.settings.registration.extra }
    var response = Response.json(.object(members).overlaid(with: extra), status: status)
    response.headers.append(("Cache-Control", "no-store"))
    return response
  }
}

extension OAuthFailure {
  fileprivate static func invalidMetadata(_ description: String) -> Self {
    .init(code: "invalid_client_metadata", description: description)
  }
}
