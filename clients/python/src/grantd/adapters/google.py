"""Credentials for the libraries of Google Cloud.

    storage.Client(project="p", credentials=Credentials("work"))
"""

from __future__ import annotations

import datetime
from typing import Any, Optional, Sequence

import google.auth.credentials
import google.auth.exceptions

from .._client import Client
from .._error import GrantdError
from .._token import Token
from ..errors import TemporarilyUnavailable
from ._source import Source

# google-auth refreshes earlier than a token ends.
MIN_TTL_SECONDS = 240.0


class Credentials(google.auth.credentials.Credentials):
    """The account's token. google-auth keeps it until it ends; after 401 the token is reported and replaced."""

    def __init__(
            self, account: str, scopes: Optional[Sequence[str]] = None, *, resource: Optional[str] = None,
            client: Optional[Client] = None) -> None:
        super().__init__()
        self._source = Source(account, scopes, resource, client)
        self._last: Optional[Token] = None

    def refresh(self, request: Any) -> None:
        """google-auth calls it for a valid token only after 401."""
        try:
            if self._last and self.valid:
                self._source.client.report_rejected(self._last.account, self._last.generation)
            self._last = self._source.token(MIN_TTL_SECONDS)
        except GrantdError as error:
            raise google.auth.exceptions.RefreshError(
                str(error), retryable=isinstance(error, TemporarilyUnavailable)) from error
        self.token = self._last.access_token
        # google-auth compares it with a naive time in UTC.
        ends, zone = self._last.expires_at, datetime.timezone.utc
        self.expiry = None if ends is None else datetime.datetime.fromtimestamp(ends, zone).replace(tzinfo=None)

    def __repr__(self) -> str:
        return f"<grantd credentials of {self._source.account!r}>"
