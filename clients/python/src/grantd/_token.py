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

    __slots__ = ("_result",)

    def __init__(self, result: Any) -> None:
        if type(result) is not dict:
            raise BadAnswer("the broker's answer is not an object", "bad_answer", "Run `grantctl doctor`.")
        secret, generation = result.get("access_token") or result.get("cookie"), result.get("generation")
        if type(secret) is not str or type(generation) is not int or generation < 0:
            raise BadAnswer("the broker's answer has no token", "bad_answer", "Run `grantctl doctor`.")
        # A program uses two or three of the members: copying all of them takes two microseconds.
        self._result: Dict[str, Any] = result

    @property
    def access_token(self) -> str:
        """Empty if the provider uses sessions; then `cookie` and `session_id` are set."""
        return self._result.get("access_token", "")

    @property
    def token_type(self) -> str:
        return self._result.get("token_type", "Bearer")

    @property
    def kind(self) -> Optional[str]:
        return self._result.get("kind")

    @property
    def session_id(self) -> Optional[str]:
        return self._result.get("session_id")

    @property
    def cookie(self) -> Optional[str]:
        return self._result.get("cookie")

    @property
    def expires_at(self) -> Optional[int]:
        """None: the provider gave no lifetime."""
        return self._result.get("expires_at")

    @property
    def expires_in(self) -> Optional[int]:
        return self._result.get("expires_in")

    @property
    def scope(self) -> List[str]:
        return self._result.get("scope", [])

    @property
    def account(self) -> str:
        return self._result.get("account", "")

    @property
    def provider(self) -> str:
        return self._result.get("provider", "")

    @property
    def issuer(self) -> Optional[str]:
        return self._result.get("issuer")

    @property
    def generation(self) -> int:
        """For `report_rejected`."""
        return self._result["generation"]  # type: ignore[no-any-return]

    @property
    def dpop_thumbprint(self) -> Optional[str]:
        return self._result.get("dpop_thumbprint")

    @property
    def extra(self) -> Dict[str, Any]:
        return self._result.get("extra", {})

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
