"""Tokens from grantd, the local OAuth broker.

    import grantd
    headers = {"Authorization": grantd.token("work").authorization}

`Client` and `AsyncClient` keep one connection; `grantd.adapters` has the credentials of other libraries. The behaviour of
all libraries is described in docs/libraries.md. Ask for the token before each use: the broker answers from memory, and a
stored token does not follow a changed policy.
"""

from __future__ import annotations

from ._client import Client
from ._error import GrantdError
from ._token import Token
from .errors import VERSION as __version__
from .errors import (
    BadAnswer, Disconnected, ForeignServer, LoginRequired, NotPermitted, NotRunning, TemporarilyUnavailable, TimedOut,
    UnknownAccount)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, List, Optional, Sequence

    from ._aio import AsyncClient
    from .types import Destination, Event, LoginWaitResult

__all__ = [
    "AsyncClient", "BadAnswer", "Client", "Disconnected", "ForeignServer", "GrantdError", "LoginRequired", "NotPermitted",
    "NotRunning", "TemporarilyUnavailable", "TimedOut", "Token", "UnknownAccount", "__version__", "events", "login",
    "report_rejected", "token"]

#: The client of the functions below.
_shared = Client()


def token(
        account: str, scopes: Optional[Sequence[str]] = None, *, resource: Optional[str] = None,
        min_ttl: Optional[float] = None, timeout: Optional[float] = None) -> Token:
    """An access token that is valid now: `Client.token`."""
    return _shared.token(account, scopes, resource=resource, min_ttl=min_ttl, timeout=timeout)


def report_rejected(account: str, generation: int, *, timeout: Optional[float] = None) -> int:
    """Reports a 401: `Client.report_rejected`."""
    return _shared.report_rejected(account, generation, timeout=timeout)


def events(types: Optional[Sequence[str]] = None) -> Iterator[Event]:
    """Events from now on: `Client.events`."""
    return _shared.events(types)


def login(
        provider: str, account: Optional[str] = None, *, show: Callable[[List[Destination]], None],
        **params: Any) -> LoginWaitResult:
    """Signs a user in: `Client.login`."""
    return _shared.login(provider, account, show=show, **params)


def __getattr__(name: str) -> Any:
    # asyncio takes longer to import than everything else.
    if name == "AsyncClient":
        from ._aio import AsyncClient
        return AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
