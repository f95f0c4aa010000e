public import OAuth

/// One access token of a grant, for a scope set and a resource. The login's own scopes and resource have the empty key.
public struct SavedToken: Sendable, Equatable {
  public var account: AccountName
  public var key: Key
  public var accessToken: Secret
  /// As it is presented: `Bearer` (RFC 6750), `DPoP` (RFC 9449), or ``session``.
  public var type: String
  /// The type of a session that stands in place of a token.
  public static let session = "session"
  public var scopes: [String]
  public var generation: Int64
  /// When the request that brought it was sent: what its lifetime counts from.
  public var issuedAt: Timestamp
  /// Absent: the provider did not say.
  public var expiresAt: Timestamp?
  /// When the provider asks for it to be refreshed (`refresh_in`), if it does.
  public var refreshAt: Timestamp?
  /// Who reported that a resource server refused it: these are not given it again, and nobody else is concerned.
  public var reports: [TokenReport] = []

  /// Tokens narrowed by scope or resource are kept apart under one grant.
  public struct Key: Sendable, Hashable {
    /// Sorted, joined by a space; empty: all that was granted.
    public var scope: String
    /// Empty: the login's.
    public var resource: String

    public init(scope: String = "", resource: String = "") {
      self.scope = scope
      self.resource = resource
    }

    /// Of these scopes, in whatever order, and this resource; nil: the login's.
    public init(scopes: [String]?, resource: String?) {
      self.init(scope: Set(scopes ?? []).sorted().joined(separator: " "), resource: resource ?? "")
    }

    /// The scopes that it is narrowed to; empty: to none.
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

  /// So many are kept of a token; a new one takes the place of the oldest.
  public static let most = 32

  public init(reporter: Reporter, at: Timestamp) {
    self.reporter = reporter
    self.at = at
  }
}

/// Whom a report binds: every process of this user in this unit, as the kernel says. A program that gets a token and
/// another that reports it, such as the two that git starts, are one.
public struct Reporter: Sendable, Hashable, Codable {
  public var uid: UInt32
  /// The system's unit; nil: none is known.
  public var unit: String?
  /// The unit of the user's own manager.
  public var userUnit: String?

  public init(uid: UInt32, unit: String? = nil, userUnit: String? = nil) {
    self.uid = uid
    self.unit = unit
    self.userUnit = userUnit
  }
}
