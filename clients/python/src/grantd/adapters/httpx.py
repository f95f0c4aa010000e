"""Authentication for httpx, with a Client and with an AsyncClient.

    httpx.Client(auth=GrantdAuth("work"))
"""

from __future__ import annotations

from typing import AsyncGenerator, Generator, Optional, Sequence

import httpx

from .._aio import AsyncClient
from .._client import Client
from .._token import Token
from ._source import Source


class GrantdAuth(httpx.Auth):
    """Adds the token of an account. After 401 it reports the token and sends the request once more, if the body is in
    memory. `async_client` is used with `httpx.AsyncClient`; without it each GrantdAuth has its own."""

    def __init__(
            self, account: str, scopes: Optional[Sequence[str]] = None, *, resource: Optional[str] = None,
            client: Optional[Client] = None, async_client: Optional[AsyncClient] = None) -> None:
        self._source = Source(account, scopes, resource, client)
        self._async_client = async_client or AsyncClient()

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        token = self._source.token()
        request.headers.update(token.headers)
        response = yield request
        if is_refused(response, token) and is_in_memory(request):
            request.headers.update(self._source.after(token).headers)
            yield request

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        source = self._source
        token = await self._async_client.token(source.account, source.scopes, resource=source.resource)
        request.headers.update(token.headers)
        response = yield request
        if is_refused(response, token) and is_in_memory(request):
            await self._async_client.report_rejected(token.account, token.generation)
            token = await self._async_client.token(source.account, source.scopes, resource=source.resource)
            request.headers.update(token.headers)
            yield request


def is_refused(response: httpx.Response, token: Token) -> bool:
    """Not by another host after a redirect: httpx removed the token there."""
    sent = response.request.headers
    return response.status_code == 401 and all(sent.get(name) == value for name, value in token.headers.items())


def is_in_memory(request: httpx.Request) -> bool:
    try:
        request.content
    except httpx.RequestNotRead:
        return False
    return True
