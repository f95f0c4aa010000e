import Grants
import OAuth
import Providers

/// The requests to a provider: the second half of `[provider.NAME]`.
extension Sections {
  static let authorization: [Key<ProviderDraft>] = [
    Key("scopes", .scopes, \.access.scopes, standard: "[]", "The scopes that a login asks for."),
    Key(
      "optional_scopes", .scopes, \.access.optionalScopes, standard: "[]",
      "Further scopes that a login asks for if the provider's metadata list them. A profile's count only without `scopes`."
    ),
    Key("scope_separator", .separator, \.access.scopeSeparator, standard: "\" \"", "Between scopes on the wire."),
    Key(
      "answered_scope_separator", .separator, \.answeredScopeSeparator, standard: "`scope_separator`",
      "Between scopes in answers."),
    Key("resource", .name, \.access.resource, "The resource that tokens are for, an absolute URI (RFC 8707)."),
    Key(
      "audience", .name, \.access.audience, standard: "none",
      "The audience of the tokens, if `audience_parameter` is set; a login and a request can name another."),
    Key(
      "audience_parameter", .word(TokenTraits.AudienceParameter.allCases), \.access.audienceParameter, standard: "none",
      "How requests name an audience: by the parameter `audience`, or as `resource` (RFC 8707). Without it, only a token "
        + "exchange (RFC 8693) takes one."),
    Key("pkce", .flag, \.authorization.pkce, standard: "true", "Send a code challenge (RFC 7636, S256)."),
    Key(
      "prompt", .text, \.authorization.prompt,
      "`consent`, `login`, `select_account` or `none`, several joined by a space; empty: none, and on purpose."),
    Key(
      "max_age", .duration(.zero ... .days(365)), \.maxAge,
      "The maximum age of a sign-in at the provider; checked in the ID token."),
    Key("acr_values", .names, \.authorization.acrValues, standard: "[]", "How people should sign in, the best first."),
    Key(
      "ui_locales", .names, \.authorization.uiLocales, standard: "[]",
      "The languages of the sign-in page, the best first."),
    Key(
      "claims", .jsonObject, \.authorization.claims,
      "The claims that are asked for one by one (OpenID Connect Core §5.5)."),
    Key(
      "authorization_details", .jsonArray, \.authorization.details,
      "The authorization details to request (RFC 9396): tables, each with a `type`."),
    Key(
      "par", .word, \.authorization.par, standard: "\"when_required\"",
      "Whether authorization requests are pushed ahead (RFC 9126): `when_required` where the metadata demand it."),
    Key(
      "request_object", .flag, \.signsRequests, standard: "false",
      "Sign authorization requests (RFC 9101), with the client's key or the following."),
    Key(
      "request_object_key_file", .path, \.requestKey.file, standard: "the client's key",
      "The file with the private key for it, PEM or JWK."),
    Key("request_object_key_credential", .name, \.requestKey.credential, "The systemd credential with that key."),
    Key("request_object_key_id", .name, \.requestKey.id, standard: "the JWK's `kid`, else none", "That key's id."),
    Key(
      "request_object_algorithm", .word, \.requestKey.algorithm, standard: "as for the client's key",
      "How it is signed."),
    Key(
      "response_mode", .choice(["jwt", "query.jwt"]), \.authorization.responseMode, standard: "none",
      "`jwt` or `query.jwt`: the callback is signed (JARM)."),
    Key(
      "allow_password", .flag, \.token.allowsPassword, standard: "false",
      "Accept a user's name and password (RFC 6749 §4.3). Only for a provider that returns tokens no other way."),
    Key(
      "authorization_parameters",
      .parameters(
        reserved: [
          "response_type", "client_id", "redirect_uri", "scope", "state", "nonce", "code_challenge",
          "code_challenge_method", "resource", "prompt", "max_age", "request", "request_uri",
        ]), \.authorization.parameters, standard: "{}", "More parameters for the authorization request."),
    Key(
      "device_parameters", .parameters(reserved: ["client_id", "client_secret", "scope", "resource"] + assertions),
      \.authorization.deviceParameters, standard: "{}", "More parameters for a login on another device."),
    Key(
      "login_timeout", .duration(.seconds(10)...(.days(1))), \.signIn.settings.lifetime, standard: "\"10m\"",
      "The time limit of a sign-in."),
  ]

  private static let assertions = ["client_assertion", "client_assertion_type"]
  private static let reservedAtToken =
    [
      "grant_type", "code", "redirect_uri", "code_verifier", "refresh_token", "client_id", "client_secret", "scope",
      "resource", "assertion", "device_code", "subject_token", "actor_token", "username", "password",
    ] + assertions

  static let token: [Key<ProviderDraft>] = [
    Key(
      "token_parameters", .parameters(reserved: reservedAtToken), \.token.parameters, standard: "{}",
      "More parameters for the exchange of a code."),
    Key(
      "refresh_parameters", .parameters(reserved: reservedAtToken.filter { $0 != "scope" }), \.refresh.parameters,
      standard: "{}",
      "More parameters for a refresh."),
    Key("token_headers", .headers, \.token.headers, standard: "{}", "More headers for both."),
    Key("refresh_headers", .headers, \.refresh.headers, standard: "{}", "More headers for a refresh."),
    Key(
      "dpop", .flag, \.token.dpop, standard: "false", "Bind tokens to a key that never leaves the broker (RFC 9449)."),
    Key(
      "body_format", .word, \.token.bodyFormat, standard: "\"form\"",
      "`form` or `json`: how those requests are written."),
    Key(
      "accept_form_response", .flag, \.token.response.acceptsForm, standard: "false",
      "Take answers in `application/x-www-form-urlencoded` as well."),
    Key(
      "token_path", .names, \.token.response.path, standard: "[]",
      "The members to descend through to the token, such as `[\"authed_user\"]`."),
    Key(
      "token_path_in_refresh", .names, \.refresh.path, standard: "`token_path`",
      "The same in the answer to a refresh; `[]`: there the token is in the answer itself."),
    Key(
      "keep_members", .names, \.token.response.keepMembers, standard: "[]",
      "Members of the answer to keep with the grant."),
    Key(
      "assumed_token_type", .choice(["Bearer", "DPoP"]), \.token.response.tokenType,
      "The type of tokens if the response does not contain it."),
    Key(
      "bearer_names", .names, \.token.response.bearerNames, standard: "[]",
      "Other names of the provider for the token type `Bearer`, such as `[\"user\"]`."),
    Key(
      "success_member", .name, \.token.response.successMember,
      "A member that is `false` in a refusal with any status, such as `ok`."),
    Key(
      "error_members", .names, \.token.response.errorMembers, standard: "[]",
      "Further members with an error's code, as dotted paths, such as `[\"error.type\"]`."),
    Key(
      "error_description_members", .names, \.token.response.errorDescriptionMembers, standard: "[]",
      "Further members with the description of an error, the same way."),
    Key(
      "lifetime_unit", .word, \.token.response.lifetimeUnit, standard: "\"seconds\"",
      "`seconds` or `milliseconds`: what `expires_in` is counted in."),
    Key(
      "access_token_lifetime", .duration(.seconds(1)...(.days(3650))), \.token.response.fixedLifetime,
      "The lifetime of access tokens if the provider does not specify it."),
  ]

  static let refreshing: [Key<ProviderDraft>] = [
    Key(
      "rotation", .rotation, \.refresh.rotation, standard: "\"strict\"",
      "The old refresh token after a new one is issued. `none`: it stays valid; `grace 30s`: for this time; "
        + "`strict`: it is dead at once. When in doubt leave `strict`. With `strict`, and a grace of a minute or less, a refresh "
        + "without an answer is awaited for five minutes before another is sent, since that could end the grant."),
    Key(
      "permanent_errors", .names, \.permanentErrors, standard: "[]",
      "Errors at a refresh that mean \"sign in again\", in addition to `invalid_grant`: an error code, a part of the "
        + "description, or `http_400` for a status without an error code."),
    Key(
      "temporary_errors", .names, \.temporaryErrors, standard: "[]",
      "Errors at a refresh that pass, so the refresh is repeated later: an error code, a part of the description, or a "
        + "status such as `http_403`. They take precedence over `permanent_errors` and `invalid_grant`."),
    Key(
      "refresh_token_lifetime", .duration(.minutes(1)...(.days(3650))), \.refresh.tokenLifetime,
      "How long a refresh token is valid, counted from its issue, if the provider does not specify it."),
    Key(
      "refresh_token_prolonged", .flag, \.refresh.prolongsTokens, standard: "false",
      "That lifetime restarts at each refresh, even if the refresh token stays the same."),
    Key(
      "refresh_scope", .flag, \.refresh.sendsScope, standard: "false",
      "Send the granted scopes with each refresh, for a server that returns other scopes if the request has none."),
    Key(
      "narrow_tokens", .narrowing, \.refresh.narrowing, standard: "true",
      "Tokens for fewer scopes or another resource. `true`: by token exchange (RFC 8693) if the server supports it, and by "
        + "a refresh if `rotation` is `none`. `\"verified\"`: by a refresh even with rotation; only for a server that keeps the "
        + "scopes of the new refresh token. `false`: never; callers get the account's own token."),
  ]

  static let ending: [Key<ProviderDraft>] = [
    Key(
      "revocation_style", .word, \.logout.revocation, standard: "\"rfc7009\"",
      "How tokens are revoked. `bearer`: an empty request with the access token in its header, which ends the grant."),
    Key(
      "revoke_replaced", .flag, \.logout.revokesReplaced, standard: "false",
      "A new login revokes the refresh token that it replaces. Only if a revocation ends only that token's grant: some "
        + "providers end the user's whole consent for this client, including the new login."),
    Key(
      "revocation_parameters",
      .parameters(reserved: ["token", "token_type_hint", "client_id", "client_secret"] + assertions),
      \.logout.revocationParameters, standard: "{}", "More parameters for a revocation."),
    Key(
      "post_logout_redirect_uri", .name, \.logout.postLogoutRedirectURI, standard: "none",
      "Where the browser comes back after it signed out at the provider, as registered. The callback endpoint answers a "
        + "loopback one, which without a port stands for any port."),
    Key(
      "backchannel_logout", .flag, \.logout.backchannel, standard: "false",
      "Accept the provider's logout notices (OpenID Connect Back-Channel Logout). They must reach the callback "
        + "endpoint."),
  ]

  static let limits: [Key<ProviderDraft>] = [
    Key(
      "id_token_algorithms", .list(.word(SignatureAlgorithm.allCases), of: "signature algorithms"), \.idTokenWords,
      standard: "those of the metadata, else RS256", "The signature algorithms that an ID token may have."),
    Key(
      "clock_tolerance", .duration(.zero ... .minutes(10)), \.token.idToken.tolerance, standard: "\"30s\"",
      "How far the clocks may differ."),
    Key(
      "trusted_audiences", .names, \.token.idToken.trustedAudiences, standard: "any, where `azp` is the client",
      "Audiences permitted next to the client in an ID token."),
    Key(
      "allow_insecure_http", .flag, \.server.allowInsecureHTTP, standard: "false",
      "Permit plain http to other machines: any host on the path can read the tokens. Loopback is always permitted."),
  ]
}

extension Form where Output == RefreshTraits.Narrowing {
  fileprivate static var narrowing: Form {
    let expected = "true, false or \"verified\""
    return Form(expected: expected) { value throws(Unfit) in
      switch value {
      case .flag(let isAllowed): return isAllowed ? .cautious : .never
      case .text("verified"): return .verified
      case .text(let text): throw .found(quoted(text))
      default: throw .found(value.kind)
      }
    }
  }
}

extension Form where Output == [String] {
  static var scopes: Form { list(scope, of: "scopes") }

  private static var scope: Form<String> {
    Form<String>.text.map("texts without spaces, quotes or commas") { text throws(Unfit) in
      // RFC 6749 §3.3, less the comma, which some providers put between scopes.
      let fits = text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && !"\"\\,".utf8.contains($0) }
      guard !text.isEmpty, fits else { throw .found(quoted(text)) }
      return text
    }
  }
}

extension ProviderDraft {
  fileprivate var idTokenWords: [SignatureAlgorithm] {
    get { self.token.idToken.algorithms.compactMap(SignatureAlgorithm.init) }
    set { self.token.idToken.algorithms = newValue.map(\.rawValue) }
  }
}
