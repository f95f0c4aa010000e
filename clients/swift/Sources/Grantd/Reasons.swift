// Made by clients/generate; do not edit.

/// The version of the broker that these tables are from.
public let grantdVersion = "0.1.0"

extension GrantError.Reason {
  public static let unknownAccount = Self(rawValue: "unknown_account")
  public static let unknownProvider = Self(rawValue: "unknown_provider")
  public static let unknownLogin = Self(rawValue: "unknown_login")
  public static let notPermitted = Self(rawValue: "not_permitted")
  public static let loginRequired = Self(rawValue: "login_required")
  public static let loginDenied = Self(rawValue: "login_denied")
  public static let loginCancelled = Self(rawValue: "login_cancelled")
  public static let loginExpired = Self(rawValue: "login_expired")
  public static let loginInProgress = Self(rawValue: "login_in_progress")
  public static let invalidCallback = Self(rawValue: "invalid_callback")
  public static let temporarilyUnavailable = Self(rawValue: "temporarily_unavailable")
  public static let timedOut = Self(rawValue: "timed_out")
  public static let providerMisconfigured = Self(rawValue: "provider_misconfigured")
  public static let providerError = Self(rawValue: "provider_error")
  public static let scopeNotGranted = Self(rawValue: "scope_not_granted")
  public static let unsupportedByProvider = Self(rawValue: "unsupported_by_provider")
  public static let registrationRejected = Self(rawValue: "registration_rejected")
  public static let rateLimited = Self(rawValue: "rate_limited")
  public static let overloaded = Self(rawValue: "overloaded")
  public static let storeFailure = Self(rawValue: "store_failure")
  public static let shuttingDown = Self(rawValue: "shutting_down")
  public static let invalidConfiguration = Self(rawValue: "invalid_configuration")
  public static let invalidBackup = Self(rawValue: "invalid_backup")
  public static let keyNotReplaceable = Self(rawValue: "key_not_replaceable")
  public static let locked = Self(rawValue: "locked")
  public static let notRunning = Self(rawValue: "not_running")
  public static let foreignServer = Self(rawValue: "foreign_server")
  public static let disconnected = Self(rawValue: "disconnected")
  public static let badAnswer = Self(rawValue: "bad_answer")
}

extension AccountState {
  public static let ok = Self(rawValue: "ok")
  public static let refreshing = Self(rawValue: "refreshing")
  public static let degraded = Self(rawValue: "degraded")
  public static let loginRequired = Self(rawValue: "login_required")
  public static let actionRequired = Self(rawValue: "action_required")
}

extension EventType {
  public static let tokenRefreshed = Self(rawValue: "token.refreshed")
  public static let tokenFailed = Self(rawValue: "token.failed")
  public static let accountScopesLost = Self(rawValue: "account.scopes_lost")
  public static let accountScopesRequired = Self(rawValue: "account.scopes_required")
  public static let loginRequired = Self(rawValue: "login.required")
  public static let loginStarted = Self(rawValue: "login.started")
  public static let loginActionRequired = Self(rawValue: "login.action_required")
  public static let loginCompleted = Self(rawValue: "login.completed")
  public static let loginFailed = Self(rawValue: "login.failed")
  public static let accountRemoved = Self(rawValue: "account.removed")
  public static let refreshTokenExpiring = Self(rawValue: "refresh_token.expiring")
  public static let releaseWaiting = Self(rawValue: "release.waiting")
  public static let releaseEnded = Self(rawValue: "release.ended")
  public static let providerUnreachable = Self(rawValue: "provider.unreachable")
  public static let providerRecovered = Self(rawValue: "provider.recovered")
  public static let storeFailed = Self(rawValue: "store.failed")
  public static let storeRecovered = Self(rawValue: "store.recovered")
  public static let clockStepped = Self(rawValue: "clock.stepped")
  public static let fileWritten = Self(rawValue: "file.written")
  public static let configurationReloaded = Self(rawValue: "configuration.reloaded")
}

extension GrantClient {
  static let timed: Set<String> = [
    "token.get",
    "token.report_rejected",
    "token.exchange",
    "token.introspect",
    "dpop.proof",
    "request.send",
    "account.userinfo",
    "account.sessions",
    "account.end_session",
    "account.refresh",
    "login.wait",
    "provider.check",
  ]
  static let repeatable: Set<String> = [
    "token.get",
    "token.report_rejected",
    "account.list",
    "account.get",
    "account.userinfo",
    "login.wait",
    "login.list",
    "policy.explain",
    "provider.list",
    "provider.get",
    "broker.status",
    "broker.metrics",
    "rpc.discover",
  ]
}
