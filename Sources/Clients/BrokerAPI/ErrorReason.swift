/// The reason of a failed request: `data.reason` of an error, a fixed number, and the user's next step.
public enum ErrorReason: String, Codable, Sendable, CaseIterable {
  case unknownAccount = "unknown_account"
  case unknownProvider = "unknown_provider"
  case unknownLogin = "unknown_login"
  case notPermitted = "not_permitted"
  case loginRequired = "login_required"
  case loginDenied = "login_denied"
  case loginCancelled = "login_cancelled"
  case loginExpired = "login_expired"
  case loginInProgress = "login_in_progress"
  case invalidCallback = "invalid_callback"
  case temporarilyUnavailable = "temporarily_unavailable"
  case timedOut = "timed_out"
  case providerMisconfigured = "provider_misconfigured"
  case providerError = "provider_error"
  case scopeNotGranted = "scope_not_granted"
  case unsupportedByProvider = "unsupported_by_provider"
  case registrationRejected = "registration_rejected"
  case rateLimited = "rate_limited"
  case overloaded = "overloaded"
  case storeFailure = "store_failure"
  case shuttingDown = "shutting_down"
  case invalidConfiguration = "invalid_configuration"
  case invalidBackup = "invalid_backup"
  case keyNotReplaceable = "key_not_replaceable"
  case locked = "locked"

  /// The JSON-RPC error code, fixed for ever.
  public var code: Int {
    switch self {
    case .unknownAccount: -32000
    case .unknownProvider: -32001
    case .unknownLogin: -32002
    case .notPermitted: -32003
    case .loginRequired: -32004
    case .loginDenied: -32005
    case .loginCancelled: -32006
    case .loginExpired: -32007
    case .loginInProgress: -32008
    case .invalidCallback: -32009
    case .temporarilyUnavailable: -32010
    case .timedOut: -32011
    case .providerMisconfigured: -32012
    case .providerError: -32013
    case .scopeNotGranted: -32014
    case .unsupportedByProvider: -32015
    case .registrationRejected: -32016
    case .rateLimited: -32017
    case .overloaded: -32018
    case .storeFailure: -32019
    case .shuttingDown: -32020
    case .invalidConfiguration: -32021
    case .invalidBackup: -32022
    case .keyNotReplaceable: -32023
    case .locked: -32024
    }
  }

  /// One sentence for the reference: when it happens.
  public var meaning: String {
    switch self {
    case .unknownAccount: "No account of that name, or the caller may not see it."
    case .unknownProvider: "No provider of that name in the configuration."
    case .unknownLogin: "No such login, or it ended more than ten minutes ago."
    case .notPermitted: "The policy does not allow this caller to do that."
    case .loginRequired: "The grant has ended; the user must sign in again."
    case .loginDenied: "The person or the provider refused the login."
    case .loginCancelled: "The login was cancelled."
    case .loginExpired: "The login was not completed in time."
    case .loginInProgress: "Another login has to end first."
    case .invalidCallback: "The address does not complete a login: forged, used before, late or unreadable."
    case .temporarilyUnavailable: "The provider cannot be reached or is failing; the broker tries again."
    case .timedOut: "The request's deadline passed first; the operation continues."
    case .providerMisconfigured: "The provider refuses this client or its settings; an admin must change them."
    case .providerError: "The provider's answer is not valid."
    case .scopeNotGranted: "The account was not granted a scope or resource that was asked for."
    case .unsupportedByProvider: "The provider cannot do that."
    case .registrationRejected: "The provider refused the registration's fields."
    case .rateLimited: "The caller asked too often."
    case .overloaded: "A limit on connections, requests or logins is reached."
    case .storeFailure: "The state cannot be written to disk; nothing was lost, and no new token is returned."
    case .shuttingDown: "The broker is stopping."
    case .invalidConfiguration: "The new configuration has an error; the old one stays active."
    case .invalidBackup: "The backup cannot be opened: another secret, damaged, cut off, or of a later version."
    case .keyNotReplaceable: "The broker cannot write where the store's key is kept; the old key stays."
    case .locked: "The broker is locked, or its releases are held: no token is returned."
    }
  }

  /// The next step, if the error itself has no better hint.
  public var defaultHint: String {
    switch self {
    case .unknownAccount:
      "See the accounts with `grantctl list`; add one with `grantctl setup`, or at a provider that exists with `grantctl login PROVIDER ACCOUNT`."
    case .unknownProvider: "See the configured providers with `grantctl status`, or add a [provider.NAME] section."
    case .unknownLogin: "Start again with `grantctl login`."
    case .notPermitted: "Ask an admin for a [[rule]] that allows it."
    case .loginRequired: "Sign in again with `grantctl login PROVIDER ACCOUNT`."
    case .loginDenied: "Start again with `grantctl login` and allow the access asked for."
    case .loginCancelled: "Start again with `grantctl login`."
    case .loginExpired: "Start again with `grantctl login`."
    case .loginInProgress: "Finish or cancel the other login first."
    case .invalidCallback: "Copy the complete URL of the browser's last page, or start again with `grantctl login`."
    case .temporarilyUnavailable: "Try again in a while; `grantctl doctor` tells how the provider is."
    case .timedOut: "Ask again; the work continues."
    case .providerMisconfigured: "Check client_id, client secret, scopes and redirect URI of the provider's section."
    case .providerError: "Check the provider's issuer and endpoints; `grantctl status` shows its last error."
    case .scopeNotGranted: "Sign in again asking for it: `grantctl login PROVIDER ACCOUNT --scope SCOPE`."
    case .unsupportedByProvider: "Use another method, or ask the provider's operator."
    case .registrationRejected: "Correct the fields named in `detail` and try again."
    case .rateLimited: "Ask less often; keep a token until it expires."
    case .overloaded: "Try again later, and close connections that are not needed."
    case .storeFailure: "Check free space and permissions of the state folder; see `journalctl -u grantd`."
    case .shuttingDown: "Connect again in a moment."
    case .invalidConfiguration: "Correct the file and reload again; `grantd --check-config` checks it first."
    case .invalidBackup: "Give the secret that it was made with, or another copy of it."
    case .keyNotReplaceable: "Change the key where it is kept, and restart grantd; see docs/keys-and-backups.md."
    case .locked: "Unlock it with `grantctl unlock`."
    }
  }
}
