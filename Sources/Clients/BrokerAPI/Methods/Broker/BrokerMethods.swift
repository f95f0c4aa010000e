public enum BrokerReload: RPCMethod {
  public static let name = "broker.reload"
  public static let access = Access.manage
  public static let summary =
    "Reads the configuration again and answers when it is active. An invalid one changes nothing and is the error."
  public static let errors: [ErrorReason] = [.invalidConfiguration]

  public typealias Params = NoParams

  public struct Result: Codable, Sendable, Equatable {
    public var providers: Int
    public var warnings: [String]
    public var listeners: [BrokerStatus.ListenerView]?

    public init(providers: Int, warnings: [String], listeners: [BrokerStatus.ListenerView]? = nil) {
      self.providers = providers
      self.warnings = warnings
      self.listeners = listeners
    }
  }

  public static let resultDocs = [
    "providers": "How many providers are configured now.",
    "warnings": "Settings that need a restart, and other warnings.",
    "listeners": "The HTTP listeners, as in `broker.status`. Absent: none is configured.",
  ]
  public static let example = MethodExample(params: .null, result: ["providers": 3, "warnings": []])
}

public enum EventsSubscribe: RPCMethod {
  public static let name = "events.subscribe"
  public static let access = Access.observe
  public static let summary =
    "From now on sends this connection an `event` notification for each thing that happens to accounts the caller may see."
  public static let errors: [ErrorReason] = [.overloaded]

  public struct Params: Codable, Sendable, Equatable {
    public var events: [String]?

    public init(events: [String]? = nil) {
      self.events = events
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var subscribed: [String]

    public init(subscribed: [String]) {
      self.subscribed = subscribed
    }
  }

  public static let paramDocs = ["events": "Only these types. Default: all."]
  public static let resultDocs = ["subscribed": "The types that will be sent."]
  public static let example = MethodExample(
    params: ["events": ["token.refreshed", "login.required"]],
    result: ["subscribed": ["token.refreshed", "login.required"]])
}

/// What happened: the parameters of an `event` notification.
public struct Event: Codable, Sendable, Equatable, Documented {
  public var type: EventType
  public var at: Int64
  public var account: String?
  public var provider: String?
  public var login_id: String?
  public var generation: Int64?
  public var reason: ErrorReason?
  public var message: String?
  public var hint: String?
  public var refresh_expires_at: Int64?
  public var release: ReleaseView?
  public var detail: String?
  public var rotation: String?

  public init(
    type: EventType, at: Int64, account: String? = nil, provider: String? = nil, login_id: String? = nil,
    generation: Int64? = nil, reason: ErrorReason? = nil, message: String? = nil, hint: String? = nil,
    refresh_expires_at: Int64? = nil, release: ReleaseView? = nil, detail: String? = nil, rotation: String? = nil
  ) {
    self.type = type
    self.at = at
    self.account = account
    self.provider = provider
    self.login_id = login_id
    self.generation = generation
    self.reason = reason
    self.message = message
    self.hint = hint
    self.refresh_expires_at = refresh_expires_at
    self.release = release
    self.detail = detail
    self.rotation = rotation
  }

  /// The method name of the notification.
  public static let method = "event"

  public static let docs = [
    "type": "What happened.",
    "at": "When, in Unix seconds.",
    "account": "The account, if any.",
    "provider": "The provider, if any.",
    "login_id": "The login, if any.",
    "generation": "The generation of the new token.",
    "reason": "For a failure: the reason, as in errors.",
    "message": "For people.",
    "hint": "The next step.",
    "refresh_expires_at": "When the account's refresh token will end, in Unix seconds.",
    "release": "The release that waits, or waited, for approval.",
    "detail": "With `login.required`: why the grant has ended, as in the account's `last_error`.",
    "rotation": "With `login.required`: the provider's `rotation` at that time.",
  ]
}

public enum EventType: String, Codable, Sendable, CaseIterable {
  case tokenRefreshed = "token.refreshed"
  case tokenFailed = "token.failed"
  case scopesLost = "account.scopes_lost"
  case scopesRequired = "account.scopes_required"
  case loginRequired = "login.required"
  case loginStarted = "login.started"
  case loginActionRequired = "login.action_required"
  case loginCompleted = "login.completed"
  case loginFailed = "login.failed"
  case accountRemoved = "account.removed"
  case refreshTokenExpiring = "refresh_token.expiring"
  case releaseWaiting = "release.waiting"
  case releaseEnded = "release.ended"
  case providerUnreachable = "provider.unreachable"
  case providerRecovered = "provider.recovered"
  case storeFailed = "store.failed"
  case storeRecovered = "store.recovered"
  case clockStepped = "clock.stepped"
  case fileWritten = "file.written"
  case configurationReloaded = "configuration.reloaded"

  /// One sentence for the reference.
  public var summary: String {
    switch self {
    case .tokenRefreshed: "A new access token was issued."
    case .tokenFailed: "A refresh failed; the broker repeats it."
    case .scopesLost: "A refresh returned fewer scopes than granted."
    case .scopesRequired: "A server requires a scope or a newer sign-in."
    case .loginRequired: "A person must sign in again."
    case .loginStarted: "A login waits for the user."
    case .loginActionRequired: "A login needs another step by the user."
    case .loginCompleted: "A person signed in."
    case .loginFailed: "A login was denied, cancelled, or ended early."
    case .accountRemoved: "An account was forgotten."
    case .refreshTokenExpiring: "A refresh token ends soon: sign in again before."
    case .releaseWaiting: "A program waits until a user allows it a token."
    case .releaseEnded: "It waits no longer."
    case .providerUnreachable: "A provider does not answer; its refreshes rest."
    case .providerRecovered: "A provider answers again."
    case .storeFailed: "The state cannot be written; refreshes may wait."
    case .storeRecovered: "The state can be written again."
    case .clockStepped: "This machine's clock was set."
    case .fileWritten: "A file has a new token; `message` is its path."
    case .configurationReloaded: "A new configuration is active."
    }
  }
}

public enum RPCDiscover: RPCMethod {
  public static let name = "rpc.discover"
  public static let access = Access.open
  public static let summary = "Returns the OpenRPC document that describes these methods."
  public static let errors: [ErrorReason] = []

  public typealias Params = NoParams
  /// An OpenRPC 1.3 document.
  public typealias Result = JSON

  public static let resultDocs: [String: String] = [:]
  public static let example = MethodExample(
    params: .null, result: ["openrpc": .string(OpenRPC.specification), "info": OpenRPC.info(), "methods": []])
}
