public import OAuth

/// One access token of a grant, for a scope set and a resource. The key is empty for the login's own scopes and
/// resource.
public struct SavedToken: Sendable, Equatable {
  public var account: AccountName
  public var key: Key
  public var accessToken: Secret
  /// The authentication scheme: `Bearer` (RFC 6750), `DPoP` (RFC 9449), or ``session``.
  public var type: String
  /// The type of a session that is used instead of a token.
  public static let session = "session"
  public var scopes: [String]
  public var generation: Int64
  /// When its request was sent; the lifetime counts from this time.
  public var issuedAt: Timestamp
  /// Nil: the provider did not specify it.
  public var expiresAt: Timestamp?
  /// When the provider wants it refreshed (`refresh_in`), if specified.
  public var refreshAt: Timestamp?
  /// Callers that reported a refusal by a resource server: they do not get the token again, and other callers are
  /// unaffected.
  public var reports: [TokenReport] = []

  /// Tokens narrowed by scope or resource are stored separately under one grant.
  public struct Key: Sendable, Hashable {
    /// Sorted, joined by a space; empty: all granted scopes.
    public var scope: String
    /// Empty: the login's resource.
    public var resource: String
    /// Nil: the login's audience.
    public var audience: TokenAudience?

    public init(scope: String = "", resource: String = "", audience: TokenAudience? = nil) {
      self.scope = scope
      self.resource = resource
      self.audience = audience
    }

    /// For these scopes, in any order, this resource and this audience; nil: the login's.
    public init(scopes: [String]?, resource: String?, audience: TokenAudience? = nil) {
      self.init(
        scope: Set(scopes ?? []).sorted().joined(separator: " "), resource: resource ?? "", audience: audience)
    }

    /// With the resource and the audience as the stores have them.
    public init(scope: String, target: String) {
      let target = TokenTarget(text: target)
      self.init(scope: scope, resource: target.resource, audience: target.audience)
    }

    public var target: String { TokenTarget(resource: resource, audience: audience).text }
    /// The server that it is for, for users; nil: the login's.
    public var place: String? { audience?.name ?? (resource.isEmpty ? nil : resource) }
    /// Whether only a token exchange returns it.
    public var needsExchange: Bool { audience.map { $0.form != .parameter } ?? false }

    /// The scopes that it is narrowed to; empty: not narrowed.
    public var scopes: [String] { scope.split(separator: " ").map(String.init) }
    public var isNarrowed: Bool { self != Key() }
  }

  public init(
    account: AccountName, key: Key = Key(), accessToken: Secret, type: String, scopes: [String], generation: Int64,
    issuedAt: Timestamp, expiresAt: Timestamp?, refreshAt: Timestamp? = nil
  ) {
    self.account = account
    self.key = key
    self.accessToken = accessToken
    self.type = type
    self.scopes = scopes
    self.generation = generation
    self.issuedAt = issuedAt
    self.expiresAt = expiresAt
    self.refreshAt = refreshAt
  }
}

/// A caller's report that a resource server refused a token.
public struct TokenReport: Sendable, Equatable, Codable {
  public var reporter: Reporter
  public var at: Timestamp

  /// The maximum number of reports per token; a new one replaces the oldest.
  public static let most = 32

  public init(reporter: Reporter, at: Timestamp) {
    self.reporter = reporter
    self.at = at
  }
}

/// The subject of a report: all processes of this user in this unit, as the kernel identifies them. A program that gets
/// a token and another that reports it, such as the two that git starts, count as the same.
public struct Reporter: Sendable, Hashable, Codable {
  public var uid: UInt32
  /// The system unit; nil: unknown.
  public var unit: String?
  /// The unit of the user's service manager.
  public var userUnit: String?

  public init(uid: UInt32, unit: String? = nil, userUnit: String? = nil) {
    self.uid = uid
    self.unit = unit
    self.userUnit = userUnit
  }
}
