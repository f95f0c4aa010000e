import Grants
import OAuth
import Providers

extension Sections {
  /// The refused key, so that no secret is in a file that others read.
  static let inlineSecret = "client_secret"

  static let provider = Section<ProviderDraft>(
    header: "[provider.NAME]",
    meaning:
      "An authorization server, our client registration there, and its quirks. NAME is 1 to 64 characters of "
      + "`A-Z a-z 0-9 . _ @ + -`. With a `profile` most keys come from its template; keys written here take precedence, "
      + "and "
      + "tables of parameters are merged.",
    keys: identity + endpoints + client + tls + authorization + signIn + token + refreshing + ending + limits)

  private static let identity: [Key<ProviderDraft>] = [
    Key("profile", .name, \.profile, "The template to start from; see [providers](providers.md)."),
    Key(
      "kind", expected: Form<ProviderKind>.word.expected, standard: "\"oidc\"",
      "`oidc`: OpenID Connect, with ID tokens. `oauth2`: plain OAuth 2.0. The others use neither, and have separate "
        + "keys, below."
    ) { draft, value throws(Unfit) in
      draft.server.kind = ProviderSettings.Kind(rawValue: try Form<ProviderKind>.word.read(value).rawValue) ?? .oidc
    },
    Key("display_name", .name, \.displayName, standard: "NAME", "The name that users see."),
    Key(
      "issuer", .name, \.issuer,
      "The issuer identifier, exactly as in the server's metadata, including a trailing slash. Required with `oidc`."),
    Key(
      "issuer_rule", .word, \.server.issuerRule, standard: "\"exact\"",
      "How `iss` may differ from the issuer. `entra_tenant`: Microsoft's shared endpoints; `google`: without the scheme."
    ),
    Key(
      "discovery", expected: "\"openid\", \"oauth\", \"openid_inserted\" or false",
      standard:
        "\"openid\" with `oidc`; \"oauth\" with `oauth2` where an issuer stands for missing endpoints; else false",
      "The source of the endpoints: `openid` appends the well-known path to the issuer (OpenID Connect Discovery §4), "
        + "`oauth` and `openid_inserted` put it before the path (RFC 8414 §3.1, §5), false: from the keys below."
    ) { draft, value throws(Unfit) in draft.discovery = try discovery(value) },
    Key(
      "discovery_url", .name, \.discoveryURL, standard: "from `issuer` and `discovery`",
      "The URL of the metadata, for a server that has them elsewhere (Azure AD B2C). Their issuer must still be `issuer`."
    ),
  ]

  private static func discovery(_ value: Item.Value) throws(Unfit) -> ProviderDraft.Discovery {
    if value == .flag(false) { return .off }
    guard case .text(let text) = value else { throw .found(value.kind) }
    guard let style = DiscoveryStyle(rawValue: text) else {
      throw .found(quoted(text), suggestion: didYouMean(text, DiscoveryStyle.allCases.map(\.rawValue)))
    }
    return .on(style)
  }

  private static let endpoints: [Key<ProviderDraft>] = [
    Key(
      "authorization_endpoint", .name, \.server.endpoints[.authorization], "Wins over discovery, as the following do."),
    Key("token_endpoint", .name, \.server.endpoints[.token], "Where codes are exchanged."),
    Key(
      "refresh_endpoint", .name, \.server.refreshEndpoint, standard: "`token_endpoint`", "Where tokens are refreshed."),
    Key("jwks_uri", .name, \.server.endpoints[.keys], "The keys that sign ID tokens."),
    Key("userinfo_endpoint", .name, \.server.endpoints[.userinfo], "OpenID Connect UserInfo."),
    Key(
      "revocation_endpoint", .name, \.server.endpoints[.revocation], "Where tokens are revoked at logout (RFC 7009)."),
    Key("introspection_endpoint", .name, \.server.endpoints[.introspection], "Where tokens are looked up (RFC 7662)."),
    Key(
      "end_session_endpoint", .name, \.server.endpoints[.endSession],
      "The end-session endpoint (OpenID Connect RP-Initiated Logout)."),
    Key(
      "pushed_authorization_request_endpoint", .name, \.server.endpoints[.pushedAuthorizationRequest],
      "Where authorization requests are pushed (RFC 9126)."),
    Key(
      "device_authorization_endpoint", .name, \.server.endpoints[.deviceAuthorization],
      "The device authorization endpoint (RFC 8628)."),
    Key(
      "registration_endpoint", .name, \.server.endpoints[.registration], "Where clients are registered (RFC 7591)."),
  ]

  private static let client: [Key<ProviderDraft>] = [
    Key(
      "client_id", .name, \.clientID,
      "Required, unless all its accounts are service accounts (`jwt_bearer`). The client as the provider registered it."
    ),
    Key(
      "client_secret_file", .path, \.secretFile,
      "The file with the client secret; no other user may be able to read it. A newline at its end is left out."),
    Key(
      "client_secret_credential", .name, \.secretCredential,
      "The systemd credential with the client secret (`LoadCredential=`, `LoadCredentialEncrypted=`)."),
    Key(
      "token_endpoint_auth_method", .word, \.method,
      standard:
        "\"client_secret_basic\" with a secret, \"private_key_jwt\" with a key, \"tls_client_auth\" with a certificate, "
        + "else \"none\"",
      "How the client proves itself. `client_secret_basic_raw` leaves id and secret unencoded, for servers that never decode."
    ),
    Key(
      "client_key_file", .path, \.clientKey.file,
      "The file with the client's private key, PEM or JWK (RFC 7523); no other user may be able to read it."),
    Key(
      "client_key_credential", .name, \.clientKey.credential, "The systemd credential with the client's private key."),
    Key(
      "client_key_id", .name, \.clientKey.id, standard: "the JWK's `kid`, else none",
      "The key's id, as the provider knows it."),
    Key(
      "client_assertion_algorithm", .word, \.clientKey.algorithm,
      standard: "the JWK's `alg`, else RS256, ES256, ES384, ES512 or EdDSA by the key; HS256 with `client_secret_jwt`",
      "How the client's assertions are signed."),
    Key(
      "client_assertion_audience", .name, \.assertionAudience, standard: "\"token_endpoint\"",
      "The audience of the client's assertions: `token_endpoint`, `issuer`, `endpoint` (the endpoint of each request), "
        + "or any "
        + "other text, unchanged."),
    Key(
      "redirect_uri", .redirect, \.client.redirect, standard: "\"http://127.0.0.1/callback\"",
      "The registered redirect URI. A loopback address without a port stands for any port; with a port, or with "
        + "another scheme, it is used unchanged."),
  ]

  private static let tls: [Key<ProviderDraft>] = [
    Key(
      "tls_ca_file", .path, \.tls.authoritiesFile,
      "A file of certificates, PEM: authorities to trust for this provider beside the system's."),
    Key(
      "tls_certificate_file", .path, \.tls.certificateFile,
      "The client's certificate, PEM, and those between it and its authority (RFC 8705)."),
    Key(
      "tls_key_file", .path, \.tls.keyFile,
      "The private key of that certificate, PEM; no other user may be able to read it."),
    Key("tls_key_credential", .name, \.tls.keyCredential, "The systemd credential with that key."),
  ]
}
