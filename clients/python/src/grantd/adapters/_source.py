"""The account of an adapter."""

from __future__ import annotations

from .. import _shared
from .._client import Client
from .._token import Token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Sequence


class Source:
    """Which token an adapter takes, from which client."""

    def __init__(
            self, account: str, scopes: Optional[Sequence[str]] = None, resource: Optional[str] = None,
            client: Optional[Client] = None) -> None:
        self.account, self.scopes, self.resource, self.client = account, scopes, resource, client or _shared

    def token(self, min_ttl: Optional[float] = None) -> Token:
        return self.client.token(self.account, self.scopes, resource=self.resource, min_ttl=min_ttl)

    def after(self, rejected: Token) -> Token:
        """The token after one that a server refused, which is reported."""
        self.client.report_rejected(rejected.account, rejected.generation)
        return self.token()
