"""Clients of the daemon's socket."""

import asyncio
import contextlib
import json
import socket

from .errors import Gone, NoAnswer, Refused

ANSWER_SECONDS = 60
CALL_SECONDS = 60
LINE_BYTES = 16 << 20
READ_BYTES = 1 << 16


def message(method, params=None, id=None):
    made = {"jsonrpc": "2.0", "method": method}
    made |= {} if params is None else {"params": params}
    return made | ({} if id is None else {"id": id})


def line(message):
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def result(answer):
    if "error" in answer:
        raise Refused(answer["error"])
    return answer["result"]


class Connection:
    """Bytes one way, a line of JSON at a time the other way."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, path):
        async with asyncio.timeout(ANSWER_SECONDS):
            return cls(*await asyncio.open_unix_connection(str(path), limit=LINE_BYTES))

    async def send(self, *payloads):
        self.writer.write(b"".join(payloads))
        async with asyncio.timeout(ANSWER_SECONDS):
            await self.writer.drain()

    async def answer(self, seconds=ANSWER_SECONDS):
        async with asyncio.timeout(seconds):
            text = await self.reader.readline()
        if not text.endswith(b"\n"):
            raise Gone(f"the daemon closed the connection: {text[:200]!r}")
        return json.loads(text)

    def close(self):
        self.writer.close()

    def abort(self):
        self.writer.transport.abort()


class Client(Connection):
    """One connection; calls may be made at once."""

    def __init__(self, reader, writer):
        super().__init__(reader, writer)
        self.waiting, self.last, self.events = {}, 0, []
        self.reading = asyncio.create_task(self.read())

    @classmethod
    async def connect(cls, path):
        try:
            return await cls.open(path)
        except OSError as error:
            raise Gone(str(error)) from error

    async def read(self):
        with contextlib.suppress(Gone, OSError, ValueError):
            while True:
                answer = await self.answer(None)
                if answer.get("method") == "event":
                    self.events.append(answer["params"])
                waiter = self.waiting.pop(answer.get("id"), None)
                if waiter and not waiter.done():
                    waiter.set_result(answer)
        waiting, self.waiting = self.waiting, None
        for waiter in waiting.values():
            if not waiter.done():
                waiter.set_exception(Gone())
                # The caller may be gone too; then asyncio would log that nobody read the exception.
                waiter.exception()

    async def call(self, method, /, within=CALL_SECONDS, **params):
        """The result."""
        if self.waiting is None:
            raise Gone()
        self.last += 1
        identifier, waiter = self.last, asyncio.get_running_loop().create_future()
        self.waiting[identifier] = waiter
        try:
            async with asyncio.timeout(within):
                await self.send(line(message(method, params, identifier)))
                return result(await waiter)
        except TimeoutError as error:
            raise NoAnswer(f"{method} has no answer after {within:g} s") from error
        except OSError as error:
            raise Gone(str(error)) from error
        finally:
            if self.waiting:
                self.waiting.pop(identifier, None)

    def close(self):
        self.reading.cancel()
        super().close()


class BlockingClient:
    """One connection, one call at a time, without an event loop. Errors of the socket are OSError."""

    def __init__(self, path, seconds=ANSWER_SECONDS):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(seconds)
        self.socket.connect(str(path))
        self.file = self.socket.makefile("rb", READ_BYTES)

    def send(self, method, /, **params):
        self.socket.sendall(line(message(method, params, 1)))

    def line(self):
        text = self.file.readline()
        if not text.endswith(b"\n"):
            raise Gone("the daemon closed the connection")
        return text

    def result(self):
        return result(json.loads(self.line()))

    def call(self, method, /, **params):
        self.send(method, **params)
        return self.result()

    def close(self):
        self.file.close()
        self.socket.close()
