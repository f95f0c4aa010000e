"""The base of all errors, and how an error of the wire becomes one."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional


class GrantdError(Exception):
    """A call that failed. `str()` is a message for users and ends with the hint; it never contains a token.

    The subclasses in `grantd.errors` are one for each reason. A reason that this version does not name, and an error of
    JSON-RPC itself, is a plain `GrantdError`.
    """

    def __init__(
            self, message: str, reason: str = "", hint: str = "", code: int = 0, retry_after: Optional[float] = None,
            oauth: Optional[Dict[str, Any]] = None, detail: Any = None) -> None:
        super().__init__(f"{message}: {hint}" if hint else message)
        #: For users; its words may change.
        self.message = message
        #: The word to branch on (docs/errors.md); empty for an error of JSON-RPC itself.
        self.reason = reason
        #: The user's next step.
        self.hint = hint
        #: The number of JSON-RPC; 0 for an error that the library found.
        self.code = code
        #: Seconds after which another attempt is useful.
        self.retry_after = retry_after
        #: The provider's `error`, `error_description` and `error_uri` (RFC 6749 §5.2).
        self.oauth = oauth
        #: More about the error, such as the fields that were refused.
        self.detail = detail
