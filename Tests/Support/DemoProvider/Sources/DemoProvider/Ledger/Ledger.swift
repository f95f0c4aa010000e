import Foundation

/// All that the server remembers. A value: the one `Mutex` around it makes each event atomic.
struct Ledger: Sendable {
  var settings: DemoServer.Settings
  var faults: [DemoServer.Fault] = []
  var counts: [String: Int] = [:]
  var faultHits: [String: Int] = [:]
  var events: [DemoServer.Stats.Event: Int] = [:]
  var revocations: [DemoServer.Stats.Revocation] = []
  var log: [DemoServer.SeenRequest] = []
  /// The first signs; all are published.
  var keys: [SigningKey]
  var codes = BoundedMap<String, Code>(capacity: Limits.codes)
  var grants = BoundedMap<Int, Grant>(capacity: Limits.grants)
  var accessTokens = BoundedMap<String, AccessToken>(capacity: Limits.accessTokens)
  var refreshTokens = BoundedMap<String, RefreshToken>(capacity: Limits.refreshTokens)
  var devices = BoundedMap<String, Device>(capacity: Limits.devices)
  var pushed = BoundedMap<String, Pushed>(capacity: Limits.pushedRequests)
  var registrations = BoundedMap<String, Registration>(capacity: Limits.registrations)
  var serviceAccounts = BoundedMap<String, DemoServer.ServiceAccount>(capacity: Limits.serviceAccounts)
  /// Identifiers of assertions and proofs that were taken.
  var identifiers = BoundedMap<String, Bool>(capacity: Limits.identifiers)
  /// Nonces that are good once: whether they still are.
  var nonces = BoundedMap<String, Bool>(capacity: Limits.nonces)
  var vms = VMS()
  var zephr = Zephr()
  var bridged = BoundedMap<String, Bridged>(capacity: Limits.pushedRequests)
  /// What was pushed of people to fill in, decoded, the newest last (Uber).
  var prefills: [DemoServer.JSON] = []
  /// The `jti` of the newest logout token.
  var lastLogout: String?
  /// How often the answers that are delayed were let go.
  var releases = 0
  var currentNonce = "nonce-\(Base64URL.random())"
  private var lastGrant = 0

  init(options: DemoServer.Options, key: SigningKey) {
    settings = options.settings
    keys = [key]
    for account in options.serviceAccounts { serviceAccounts.insert(account, for: account.issuer) }
  }

  mutating func count(_ event: DemoServer.Stats.Event) {
    events[event, default: 0] += 1
  }

  /// What a user or a client is authorised for.
  struct Approved: Sendable {
    var clientID: String
    /// Nil where no person is behind the grant.
    var user: User?
    /// Who it stands for where it is no user.
    var principal = ""
    var redirectURI = ""
    var scopes: [String] = []
    var resources: [String] = []
    var nonce: String?
    var challenge: String?
    /// The key that the authorization request bound the code to (RFC 9449 §10).
    var jkt: String?
    /// Whether there may be a refresh token, as far as the request goes.
    var isOffline = true

    var subject: String { user?.subject ?? principal }
    var name: String { user?.name ?? principal }

    func claims(for scopes: [String]) -> [String: DemoServer.JSON] {
      user?.claims(for: scopes) ?? ["sub": .string(principal)]
    }
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
    /// How it came about: the place of its first token request.
    var origin: DemoServer.Fault.Place
    var approved: Approved
    var authenticated: Date
    let sessionID = "sid-\(Base64URL.random().prefix(12))"
    /// The key that the refresh tokens of a public client are bound to (RFC 9449 §5).
    var jkt: String?
    /// Why it ended; nil while it lives.
    var ended: String?
    var currentRefreshToken: String?
    /// The one before it.
    var previousRefreshToken: String?
    var currentAccessToken: String?
    var lastIssued: Date?
    var refreshes = 0
    var refreshesInFlight = 0
    var refreshesInFlightMax = 0
  }

  struct AccessToken: Sendable {
    var grant: Int
    var scopes: [String]
    var resources: [String]
    /// The key it is bound to; nil for a bearer token.
    var jkt: String?
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

  /// A token request, its client authenticated and its proof verified.
  struct Asking: Sendable {
    var client: DemoServer.Client
    var origin: DemoServer.Fault.Place
    var scopes: [String]?
    var resources: [String] = []
    var jkt: String?
    var now: Date
    var dialect = Dialect.standard
  }

  /// What a token response and its ID token are made from.
  struct Issued: Sendable {
    var grant: Grant
    var accessToken: String
    var refreshToken: String?
    var scopes: [String]
    var jkt: String?
    var settings: DemoServer.Settings
    var isRefresh: Bool
  }

  /// A new grant and its first tokens. `isRefreshable` is whether its kind has refresh tokens at all.
  mutating func open(
    _ approved: Approved, for asking: Asking, isRefreshable: Bool, authenticated: Date
  ) throws(OAuthFailure) -> Issued {
    let resources = try narrowed(asking.resources, to: approved.resources)
    var approved = approved
    if approved.resources.isEmpty { approved.resources = asking.resources }
    if settings.token.scopeAnswer == .narrowed, approved.scopes.count > 1 { approved.scopes.removeLast() }
    lastGrant += 1
    var grant = Grant(id: lastGrant, origin: asking.origin, approved: approved, authenticated: authenticated)
    grant.jkt = asking.client.isPublic ? asking.jkt : nil
    grants.insert(grant, for: grant.id)
    let wantsRefresh =
      isRefreshable && approved.isOffline
      && (!settings.refreshNeedsOfflineAccess || approved.scopes.contains("offline_access"))
    let refreshToken = wantsRefresh ? issueRefreshToken(for: grant.id, at: asking.now) : nil
    return issue(grant, refreshToken, scopes: approved.scopes, resources: resources, isRefresh: false, for: asking)
  }

  /// The resources of one token: those asked for, which must be among the grant's where that names any (RFC 8707 §2.2).
  func narrowed(_ asked: [String], to approved: [String]) throws(OAuthFailure) -> [String] {
    for resource in asked {
      guard let url = URLComponents(string: resource), url.scheme != nil, url.fragment == nil else {
        throw OAuthFailure(code: "invalid_target", description: "resource is an absolute URI without a fragment")
      }
      guard approved.isEmpty || approved.contains(resource) else {
        throw OAuthFailure(code: "invalid_target", description: "the grant is not for \(resource)")
      }
    }
    return asked.isEmpty ? approved : asked
  }
}
