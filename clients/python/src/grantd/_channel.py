"""A connection that several threads use."""

from __future__ import annotations

# `_socket` and `_thread` instead of `socket` and `threading`, whose imports take longer than everything else here.
import _socket
import struct
import time
from _thread import LockType, allocate_lock

from . import _core
from ._core import Frames, Request
from ._place import CONNECT_SECONDS, Place, timeval
from .errors import BadAnswer, Overloaded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Container, Dict, List, Optional


class Unsent(Exception):
    """The connection had ended before the request: the broker has not seen it."""


class Waiter:
    """A request without an answer."""

    __slots__ = ("answer", "error", "wake")

    def __init__(self) -> None:
        self.answer: Optional[Dict[str, Any]] = None
        self.error: Optional[Exception] = None
        # Held while the thread waits; None for a thread that has never waited for another.
        self.wake: Optional[LockType] = None

    def end_wait(self) -> None:
        """By a thread with the channel's lock."""
        if self.wake and self.wake.locked():
            self.wake.release()


class Channel:
    """A connection that several threads use. One of the threads that wait reads for all; when it has its own answer,
    it passes the reading to another. One sends, also the lines of threads that come during that time: threads that wait for
    each other's `send` would take turns at the interpreter."""

    def __init__(self, place: Place) -> None:
        self.socket = place.connect()
        self.lock = allocate_lock()
        self.waiting: Dict[int, Waiter] = {}
        self.reader: Optional[Waiter] = None
        self.sender: Optional[Waiter] = None
        # Lines for the one that sends, by the number of the request.
        self.queued: Dict[int, bytes] = {}
        self.frames, self.last, self.limit, self.is_closed = Frames(), 0, CONNECT_SECONDS, False
        self.events: List[Dict[str, Any]] = []
        self.is_endless = False

    def exchange(self, request: Request) -> Dict[str, Any]:
        end = time.monotonic() + request.seconds
        waiter, identifier, line = Waiter(), 0, b""
        try:
            with self.lock:
                if self.is_closed:
                    raise Unsent
                if len(self.waiting) >= _core.MOST_WAITING:
                    raise Overloaded("too many requests of this process wait", "overloaded", "Use fewer threads.")
                self.last = identifier = self.last + 1
                line = request.line(identifier)
                self.waiting[identifier] = waiter
                if self.reader is None:
                    self.reader = waiter
                if self.sender is None:
                    self.sender = waiter
                else:
                    self.queued[identifier], line = line, b""
                if self.reader is not waiter:
                    waiter.wake = allocate_lock()
                    waiter.wake.acquire()
            if line:
                self.send(waiter, {identifier: line})
            self.wait(waiter, end)
        except BaseException as error:
            with self.lock:
                if self.sender is waiter:
                    # Half of a line may have been sent.
                    self.fail(error)
                self.waiting.pop(identifier, None)
                self.queued.pop(identifier, None)
                self.pass_on(waiter)
            raise
        if waiter.error:
            raise waiter.error
        assert waiter.answer is not None
        return waiter.answer

    def send(self, waiter: Waiter, lines: Dict[int, bytes]) -> None:
        """These lines, and those that come in the meantime."""
        while lines:
            data = b"".join(lines.values())
            sent = 0
            try:
                while sent < len(data):
                    sent += self.socket.send(data[sent:] if sent else data)
            except OSError as error:
                with self.lock:
                    # The broker has seen no line that the connection did not take.
                    self.fail(error, lines if isinstance(error, BrokenPipeError) and not sent else ())
                return
            with self.lock:
                lines = self.take_lines(waiter)

    def take_lines(self, waiter: Waiter) -> Dict[int, bytes]:
        """The lines that the thread sends next. If it has its answer, or reads, another thread sends them."""
        lines = self.queued
        if lines and (waiter.answer is not None or self.reader is waiter):
            for one in map(self.waiting.__getitem__, lines):
                # The thread that reads is not woken.
                if one is not self.reader:
                    self.sender = one
                    one.end_wait()
                    return {}
        if lines:
            self.queued = {}
        else:
            self.sender = None
        return lines

    def wait(self, waiter: Waiter, end: float) -> None:
        """Until it has an answer or an error."""
        while waiter.answer is None and waiter.error is None:
            left = end - time.monotonic()
            if self.sender is waiter:
                with self.lock:
                    lines = self.take_lines(waiter)
                self.send(waiter, lines)
            elif self.reader is waiter:
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
            if found is not self.reader:
                found.end_wait()
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
        if self.reader:
            self.reader.end_wait()

    def fail(self, error: BaseException, unsent: Container[int] = ()) -> None:
        """The connection is of no use any more."""
        self.is_closed = True
        self.socket.close()
        waiting, queued, self.waiting, self.queued, self.reader, self.sender = self.waiting, self.queued, {}, {}, None, None
        for identifier, one in waiting.items():
            # Each thread gets an error of its own: a traceback belongs to one thread.
            if identifier in queued or identifier in unsent:
                one.error = Unsent()
            else:
                one.error = _core.bad("is not valid") if isinstance(error, BadAnswer) else _core.disconnected()
            one.end_wait()

    def close(self) -> None:
        with self.lock:
            if not self.is_closed:
                self.fail(_core.disconnected())

    def __del__(self) -> None:
        # A connection that was replaced, after its last answer.
        if hasattr(self, "socket"):
            self.socket.close()
