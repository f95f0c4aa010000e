import Grants
import OAuth
import Providers

/// A provider as it is written, its template already merged in. What hangs together is checked in ``settings``.
struct ProviderDraft {
  var kind: ProviderSettings.Kind?
  var profile: String?
  var displayName: String?
  var issuer: String?
  var issuerRule = IssuerRule.exact
  var discovery: Discovery?
  var endpoints = ProviderSettings.Endpoints()
  var clientID: String?
  var secretFile: String?
  var secretCredential: String?
  var method: Method?
  var scopes: [String] = []
  var scopeSeparator = " "
  var resource: String?
  var redirect = ProviderSettings.Redirect.loopback(host: .v4, path: "/callback")
  var pkce = true
  var prompt: String?
  var authorizationParameters: [String: String] = [:]
  var tokenParameters: [String: String] = [:]
  var refreshParameters: [String: String] = [:]
  var tokenHeaders: [String: String] = [:]
  var bodyFormat = BodyFormat.form
  var response = TokenResponseQuirks()
  var rotation = Rotation.strict
  var permanentErrors: [String] = []
  var refreshTokenLifetime: Duration?
  var idToken = ProviderSettings.IDTokenSettings()
  var allowInsecureHTTP = false
  var loginLifetime = Duration.seconds(600)

  enum Discovery: Sendable, Equatable {
    case off
    case on(DiscoveryStyle)
  }

  enum Method: String, Sendable, CaseIterable {
    case none
    case basic = "client_secret_basic"
    case basicRaw = "client_secret_basic_raw"
    case post = "client_secret_post"
  }
}

extension Sections {
  /// The key that is refused, so that no secret stands in a file that others read.
  static let inlineSecret = "client_secret"

  static let provider = Section<ProviderDraft>(
    header: "[provider.NAME]",
    meaning:
      "An authorization server, our client registration there, and its quirks. NAME is 1 to 64 characters of "
      + "`A-Z a-z 0-9 . _ @ + -`. With a `profile` most keys come from its template; what is written here wins, and "
      + "tables of parameters are merged.",
    keys: identity + client + authorization + token + refreshing + limits)

  private static let identity: [Key<ProviderDraft>] = [
    Key("profile", .name, \.profile, "The template to start from; see [providers](providers.md)."),
    Key(
      "kind", .word, \.kind, standard: "\"oidc\"",
      "`oidc`: OpenID Connect, with ID tokens. `oauth2`: plain OAuth 2.0."),
    Key("display_name", .name, \.displayName, standard: "NAME", "What people see."),
    Key(
      "issuer", .name, \.issuer,
      "The issuer identifier, exactly as the server writes it: a trailing slash counts. Required with `oidc`."),
    Key(
      "issuer_rule", .word, \.issuerRule, standard: "\"exact\"",
      "How `iss` may differ from the issuer. `entra_tenant`: Microsoft's shared endpoints; `google`: without the scheme."
    ),
    Key(
      "discovery", expected: "\"openid\", \"oauth\" or false",
      standard:
        "\"openid\" with `oidc`; \"oauth\" with `oauth2` where an issuer stands for missing endpoints; else false",
      "Where the endpoints come from: `openid` appends the well-known path to the issuer (OpenID Connect Discovery §4), "
        + "`oauth` puts it before the path (RFC 8414 §3.1), false: from the keys below."
    ) { draft, value throws(Unfit) in draft.discovery = try discovery(value) },
    Key("authorization_endpoint", .name, \.endpoints.authorization, "Wins over discovery, as the following do."),
    Key("token_endpoint", .name, \.endpoints.token, "Where codes are exchanged."),
    Key("refresh_endpoint", .name, \.endpoints.refresh, standard: "`token_endpoint`", "Where tokens are refreshed."),
    Key("jwks_uri", .name, \.endpoints.keys, "The keys that sign ID tokens."),
    Key("userinfo_endpoint", .name, \.endpoints.userinfo, "OpenID Connect UserInfo."),
    Key("revocation_endpoint", .name, \.endpoints.revocation, "Where tokens are revoked at logout (RFC 7009)."),
  ]

  private static func discovery(_ value: Item.Value) throws(Unfit) -> ProviderDraft.Discovery {
    if value == .flag(false) { return .off }
    guard case .text(let text) = value else { throw .found(value.kind) }
    guard let style = DiscoveryStyle(rawValue: text) else {
      throw .found(quoted(text), suggestion: didYouMean(text, DiscoveryStyle.allCases.map(\.rawValue)))
    }
    return .on(style)
  }

  private static let client: [Key<ProviderDraft>] = [
    Key("client_id", .name, \.clientID, "Required. The client as the provider registered it."),
    Key(
      "client_secret_file", .path, \.secretFile,
      "The file with the client secret; nobody else may be able to read it. A newline at its end is left out."),
    Key(
      "client_secret_credential", .name, \.secretCredential,
      "The systemd credential with the client secret (`LoadCredential=`, `LoadCredentialEncrypted=`)."),
    Key(
      "token_endpoint_auth_method", .word, \.method,
      standard: "\"client_secret_basic\" with a secret, else \"none\"",
      "How the client proves itself. `client_secret_basic_raw` leaves id and secret unencoded, for servers that never decode."
    ),
    Key(
      "redirect_uri", .redirect, \.redirect, standard: "\"http://127.0.0.1/callback\"",
      "Where the browser comes back, as registered. A loopback address without a port stands for any port; with a port, or "
        + "with another scheme, it is used as it is."),
  ]

  private static let authorization: [Key<ProviderDraft>] = [
    Key("scopes", .list(scope, of: "scopes"), \.scopes, standard: "[]", "The scopes that a login asks for."),
    Key("scope_separator", .separator, \.scopeSeparator, standard: "\" \"", "Between scopes on the wire."),
    Key("resource", .name, \.resource, "The resource that tokens are for, an absolute URI (RFC 8707)."),
    Key("pkce", .flag, \.pkce, standard: "true", "Send a code challenge (RFC 7636, S256)."),
    Key("prompt", .text, \.prompt, "`consent`, `login`, `select_account` or `none`, several joined by a space."),
    Key(
      "authorization_parameters",
      .parameters(
        reserved: [
          "response_type", "client_id", "redirect_uri", "scope", "state", "nonce", "code_challenge",
          "code_challenge_method", "resource", "prompt",
        ]), \.authorizationParameters, standard: "{}", "More parameters for the authorization request."),
    Key(
      "login_timeout", .duration(.seconds(10)...(.days(1))), \.loginLifetime, standard: "\"10m\"",
      "How long a person may take to sign in."),
  ]

  private static let scope = Form<String>.text.map("texts without spaces, quotes or commas") { text throws(Unfit) in
    // RFC 6749 §3.3, less the comma, which some providers put between scopes.
    let fits = text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && !"\"\\,".utf8.contains($0) }
    guard !text.isEmpty, fits else { throw .found(quoted(text)) }
    return text
  }

  private static let reservedAtToken = [
    "grant_type", "code", "redirect_uri", "code_verifier", "refresh_token", "client_id", "client_secret", "scope",
    "resource",
  ]

  private static let token: [Key<ProviderDraft>] = [
    Key(
      "token_parameters", .parameters(reserved: reservedAtToken), \.tokenParameters, standard: "{}",
      "More parameters for the exchange of a code."),
    Key(
      "refresh_parameters", .parameters(reserved: reservedAtToken), \.refreshParameters, standard: "{}",
      "More parameters for a refresh."),
    Key("token_headers", .headers, \.tokenHeaders, standard: "{}", "More headers for both."),
    Key("body_format", .word, \.bodyFormat, standard: "\"form\"", "`form` or `json`: how those requests are written."),
    Key(
      "accept_form_response", .flag, \.response.acceptsForm, standard: "false",
      "Take answers in `application/x-www-form-urlencoded` as well."),
    Key(
      "token_path", .names, \.response.path, standard: "[]",
      "The members to descend through to the token, such as `[\"authed_user\"]`."),
    Key(
      "keep_members", .names, \.response.keepMembers, standard: "[]", "Members of the answer to keep with the grant."),
    Key(
      "lifetime_unit", .word, \.response.lifetimeUnit, standard: "\"seconds\"",
      "`seconds` or `milliseconds`: what `expires_in` is counted in."),
    Key(
      "access_token_lifetime", .duration(.seconds(1)...(.days(3650))), \.response.fixedLifetime,
      "How long access tokens live where the provider does not say."),
  ]

  private static let refreshing: [Key<ProviderDraft>] = [
    Key(
      "rotation", .rotation, \.rotation, standard: "\"strict\"",
      "What becomes of the old refresh token when there is a new one. `none`: it stays good; `grace 30s`: for so long; "
        + "`strict`: it is dead at once. When in doubt leave `strict`."),
    Key(
      "permanent_errors", .names, \.permanentErrors, standard: "[]",
      "Error codes that mean \"sign in again\", beside `invalid_grant`."),
    Key(
      "refresh_token_lifetime", .duration(.minutes(1)...(.days(3650))), \.refreshTokenLifetime,
      "How long a refresh token is good, counted from its issue, where the provider does not say."),
  ]

  private static let limits: [Key<ProviderDraft>] = [
    Key(
      "id_token_algorithms", .list(.word(algorithms), of: "signature algorithms"), \.idTokenWords,
      standard: "what the metadata say, else RS256", "The signature algorithms that an ID token may have."),
    Key(
      "clock_tolerance", .duration(.zero ... .minutes(10)), \.idToken.tolerance, standard: "\"30s\"",
      "How far the clocks may differ."),
    Key(
      "trusted_audiences", .names, \.idToken.trustedAudiences, standard: "any, where `azp` is the client",
      "Audiences that may stand beside the client in an ID token."),
    Key(
      "allow_insecure_http", .flag, \.allowInsecureHTTP, standard: "false",
      "Allow plain http to other machines: everybody on the way can read the tokens. Loopback is always allowed."),
  ]

  private static let algorithms: [SignatureAlgorithm] = SignatureAlgorithm.allCases
}

extension ProviderDraft {
  fileprivate var idTokenWords: [SignatureAlgorithm] {
    get { idToken.algorithms.compactMap(SignatureAlgorithm.init) }
    set { idToken.algorithms = newValue.map(\.rawValue) }
  }
}
