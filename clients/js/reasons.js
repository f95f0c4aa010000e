// Made by clients/generate; do not edit.
'use strict'

const { GrantdError } = require('./error.js')

exports.VERSION = '0.1.0'

/** `unknown_account`: No account of that name, or the caller may not see it. */
exports.UnknownAccount = class UnknownAccount extends GrantdError {}

/** `unknown_provider`: No provider of that name in the configuration. */
exports.UnknownProvider = class UnknownProvider extends GrantdError {}

/** `unknown_login`: No such login, or it ended more than ten minutes ago. */
exports.UnknownLogin = class UnknownLogin extends GrantdError {}

/** `not_permitted`: The policy does not allow this caller to do that. */
exports.NotPermitted = class NotPermitted extends GrantdError {}

/** `login_required`: The grant has ended; the user must sign in again. */
exports.LoginRequired = class LoginRequired extends GrantdError {}

/** `login_denied`: The person or the provider refused the login. */
exports.LoginDenied = class LoginDenied extends GrantdError {}

/** `login_cancelled`: The login was cancelled. */
exports.LoginCancelled = class LoginCancelled extends GrantdError {}

/** `login_expired`: The login was not completed in time. */
exports.LoginExpired = class LoginExpired extends GrantdError {}

/** `login_in_progress`: Another login has to end first. */
exports.LoginInProgress = class LoginInProgress extends GrantdError {}

/** `invalid_callback`: The address does not complete a login: forged, used before, late or unreadable. */
exports.InvalidCallback = class InvalidCallback extends GrantdError {}

/** `temporarily_unavailable`: The provider cannot be reached or is failing; the broker tries again. */
exports.TemporarilyUnavailable = class TemporarilyUnavailable extends GrantdError {}

/** `timed_out`: The request's deadline passed first; the operation continues. */
exports.TimedOut = class TimedOut extends GrantdError {}

/** `provider_misconfigured`: The provider refuses this client or its settings; an admin must change them. */
exports.ProviderMisconfigured = class ProviderMisconfigured extends GrantdError {}

/** `provider_error`: The provider's answer is not valid. */
exports.ProviderError = class ProviderError extends GrantdError {}

/** `scope_not_granted`: The account was not granted a scope or resource that was asked for. */
exports.ScopeNotGranted = class ScopeNotGranted extends GrantdError {}

/** `unsupported_by_provider`: The provider cannot do that. */
exports.UnsupportedByProvider = class UnsupportedByProvider extends GrantdError {}

/** `registration_rejected`: The provider refused the registration's fields. */
exports.RegistrationRejected = class RegistrationRejected extends GrantdError {}

/** `rate_limited`: The caller asked too often. */
exports.RateLimited = class RateLimited extends GrantdError {}

/** `overloaded`: A limit on connections, requests or logins is reached. */
exports.Overloaded = class Overloaded extends GrantdError {}

/** `store_failure`: The state cannot be written to disk; nothing was lost, and no new token is returned. */
exports.StoreFailure = class StoreFailure extends GrantdError {}

/** `shutting_down`: The broker is stopping. */
exports.ShuttingDown = class ShuttingDown extends GrantdError {}

/** `invalid_configuration`: The new configuration has an error; the old one stays active. */
exports.InvalidConfiguration = class InvalidConfiguration extends GrantdError {}

/** `invalid_backup`: The backup cannot be opened: another secret, damaged, cut off, or of a later version. */
exports.InvalidBackup = class InvalidBackup extends GrantdError {}

/** `key_not_replaceable`: The broker cannot write where the store's key is kept; the old key stays. */
exports.KeyNotReplaceable = class KeyNotReplaceable extends GrantdError {}

/** `locked`: The broker is locked, or its releases are held: no token is returned. */
exports.Locked = class Locked extends GrantdError {}

/** `not_running`: No broker listens at the socket. */
exports.NotRunning = class NotRunning extends GrantdError {}

/** `foreign_server`: Another user than root, this user or the owner of the socket's folder listens at the socket. */
exports.ForeignServer = class ForeignServer extends GrantdError {}

/** `disconnected`: The connection ended before the answer; the request may have been carried out. */
exports.Disconnected = class Disconnected extends GrantdError {}

/** `bad_answer`: The answer is not valid JSON-RPC, lacks a required member, or is too long. */
exports.BadAnswer = class BadAnswer extends GrantdError {}

exports.BY_REASON = {
  unknown_account: exports.UnknownAccount,
  unknown_provider: exports.UnknownProvider,
  unknown_login: exports.UnknownLogin,
  not_permitted: exports.NotPermitted,
  login_required: exports.LoginRequired,
  login_denied: exports.LoginDenied,
  login_cancelled: exports.LoginCancelled,
  login_expired: exports.LoginExpired,
  login_in_progress: exports.LoginInProgress,
  invalid_callback: exports.InvalidCallback,
  temporarily_unavailable: exports.TemporarilyUnavailable,
  timed_out: exports.TimedOut,
  provider_misconfigured: exports.ProviderMisconfigured,
  provider_error: exports.ProviderError,
  scope_not_granted: exports.ScopeNotGranted,
  unsupported_by_provider: exports.UnsupportedByProvider,
  registration_rejected: exports.RegistrationRejected,
  rate_limited: exports.RateLimited,
  overloaded: exports.Overloaded,
  store_failure: exports.StoreFailure,
  shutting_down: exports.ShuttingDown,
  invalid_configuration: exports.InvalidConfiguration,
  invalid_backup: exports.InvalidBackup,
  key_not_replaceable: exports.KeyNotReplaceable,
  locked: exports.Locked,
  not_running: exports.NotRunning,
  foreign_server: exports.ForeignServer,
  disconnected: exports.Disconnected,
  bad_answer: exports.BadAnswer,
}

exports.TIMED = new Set([
  'token.get',
  'token.report_rejected',
  'token.exchange',
  'token.introspect',
  'dpop.proof',
  'request.send',
  'account.userinfo',
  'account.sessions',
  'account.end_session',
  'account.refresh',
  'login.wait',
  'provider.check',
])

exports.REPEATABLE = new Set([
  'token.get',
  'token.report_rejected',
  'account.list',
  'account.get',
  'account.userinfo',
  'login.wait',
  'login.list',
  'policy.explain',
  'provider.list',
  'provider.get',
  'broker.status',
  'broker.metrics',
  'rpc.discover',
])
