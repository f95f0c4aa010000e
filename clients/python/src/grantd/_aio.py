"""The asyncio client: one kept connection, for all tasks of an event loop."""

from __future__ import annotations

import asyncio
import os
from typing import Any, AsyncIterator, Callable, Dict, List, Optional, Sequence, Type

from . import _core
from ._channel import Unsent
from ._core import Frames, Request
from ._error import GrantdError
from ._place import CONNECT_SECONDS, PAUSE_SECONDS, Place
from ._token import Token
from .errors import Overloaded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from ._core import Exchange, Result
    from .types import AccountView, Destination, Event, LoginWaitResult

# Events that the program has not taken. The connection ends if there are more.
MOST_EVENTS = 10_000


class Channel(asyncio.Protocol):
    """A connection that several tasks use."""

    def __init__(self) -> None:
        self.frames, self.last, self.is_closed, self.pid = Frames(), 0, False, os.getpid()
        self.waiting: Dict[int, asyncio.Future[Dict[str, Any]]] = {}
        self.events: Optional[asyncio.Queue[Optional[Dict[str, Any]]]] = None
        self.is_replaced = False
        self.transport: Optional[asyncio.Transport] = None

    @classmethod
    async def open(cls, place: Place) -> Channel:
        loop = asyncio.get_running_loop()
        end = loop.time() + CONNECT_SECONDS
        while True:
            try:
                made = place.connect(nonblocking=True)
                break
            except BlockingIOError as error:
                if loop.time() > end:
                    raise place.failure(error) from None
                await asyncio.sleep(PAUSE_SECONDS)
        import socket
        # asyncio accepts only the class of the module `socket`.
        stream = socket.socket(fileno=made.detach())
        _, channel = await loop.create_unix_connection(cls, sock=stream)
        return channel

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, error: Optional[Exception]) -> None:
        self.fail(_core.disconnected)

    def data_received(self, data: bytes) -> None:
        try:
            messages = self.frames.feed(data)
        except GrantdError:
            self.fail(lambda: _core.bad("is not valid"))
            return
        for message in messages:
            identifier = message.get("id")
            found = self.waiting.pop(identifier, None) if type(identifier) is int else None
            if found and not found.done():
                found.set_result(message)
            elif self.events and (event := _core.event(message)):
                if self.events.full():
                    self.fail(_core.disconnected)
                    return
                self.events.put_nowait(event)

    def fail(self, error: Callable[[], Exception]) -> None:
        self.is_closed = True
        if self.transport:
            self.transport.abort()
        waiting, self.waiting = self.waiting, {}
        for one in waiting.values():
            if not one.done():
                one.set_exception(error())
        if self.events and not self.events.full():
            self.events.put_nowait(None)

    @property
    def is_usable(self) -> bool:
        """Also before the loop has noticed the end of the connection: asyncio logs what is written later."""
        return not self.is_closed and self.transport is not None and not self.transport.is_closing()

    async def exchange(self, request: Request) -> Dict[str, Any]:
        transport = self.transport
        if transport is None or not self.is_usable:
            raise Unsent
        if len(self.waiting) >= _core.MOST_WAITING:
            raise Overloaded("too many requests of this process wait", "overloaded", "Use fewer tasks.")
        self.last = identifier = self.last + 1
        answer: asyncio.Future[Dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.waiting[identifier] = answer
        try:
            transport.write(request.line(identifier))
            if transport.is_closing():
                raise Unsent
            return await asyncio.wait_for(answer, request.seconds)
        except asyncio.TimeoutError:
            # The broker ends each request by itself: this connection is of no use any more.
            self.waiting.pop(identifier, None)
            self.fail(_core.disconnected)
            raise _core.late() from None
        finally:
            # A cancelled task only stops to wait; its answer has no waiter when it comes.
            self.waiting.pop(identifier, None)
            if self.is_replaced:
                self.replace()

    def replace(self) -> None:
        """New requests use another connection; this one ends after its last answer."""
        self.is_replaced = True
        if not self.waiting and not self.is_closed:
            self.fail(_core.disconnected)


class AsyncClient:
    """A client for asyncio. It belongs to one event loop and keeps one connection, which opens with the first call.
    The methods are those of `Client`."""

    def __init__(self, socket: Optional[str] = None) -> None:
        self._socket = socket
        self._channel: Optional[Channel] = None
        self._opening: Optional[asyncio.Task[Channel]] = None

    async def token(
            self, account: str, scopes: Optional[Sequence[str]] = None, *, resource: Optional[str] = None,
            min_ttl: Optional[float] = None, timeout: Optional[float] = None) -> Token:
        """As `Client.token`."""
        return Token(await self._result(_core.token(account, scopes, resource, min_ttl, timeout)))

    async def report_rejected(self, account: str, generation: int, *, timeout: Optional[float] = None) -> int:
        """As `Client.report_rejected`."""
        return await self._run(_core.report_rejected(account, generation, timeout))

    async def accounts(self) -> List[AccountView]:
        """As `Client.accounts`."""
        return await self._run(_core.accounts())

    async def call(self, method: str, params: Optional[Dict[str, Any]] = None, *, timeout: Optional[float] = None) -> Any:
        """As `Client.call`."""
        return await self._run(_core.call(method, params or {}, timeout))

    async def login(
            self, provider: str, account: Optional[str] = None, *, show: Callable[[List[Destination]], None],
            **params: Any) -> LoginWaitResult:
        """As `Client.login`."""
        return await self._run(_core.login(provider, account, show, params))

    async def events(self, types: Optional[Sequence[str]] = None) -> AsyncIterator[Event]:
        """As `Client.events`; the subscription begins with the first step."""
        channel = await Channel.open(Place(self._socket))
        queue: asyncio.Queue[Optional[Dict[str, Any]]] = asyncio.Queue(MOST_EVENTS)
        channel.events = queue
        try:
            try:
                _core.outcome(await channel.exchange(_core.subscription(types)))
            except Unsent:
                raise _core.disconnected() from None
            while True:
                event = None if channel.is_closed and queue.empty() else await queue.get()
                if event is None:
                    raise _core.disconnected()
                yield event  # type: ignore[misc]
        finally:
            channel.fail(_core.disconnected)

    async def close(self) -> None:
        """Closes the connection. The next call opens another."""
        channel, self._channel = self._channel, None
        if channel:
            channel.fail(_core.disconnected)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
            self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
            traceback: Optional[TracebackType]) -> None:
        await self.close()

    async def _run(self, exchange: Exchange[Result]) -> Result:
        try:
            request = next(exchange)
            while True:
                request = exchange.send(await self._result(request))
        except StopIteration as end:
            result: Result = end.value
            return result

    async def _result(self, request: Request) -> Any:
        channel = await self._open()
        try:
            return _core.outcome(await channel.exchange(request))
        except Unsent:
            pass
        except GrantdError as error:
            if not request.is_worth_another(error):
                raise
        if self._channel is channel:
            self._channel = None
        channel.replace()
        try:
            return _core.outcome(await (await self._open()).exchange(request))
        except Unsent:
            raise _core.disconnected() from None

    async def _open(self) -> Channel:
        channel = self._channel
        if channel and channel.is_usable and channel.pid == os.getpid():
            return channel
        # One connection for tasks that begin at once. A cancelled task does not end it for the others.
        if self._opening is None:
            self._opening = asyncio.create_task(Channel.open(Place(self._socket)))
        opening = self._opening
        try:
            self._channel = await asyncio.shield(opening)
        finally:
            if opening.done() and self._opening is opening:
                self._opening = None
        return self._channel
