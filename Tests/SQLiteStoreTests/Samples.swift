import Broker
import Foundation
import Grants
import OAuth
import SQLiteStore
import Sealing

/// A folder that is removed after the test.
final class TemporaryFolder: Sendable {
  let path: String

  init() {
    path = NSTemporaryDirectory() + "grantd-store-" + UUID().uuidString
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  var state: String { path + "/state" }
  var database: String { state + "/grantd.db" }
  var key: String { path + "/key/grantd.key" }

  func contents(_ file: String) throws -> Data { try Data(contentsOf: URL(fileURLWithPath: file)) }

  func write(_ contents: Data, to file: String) throws {
    try FileManager.default.createDirectory(
      atPath: (file as NSString).deletingLastPathComponent, withIntermediateDirectories: true,
      attributes: [.posixPermissions: 0o700])
    try contents.write(to: URL(fileURLWithPath: file))
  }

  func mode(_ file: String) throws -> Int {
    let attributes = try FileManager.default.attributesOfItem(atPath: file)
    return (attributes[.posixPermissions] as? NSNumber)?.intValue ?? -1
  }

  /// What rebuilds put aside.
  func aside() throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: state).filter { $0.hasPrefix("grantd.db.damaged-") }.sorted()
  }

  func open(
    _ key: SealingKey = Sample.key, onWritePoint: (@Sendable (WritePoint) -> Void)? = nil
  ) throws -> SQLiteStore {
    try SQLiteStore.open(folder: state, key: key, pageLimit: nil, onWritePoint: onWritePoint)
  }

  /// The key as a service has it, in the state folder.
  var innerKey: String { state + "/grantd.key" }

  /// A store under the key of this file, which is made where there is none.
  func open(keyFile: String) throws -> SQLiteStore {
    try open(SealingKey.loadOrCreate(file: keyFile, stateFolder: state))
  }

  /// What the next run finds, under the key of this file.
  func nextState(keyFile: String) async throws -> StoredState {
    let store = try open(keyFile: keyFile)
    let state = try await store.load()
    await store.close()
    return state
  }

  /// A store with these changes, closed again.
  func fill(_ changes: [Change]) async throws {
    let store = try open()
    try await store.commit(changes)
    await store.close()
  }
}

enum Sample {
  static let keyText = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
  static let key = key(keyText)
  static let otherKey = key(String(keyText.reversed()))

  static func key(_ text: String) -> SealingKey {
    do { return try SealingKey(Data(text.utf8), source: "test") } catch { preconditionFailure("\(error)") }
  }

  static func account(_ name: String) -> AccountName {
    guard let account = AccountName(rawValue: name) else { preconditionFailure(name) }
    return account
  }

  static func provider(_ name: String) -> ProviderName {
    guard let provider = ProviderName(rawValue: name) else { preconditionFailure(name) }
    return provider
  }

  static func login(_ name: String) -> LoginID {
    guard let login = LoginID(rawValue: name) else { preconditionFailure(name) }
    return login
  }

  static func time(_ milliseconds: Int64) -> Timestamp { Timestamp(milliseconds: milliseconds) }

  static let failure = FailureRecord(
    message: "the provider said \"no\" – ¿por qué?\0",
    oauth: OAuthError(
      code: OAuthErrorCode(rawValue: "invalid_grant"), description: "Token expired", uri: "https://op.example/e"),
    at: time(1_700_000_000_123))

  static let identity = Identity(
    subject: "248289761001", issuer: "https://op.example", email: "jane@example.com", name: "Jane Doé 😀\0x",
    username: "jane")

  static func grant(_ name: String, generation: Int64 = 1, refresh: String? = nil) -> SavedGrant {
    SavedGrant(
      account: account(name), provider: provider("op"), identity: nil, requestedScopes: [], grantedScopes: [],
      refreshToken: refresh.map(Secret.init), generation: generation, createdAt: time(1), loggedInAt: time(2))
  }

  static func fullGrant(_ name: String, standing: Standing = .good, isRefusedOnce: Bool = false) -> SavedGrant {
    SavedGrant(
      account: account(name), provider: provider("op"), identity: identity,
      requestedScopes: ["openid", "https://op.example/auth/mail.read", "with space", "100%", "", "%20", "nul\0"],
      grantedScopes: ["openid"], resource: "https://api.example/", refreshToken: Secret("refresh-of-\(name)"),
      previousRefreshToken: Secret("previous-of-\(name)"), refreshTokenExpiresAt: time(.max),
      refreshTokenIssuedAt: time(3), expiryAnnouncedAt: time(4), idToken: Secret("id-of-\(name)-é\0"), generation: .max,
      standing: standing, isRefusedOnce: isRefusedOnce, createdAt: time(.min),
      loggedInAt: time(0), extra: Data(#"{"tenant":"extra-of-\#(name)"}"#.utf8), kind: .deviceCode,
      dpopKey: Secret("dpop-key-of-\(name)"), sourceFingerprint: "fingerprint-of-\(name)")
  }

  static func token(
    _ name: String, scope: String = "", resource: String = "", generation: Int64 = 1, access: String? = nil
  ) -> SavedToken {
    SavedToken(
      account: account(name), key: .init(scope: scope, resource: resource),
      accessToken: Secret(access ?? "access-of-\(name)-\(scope)-\(resource)"), type: "Bearer", scopes: ["openid"],
      generation: generation, issuedAt: time(10), expiresAt: time(20), refreshAt: time(15))
  }

  static func login(_ name: String, full: Bool) -> SavedLogin {
    var saved = SavedLogin(
      id: login(name), provider: provider("op"), account: account("jane"), state: Secret("state-of-\(name)"),
      nonce: full ? Secret("nonce-of-\(name)") : nil, verifier: full ? Secret("verifier-of-\(name)") : nil,
      redirectURI: "http://127.0.0.1:4711/callback", scopes: full ? ["openid", "email"] : [],
      resource: full ? "https://api.example/" : nil, maxAge: full ? 3600 : nil, uid: full ? .max : 0,
      startedAt: time(5), expiresAt: time(6), dpopKey: full ? Secret("dpop-key-of-\(name)") : nil,
      device: full ? device(name) : nil)
    guard full else { return saved }
    saved.memory = ["key": Secret("memory-of-\(name)")]
    saved.action = .sessionLimit(
      limit: 2, sessions: [ProviderSession(id: "session-of-\(name)", client: "web", isOnline: true)])
    saved.exchangesCode = false
    saved.offered = OpenedDestination(kind: "native", app: "rides")
    saved.opened = OpenedDestination(kind: "browser", app: nil)
    saved.browserUID = .max
    saved.link = LoginLink(token: Secret("link-of-\(name)"), request: Secret("request-of-\(name)"))
    return saved
  }

  static func device(_ name: String) -> DeviceLogin {
    DeviceLogin(
      deviceCode: Secret("device-code-of-\(name)"), userCode: "user-code-of-\(name)",
      verificationURI: "https://op.example/device", verificationURIComplete: "https://op.example/device?code=1",
      interval: .milliseconds(7500))
  }

  static func registration(_ name: String, full: Bool) -> SavedRegistration {
    var registration = SavedRegistration(
      provider: provider(name), issuer: Issuer(rawValue: "https://\(name).example")!, discovery: .oauth,
      clientID: "client-of-\(name)", clientSecret: full ? Secret("client-secret-of-\(name)") : nil,
      authMethod: "client_secret_post", scopes: full ? ["openid", "with space"] : [],
      redirectURI: full ? "com.example:/cb" : nil, managementToken: full ? Secret("management-of-\(name)") : nil,
      managementURL: full ? URL(string: "https://\(name).example/register/1") : nil,
      secretExpiresAt: full ? time(11) : nil, createdAt: time(12),
      options: full
        ? .init(resource: "https://api.example/", apiBase: URL(string: "https://api.example/v1"), authorities: "pem")
        : .init())
    registration.isByHand = full
    return registration
  }

  static func revocation(_ id: String) -> PendingRevocation {
    PendingRevocation(
      id: id, provider: provider("op"), token: Secret("revoked-of-\(id)"), hint: "refresh_token",
      context: ["where": "EVERYWHERE"], attempts: 3,
      retryAt: time(7), expiresAt: time(8))
  }

  static func intent(_ name: String) -> RefreshIntent {
    RefreshIntent(account: account(name), refreshTokenHash: "hash-of-\(name)", sentAt: time(9), attempts: 2)
  }

  /// One of each, full and minimal.
  static let everything: [Change] = [
    .putToken(token("full")), .putToken(token("full", scope: "a b", resource: "https://api.example/")),
    .putToken(
      SavedToken(
        account: account("minimal"), accessToken: Secret(""), type: "bearer", scopes: [], generation: 0,
        issuedAt: time(0), expiresAt: nil)),
    .putGrant(fullGrant("full")), .putGrant(grant("minimal")),
    .putGrant(fullGrant("failing", standing: .failing(failure, count: 7, retryAt: time(99)))),
    .putGrant(fullGrant("login", standing: .loginRequired(.lostRotation, FailureRecord(message: "", at: time(0))))),
    .putGrant(fullGrant("refused-once", standing: .loginRequired(.refused, failure), isRefusedOnce: true)),
    .putGrant(fullGrant("config", standing: .misconfigured(failure))),
    .putIntent(intent("full")), .putLogin(login("l1", full: true)), .putLogin(login("l2", full: false)),
    .putRegistration(registration("full", full: true)), .putRegistration(registration("minimal", full: false)),
    .putRevocation(revocation("r1")), .putValue("callback_port", "4711"), .putValue("empty", ""),
  ]

  static var state: StoredState {
    var state = StoredState()
    for change in everything {
      switch change {
      case .putGrant(let grant): state.grants.append(grant)
      case .putToken(let token): state.tokens.append(token)
      case .putIntent(let intent): state.intents.append(intent)
      case .putLogin(let login): state.logins.append(login)
      case .putRevocation(let revocation): state.revocations.append(revocation)
      case .putRegistration(let registration): state.registrations.append(registration)
      case .removeRegistration: break
      case .putValue(let name, let value): state.values[name] = value
      case .removeGrant, .putIssuer, .removeTokens, .removeToken, .removeIntent, .removeLogin, .removeRevocation: break
      }
    }
    state.grants.sort { $0.account < $1.account }
    return state
  }
}
