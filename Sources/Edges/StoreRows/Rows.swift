import FoundationEssentials
package import Grants
import OAuth

extension SavedGrant: StoredRow {
  package static let table = Table(
    "grants", key: ["account"],
    columns: [
      "account", "provider", "identity", "requested_scopes", "granted_scopes", "resource", "generation", "standing",
      "standing_detail", "created_at", "logged_in_at", "refresh_token_expires_at",
      "refresh_token_issued_at", "expiry_announced_at", "kind", "source_fingerprint", "refresh_token",
      "previous_refresh_token", "id_token",
      "extra", "dpop_key",
    ], boundTo: ["account", "provider"],
    integers: [
      "generation", "created_at", "logged_in_at", "refresh_token_expires_at", "refresh_token_issued_at",
      "expiry_announced_at",
    ], blobs: ["refresh_token", "previous_refresh_token", "id_token", "extra", "dpop_key"])

  /// With the provider: changing it must not send the refresh token to another one.
  package var sealedWith: [String] { [account.rawValue, provider.rawValue] }

  package func write(to row: inout RowWriter) throws {
    row.text(account.rawValue)
    row.text(provider.rawValue)
    row.json(identity)
    row.scopes(requestedScopes)
    row.scopes(grantedScopes)
    let target = TokenTarget(resource: resource ?? "", audience: audience.map { TokenAudience($0, .parameter) }).text
    row.text(target.isEmpty ? nil : target)
    row.integer(generation)
    let standing = StandingRecord(standing, isRefusedOnce: isRefusedOnce)
    row.text(standing.kind.rawValue)
    row.json(standing.detail)
    row.time(createdAt)
    row.time(loggedInAt)
    row.time(refreshTokenExpiresAt)
    row.time(refreshTokenIssuedAt)
    row.time(expiryAnnouncedAt)
    row.text(kind.rawValue)
    row.text(sourceFingerprint)
    try row.sealed(refreshToken)
    try row.sealed(previousRefreshToken)
    try row.sealed(idToken)
    try row.sealed(extra)
    try row.sealed(dpopKey)
  }

  package init(from row: inout RowReader) throws {
    let account = try row.name(AccountName.self)
    let provider = try row.name(ProviderName.self)
    row.bind(to: [account.rawValue, provider.rawValue])
    let identity = try row.identity()
    let requestedScopes = try row.scopes()
    let grantedScopes = try row.scopes()
    let target = TokenTarget(text: try row.optionalText() ?? "")
    let generation = try row.integer()
    let kind = try row.name(StandingRecord.Kind.self)
    let detail = try row.optionalJSON(StandingRecord.Detail.self)
    let standing = try row.required(StandingRecord(kind: kind, detail: detail).standing)
    let createdAt = try row.time()
    let loggedInAt = try row.time()
    let refreshTokenExpiresAt = try row.optionalTime()
    let refreshTokenIssuedAt = try row.optionalTime()
    let expiryAnnouncedAt = try row.optionalTime()
    let grantKind = try row.name(GrantKind.self)
    let sourceFingerprint = try row.optionalText()
    self.init(
      account: account, provider: provider, identity: identity, requestedScopes: requestedScopes,
      grantedScopes: grantedScopes, resource: target.resource.isEmpty ? nil : target.resource,
      audience: target.audience?.name, refreshToken: try row.optionalSealed(),
      previousRefreshToken: try row.optionalSealed(), refreshTokenExpiresAt: refreshTokenExpiresAt,
      refreshTokenIssuedAt: refreshTokenIssuedAt, expiryAnnouncedAt: expiryAnnouncedAt,
      idToken: try row.optionalSealed(), generation: generation, standing: standing,
      isRefusedOnce: detail?.refusedOnce ?? false, createdAt: createdAt, loggedInAt: loggedInAt,
      extra: try row.optionalSealedData(), kind: grantKind,
      dpopKey: try row.optionalSealed(), sourceFingerprint: sourceFingerprint)
  }
}

extension SavedToken: StoredRow {
  package static let table = Table(
    "tokens", key: ["account", "scope", "resource"],
    columns: [
      "account", "scope", "resource", "type", "scopes", "generation", "issued_at", "expires_at", "refresh_at",
      "access_token", "reports",
    ], boundTo: ["account", "scope", "resource"], integers: ["generation", "issued_at", "expires_at", "refresh_at"],
    blobs: ["access_token"])

  package var sealedWith: [String] { [account.rawValue, key.scope, key.target] }

  package func write(to row: inout RowWriter) throws {
    row.text(account.rawValue)
    row.text(key.scope)
    row.text(key.target)
    row.text(type)
    row.scopes(scopes)
    row.integer(generation)
    row.time(issuedAt)
    row.time(expiresAt)
    row.time(refreshAt)
    try row.sealed(accessToken)
    row.json(reports.isEmpty ? nil : reports)
  }

  package init(from row: inout RowReader) throws {
    let account = try row.name(AccountName.self)
    let key = Key(scope: try row.text(), target: try row.text())
    row.bind(to: [account.rawValue, key.scope, key.target])
    let type = try row.text()
    let scopes = try row.scopes()
    let generation = try row.integer()
    let issuedAt = try row.time()
    let expiresAt = try row.optionalTime()
    let refreshAt = try row.optionalTime()
    self.init(
      account: account, key: key, accessToken: try row.sealed(), type: type, scopes: scopes, generation: generation,
      issuedAt: issuedAt, expiresAt: expiresAt, refreshAt: refreshAt)
    reports = try row.optionalJSON([TokenReport].self) ?? []
  }
}

extension RefreshIntent: StoredRow {
  package static let table = Table(
    "refresh_intents", key: ["account"], columns: ["account", "refresh_token_hash", "sent_at", "attempts"],
    integers: ["sent_at", "attempts"])

  package var sealedWith: [String] { [] }

  package func write(to row: inout RowWriter) throws {
    row.text(account.rawValue)
    row.text(refreshTokenHash)
    row.time(sentAt)
    row.integer(Int64(attempts))
  }

  package init(from row: inout RowReader) throws {
    self.init(
      account: try row.name(AccountName.self), refreshTokenHash: try row.text(), sentAt: try row.time(),
      attempts: try row.small(Int.self))
  }
}

extension SavedLogin: StoredRow {
  package static let table = Table(
    "logins", key: ["id"],
    columns: [
      "id", "provider", "account", "redirect_uri", "scopes", "resource", "max_age", "uid", "started_at", "expires_at",
      "state", "nonce", "verifier", "dpop_key", "device", "progress",
    ], boundTo: ["id", "provider", "account"], integers: ["max_age", "uid", "started_at", "expires_at"],
    blobs: ["state", "nonce", "verifier", "dpop_key", "device", "progress"])

  /// With the login's purpose: changing it must not sign a user in elsewhere.
  package var sealedWith: [String] { [id.rawValue, provider.rawValue, account.rawValue] }

  package func write(to row: inout RowWriter) throws {
    row.text(id.rawValue)
    row.text(provider.rawValue)
    row.text(account.rawValue)
    row.text(redirectURI)
    row.scopes(scopes)
    row.text(resource)
    row.integer(maxAge)
    row.integer(Int64(uid))
    row.time(startedAt)
    row.time(expiresAt)
    try row.sealed(state)
    try row.sealed(nonce)
    try row.sealed(verifier)
    try row.sealed(dpopKey)
    try row.sealedJSON(device.map(DeviceRecord.init))
    let progress = LoginProgress(self)
    try row.sealedJSON(progress.isEmpty ? nil : progress)
  }

  package init(from row: inout RowReader) throws {
    let id = try row.name(LoginID.self)
    let provider = try row.name(ProviderName.self)
    let account = try row.name(AccountName.self)
    row.bind(to: [id.rawValue, provider.rawValue, account.rawValue])
    let redirectURI = try row.text()
    let scopes = try row.scopes()
    let resource = try row.optionalText()
    let maxAge = try row.optionalInteger()
    let uid = try row.small(UInt32.self)
    let startedAt = try row.time()
    let expiresAt = try row.time()
    self.init(
      id: id, provider: provider, account: account, state: try row.sealed(), nonce: try row.optionalSealed(),
      verifier: try row.optionalSealed(), redirectURI: redirectURI, scopes: scopes, resource: resource, maxAge: maxAge,
      uid: uid, startedAt: startedAt, expiresAt: expiresAt, dpopKey: try row.optionalSealed(),
      device: try row.optionalSealedJSON(DeviceRecord.self)?.login)
    try row.optionalSealedJSON(LoginProgress.self)?.apply(to: &self)
  }
}

extension PendingRevocation: StoredRow {
  package static let table = Table(
    "revocations", key: ["id"],
    columns: ["id", "provider", "hint", "attempts", "retry_at", "expires_at", "context", "token"],
    boundTo: ["id", "provider"],
    integers: ["attempts", "retry_at", "expires_at"], blobs: ["context", "token"])

  /// With the provider: changing it must not send the token to another one.
  package var sealedWith: [String] { [id, provider.rawValue] }

  package func write(to row: inout RowWriter) throws {
    row.text(id)
    row.text(provider.rawValue)
    row.text(hint)
    row.integer(Int64(attempts))
    row.time(retryAt)
    row.time(expiresAt)
    try row.sealedJSON(context.isEmpty ? nil : context)
    try row.sealed(token)
  }

  package init(from row: inout RowReader) throws {
    let id = try row.text()
    let provider = try row.name(ProviderName.self)
    row.bind(to: [id, provider.rawValue])
    let hint = try row.text()
    let attempts = try row.small(Int.self)
    let retryAt = try row.time()
    let expiresAt = try row.time()
    let context = try row.optionalSealedJSON([String: String].self)
    self.init(
      id: id, provider: provider, token: try row.sealed(), hint: hint, context: context ?? [:], attempts: attempts,
      retryAt: retryAt, expiresAt: expiresAt)
  }
}

/// A small value by name.
package struct Setting: StoredRow {
  package static let table = Table("settings", key: ["name"], columns: ["name", "value"])

  package let name: String
  package let value: String

  package var sealedWith: [String] { [] }

  package init(name: String, value: String) {
    self.name = name
    self.value = value
  }

  package func write(to row: inout RowWriter) throws {
    row.text(name)
    row.text(value)
  }

  package init(from row: inout RowReader) throws {
    self.init(name: try row.text(), value: try row.text())
  }
}
