"""The blocking client: one kept connection, for all threads, also after a fork."""

from __future__ import annotations

import _socket
import os
import struct
import time
from _thread import LockType, allocate_lock
from _weakref import ref

from . import _core
from ._core import Frames, Request
from ._error import GrantdError
from ._place import CONNECT_SECONDS, Place, timeval
from ._token import Token
from .errors import BadAnswer, Overloaded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Type

    from ._core import Exchange, Result
    from .types import AccountView, Destination, Event, LoginWaitResult


class Unsent(Exception):
    """The connection had ended before the request: the broker has not seen it."""


class Waiter:
    """A request without an answer."""

    __slots__ = ("answer", "error", "wake")

    def __init__(self) -> None:
        self.answer: Optional[Dict[str, Any]] = None
        self.error: Optional[GrantdError] = None
        # Held while the thread waits; None for the thread that reads.
        self.wake: Optional[LockType] = None


class Channel:
    """A connection that several threads use. One of the threads that wait reads for all; when it has its own answer,
    it passes the reading to another."""

    def __init__(self, place: Place) -> None:
        self.socket = place.connect()
        self.lock = allocate_lock()
        self.waiting: Dict[int, Waiter] = {}
        self.reader: Optional[Waiter] = None
        self.frames, self.last, self.limit, self.is_closed = Frames(), 0, CONNECT_SECONDS, False
        self.events: List[Dict[str, Any]] = []
        self.is_endless = False

    def exchange(self, request: Request) -> Dict[str, Any]:
        end = time.monotonic() + request.seconds
        waiter = Waiter()
        with self.lock:
            if self.is_closed:
                raise Unsent
            if len(self.waiting) >= _core.MOST_WAITING:
                raise Overloaded("too many requests of this process wait", "overloaded", "Use fewer threads.")
            self.last = identifier = self.last + 1
            self.waiting[identifier] = waiter
            try:
                if self.reader is None:
                    self.reader = waiter
                else:
                    waiter.wake = allocate_lock()
                    waiter.wake.acquire()
                self.send(request.line(identifier))
            except BaseException as error:
                # Half of the line may have been sent.
                self.fail(error)
                if isinstance(error, BrokenPipeError):
                    raise Unsent from None
                if isinstance(error, OSError):
                    raise _core.disconnected() from None
                raise
        try:
            self.wait(waiter, end)
        except BaseException:
            with self.lock:
                self.waiting.pop(identifier, None)
                self.pass_on(waiter)
            raise
        if waiter.error:
            raise waiter.error
        assert waiter.answer is not None
        return waiter.answer

    def send(self, line: bytes) -> None:
        sent = self.socket.send(line)
        while sent < len(line):
            try:
                sent += self.socket.send(line[sent:])
            except OSError:
                raise _core.disconnected() from None

    def wait(self, waiter: Waiter, end: float) -> None:
        """Until it has an answer or an error."""
        while waiter.answer is None and waiter.error is None:
            left = end - time.monotonic()
            if self.reader is waiter:
                self.read(waiter, left)
            elif waiter.wake is None or left <= 0 or not waiter.wake.acquire(timeout=left):
                raise _core.late()

    def read(self, waiter: Waiter, left: float) -> None:
        try:
            data = self.receive(left)
            messages = self.frames.feed(data)
            with self.lock:
                for message in messages:
                    self.deliver(message)
                if waiter.answer is not None:
                    self.pass_on(waiter)
        except BaseException as error:
            # An interrupted thread may have lost bytes: the connection ends, and the other threads ask again.
            with self.lock:
                self.fail(error)
                waiter.error = None
            if isinstance(error, OSError):
                raise _core.disconnected() from None
            raise

    def deliver(self, message: Dict[str, Any]) -> None:
        identifier = message.get("id")
        found = self.waiting.pop(identifier, None) if type(identifier) is int else None
        # Late answers, and notifications of a newer broker, have no waiter.
        if found:
            found.answer = message
            if found.wake and found is not self.reader:
                found.wake.release()
        elif event := _core.event(message):
            self.events.append(event)

    def event(self) -> Dict[str, Any]:
        """The next event. No other thread uses this connection."""
        if not self.is_endless:
            # Events may come after any time.
            self.socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_RCVTIMEO, bytes(struct.calcsize("ll")))
            self.is_endless = True
        while not self.events:
            try:
                data = self.socket.recv(_core.READ_BYTES)
            except OSError:
                data = b""
            if not data:
                raise _core.disconnected()
            for message in self.frames.feed(data):
                self.deliver(message)
        return self.events.pop(0)

    def receive(self, left: float) -> bytes:
        limit = max(left, 0.001)
        if abs(limit - self.limit) > 0.05:
            self.limit = limit
            self.socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_RCVTIMEO, timeval(limit))
        try:
            data = self.socket.recv(_core.READ_BYTES)
        except BlockingIOError:
            raise _core.late() from None
        if not data:
            raise _core.disconnected()
        return data

    def pass_on(self, waiter: Waiter) -> None:
        """Another thread reads from now on."""
        if self.reader is not waiter:
            return
        self.reader = next(iter(self.waiting.values()), None)
        if self.reader and self.reader.wake:
            self.reader.wake.release()

    def fail(self, error: BaseException) -> None:
        """The connection is of no use any more."""
        self.is_closed = True
        self.socket.close()
        waiting, self.waiting, self.reader = self.waiting, {}, None
        for one in waiting.values():
            # Each thread gets an error of its own: a traceback belongs to one thread.
            one.error = _core.bad("is not valid") if isinstance(error, BadAnswer) else _core.disconnected()
            if one.wake:
                one.wake.release()

    def close(self) -> None:
        with self.lock:
            if not self.is_closed:
                self.fail(_core.disconnected())

    def __del__(self) -> None:
        # A connection that was replaced, after its last answer.
        if hasattr(self, "socket"):
            self.socket.close()


def _events(channel: Channel) -> Iterator[Event]:
    try:
        while True:
            yield channel.event()  # type: ignore[misc]
    finally:
        channel.close()


# `_thread` and `_weakref` instead of `threading` and `weakref`, whose imports take longer than everything else here.
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
