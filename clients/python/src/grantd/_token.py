"""A token as a value that does not print its secrets."""

from __future__ import annotations

from .errors import BadAnswer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional


class Token:
    """The result of `token.get` (docs/rpc.md). Times are Unix seconds.

    `repr()`, `str()` and formatting show no secret. Pickling is refused.
    """

    __slots__ = (
        "access_token", "token_type", "kind", "session_id", "cookie", "expires_at", "expires_in", "scope", "account",
        "provider", "issuer", "generation", "dpop_thumbprint", "extra")

    def __init__(self, result: Dict[str, Any]) -> None:
        get = result.get
        #: Empty if the provider uses sessions; then `cookie` and `session_id` are set.
        self.access_token: str = get("access_token", "")
        self.token_type: str = get("token_type", "Bearer")
        self.kind: Optional[str] = get("kind")
        self.session_id: Optional[str] = get("session_id")
        self.cookie: Optional[str] = get("cookie")
        #: None: the provider gave no lifetime.
        self.expires_at: Optional[int] = get("expires_at")
        self.expires_in: Optional[int] = get("expires_in")
        self.scope: List[str] = get("scope", [])
        self.account: str = get("account", "")
        self.provider: str = get("provider", "")
        self.issuer: Optional[str] = get("issuer")
        #: For `report_rejected`.
        self.generation: int = get("generation", -1)
        self.dpop_thumbprint: Optional[str] = get("dpop_thumbprint")
        self.extra: Dict[str, Any] = get("extra", {})
        secret = self.access_token or self.cookie
        if type(secret) is not str or not secret or type(self.generation) is not int or self.generation < 0:
            raise BadAnswer("the broker's answer has no token", "bad_answer", "Run `grantctl doctor`.")

    @property
    def authorization(self) -> str:
        """The value of the `Authorization` header (RFC 6750 §2.1)."""
        return f"{self.token_type} {self.access_token}"

    @property
    def headers(self) -> Dict[str, str]:
        """The header of a request: `Authorization`, or `Cookie` for a session."""
        return {"Authorization": self.authorization} if self.access_token else {"Cookie": self.cookie or ""}

    def __repr__(self) -> str:
        return f"<grantd.Token of {self.account!r}, generation {self.generation}, ‹redacted›>"

    def __reduce__(self) -> str:
        raise TypeError("a token is not written to disk: get it from the broker again")
