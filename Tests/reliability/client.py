"""A client of the daemon's socket."""

import asyncio
import contextlib
import json

LINE_BYTES = 16 << 20


class Gone(Exception):
    """The daemon hung up, or there is none."""


class Refused(Exception):
    """The daemon's error answer."""

    def __init__(self, error):
        self.data = error.get("data") or {}
        self.reason, self.detail = self.data.get("reason"), self.data.get("detail")
        super().__init__(f"{self.reason or error.get('code')}: {error.get('message')}")


class Client:
    """One connection to the daemon's socket; calls may be made at once."""

    def __init__(self, reader, writer):
        self.writer, self.waiting, self.last, self.events = writer, {}, 0, []
        self.reading = asyncio.create_task(self.read(reader))

    @classmethod
    async def connect(cls, path):
        try:
            return cls(*await asyncio.open_unix_connection(str(path), limit=LINE_BYTES))
        except OSError as error:
            raise Gone(str(error)) from error

    async def read(self, reader):
        with contextlib.suppress(OSError, ValueError):
            while line := await reader.readline():
                answer = json.loads(line)
                if answer.get("method") == "event":
                    self.events.append(answer["params"])
                waiter = self.waiting.pop(answer.get("id"), None)
                if waiter and not waiter.done():
                    waiter.set_result(answer)
        waiting, self.waiting = self.waiting, None
        for waiter in waiting.values():
            if not waiter.done():
                waiter.set_exception(Gone())
                # Whoever waited may be gone too.
                waiter.exception()

    async def call(self, method, /, within=40.0, **params):
        """The result; TimeoutError where there is no answer within that time."""
        if self.waiting is None:
            raise Gone()
        self.last += 1
        identifier, waiter = self.last, asyncio.get_running_loop().create_future()
        self.waiting[identifier] = waiter
        request = {"jsonrpc": "2.0", "id": identifier, "method": method, "params": params}
        try:
            async with asyncio.timeout(within):
                self.writer.write(json.dumps(request).encode() + b"\n")
                await self.writer.drain()
                answer = await waiter
        except TimeoutError:
            raise
        except OSError as error:
            raise Gone() from error
        finally:
            if self.waiting:
                self.waiting.pop(identifier, None)
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["result"]

    def close(self):
        self.reading.cancel()
        self.writer.close()
