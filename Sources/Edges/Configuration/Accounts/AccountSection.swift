import Grants
import OAuth

/// An account as written.
struct AccountDraft {
  var provider: ProviderName?
  var grant: Grant?
  var scopes: [String]?
  var resource: String?
  var key = KeyDraft()
  var issuer: String?
  var subject: String?
  var audience: String?
  var lifetime: Duration?
  var scopeInAssertion: Bool?
  var from: AccountName?
  var actor: AccountName?
  var requestedTokenType: String?

  /// The grants of unattended accounts; all others begin with a login.
  enum Grant: String, Sendable, CaseIterable {
    case clientCredentials = "client_credentials"
    case jwtBearer = "jwt_bearer"
    case tokenExchange = "token_exchange"
  }
}

extension Sections {
  static let mostAccounts = 10_000

  static let account = Section<AccountDraft>(
    header: "[account.NAME]",
    meaning:
      "An account that needs no login. NAME is 1 to 128 characters of `A-Z a-z 0-9 . _ @ + -`. Accounts that "
      + "people sign in to are not declared: `grantctl login` makes them.",
    keys: anyGrant + jwtBearer + tokenExchange)

  private static let anyGrant: [Key<AccountDraft>] = [
    Key("provider", .providerName, \.provider, "Required. The NAME of a `[provider.NAME]` section."),
    Key(
      "grant", .word, \.grant,
      "Required. `client_credentials`: the provider's client itself (RFC 6749 §4.4); `jwt_bearer`: a service account with "
        + "a key (RFC 7523); `token_exchange`: another account's token is traded for one (RFC 8693)."),
    Key("scopes", .scopes, \.scopes, standard: "the provider's", "The scopes that are asked for."),
    Key("resource", .name, \.resource, standard: "the provider's", "The resource that tokens are for (RFC 8707)."),
    Key(
      "audience", .name, \.audience,
      standard: "`jwt_bearer`: `token_uri` of Google's JSON, else the token endpoint; others: none",
      "`client_credentials`: the audience of the tokens, as `audience_parameter` of the provider sends it. "
        + "`jwt_bearer`: whom the assertion is for. `token_exchange`: who will get the token."),
  ]

  private static let jwtBearer: [Key<AccountDraft>] = [
    Key(
      "key_file", .path, \.key.file,
      "`jwt_bearer`: the file with the private key, PEM or JWK, or the JSON that Google gives for a service account; it "
        + "must be unreadable for other users."),
    Key("key_credential", .name, \.key.credential, "`jwt_bearer`: the systemd credential with that."),
    Key(
      "key_id", .name, \.key.id, standard: "`private_key_id` of Google's JSON, the JWK's `kid`, else none",
      "`jwt_bearer`: the key's id, as the provider knows it."),
    Key(
      "algorithm", .word, \.key.algorithm,
      standard: "the JWK's `alg`, else RS256, ES256, ES384, ES512 or EdDSA by the key",
      "`jwt_bearer`: how assertions are signed."),
    Key(
      "issuer", .name, \.issuer, standard: "`client_email` of Google's JSON",
      "`jwt_bearer`: who asserts (`iss`); required without Google's JSON."),
    Key(
      "subject", .name, \.subject, standard: "the issuer itself",
      "`jwt_bearer`: the subject of the token (`sub`), such as a user of your domain."),
    Key(
      "assertion_lifetime", .duration(.seconds(10)...(.hours(1))), \.lifetime, standard: "\"1h\"",
      "`jwt_bearer`: how long an assertion is good."),
    Key(
      "scope_in_assertion", .flag, \.scopeInAssertion, standard: "true with Google's JSON, else false",
      "`jwt_bearer`: scopes are in the assertion, not in the request."),
  ]

  private static let tokenExchange: [Key<AccountDraft>] = [
    Key("from", .accountName, \.from, "`token_exchange`: required. The account whose token is traded."),
    Key("actor", .accountName, \.actor, standard: "none", "`token_exchange`: the account that acts for the first."),
    Key(
      "requested_token_type", .name, \.requestedTokenType, standard: "the provider's choice",
      "`token_exchange`: the type to request, such as `urn:ietf:params:oauth:token-type:access_token`."),
  ]

  /// The grant that a key is of; nil: of all, or of several.
  static func grant(of key: String) -> AccountDraft.Grant? {
    if jwtBearer.contains(where: { $0.name == key }) { return .jwtBearer }
    return tokenExchange.contains { $0.name == key } ? .tokenExchange : nil
  }
}

extension Form where Output == ProviderName {
  fileprivate static let providerName = Form<String>.text.map("the name of a provider") { text throws(Unfit) in
    guard let name = ProviderName(rawValue: text) else { throw .found(quoted(text)) }
    return name
  }
}
