// Made by clients/generate; do not edit.

import { GrantdError } from './error.js'

export const VERSION: string

/** `unknown_account`: No account of that name, or the caller may not see it. */
export class UnknownAccount extends GrantdError {}

/** `unknown_provider`: No provider of that name in the configuration. */
export class UnknownProvider extends GrantdError {}

/** `unknown_login`: No such login, or it ended more than ten minutes ago. */
export class UnknownLogin extends GrantdError {}

/** `not_permitted`: The policy does not allow this caller to do that. */
export class NotPermitted extends GrantdError {}

/** `login_required`: The grant has ended; the user must sign in again. */
export class LoginRequired extends GrantdError {}

/** `login_denied`: The person or the provider refused the login. */
export class LoginDenied extends GrantdError {}

/** `login_cancelled`: The login was cancelled. */
export class LoginCancelled extends GrantdError {}

/** `login_expired`: The login was not completed in time. */
export class LoginExpired extends GrantdError {}

/** `login_in_progress`: Another login has to end first. */
export class LoginInProgress extends GrantdError {}

/** `invalid_callback`: The address does not complete a login: forged, used before, late or unreadable. */
export class InvalidCallback extends GrantdError {}

/** `temporarily_unavailable`: The provider cannot be reached or is failing; the broker tries again. */
export class TemporarilyUnavailable extends GrantdError {}

/** `timed_out`: The request's deadline passed first; the operation continues. */
export class TimedOut extends GrantdError {}

/** `provider_misconfigured`: The provider refuses this client or its settings; an admin must change them. */
export class ProviderMisconfigured extends GrantdError {}

/** `provider_error`: The provider's answer is not valid. */
export class ProviderError extends GrantdError {}

/** `scope_not_granted`: The account was not granted a scope or resource that was asked for. */
export class ScopeNotGranted extends GrantdError {}

/** `unsupported_by_provider`: The provider cannot do that. */
export class UnsupportedByProvider extends GrantdError {}

/** `registration_rejected`: The provider refused the registration's fields. */
export class RegistrationRejected extends GrantdError {}

/** `rate_limited`: The caller asked too often. */
export class RateLimited extends GrantdError {}

/** `overloaded`: A limit on connections, requests or logins is reached. */
export class Overloaded extends GrantdError {}

/** `store_failure`: The state cannot be written to disk; nothing was lost, and no new token is returned. */
export class StoreFailure extends GrantdError {}

/** `shutting_down`: The broker is stopping. */
export class ShuttingDown extends GrantdError {}

/** `invalid_configuration`: The new configuration has an error; the old one stays active. */
export class InvalidConfiguration extends GrantdError {}

/** `invalid_backup`: The backup cannot be opened: another secret, damaged, cut off, or of a later version. */
export class InvalidBackup extends GrantdError {}

/** `key_not_replaceable`: The broker cannot write where the store's key is kept; the old key stays. */
export class KeyNotReplaceable extends GrantdError {}

/** `locked`: The broker is locked, or its releases are held: no token is returned. */
export class Locked extends GrantdError {}

/** `not_running`: No broker listens at the socket. */
export class NotRunning extends GrantdError {}

/** `foreign_server`: Another user than root, this user or the owner of the socket's folder listens at the socket. */
export class ForeignServer extends GrantdError {}

/** `disconnected`: The connection ended before the answer; the request may have been carried out. */
export class Disconnected extends GrantdError {}

/** `bad_answer`: The answer is not valid JSON-RPC, lacks a required member, or is too long. */
export class BadAnswer extends GrantdError {}
