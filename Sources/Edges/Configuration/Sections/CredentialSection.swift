import Broker
import BrokerAPI
import Grants
import OAuth
import Principals

/// A credential as written.
struct CredentialDraft {
  var id: String?
  var account: AccountName?
  var kind = TokenKind.accessToken
  var units: [String]?
  var scopes: [String]?
  var resource: String?
  var audience: String?
  var minimumTTL: Duration?
}

extension Sections {
  static let mostCredentials = 1000

  static let credential = Section<CredentialDraft>(
    header: "[[credential]]",
    meaning:
      "What units get that load a credential from the broker's `credentials.sock`: "
      + "`LoadCredential=ID:/run/grantd/credentials.sock` (see [credentials](credentials.md)). It wins over "
      + "`by_account`.",
    keys: [
      Key("id", credentialID, \.id, "Required. The name that units give the credential, once."),
      Key(
        "account", .accountName, \.account, "Required. The account whose access token, or session, it is."),
      Key(
        "token", .word(TokenKind.allCases), \.kind, standard: "\"access_token\"",
        "`id_token`: the account's ID token, which takes `id_token` access."),
      Key(
        "units", .list(credentialUnit, of: "units' names", orEmpty: false), \.units,
        standard: "any unit whose file names it",
        "The units that may load it, such as `backup.service`; `*` stands for any run of characters."),
      Key(
        "scopes", .scopes, \.scopes, standard: "all that was granted",
        "The scopes of the token, if the provider can narrow."),
      Key("resource", .name, \.resource, standard: "the account's", "The resource that the token is for (RFC 8707)."),
      Key("audience", .audience, \.audience, standard: "the account's", "The audience that the token is for."),
      Key(
        "min_ttl", .duration(.seconds(1)...(.days(1))), \.minimumTTL, standard: "`minimum_ttl`",
        "The minimum remaining lifetime when the unit starts, at most that of a new token."),
    ])

  static let credentials = Section<UnitCredentials>(
    header: "[credentials]", meaning: "The credentials that units may load in addition to each `[[credential]]`.",
    keys: [
      Key(
        "by_account", .flag, \.byAccount, standard: "true",
        "Whether a unit gets the token of any account by naming it: `LoadCredential=grantd.ACCOUNT:…`, or its ID token by `grantd.ACCOUNT.id_token`. Unit files are "
          + "root's, or the user's whose instance it is.")
    ])

  private static let credentialID = Form<String>.text.map("the name of a credential") { text throws(Unfit) in
    guard CredentialRequest.isValidID(text) else {
      throw .found(quoted(text), suggestion: "use 1 to 255 printable characters of ASCII without \"/\" and \":\"")
    }
    return text
  }

  private static let credentialUnit = unitPattern(
    [".service", ".socket", ".mount", ".swap"], example: "backup.service")
}

extension CredentialDraft {
  /// The credential; nil, and a report, if its keys contradict each other.
  func offer(_ section: NamedSection, report: inout ConfigurationReport) -> UnitCredentials.Offer? {
    report.require(["id", "account"], in: section)
    guard let id, let account else { return nil }
    if kind == .idToken, let key = ["scopes", "resource"].first(where: { section[$0] != nil }) {
      report.problem(at: section, key, "is for access tokens", suggestion: "remove it, or \"token\"")
      return nil
    }
    return UnitCredentials.Offer(
      id: id, account: account, kind: kind, units: units, scopes: scopes, resource: resource, audience: audience,
      minimumTTL: minimumTTL)
  }
}
