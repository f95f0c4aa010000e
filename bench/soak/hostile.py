"""The clients that make trouble, all of them: the rude ones, those that listen or do not, and the storms."""

import asyncio
import json

from grantd_testing import Gone, Refused
from soak.judge import Judge
from soak.plan import CONNECTIONS_PER_USER, clock, pause
from soak.rude import EndlessLine, HalfClosed, Hostile, Leaver, Silent, SlowReader, SlowWriter, TooLong
from soak.wire import Wire

STORM_RATE, STORM_SECONDS = 400, 3
CROWD = CONNECTIONS_PER_USER + 100
CROWD_SECONDS = 1.0
LINGER_SECONDS = 5


class Listener(Hostile):
    """Reads events, as a program would."""

    name = "reads events"

    async def turn(self):
        wire = await Wire.open(self.plan.socket)
        try:
            await wire.ask("events.subscribe")
            newest = {}
            while not self.shared.over.is_set():
                try:
                    event = await wire.answer(seconds=1)
                except TimeoutError:
                    continue
                self.check(event, newest)
        finally:
            wire.close()

    def check(self, event, newest):
        params = event["params"]
        self.judge.count("events")
        if event["method"] != "event" or "access_token" in json.dumps(event):
            self.judge.fail("a notification is no event", event)
        if params["type"] == "token.refreshed" and not params["account"].startswith("guest"):
            if params["generation"] <= newest.get(params["account"], 0):
                self.judge.fail("an event is older than the one before", (event, newest))
            newest[params["account"]] = params["generation"]


class DeafListener(Hostile):
    name = "subscribes and stops reading"
    patience = (3, 20, 60)

    async def turn(self):
        wire = await Wire.open(self.plan.socket)
        try:
            await wire.ask("events.subscribe")
            wire.writer.transport.pause_reading()
            await pause(self.shared, self.random.choice(self.patience))
        finally:
            self.random.choice((wire.close, wire.abort))()


class ForgottenListener(DeafListener):
    """Until the broker closes the connection, and beyond."""

    name = "subscribes and never reads"
    patience = (3600,)


class Storm(Hostile):
    """Hundreds of new connections a second, and more at once than one user may have."""

    name = "comes as a storm"

    async def turn(self):
        await pause(self.shared, self.plan.storm_every)
        if self.shared.over.is_set():
            return
        # What a refused connection leaves behind is gone a little later.
        self.shared.storm(clock() + STORM_SECONDS + CROWD_SECONDS + 60)
        await self.rush()
        await self.crowd()
        self.shared.storm(clock() + LINGER_SECONDS)

    async def rush(self):
        end, visits = clock() + STORM_SECONDS, set()
        while clock() < end:
            visits.add(asyncio.create_task(self.visit()))
            await asyncio.sleep(1 / STORM_RATE)
        await asyncio.gather(*visits)

    async def visit(self):
        try:
            wire = await Wire.open(self.plan.socket)
        except BlockingIOError:
            # connect(2) of a Unix socket whose backlog is full.
            self.judge.count("storm: the backlog was full")
            return
        try:
            await self.checked(wire)
            self.judge.count("storm: visits")
        except (Refused, Gone, ConnectionError):
            self.judge.count("storm: connections refused")
        finally:
            wire.close()

    async def crowd(self):
        """More than the quota at once, some of which never read that they are refused."""
        wires = [await Wire.open(self.plan.socket) for _ in range(CROWD)]
        refused = sum(await asyncio.gather(*(self.is_refused(wire) for wire in wires[::2])))
        self.judge.count("storm: connections refused", refused)
        await asyncio.sleep(CROWD_SECONDS)
        for wire in wires:
            self.random.choice((wire.close, wire.abort))()
        if not refused:
            self.judge.fail("a crowd was let in", f"{CROWD} connections of one user")

    async def is_refused(self, wire):
        try:
            await self.checked(wire)
            return False
        except (Refused, Gone, ConnectionError):
            return True


# How many of each.
CLIENTS = ((SlowWriter, 6), (EndlessLine, 4), (SlowReader, 4), (Silent, 8), (HalfClosed, 3), (Leaver, 3), (TooLong, 2),
           (Listener, 4), (DeafListener, 2), (ForgottenListener, 1), (Storm, 1))


async def crowd(judge):
    numbers = iter(range(1000))
    async with asyncio.TaskGroup() as group:
        for kind, times in CLIENTS:
            for _ in range(times):
                group.create_task(kind(judge, next(numbers)).run())


def main(plan, shared, answer):
    judge = Judge(plan, shared, "hostile clients")
    try:
        asyncio.run(crowd(judge))
    except* Exception as errors:
        judge.fail("a client broke", repr(errors.exceptions))
    answer.send(judge.report())
