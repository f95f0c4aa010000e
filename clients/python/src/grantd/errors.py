"""The errors by reason. Made by clients/generate; do not edit."""

from ._error import GrantdError

VERSION = "0.1.0"


class UnknownAccount(GrantdError):
    """`unknown_account`: No account of that name, or the caller may not see it."""


class UnknownProvider(GrantdError):
    """`unknown_provider`: No provider of that name in the configuration."""


class UnknownLogin(GrantdError):
    """`unknown_login`: No such login, or it ended more than ten minutes ago."""


class NotPermitted(GrantdError):
    """`not_permitted`: The policy does not allow this caller to do that."""


class LoginRequired(GrantdError):
    """`login_required`: The grant has ended; the user must sign in again."""


class LoginDenied(GrantdError):
    """`login_denied`: The person or the provider refused the login."""


class LoginCancelled(GrantdError):
    """`login_cancelled`: The login was cancelled."""


class LoginExpired(GrantdError):
    """`login_expired`: The login was not completed in time."""


class LoginInProgress(GrantdError):
    """`login_in_progress`: Another login has to end first."""


class InvalidCallback(GrantdError):
    """`invalid_callback`: The address does not complete a login: forged, used before, late or unreadable."""


class TemporarilyUnavailable(GrantdError):
    """`temporarily_unavailable`: The provider cannot be reached or is failing; the broker tries again."""


class TimedOut(GrantdError):
    """`timed_out`: The request's deadline passed first; the operation continues."""


class ProviderMisconfigured(GrantdError):
    """`provider_misconfigured`: The provider refuses this client or its settings; an admin must change them."""


class ProviderError(GrantdError):
    """`provider_error`: The provider's answer is not valid."""


class ScopeNotGranted(GrantdError):
    """`scope_not_granted`: The account was not granted a scope or resource that was asked for."""


class UnsupportedByProvider(GrantdError):
    """`unsupported_by_provider`: The provider cannot do that."""


class RegistrationRejected(GrantdError):
    """`registration_rejected`: The provider refused the registration's fields."""


class RateLimited(GrantdError):
    """`rate_limited`: The caller asked too often."""


class Overloaded(GrantdError):
    """`overloaded`: A limit on connections, requests or logins is reached."""


class StoreFailure(GrantdError):
    """`store_failure`: The state cannot be written to disk; nothing was lost, and no new token is returned."""


class ShuttingDown(GrantdError):
    """`shutting_down`: The broker is stopping."""


class InvalidConfiguration(GrantdError):
    """`invalid_configuration`: The new configuration has an error; the old one stays active."""


class InvalidBackup(GrantdError):
    """`invalid_backup`: The backup cannot be opened: another secret, damaged, cut off, or of a later version."""


class KeyNotReplaceable(GrantdError):
    """`key_not_replaceable`: The broker cannot write where the store's key is kept; the old key stays."""


class Locked(GrantdError):
    """`locked`: The broker is locked, or its releases are held: no token is returned."""


class NotRunning(GrantdError):
    """`not_running`: No broker listens at the socket."""


class ForeignServer(GrantdError):
    """`foreign_server`: Another user than root, this user or the owner of the socket's folder listens at the socket."""


class Disconnected(GrantdError):
    """`disconnected`: The connection ended before the answer; the request may have been carried out."""


class BadAnswer(GrantdError):
    """`bad_answer`: The answer is not valid JSON-RPC, lacks a required member, or is too long."""


BY_REASON = {
    "unknown_account": UnknownAccount,
    "unknown_provider": UnknownProvider,
    "unknown_login": UnknownLogin,
    "not_permitted": NotPermitted,
    "login_required": LoginRequired,
    "login_denied": LoginDenied,
    "login_cancelled": LoginCancelled,
    "login_expired": LoginExpired,
    "login_in_progress": LoginInProgress,
    "invalid_callback": InvalidCallback,
    "temporarily_unavailable": TemporarilyUnavailable,
    "timed_out": TimedOut,
    "provider_misconfigured": ProviderMisconfigured,
    "provider_error": ProviderError,
    "scope_not_granted": ScopeNotGranted,
    "unsupported_by_provider": UnsupportedByProvider,
    "registration_rejected": RegistrationRejected,
    "rate_limited": RateLimited,
    "overloaded": Overloaded,
    "store_failure": StoreFailure,
    "shutting_down": ShuttingDown,
    "invalid_configuration": InvalidConfiguration,
    "invalid_backup": InvalidBackup,
    "key_not_replaceable": KeyNotReplaceable,
    "locked": Locked,
    "not_running": NotRunning,
    "foreign_server": ForeignServer,
    "disconnected": Disconnected,
    "bad_answer": BadAnswer,
}

TIMED = frozenset((
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
))

REPEATABLE = frozenset((
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
))
