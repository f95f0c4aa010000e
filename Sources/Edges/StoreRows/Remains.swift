package import Broker
import FoundationEssentials
package import Grants
import OAuth
package import SQLite
package import Sealing

// What can be read of a row that is damaged.
extension SavedGrant {
  /// The columns that can be read, and a default for each other one. The times of the refresh token are left out: a wrong
  /// one would end the grant.
  ///
  /// - Parameter sealer: opens the secrets; nil: they are left out.
  package static func remains(of account: AccountName, _ values: [String: ColumnValue], _ sealer: Sealer?) -> SavedGrant
  {
    let provider = values["provider"]?.text.flatMap(ProviderName.init)
    let place = Place(table: table.name, row: [account.rawValue, provider?.rawValue ?? ""])
    func time(_ column: String) -> Timestamp? { values[column]?.integer.map(Timestamp.init(milliseconds:)) }
    func data(_ column: String) -> Data? {
      guard let sealer, let sealed = values[column]?.blob else { return nil }
      return try? sealer.open(sealed, at: place, column: column)
    }
    func secret(_ column: String) -> Secret? { data(column).map { Secret(String(decoding: $0, as: UTF8.self)) } }
    func scopes(_ column: String) -> [String] { values[column]?.text.map(ScopeText.split) ?? [] }
    var identity = values["identity"]?.text.flatMap { try? JSON.parse($0.utf8).decode(Identity.self) }
    let idToken = secret("id_token")
    // A wrong subject would end the grant with the next ID token; the one that is sealed is right.
    if let subject = idToken.flatMap(subject(of:)), identity?.subject != subject {
      identity =
        identity.map { identity in
          var corrected = identity
          corrected.subject = subject
          return corrected
        } ?? Identity(subject: subject)
    }
    let target = TokenTarget(text: values["resource"]?.text ?? "")
    let createdAt = time("created_at") ?? Timestamp(milliseconds: 0)
    return SavedGrant(
      account: account, provider: provider ?? unreadableProvider,
      identity: identity,
      requestedScopes: scopes("requested_scopes"), grantedScopes: scopes("granted_scopes"),
      resource: target.resource.isEmpty ? nil : target.resource, audience: target.audience?.name,
      refreshToken: secret("refresh_token"),
      previousRefreshToken: secret("previous_refresh_token"), idToken: idToken,
      generation: max(0, values["generation"]?.integer ?? 0), createdAt: createdAt,
      loggedInAt: time("logged_in_at") ?? createdAt, extra: data("extra"),
      kind: values["kind"]?.text.flatMap(GrantKind.init) ?? .authorizationCode, dpopKey: secret("dpop_key"),
      sourceFingerprint: values["source_fingerprint"]?.text)
  }

  /// The `sub` of an ID token that was verified before it was sealed (OpenID Connect Core §2).
  private static func subject(of idToken: Secret) -> String? {
    // Exposed to be read; only the subject is kept.
    let parts = idToken.exposed.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 3 else { return nil }
    return decodeBase64URL(parts[1]).flatMap { JSON(message: $0)?["sub"]?.string }
  }
}

extension PackedColumns {
  /// The next row's columns by name.
  package mutating func values(of table: Table) -> [String: ColumnValue] {
    Dictionary(table.columns.map { ($0, next()) }) { $1 }
  }
}

extension SetAsideRow {
  package init(_ error: DamagedRow, number: Int64, key: String?, account: String?, provider: String?) {
    self.init(
      table: error.table, number: number, key: key, account: account.flatMap(AccountName.init),
      provider: provider.flatMap(ProviderName.init), detail: error.detail)
  }
}
