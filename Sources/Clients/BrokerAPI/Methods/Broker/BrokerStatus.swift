public enum BrokerStatus: RPCMethod {
  public static let name = "broker.status"
  public static let access = Access.observe
  public static let summary =
    "Returns how the broker is: counts of accounts by state, store, callback, configuration, providers."
  public static let errors: [ErrorReason] = []

  public typealias Params = NoParams

  public struct Result: Codable, Sendable, Equatable {
    public var version: String
    public var instance: String
    public var pid: Int32
    public var state: String
    public var started_at: Int64
    public var summary: String
    public var accounts: [String: Int]
    public var providers: Int
    public var pending_logins: Int
    public var callback: [String]
    public var store: StoreView
    public var configuration: ConfigurationView
    public var provider_conditions: [ConditionView]?
    public var refresh_tokens_ending: Int?
    public var caller: CallerView?
    public var held_back: HeldBackView?
    public var files: [FileView]?
    public var listeners: [ListenerView]?
    public var set_aside: [SetAsideView]?
    public var clock: ClockView?
    public var hold: HoldView?
    public var sharing: SharingView?

    public init(
      version: String, instance: String, pid: Int32, state: String, started_at: Int64, summary: String,
      accounts: [String: Int], providers: Int, pending_logins: Int, callback: [String], store: StoreView,
      configuration: ConfigurationView, provider_conditions: [ConditionView]? = nil,
      refresh_tokens_ending: Int? = nil, caller: CallerView? = nil, held_back: HeldBackView? = nil,
      files: [FileView]? = nil, listeners: [ListenerView]? = nil, set_aside: [SetAsideView]? = nil,
      clock: ClockView? = nil, hold: HoldView? = nil, sharing: SharingView? = nil
    ) {
      self.version = version
      self.instance = instance
      self.pid = pid
      self.state = state
      self.started_at = started_at
      self.summary = summary
      self.accounts = accounts
      self.providers = providers
      self.pending_logins = pending_logins
      self.callback = callback
      self.store = store
      self.configuration = configuration
      self.provider_conditions = provider_conditions
      self.refresh_tokens_ending = refresh_tokens_ending
      self.caller = caller
      self.held_back = held_back
      self.files = files
      self.listeners = listeners
      self.set_aside = set_aside
      self.clock = clock
      self.hold = hold
      self.sharing = sharing
    }
  }

  /// This machine's clock, if it shows an earlier time than when a saved token was issued.
  public struct ClockView: Codable, Sendable, Equatable, Documented {
    public var behind_seconds: Int64
    public var message: String
    public var hint: String

    public init(behind_seconds: Int64, message: String, hint: String) {
      self.behind_seconds = behind_seconds
      self.message = message
      self.hint = hint
    }

    public static let docs = [
      "behind_seconds": "How far the clock is behind, at least, in seconds.",
      "message": "The same for users.",
      "hint": "The next step for an administrator.",
    ]
  }

  /// That no token is returned.
  public struct HoldView: Codable, Sendable, Equatable, Documented {
    public var since: Int64?
    public var uid: Int64?
    public var hint: String

    public init(since: Int64?, uid: Int64?, hint: String) {
      self.since = since
      self.uid = uid
      self.hint = hint
    }

    public static let docs = [
      "since": "Since when, in Unix seconds.",
      "uid": "The user who began it.",
      "hint": "How it ends.",
    ]
  }

  /// An HTTP listener of `[http]` or `[metrics]`.
  public struct ListenerView: Codable, Sendable, Equatable, Documented {
    public var setting: String
    public var address: String
    public var state: String
    public var message: String?
    public var hint: String?

    public init(setting: String, address: String, state: String, message: String? = nil, hint: String? = nil) {
      self.setting = setting
      self.address = address
      self.state = state
      self.message = message
      self.hint = hint
    }

    public static let docs = [
      "setting": "The setting that configures it, such as `[http] listen`.",
      "address": "Its address with a port, or a path.",
      "state": "`ok`; `failed`: it does not listen, and is tried again every 3 seconds.",
      "message": "Why it does not listen. If a program of another user has the port, its uid.",
      "hint": "The next step for an administrator.",
    ]
  }

  /// A token file (`[[file]]`).
  public struct FileView: Codable, Sendable, Equatable, Documented {
    public var path: String
    public var account: String
    public var state: String
    public var reason: String?
    public var message: String?
    public var hint: String?
    public var since: Int64?
    public var restored: Int?
    public var restored_at: Int64?

    public init(
      path: String, account: String, state: String, reason: String?, message: String?, hint: String?, since: Int64?,
      restored: Int? = nil, restored_at: Int64? = nil
    ) {
      self.restored = restored
      self.restored_at = restored_at
      self.path = path
      self.account = account
      self.state = state
      self.reason = reason
      self.message = message
      self.hint = hint
      self.since = since
    }

    public static let docs = [
      "path": "The path of the file.",
      "account": "The account whose token it contains.",
      "state":
        "`ok`; `stale`: no newer token can be written, and the file has the one before; `absent`: there is no file.",
      "reason": "Why it is not `ok`: a reason, as in errors.",
      "message": "The same, for people.",
      "hint": "The next step for an administrator.",
      "since": "Since when it is not `ok`, in Unix seconds.",
      "restored":
        "How often another program changed or deleted the file, and it was written again. Absent: never since the start.",
      "restored_at": "When that happened last, in Unix seconds.",
    ]
  }

  /// A row on disk that cannot be read.
  public struct SetAsideView: Codable, Sendable, Equatable, Documented {
    public var row: String
    public var account: String?
    public var message: String
    public var hint: String

    public init(row: String, account: String?, message: String, hint: String) {
      self.row = row
      self.account = account
      self.message = message
      self.hint = hint
    }

    public static let docs = [
      "row": "Names it for `store.repair`.",
      "account": "The account that it belongs to.",
      "message": "What is wrong, for people.",
      "hint": "The commands that repair, replace or remove it.",
    ]
  }

  /// Callers that had to wait, or were refused, as a budget of `[socket]` was used up.
  public struct HeldBackView: Codable, Sendable, Equatable, Documented {
    public var counts: [String: Int64]
    public var latest: String?

    public init(counts: [String: Int64], latest: String?) {
      self.counts = counts
      self.latest = latest
    }

    public static let docs = [
      "counts":
        "How often since the start, by budget: `connections`, `request_memory`, `rate` and `unread_replies`.",
      "latest": "The holder and budget most recently exhausted. Requires `manage` access.",
    ]
  }

  public struct StoreView: Codable, Sendable, Equatable, Documented {
    public var path: String
    public var state: String
    public var message: String?
    public var hint: String?
    public var since: Int64?
    public var held_back: Int?

    public init(
      path: String, state: String, message: String?, hint: String? = nil, since: Int64? = nil, held_back: Int? = nil
    ) {
      self.path = path
      self.state = state
      self.message = message
      self.hint = hint
      self.since = since
      self.held_back = held_back
    }

    public static let docs = [
      "path": "The database file.",
      "state":
        "`ok`; `slow`: a commit takes long; `failing`: the last one failed; `degraded`: the disk was read-only at the start; `older`: commits of earlier runs are missing; `repaired`: damage was repaired.",
      "message": "What is wrong, for people.",
      "hint": "The next step.",
      "since": "Since when it is not `ok`, in Unix seconds.",
      "held_back": "How many accounts' refreshes wait for it, since their answers could not be saved.",
    ]
  }

  public struct ConfigurationView: Codable, Sendable, Equatable, Documented {
    public var path: String?
    public var loaded_at: Int64

    public init(path: String?, loaded_at: Int64) {
      self.path = path
      self.loaded_at = loaded_at
    }

    public static let docs = [
      "path": "The file; absent: built-in defaults.",
      "loaded_at": "When it was read, in Unix seconds.",
    ]
  }

  /// How the broker finds a provider.
  public struct ConditionView: Codable, Sendable, Equatable, Documented {
    public var provider: String
    public var condition: String
    public var since: Int64?
    public var retry_at: Int64?
    public var skew_seconds: Double?
    public var last_error: String?
    public var odd_answers: [String]?
    public var lost_grants: Int?

    public init(
      provider: String, condition: String, since: Int64?, retry_at: Int64?, skew_seconds: Double?,
      last_error: String?, odd_answers: [String]? = nil, lost_grants: Int? = nil
    ) {
      self.provider = provider
      self.condition = condition
      self.since = since
      self.retry_at = retry_at
      self.skew_seconds = skew_seconds
      self.last_error = last_error
      self.odd_answers = odd_answers
      self.lost_grants = lost_grants
    }

    public static let docs = [
      "provider": "The provider's name.",
      "condition":
        "`ok`; `suspended`: it refuses this client, so its refreshes are paused; `unreachable`: an outage, with occasional requests; `recovering`: it answers again, and refreshes begin one after the other.",
      "since": "Since when it is so, in Unix seconds.",
      "retry_at": "When it is asked again, in Unix seconds.",
      "skew_seconds":
        "How far this machine's clock is ahead of the provider's, by its latest answer; behind: negative. Absent: not known.",
      "last_error": "The error of the last failed request to it.",
      "odd_answers":
        "What in its token answers was outside the specification and passed over. Absent: nothing, since the settings were read.",
      "lost_grants":
        "Grants lost unexpectedly since the start. Absent: none. `grantd_lost_grants` has them by reason.",
    ]
  }

  /// The caller, and its rights under the policy.
  public struct CallerView: Codable, Sendable, Equatable, Documented {
    public var uid: Int64
    public var access: [String: [String]]

    public init(uid: Int64, access: [String: [String]]) {
      self.uid = uid
      self.access = access
    }

    public static let docs = [
      "uid": "The user, as the kernel says.",
      "access":
        "By `use`, `login`, `manage` and `observe`: the patterns of the accounts that the policy allows it for.",
    ]
  }

  public static let resultDocs = [
    "version": "The broker's version.",
    "instance": "`system` or `user`.",
    "pid": "The broker's process.",
    "state": "`running`, `locked` or `shutting_down`.",
    "started_at": "When it started, in Unix seconds.",
    "summary": "For people, as in `systemctl status`: `12 ok, 1 needs login`.",
    "accounts": "How many accounts are in each state.",
    "providers": "How many providers are configured.",
    "pending_logins": "How many logins wait for the user.",
    "callback": "The addresses of the callback endpoint.",
    "store":
      "`path`, `state` (`ok`, `slow`, `failing`, `degraded` or `older`) and, unless it is `ok`, `message`, `hint`, `since` and `held_back`.",
    "configuration": "`path` of the file (absent: built-in defaults) and when it was `loaded_at` (Unix seconds).",
    "provider_conditions": "How the broker finds each provider, by name.",
    "refresh_tokens_ending":
      "How many refresh tokens of accounts the caller may see have ended or end soon; `account.list` has when.",
    "caller": "The caller, and the access that the policy allows it.",
    "listeners": "The HTTP listeners of `[http]` and `[metrics]`. Absent: none is configured.",
    "files": "The token files (`[[file]]`) of accounts that the caller may observe. Absent: there are none.",
    "set_aside":
      "Rows on disk that cannot be read and stay there: of accounts that the caller may observe, and others if the caller "
      + "has `manage` access. At most 100 of each. Absent: there are none.",
    "clock":
      "`behind_seconds`, `message` and `hint`, if the clock shows an earlier time than when a saved token was issued.",
    "hold": "`since`, `uid` and `hint`, while the broker is locked or its releases are held. Absent: neither.",
    "sharing": "`machines`, `leases`, `schema` and `warnings` of a shared database. Absent: there is none.",
    "held_back":
      "`counts` of callers that were held back since the start, and `latest`. Absent: none was.",
  ]
  public static let example = MethodExample(
    params: .null,
    result: [
      "version": .string(OpenRPC.contractVersion), "instance": "system", "pid": 812, "state": "running",
      "started_at": 1_767_225_600, "summary": "12 ok, 1 needs login", "accounts": ["login_required": 1, "ok": 12],
      "providers": 3, "pending_logins": 0, "callback": ["http://127.0.0.1:4180", "http://[::1]:4180"],
      "store": ["path": "/var/lib/grantd/grantd.db", "state": "ok"],
      "configuration": ["path": "/etc/grantd/grantd.toml", "loaded_at": 1_767_225_600],
      "provider_conditions": [
        [
          "provider": "example", "condition": "unreachable", "since": 1_767_225_000, "retry_at": 1_767_225_660,
          "skew_seconds": 0, "last_error": "no connection to login.example.com: connection refused",
        ]
      ],
      "refresh_tokens_ending": 1,
      "caller": ["uid": 1000, "access": ["observe": ["*"], "use": ["work", "mail-*"]]],
    ])
}
