"""Clients that are slow, silent, half there or too loud, one connection at a time. What they do must cost nobody else
anything."""

import asyncio
import random
import socket

from grantd_testing import Gone, Refused
from soak.plan import CALM, IDLE_SECONDS, clock, pause
from soak.wire import Wire, request

LINE_LIMIT = 256 * 1024
# The broker's own time-out, and how late it may be: its ticks, and a machine that has much to do.
PARTIAL_LINE_SECONDS, LATE_SECONDS = 30, 30
BYTE_PAUSE = 0.005
SMALL_BUFFER = 4096


class Hostile:
    """What one kind of client needs."""

    def __init__(self, judge, number):
        self.judge, self.plan, self.shared = judge, judge.plan, judge.shared
        self.random = random.Random(f"{self.plan.seed}/hostile/{number}")
        self.account = self.random.choice([one for one in self.plan.accounts if one.provider == CALM]).name

    async def run(self):
        while not self.shared.over.is_set():
            since = clock()
            try:
                await self.turn()
                self.judge.count(f"{self.name}: turns")
            except Refused:
                self.judge.count("connections refused")
                if not self.shared.is_storm(since):
                    self.judge.fail("a connection was refused", f"{self.name}, and there was no storm")
                await pause(self.shared, 0.5)
            except (Gone, ConnectionError, TimeoutError) as error:
                if not self.shared.is_storm(since):
                    self.judge.fail(f"{self.name}: cut off", repr(error))
                await pause(self.shared, 0.5)

    async def checked(self, wire):
        """A good request on this connection gets a good answer."""
        asked = self.judge.asks(self.account)
        self.judge.token(self.account, await wire.ask("token.get", account=self.account), asked)

    def line(self, id=1):
        return request("token.get", {"account": self.account}, id)

    async def closed_by_broker(self, wire, seconds):
        """Waits until the broker hangs up, whatever it says before."""
        end = clock() + seconds
        while not self.shared.over.is_set():
            try:
                async with asyncio.timeout(1):
                    if not await wire.reader.read(65536):
                        return
            except TimeoutError:
                if clock() > end:
                    self.judge.fail(f"{self.name}: still connected", f"after {seconds} s")
                    return


class SlowWriter(Hostile):
    name = "writes a byte at a time"

    async def turn(self):
        wire = await Wire.open(self.plan.socket)
        try:
            asked = self.judge.asks(self.account)
            for byte in self.line():
                await wire.send(bytes([byte]))
                await asyncio.sleep(BYTE_PAUSE)
            self.judge.token(self.account, await wire.answer(), asked)
        finally:
            wire.close()


class EndlessLine(Hostile):
    name = "never ends its line"

    async def turn(self):
        wire = await Wire.open(self.plan.socket)
        try:
            await wire.send(self.line()[: self.random.randint(1, 40)])
            if self.random.random() < 0.5:
                await self.closed_by_broker(wire, PARTIAL_LINE_SECONDS + LATE_SECONDS)
            else:
                await pause(self.shared, self.random.uniform(0, 3))
        finally:
            self.random.choice((wire.close, wire.abort))()


class SlowReader(Hostile):
    """Asks for far more than it reads."""

    name = "reads a byte at a time"

    async def turn(self):
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX) as wire:
            wire.setblocking(False)
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
            await loop.sock_connect(wire, self.plan.socket)
            sending = asyncio.create_task(loop.sock_sendall(wire, b"".join(self.questions())))
            try:
                await self.read(loop, wire)
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)

    def questions(self):
        for number in range(200):
            yield request("rpc.discover", {}, number)
            yield self.line(number)

    async def read(self, loop, wire):
        seen, end = b"", clock() + self.random.uniform(2, 10)
        while clock() < end and not self.shared.over.is_set():
            async with asyncio.timeout(LATE_SECONDS):
                seen += await loop.sock_recv(wire, 1)
            await asyncio.sleep(BYTE_PAUSE)
        if seen and not seen.startswith(b"{"):
            self.judge.fail("a slow reader read no answer", seen)
        elif b"too many connections" in seen:
            raise Refused


class Silent(Hostile):
    name = "says nothing"

    async def turn(self):
        wire = await Wire.open(self.plan.socket)
        try:
            if self.random.random() < 0.5:
                await self.closed_by_broker(wire, IDLE_SECONDS + LATE_SECONDS)
            else:
                await pause(self.shared, self.random.uniform(0, IDLE_SECONDS / 2))
        finally:
            self.random.choice((wire.close, wire.abort))()


class HalfClosed(Hostile):
    name = "stops writing and waits for its answers"

    async def turn(self):
        wire = await Wire.open(self.plan.socket)
        try:
            count = self.random.randint(1, 40)
            asked = self.judge.asks(self.account)
            payload = b"".join(self.line(number) for number in range(count))
            # The last line counts without its newline too.
            await wire.send(payload if self.random.random() < 0.5 else payload[:-1])
            wire.writer.write_eof()
            for _ in range(count):
                self.judge.token(self.account, await wire.answer(), asked)
            if await wire.reader.read(1):
                self.judge.fail("more answers than requests", self.name)
        finally:
            wire.close()
        await pause(self.shared, 0.2)


class Leaver(Hostile):
    name = "leaves without reading"

    async def turn(self):
        wire = await Wire.open(self.plan.socket)
        for number in range(self.random.randint(1, 60)):
            others = self.random.choice(self.plan.accounts).name
            params = {"account": others, "min_ttl": 10**6 if self.random.random() < 0.02 else 1}
            await wire.send(request("token.get", params, number))
        if self.random.random() < 0.5:
            await asyncio.sleep(self.random.uniform(0, 0.05))
        self.random.choice((wire.close, wire.abort))()
        await pause(self.shared, 0.3)


class TooLong(Hostile):
    name = "sends lines that are too long"

    async def turn(self):
        wire = await Wire.open(self.plan.socket)
        try:
            size = LINE_LIMIT + self.random.choice((0, 1, 50_000, 1_000_000))
            is_first = self.random.random() < 0.5
            if not is_first:
                await self.checked(wire)
            await wire.send(b'{"jsonrpc":"' + b"x" * size, b'"}\n')
            self.judge.error(await wire.answer(), -32600, "a line that is too long")
            if is_first:
                # It may be another protocol's: nothing that comes behind it is taken.
                await self.closed_by_broker(wire, LATE_SECONDS)
                return
            await self.checked(wire)
            # Just short enough: a good request with a great deal of white space.
            line = self.line()
            asked = self.judge.asks(self.account)
            await wire.send(b" " * (LINE_LIMIT - 1 - len(line)) + line)
            self.judge.token(self.account, await wire.answer(), asked)
        finally:
            wire.close()
        await pause(self.shared, 2)
