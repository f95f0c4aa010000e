import OAuth
import Providers

/// `[provider.NAME]` of the kinds that speak no OAuth.
extension Sections {
  static let vms = Section<SystemDraft>(
    header: "[provider.NAME] with kind = \"vms\"",
    meaning:
      "A video management system whose users sign in elsewhere. It speaks no OAuth, so these are all its keys; see "
      + "[vms](providers/vms.md).",
    keys: site + [
      Key("client_name", .headerValue, \.clientName, standard: "\"grantd\"", "The value of `X-Client`."),
      Key(
        "client_version", .headerValue, \.clientVersion, standard: "the broker's own",
        "The value of `X-Version`. If the server answers 409, it requires another one."),
      Key(
        "language", .headerValue, \.language, standard: "\"en\"",
        "The value of `hl`: the language of the server's texts."),
      Key("headers", .headers, \.headers, standard: "{}", "More headers for each call; they win over the others."),
      Key(
        "replace_session", .word, \.replacing, standard: "none: the user is asked",
        "Which session to replace where the server allows no more. `oldest`: the one that was used the longest time "
          + "ago; `offline`: one that is not in use. At most three in one login; the user is asked if there is none "
          + "such."
      ),
    ])

  static let zephr = Section<SystemDraft>(
    header: "[provider.NAME] with kind = \"zephr\"",
    meaning:
      "Zephr, which uses a session instead of a token. It does not use OAuth, so these are all its keys; see "
      + "[zephr](providers/zephr.md).",
    keys: site + [
      Key(
        "path_prefix", .pathPrefix, \.pathPrefix, standard: "\"/blaize\"",
        "The first part of its paths: `/blaize` or `/zephr`."),
      Key(
        "client_type", .text, \.clientType, standard: "\"ios\"",
        "`client_type` at the start of a login; empty: none is sent."),
      Key(
        "identity_providers", .list(.pathSegment, of: "names of identity providers"), \.identityProviders,
        standard: "[]", "Those that a login may name; empty: any."),
      Key(
        "default_identity_provider", .pathSegment, \.standardIdentityProvider,
        standard: "the only one of `identity_providers`", "The identity provider where the login names none."),
      Key(
        "session_cookie", .cookieName, \.cookieName, standard: "\"blaize_session\"",
        "The cookie that a session goes by."),
      Key(
        "user_exists_status", .number(400...499), \.userExistsStatus, standard: "409",
        "The status of a registration that is refused since the user exists."),
      Key(
        "email_domain_status", .number(400...499), \.emailDomainStatus, standard: "403",
        "The status of a registration that is refused for its e-mail domain."),
      Key(
        "subject_members", .names, \.subjectMembers,
        standard: "`user_id`, `id`, `sub`, `identifiers.email_address`, `email_address`, `email`",
        "The paths of the user's id in a profile: dotted, the best first."),
      Key(
        "logout_where", .word, \.logoutReach, standard: "\"JUST_HERE\"", "How far a logout goes by default."),
      Key(
        "redirect_parameter", .name, \.redirectParameter, standard: "none: the server knows it",
        "The parameter that tells the server the redirect URI at the start of a login."),
      Key(
        "nonce_in_redirect", .flag, \.redirectsWithNonce, standard: "false",
        "Give each login a separate redirect URI, with a secret after the path, so that a callback names its login. "
          + "Needs `redirect_parameter`, and a server that accepts such URIs."),
    ])

  /// The common keys.
  private static let site: [Key<SystemDraft>] = [
    Key("profile", .name, \.profile, "The template to start from, if there is one."),
    Key("kind", .word, \.kind, "How it speaks."),
    Key("display_name", .name, \.displayName, standard: "NAME", "The name that users see."),
    Key(
      "base_url", .name, \.baseURL,
      "Required. The server's URL, such as `https://vms.example.com`, to which its paths "
        + "are appended to."),
    Key(
      "redirect_uri", .redirect, \.redirect,
      "Required, unless a parameter sends it. The redirect URI, as configured at the server: "
        + "with a private-use scheme (`myapp://sign-in`), or `http://127.0.0.1:PORT/…`."),
    Key(
      "login_timeout", .duration(.seconds(10)...(.days(1))), \.loginLifetime, standard: "\"10m\"",
      "The time limit of a sign-in and of the steps that follow."),
    Key(
      "api_base", .name, \.api.base, standard: "the server itself; `/api/v1` of it with `vms`",
      "What paths of authorised calls (`request.send`) are relative to: an https URL."),
    Key(
      "api_origins", .names, \.api.origins, standard: "those of `base_url` and `api_base`",
      "Where else such calls may go with the account's token."),
    Key(
      "tls_ca_file", .path, \.tls.authoritiesFile,
      "A file of certificates, PEM: authorities to trust for this provider beside the system's."),
    Key(
      "tls_certificate_file", .path, \.tls.certificateFile,
      "The client's certificate, PEM, and those between it and its authority."),
    Key(
      "tls_key_file", .path, \.tls.keyFile,
      "The private key of that certificate, PEM; no other user may be able to read it."
    ),
    Key("tls_key_credential", .name, \.tls.keyCredential, "The systemd credential with that key."),
    Key(
      "allow_insecure_http", .flag, \.allowInsecureHTTP, standard: "false",
      "Permit plain http to other machines: any host on the path can read the tokens. Loopback is always permitted."),
  ]
}

extension Form where Output == String {
  /// The permitted characters of a header (RFC 9110 §5.5).
  fileprivate static var headerValue: Form {
    name.map("a text of printable ASCII") { text throws(Unfit) in
      guard text.utf8.count <= 256, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) || $0 == 0x20 }) else {
        throw .found(quoted(text))
      }
      return text
    }
  }

  fileprivate static var pathPrefix: Form {
    text.map("a path such as \"/blaize\", or an empty text") { text throws(Unfit) in
      let segments = text.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
      guard text.isEmpty || text.hasPrefix("/") && segments.allSatisfy({ ZephrProvider.isName(String($0)) }) else {
        throw .found(quoted(text))
      }
      return text
    }
  }

  fileprivate static var pathSegment: Form {
    name.map("a name of letters, digits and - . _") { text throws(Unfit) in
      guard ZephrProvider.isName(text) else { throw .found(quoted(text)) }
      return text
    }
  }

  /// RFC 6265 §4.1.1.
  fileprivate static var cookieName: Form {
    name.map("the name of a cookie") { text throws(Unfit) in
      let isToken = text.utf8.allSatisfy { (0x21...0x7E).contains($0) && !"()<>@,;:\\\"/[]?={}".utf8.contains($0) }
      guard text.utf8.count <= 128, isToken else { throw .found(quoted(text)) }
      return text
    }
  }
}
