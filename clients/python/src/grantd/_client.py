"""The blocking client: one kept connection, for all threads, also after a fork."""

from __future__ import annotations

import os
from _thread import allocate_lock
from _weakref import ref

from . import _core
from ._channel import Channel, Unsent
from ._core import Request
from ._error import GrantdError
from ._place import Place
from ._token import Token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Type

    from ._core import Exchange, Result
    from .types import AccountView, Destination, Event, LoginWaitResult


def _events(channel: Channel) -> Iterator[Event]:
    try:
        while True:
            yield channel.event()  # type: ignore[misc]
    finally:
        channel.close()


# `_weakref` instead of `weakref`, whose import takes longer than everything else here.
clients: List[ref[Client]] = []


class Client:
    """A client of the broker, for all threads of the process. It keeps one connection, which opens with the first call.

    :param socket: path of the broker's socket; None: GRANTD_SOCKET, then the user's broker, then the system's.
    """

    def __init__(self, socket: Optional[str] = None) -> None:
        self._socket = socket
        self._forget()
        clients.append(ref(self, clients.remove))

    def _forget(self) -> None:
        """Also in the child after a fork: its parent uses the connection and may have held the lock."""
        self._lock = allocate_lock()
        self._channel: Optional[Channel] = None

    # ---- methods

    def token(
            self, account: str, scopes: Optional[Sequence[str]] = None, *, resource: Optional[str] = None,
            min_ttl: Optional[float] = None, timeout: Optional[float] = None) -> Token:
        """An access token that is valid now; the broker refreshes it first if necessary.

        :param scopes: the scopes of the token, if fewer than granted (RFC 6749 §6).
        :param resource: the resource that the token is for (RFC 8707).
        :param min_ttl: seconds that the token must still be valid.
        :param timeout: seconds to wait for a refresh; 30 by default, at most 300.
        :raises LoginRequired: the user must sign in again; `hint` has the command.
        :raises TemporarilyUnavailable: the provider does not answer; the broker tries again.
        :raises NotRunning: no broker listens.
        """
        return Token(self._result(_core.token(account, scopes, resource, min_ttl, timeout)))

    def report_rejected(self, account: str, generation: int, *, timeout: Optional[float] = None) -> int:
        """Reports that a server answered 401 to the token of that generation. Returns the generation of the current
        token. Report a generation once, then call `token` again."""
        return self._run(_core.report_rejected(account, generation, timeout))

    def accounts(self) -> List[AccountView]:
        """All accounts that this process may see."""
        return self._run(_core.accounts())

    def call(self, method: str, params: Optional[Dict[str, Any]] = None, *, timeout: Optional[float] = None) -> Any:
        """Any method of docs/rpc.md. After a lost connection it is called again only if that is harmless."""
        return self._run(_core.call(method, params or {}, timeout))

    def login(
            self, provider: str, account: Optional[str] = None, *, show: Callable[[List[Destination]], None],
            **params: Any) -> LoginWaitResult:
        """Signs a user in. `show` gets the places to sign in, to print or open the first `url`. Returns when the login
        is completed, or with the state `action_required`. An expired, cancelled or denied login is an error."""
        result: LoginWaitResult = self._run(_core.login(provider, account, show, params))
        return result

    def events(self, types: Optional[Sequence[str]] = None) -> Iterator[Event]:
        """Events from now on, without an end; on a separate connection, which is subscribed when this returns. The iterator
        raises Disconnected or ShuttingDown when the broker ends: subscribe again, and look at `accounts()` for what happened
        in between."""
        channel = Channel(Place(self._socket))
        try:
            _core.outcome(channel.exchange(_core.subscription(types)))
        except BaseException as error:
            channel.close()
            if isinstance(error, Unsent):
                raise _core.disconnected() from None
            raise
        return _events(channel)

    def close(self) -> None:
        """Closes the connection. The next call opens another."""
        with self._lock:
            channel, self._channel = self._channel, None
        if channel:
            channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
            self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
            traceback: Optional[TracebackType]) -> None:
        self.close()

    # ---- exchanges

    def _run(self, exchange: Exchange[Result]) -> Result:
        try:
            request = next(exchange)
            while True:
                request = exchange.send(self._result(request))
        except StopIteration as end:
            result: Result = end.value
            return result

    def _result(self, request: Request) -> Any:
        channel = self._open()
        try:
            return _core.outcome(channel.exchange(request))
        except Unsent:
            pass
        except GrantdError as error:
            if not request.is_worth_another(error):
                raise
        with self._lock:
            # Requests of other threads on it may still be answered.
            if self._channel is channel:
                self._channel = None
        try:
            return _core.outcome(self._open().exchange(request))
        except Unsent:
            raise _core.disconnected() from None

    def _open(self) -> Channel:
        channel = self._channel
        if channel is None or channel.is_closed:
            with self._lock:
                channel = self._channel
                if channel is None or channel.is_closed:
                    channel = self._channel = Channel(Place(self._socket))
        return channel


def forget_all() -> None:
    for one in list(clients):
        client = one()
        if client is None:
            continue
        channel = client._channel
        client._forget()
        if channel:
            # Only this process's descriptor: the parent's connection stays open.
            channel.socket.close()


os.register_at_fork(after_in_child=forget_all)
