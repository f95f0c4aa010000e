"""A user with a rule and many connections: answers that are not read, waits, requests that hang. Others, and memory."""

import asyncio
import collections
import contextlib

import flood
import measure
from actor import READY_SECONDS, ended
from grantd_testing import line, message
from machine import GROWTH_BYTES, MEGABYTE
from stage import hold

CONNECTIONS = 1000
WAITS_EACH, HANGS_EACH = 64, 64
SECONDS = 6.0


async def write_only(tell, connections, payload, pause):
    """Sends on each connection, again and again, and reads nothing."""
    writers, told = [], collections.Counter()
    for _ in range(connections):
        if (pair := await flood.connect()) is None:
            told["not connected"] += 1
            continue
        reader, writer = pair
        reader._transport.pause_reading()  # pylint: disable=protected-access
        writers.append(writer)
    tell("sent")
    while not ended.is_set():
        for writer in writers:
            if writer.transport.is_closing():
                told["closed"] += 1
            elif not writer.transport.get_write_buffer_size():
                writer.write(payload)
        writers = [writer for writer in writers if not writer.transport.is_closing()]
        await asyncio.sleep(pause)
    told["open"] = len(writers)
    for writer in writers:
        writer.transport.abort()
    return dict(told)


def unread(tell, connections, each, method, params):
    payload = b"".join(line(message(method, params, number)) for number in range(each))
    with contextlib.suppress(OSError):
        return asyncio.run(write_only(tell, connections, payload, 0.2))
    return {}


def under(stage, work, *arguments):
    """Growth, and what a unit meets, while the account's own user does that."""
    idle = stage.machine.resident()
    victim = stage.act(stage.machine.unit(), measure.sample, "shared")
    victim.next(READY_SECONDS)
    attacker = stage.attack(stage.machine.user("owner"), work, *arguments)
    attacker.next(READY_SECONDS)
    growth = stage.machine.growth(idle, SECONDS)
    told, figures = attacker.finish(), victim.finish()
    return hold([
        (growth <= GROWTH_BYTES, f"{growth // MEGABYTE} MB above idle"),
        (figures["uncached"]["served"] > 0, f"the unit: {measure.told(figures)}"),
        (True, f"uncached p99 {measure.milliseconds(figures['uncached']['p99'])}"),
        (True, f"attacker told: {measure.sum_of([told])}")])


def begin(stage):
    stage.begin("main")
    stage.sign_in("main", "shared")
    stage.sign_in("main", "mine", "mallory")


def answers(stage):
    """A user with a rule requests a large answer on each of 1,000 connections, and reads none."""
    begin(stage)
    params = {"account": "mine", "method": "GET", "url": "/big", "timeout": 60}
    return under(stage, unread, CONNECTIONS, 1, "request.send", params)


def waits(stage):
    """A user with a rule waits for a login of five minutes, as often as the connections take it."""
    begin(stage)
    started = stage.ask_as(stage.machine.user("owner"), "login.start", provider="main", account="slow")
    params = {"login_id": started["login_id"], "timeout": 300}
    return under(stage, flood.requests, CONNECTIONS, WAITS_EACH, "login.wait", params)


def brief(stage):
    """A user with a rule sends requests that hang and waits a hundredth of a second for each, again and again."""
    begin(stage)
    params = {"account": "mine", "method": "GET", "url": "/hang", "timeout": 0.01}
    return under(stage, flood.requests, CONNECTIONS, HANGS_EACH, "request.send", params, 0.05)


def hangs(stage):
    """A user with a rule sends requests to an API that hangs."""
    begin(stage)
    params = {"account": "mine", "method": "GET", "url": "/hang", "timeout": 300}
    return under(stage, flood.requests, CONNECTIONS, HANGS_EACH, "request.send", params)


CASES = {
    "rule-unread": answers, "rule-waits": waits, "rule-brief": brief, "rule-hangs": hangs}
