import Foundation
import Synchronization

extension Provider {
  /// OpenID Connect Discovery §3 and RFC 8414 §2, one document at both addresses, unless a setting makes them differ.
  func discovery(_ turn: Turn) -> Response {
    let settings = ledger.withLock { $0.settings }
    let shown = turn.fault(.wrongIssuer).map { $0.parameters.value ?? Self.wrongIssuer } ?? issuer
    var document = core(shown)
    switch turn.request.path == Self.oidcPath ? settings.metadata.oidc : settings.metadata.oauth {
    case .missing: return .page(.problem("There is nothing at this address."), status: 404)
    case .html: return .page(.problem("Welcome."))
    case .bare: break
    case .sevenPass: return .json(sevenPassDiscovery(shown).overlaid(with: settings.discoveryExtra))
    case .full: document = document.overlaid(with: extensions(settings))
    }
    if settings.metadata.issAdvertised {
      document = document.overlaid(with: ["authorization_response_iss_parameter_supported": true])
    }
    return .json(document.overlaid(with: settings.discoveryExtra))
  }

  private func core(_ shown: String) -> DemoServer.JSON {
    [
      "issuer": .string(shown),
      "authorization_endpoint": .string("\(issuer)/authorize"), "token_endpoint": .string("\(issuer)/token"),
      "jwks_uri": .string("\(issuer)/jwks"),
      "scopes_supported": ["openid", "profile", "email", "offline_access"],
      "response_types_supported": ["code"], "response_modes_supported": ["query", "query.jwt", "jwt"],
      "grant_types_supported": [
        "authorization_code", "refresh_token", "client_credentials",
        "urn:ietf:params:oauth:grant-type:device_code", "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "urn:ietf:params:oauth:grant-type:token-exchange",
      ],
      "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": Self.ownAlgorithms,
      "token_endpoint_auth_methods_supported": Self.authenticationMethods,
      "token_endpoint_auth_signing_alg_values_supported": Self.algorithms,
      "code_challenge_methods_supported": ["S256"],
      "prompt_values_supported": ["none", "login", "consent", "select_account"],
      "claims_supported": [
        "sub", "iss", "aud", "exp", "iat", "auth_time", "nonce", "at_hash", "name", "preferred_username", "email",
        "email_verified",
      ],
    ]
  }

  private func extensions(_ settings: DemoServer.Settings) -> [String: DemoServer.JSON] {
    [
      "userinfo_endpoint": .string("\(issuer)/userinfo"), "revocation_endpoint": .string("\(issuer)/revoke"),
      "introspection_endpoint": .string("\(issuer)/introspect"),
      "end_session_endpoint": .string("\(issuer)/end_session"),
      "device_authorization_endpoint": .string("\(issuer)/device_authorization"),
      "pushed_authorization_request_endpoint": .string("\(issuer)/par"),
      "registration_endpoint": .string("\(issuer)/register"),
      "revocation_endpoint_auth_methods_supported": Self.authenticationMethods,
      "introspection_endpoint_auth_methods_supported": Self.authenticationMethods,
      "require_pushed_authorization_requests": .bool(settings.authorization.requirePAR),
      "request_parameter_supported": true, "request_uri_parameter_supported": false,
      "require_signed_request_object": .bool(settings.authorization.requireRequestObject),
      "request_object_signing_alg_values_supported": Self.algorithms,
      "authorization_signing_alg_values_supported": Self.ownAlgorithms,
      "dpop_signing_alg_values_supported": settings.dpop.mode == .ignored ? .null : ["ES256", "EdDSA", "RS256"],
      "backchannel_logout_supported": true, "backchannel_logout_session_supported": true,
    ]
  }

  static let authenticationMethods: DemoServer.JSON = [
    "none", "client_secret_basic", "client_secret_post", "client_secret_jwt", "private_key_jwt",
  ]
  /// All that a key may be rotated in with.
  private static let ownAlgorithms = DemoServer.JSON.array(DemoServer.Algorithm.allCases.map { .string($0.rawValue) })
  /// All that a client may sign with.
  private static let algorithms: DemoServer.JSON = [
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "HS256", "HS384",
    "HS512",
  ]

  /// RFC 7517 §5.
  func jwks(_ turn: Turn) -> Response {
    var hidden: [String: DemoServer.JSON] = [:]
    if turn.fault(.keysWithoutAlgorithm) != nil { hidden["alg"] = .null }
    if turn.fault(.keysWithoutUse) != nil { hidden["use"] = .null }
    if turn.fault(.keysWithoutIdentifier) != nil { hidden["kid"] = .null }
    let keys = ledger.withLock { $0.keys.map(\.publicJWK) }
    return .json(["keys": .array(keys.map { $0.overlaid(with: hidden) })])
  }
}
