import Crypto
import Foundation

/// All that the server remembers. A value: the one `Mutex` around it makes each event atomic.
struct Ledger: Sendable {
  var settings: DemoServer.Settings
  var faults: [DemoServer.Fault] = []
  var counts: [String: Int] = [:]
  var faultHits: [String: Int] = [:]
  /// The first signs; all are published.
  var keys: [SigningKey]
  private(set) var codes = BoundedMap<String, Code>(capacity: Limits.codes)
  var grants = BoundedMap<Int, Grant>(capacity: Limits.grants)
  var accessTokens = BoundedMap<String, AccessToken>(capacity: Limits.accessTokens)
  var refreshTokens = BoundedMap<String, RefreshToken>(capacity: Limits.refreshTokens)
  private var lastGrant = 0

  init(settings: DemoServer.Settings, key: SigningKey) {
    self.settings = settings
    keys = [key]
  }

  /// What a user allowed at the authorization endpoint.
  struct Approved: Sendable {
    var clientID: String
    var user: User
    var redirectURI: String
    var scopes: [String]
    var nonce: String?
    var challenge: String?
  }

  struct Code: Sendable {
    enum State: Sendable {
      case fresh
      /// Nil where the exchange failed: the code is burnt all the same.
      case used(grant: Int?)
    }
    var approved: Approved
    var issued: Date
    var state: State = .fresh
  }

  struct Grant: Sendable {
    let id: Int
    var approved: Approved
    var authenticated: Date
    /// Why it ended; nil while it lives.
    var ended: String?
    var currentRefreshToken: String?
    /// The one before it.
    var previousRefreshToken: String?
    var currentAccessToken: String?
    var refreshes = 0
    var refreshesInFlight = 0
    var refreshesInFlightMax = 0
  }

  struct AccessToken: Sendable {
    var grant: Int
    var scopes: [String]
    var issued: Date
    var expires: Date
    var revoked = false
  }

  struct RefreshToken: Sendable {
    var grant: Int
    var expires: Date
    /// When its successor was issued; nil while it is the current one.
    var rotated: Date?
  }

  /// What a token response and its ID token are made from.
  struct Issued: Sendable {
    var grant: Grant
    var accessToken: String
    var refreshToken: String?
    var scopes: [String]
    var settings: DemoServer.Settings
    var isRefresh: Bool
  }

  mutating func issueCode(for approved: Approved, at now: Date) -> String {
    let code = "code-\(Base64URL.random())"
    codes.insert(Code(approved: approved, issued: now), for: code)
    return code
  }

  /// The exchange of a code (RFC 6749 §4.1.3, RFC 7636 §4.6). Any failure burns it; a second use revokes what it gave.
  mutating func redeem(
    code text: String, client: DemoServer.Client, redirectURI: String?, verifier: String?, at now: Date
  ) throws(OAuthFailure) -> Issued {
    guard let code = codes[text], code.approved.clientID == client.id else {
      throw .invalidGrant("the code is unknown or another client's")
    }
    guard case .fresh = code.state else {
      if case .used(let grant?) = code.state { end(grant, because: "code reused") }
      throw .invalidGrant("the code was used before; what it gave is revoked")
    }
    codes.update(text) { $0.state = .used(grant: nil) }
    guard now.timeIntervalSince(code.issued) < Limits.codeLifetime else { throw .invalidGrant("the code has expired") }
    guard redirectURI == code.approved.redirectURI else {
      throw .invalidGrant("redirect_uri is not the one of the authorization request")
    }
    try Self.check(verifier: verifier, against: code.approved.challenge)
    lastGrant += 1
    let grant = Grant(id: lastGrant, approved: code.approved, authenticated: code.issued)
    grants.insert(grant, for: grant.id)
    codes.update(text) { $0.state = .used(grant: grant.id) }
    let wantsRefresh = !settings.refreshNeedsOfflineAccess || grant.approved.scopes.contains("offline_access")
    let refreshToken = wantsRefresh ? issueRefreshToken(for: grant.id, at: now) : nil
    return issue(grant, refreshToken, scopes: grant.approved.scopes, isRefresh: false, at: now)
  }

  private static func check(verifier: String?, against challenge: String?) throws(OAuthFailure) {
    switch (verifier, challenge) {
    case (nil, nil): return
    case (_?, nil): throw .invalidGrant("code_verifier without a code_challenge before")
    case (nil, _?): throw .invalidGrant("code_verifier is missing")
    case (let verifier?, let challenge?):
      guard (43...128).contains(verifier.utf8.count) else {
        throw .invalidRequest("code_verifier has 43 to 128 characters (RFC 7636 §4.1)")
      }
      guard Base64URL.encode(SHA256.hash(data: Data(verifier.utf8))) == challenge else {
        throw .invalidGrant("code_verifier does not match code_challenge")
      }
    }
  }
}
