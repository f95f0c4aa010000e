public import Grants

/// What a reload replaces, whole.
public struct BrokerConfiguration: Sendable {
  public var providers: [any Provider]
  public var policy: Policy
  public var refresh: RefreshPolicy
  /// Unattended accounts.
  public var accounts: [DeclaredAccount] = []
  /// The origin under which a proxy passes callbacks of the web on to the callback endpoint, such as
  /// `https://broker.example.com` (as ``RedirectURI/origin`` writes it); nil: none does.
  public var publicOrigin: String?
  /// The URL of the client's metadata, which is its identifier at servers that support it; nil: none is published.
  public var clientMetadata: String?
  public var stepUp = StepUpPolicy()
  public var audit = AuditPolicy()
  public var callerLimits = CallerLimits()
  /// What units may load as credentials.
  public var credentials = UnitCredentials()
  /// Files that are given tokens.
  public var files: [TokenFile] = []
  /// The file, for people; nil: built-in defaults.
  public var path: String?
  /// Warnings for an administrator.
  public var warnings: [String]

  public init(
    providers: [any Provider], policy: Policy, refresh: RefreshPolicy, accounts: [DeclaredAccount] = [],
    path: String?, warnings: [String] = []
  ) {
    self.accounts = accounts
    self.providers = providers
    self.policy = policy
    self.refresh = refresh
    self.path = path
    self.warnings = warnings
  }
}

/// What happens to a request whose server requires a login for more scopes, or a newer one.
public struct StepUpPolicy: Sendable, Equatable {
  /// Whether the request waits for that login and is sent again.
  public var asks = false
  public var within = Duration.seconds(120)

  public init() {}
}

/// What the broker is, for `broker.status`.
public struct BrokerIdentity: Sendable {
  public var version: String
  public var pid: Int32
  /// The machine's name, for people.
  public var host: String

  public init(version: String, pid: Int32, host: String = "") {
    self.version = version
    self.pid = pid
    self.host = host
  }
}

/// Limits of the broker; each bounds something that callers can make grow.
enum Limit {
  static let accounts = 2_000_000
  /// Rows on disk that cannot be read and that `broker.status` names, of accounts and of the rest.
  static let setAside = 100
  /// Accounts whose tokens are rendered for the socket's fast path.
  static let cachedTokens = 8192
  /// Between two slices of what is read again behind the first answers.
  static let verificationPause = Duration.milliseconds(10)
  /// How soon after the start that begins.
  static let verificationDelay = Duration.seconds(2)
  /// Accounts of one answer of `account.list`: a line of half a megabyte, which is written and freed beside other
  /// callers' requests.
  static let listedAccounts = 1000
  /// What a caller may ask for at once.
  static let wantedAccounts = 10_000
  /// Accounts of a provider that `provider.check` looks at: a person reads what it says.
  static let checkedAccounts = 10_000
  /// `account.list` of one user that wait for the one that is being made.
  static let waitingLists = 64
  /// Accounts that are read from the store at a time, at start.
  static let loadedAccounts = 1024
  static let pendingLogins = 256
  static let pendingLoginsPerHolder = 64
  /// Results of ended logins that are kept for callers that wait; of one holder.
  static let endedLogins = 1024
  static let endedLoginsPerHolder = 256
  /// Ends of sessions from which a person may still come back, and for how long.
  static let endings = 64
  static let endingsKept = Duration.seconds(3600)
  /// Records of the audit trail that still count, kinds of failed attempts of one caller among them, and records that
  /// wait for a disk that does not take them.
  static let auditLines = 4096
  static let auditFailuresPerCaller = 32
  static let auditUnwritten = 8192
  /// Lines a minute that the log has of refusals: of holders that rules name, and of all others.
  static let auditLogLines = 256
  static let auditLogLinesUnnamed = 64
  /// Characters of a record's detail that a stranger has a say in.
  static let auditDetail = 512
  /// Records of one request that concerns many accounts, after which they are written.
  static let auditBatch = 256
  /// How soon a new record is written, and how often what was counted is; and how often records that are too old are
  /// removed.
  static let auditDelay = Duration.milliseconds(200)
  static let auditInterval = Duration.seconds(30)
  static let auditForgetting = Duration.seconds(3600)
  /// Bytes of an answer of `audit.list`: it fits a line of the socket.
  static let auditAnswer = 192 << 10
  /// Accounts that a connection's fast road remembers.
  static let accountsPerConnection = 64
  /// Callers whose rates are kept; the others share one.
  static let callerRates = 4096
  /// Logout tokens that are remembered, so that none is taken twice, and for how long beyond their end.
  static let logoutTokens = 4096
  /// Logout tokens with an unknown key that wait for the signing keys of one provider.
  static let logoutsAwaitingKeys = 4
  static let logoutTokenKept = Duration.seconds(600)
  /// Lines a minute that the log has of refused logout tokens, and of browsers that are refused since they are another
  /// user's, and how soon the number of others is logged.
  static let refusalLines = 30
  static let refusalReport = Duration.seconds(60)
  /// Bytes of a refresh token that is imported.
  static let refreshToken = 16 << 10
  /// How long a token exchange waits for the token that it trades.
  static let subjectTokenWait = Duration.seconds(30)
  /// How long the token may be traded however little of it is left, once it has come.
  static let subjectTokenKept = Duration.seconds(10)
  /// Bytes of a body that a caller sends, and of one that it is given: each fits a line of the socket.
  static let requestBody = 128 << 10
  static let responseBody = 160 << 10
  static let responseLine = 240 << 10
  static let headers = 64
  /// However long a provider lets a person take on another device.
  static let longestLogin = Duration.seconds(86_400)
  /// How long the tokens of a login wait in memory for the disk, and how often they are written.
  static let unsavedLogin = Duration.seconds(900)
  static let unsavedLoginTries = Duration.seconds(5)
  static let endedLoginsKept = Duration.seconds(600)
  /// Requests that wait for an answer, of all callers and of those of one holder.
  static let waiters = 8192
  static let waitersPerHolder = 2048
  /// Accounts that are written at a time, where many are newer in memory than on disk.
  static let savedAtOnce = 64
  /// How long a provider's word on a token that was reported holds.
  static let verifiedToken = Duration.seconds(300)
  /// The pause after a question about a token that the provider did not answer.
  static let unverifiedToken = Duration.seconds(60)
  /// Imported accounts of which it is kept that the provider could not be asked.
  static let failedProofs = 256
  /// Accounts of which that is kept.
  static let verifiedTokens = 1024
  /// Accounts that one warning names.
  static let namedAccounts = 20
  static let subscriptions = 256
  static let subscriptionsPerHolder = 64
  static let revocations = 4096
  /// Of them, those that are tried at a time at one provider.
  static let revocationsAtOnce = 4
  /// How long a logout waits for what the provider says; its revocations go on without it.
  static let logoutWait = Duration.seconds(10)
  static let revocationLife = Duration.seconds(7 * 86_400)
  /// The waits after failed revocations; the last one repeats. The token is live meanwhile, so the first is short.
  static let revocationDelays: [Duration] = [2, 30, 120, 600, 1800, 3600].map { .seconds($0) }
  /// What is tried for a week is tried at least so often.
  static let revocationAttempts = 100
  /// Requests in one conversation with a provider.
  static let steps = 8
  /// How often a waiter asks its grant again.
  static let rounds = 32
  /// How long a look at the database, or a new one, waits for the commits under way.
  static let lastCommit = Duration.milliseconds(640)
  /// The same of whoever waits for a token: the account's other tokens may come before, one refresh at a time.
  static let tokenRounds = 1024
  /// A wall clock that steps must not be slept through.
  static let longestSleep = Duration.seconds(30)
  static let metadataLife = Duration.seconds(86_400)
  /// After a failed fetch of metadata or keys, nobody asks again for this long.
  static let refetchPause = Duration.seconds(2)
  /// For how long a server without metadata may be one that is starting.
  static let starting = Duration.seconds(10)
  /// The same where old ones serve meanwhile.
  static let staleRefetchPause = Duration.seconds(60)
  /// Keys are fetched again for an unknown key at most this often.
  static let unknownKeyPause = Duration.seconds(60)
  static let suspension = Duration.seconds(900)
  static let parameters = 32
  /// DPoP nonces that are kept for each provider, one for each origin.
  static let nonces = 32
  /// Refreshes that fail for this long after the access token's end make it likely that the grant has ended.
  static let patience = Duration.seconds(600)
  /// Accounts of a provider whose lost scopes are remembered, so that each loss is reported once.
  static let reportedLosses = 1000
  /// Authorization servers of one resource whose metadata are requested.
  static let triedServers = 4
  /// A server that fails after this time is not asked for another document.
  static let hanging = Duration.seconds(10)
  /// For all documents of a resource and its authorization servers; a request that began is not cut.
  static let documents = Duration.seconds(60)
  /// Connections to one server for the documents of resources.
  static let documentConnections = 4
  /// Redirects that a request for metadata or keys follows.
  static let redirects = 3
  /// Different oddities of a provider's answers that are logged.
  static let oddities = 16
  /// Accounts with a challenge that only a login can answer.
  static let stepUps = 1000
  /// How long no refresh is spent on a server that refused a fresh token for its audience.
  static let otherAudience = Duration.seconds(600)
  /// Scopes that a caller may name.
  static let scopes = 64
  /// A commit that takes longer makes the store count as slow.
  static let slowCommit = Duration.seconds(5)
  /// How long a refresh is leased at a store that several brokers share. The lease is prolonged as long as it takes.
  static let lease = Duration.seconds(120)
  /// How long after a lease was asked for or prolonged requests may be sent under it: they arrive before it ends.
  static let sendingTime = lease * 3 / 4
  /// How long the answer to a refresh is read for where it cannot be sent again, and how many of a provider's are
  /// read after their time without a place among its requests.
  static let lateAnswer = Duration.seconds(300)
  /// What is left of a stop for the last commits after the time for answers: the service manager gives 45 seconds.
  static let lastCommits = Duration.seconds(2)
  /// How often, every 20 ms, it is looked whether renewals that waited for the disk have been saved.
  static let lastTries = 25
  static let lateAnswers = 64
  /// Beyond this a provider's grace is long enough for a request's time, the wait after it and another request.
  static let retriedGrace = Duration.seconds(60)
  /// Requests of callers that begin something at one provider: starts of logins, probes and logins with a password; of
  /// one holder.
  static let loginStarts = 32
  static let loginStartsPerHolder = 8
  /// The longest wait of such a request for its slot.
  static let loginStartWait = Duration.seconds(40)
  /// Connections of one provider to one server, for checks of logout tokens, and for requests of callers.
  static let logoutConnections = 8
  static let callerConnections = 64
  /// The same of one holder.
  static let callsPerHolder = 16
  /// How soon a lease of another broker is asked for again, if it says that it ends now.
  static let leaseRecheck = Duration.seconds(1)
  /// How soon a lease is prolonged again after the store did not answer.
  static let prolongingPause = Duration.seconds(5)
  /// How often, and after which time, a store is asked again whether a commit without an answer is on disk.
  static let settlings = 5
  static let settlingPause = Duration.seconds(1)
  /// How often a change is decided anew after another broker changed the account first, and a request is prepared anew
  /// after a reload.
  static let conflicts = 8
  /// How soon a store that fails is tried again; then every ``longestSleep``.
  static let repairDelays: [Duration] = [.seconds(1), .seconds(2), .seconds(5), .seconds(10)]
  /// The same of a database that several brokers share.
  static let sharedStorePause = Duration.milliseconds(500)
  /// How often it is looked whether what is on disk is still there.
  static let examination = Duration.seconds(5)
  /// What the wall clock may differ from the time that passed before it counts as set: clocks are also slewed.
  static let clockStep = Duration.seconds(2)
  static let skewWorthWarning = Duration.seconds(30)
}
