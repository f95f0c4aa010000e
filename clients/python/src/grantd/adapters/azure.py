"""Credentials for the Azure SDK, blocking and with asyncio.

    BlobServiceClient(url, credential=GrantdCredential("work"))
"""

from __future__ import annotations

import time
from typing import Any, Optional, Sequence

from azure.core.credentials import AccessToken

from .._aio import AsyncClient
from .._client import Client
from .._token import Token
from ._source import Source

# Assumed for a token whose provider gives no lifetime.
LIFETIME_SECONDS = 300


def access(token: Token) -> AccessToken:
    ends = token.expires_at
    return AccessToken(token.access_token, int(time.time()) + LIFETIME_SECONDS if ends is None else ends)


class GrantdCredential:
    """A TokenCredential. The token has the scopes of the account or of `scopes`; the scopes that the SDK names are not
    requested. A claims challenge reports the token."""

    def __init__(
            self, account: str, scopes: Optional[Sequence[str]] = None, *, resource: Optional[str] = None,
            client: Optional[Client] = None) -> None:
        self._source = Source(account, scopes, resource, client)
        self._last: Optional[Token] = None

    def get_token(self, *scopes: str, claims: Optional[str] = None, **options: Any) -> AccessToken:
        if claims and self._last:
            self._last = self._source.after(self._last)
        else:
            self._last = self._source.token()
        return access(self._last)


class AsyncGrantdCredential:
    """An AsyncTokenCredential, otherwise as GrantdCredential."""

    def __init__(
            self, account: str, scopes: Optional[Sequence[str]] = None, *, resource: Optional[str] = None,
            client: Optional[AsyncClient] = None) -> None:
        self._account, self._scopes, self._resource = account, scopes, resource
        self._client, self._last = client or AsyncClient(), None  # type: AsyncClient, Optional[Token]

    async def get_token(self, *scopes: str, claims: Optional[str] = None, **options: Any) -> AccessToken:
        if claims and self._last:
            await self._client.report_rejected(self._last.account, self._last.generation)
        self._last = await self._client.token(self._account, self._scopes, resource=self._resource)
        return access(self._last)

    async def close(self) -> None:
        await self._client.close()

    async def __aenter__(self) -> AsyncGrantdCredential:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()
