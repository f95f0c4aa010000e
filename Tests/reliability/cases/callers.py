"""Callers in crowds: descriptors, the limit of connections, lines that are never finished."""

import asyncio
import contextlib
import json
import resource
import socket
import time

from grantd_testing import Gone, Refused, Wrong, until
from provider.web import http

STATUS = b'{"jsonrpc":"2.0","id":1,"method":"broker.status"}\n'
LIMIT = 160
FLOOD = 400
TRIES = 3
# Before half a line is given up.
FIRST_SECONDS = 12


async def connect(path, seconds=60.0):
    """A connection for blocking use; also where the queue of those that are not accepted yet is full for a moment."""
    end = time.monotonic() + seconds
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(seconds)
    while True:
        try:
            connection.connect(str(path))
            return connection
        except BlockingIOError:
            if time.monotonic() > end:
                connection.close()
                raise
            await asyncio.sleep(0.01)


async def ask(path, seconds=60.0, pause=0.0):
    """A client that writes first and reads then. What it is told: the result, or the error's reason."""
    with await connect(path, seconds) as connection:
        await asyncio.sleep(pause)
        connection.sendall(STATUS)
        # The other tests, and their providers, go on in this thread.
        line = await asyncio.to_thread(connection.makefile("rb").readline)
    if not line:
        return "hung up"
    answer = json.loads(line)
    return "result" if "result" in answer else answer["error"].get("data", {}).get("reason")


async def idle_share(process, most):
    """Of a processor's time, at best of some measurements: what came before may still be worked on."""
    shares = []
    while len(shares) < TRIES and (not shares or shares[-1] > most):
        cpu, began = process.cpu_seconds(), time.monotonic()
        await asyncio.sleep(3)
        shares.append((process.cpu_seconds() - cpu) / (time.monotonic() - began))
    return min(shares)


async def descriptors(stage):
    """5: clients take all the descriptors there are: refreshes work, nothing spins, the log says so."""
    realm = stage.realm()
    daemon = stage.daemon(more="[socket]\nconnections = 4096\nconnections_per_user = 4096\n")
    said = "at the start"
    daemon.launch(LIMIT)
    try:
        client = await daemon.ready()
    except Wrong:
        if not daemon.lines("connections"):
            raise
        # It says that so many connections do not fit.
        daemon = stage.daemon(more="[socket]\nconnections = 100\nconnections_per_user = 100\n")
        client = await daemon.start(LIMIT)
    (name,) = await stage.sign_in(daemon, client, realm, 1)
    before, crowd, bad = len(daemon.lines()), [], []
    try:
        for _ in range(FLOOD):
            connection = socket.socket(socket.AF_UNIX)
            connection.setblocking(False)
            with contextlib.suppress(OSError):
                connection.connect(str(daemon.socket))
            crowd.append(connection)
            await asyncio.sleep(0.002)
        await asyncio.sleep(1)
        share = await idle_share(daemon.process, 0.4)
        if share > 0.4:
            bad.append(f"{100 * share:.0f} % CPU while nothing is asked")
        # A connection of its own is needed: those to the provider that are kept are closed.
        for connection in list(stage.server.connections):
            connection.reset()
        await asyncio.sleep(1)
        try:
            took, _ = await stage.refresh(client, name, timeout=40)
        except (Refused, Gone, TimeoutError) as error:
            bad.append(f"a refresh: {error or type(error).__name__}")
        words = ("descriptor", "open files", "LimitNOFILE", "EMFILE", "too many files")
        if not any(word in line for line in daemon.lines()[before:] for word in words):
            if any(word in line for line in daemon.lines()[:before] for word in words):
                said = "at the start"
            else:
                bad.append("no line of the log says it")
        else:
            said = "then"
    finally:
        for connection in crowd:
            connection.close()

    async def is_answered():
        return await ask(daemon.socket, 30) == "result"

    try:
        await until(is_answered, 120, "a new client is answered", pause=0.5)
    except (OSError, Wrong) as error:
        bad.append(f"after the crowd has gone: {error}")
    if bad:
        raise Wrong("; ".join(bad))
    return (
        f"{FLOOD} connections with {LIMIT} descriptors: {100 * share:.0f} % CPU, a refresh took {took:.2f} s, "
        f"said {said}")


async def callback_waits(stage):
    """5: no descriptor is left and browsers come: nothing spins, and they are answered as soon as there is one."""
    stage.realm()
    daemon = stage.daemon()
    client = await daemon.start()
    (origin, *_), process = (await client.call("broker.status"))["callback"], daemon.process
    place = origin.removeprefix("http://").rsplit(":", 1)
    # While its pool has work, libdispatch reads files in /proc each second, and ends the process if it has no descriptor.
    await asyncio.sleep(6)
    for _ in range(TRIES):
        share, took = await without_descriptors(process, origin, place)
        if took <= 5:
            break
    if share > 0.2 or took > 5:
        raise Wrong(f"{100 * share:.0f} % CPU meanwhile; then an answer after {took:.1f} s")
    return f"{100 * share:.0f} % CPU meanwhile; a browser was answered {took:.1f} s after"


async def without_descriptors(process, origin, place):
    """The share of a processor meanwhile, and how long a browser waits afterwards."""
    soft, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (8, hard))
    with contextlib.ExitStack() as open_ones:
        for _ in range(20):
            open_ones.enter_context(socket.create_connection((place[0], int(place[1])), 60))
        await asyncio.sleep(1)
        share = await idle_share(process, 0.2)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (soft, hard))
    began = time.monotonic()
    status, _, _ = await http("GET", f"{origin}/none")
    took = time.monotonic() - began
    if status != 404:
        raise Wrong(f"{100 * share:.0f} % CPU meanwhile; then status {status} after {took:.1f} s")
    return share, took


async def overloaded(stage):
    """10: beyond the limit of connections a client that writes first reads `overloaded`."""
    daemon = stage.daemon(more="[socket]\nconnections = 6\nconnections_per_user = 4\n")
    # It stays, so that no close is noticed later.
    client = await daemon.start()
    crowd = [await connect(daemon.socket) for _ in range(12)]
    told = {}
    try:
        for number in range(60):
            try:
                answer = await ask(daemon.socket, pause=0.02 if number % 2 else 0)
            except OSError as error:
                answer = error.strerror or type(error).__name__
            told[answer] = told.get(answer, 0) + 1
    finally:
        for connection in crowd:
            connection.close()
        client.close()
    text = ", ".join(f"{count} {answer}" for answer, count in sorted(told.items()))
    if set(told) != {"overloaded"}:
        raise Wrong(f"60 clients too many were told: {text}")
    return f"60 clients too many were told: {text}"


async def half_lines(stage):
    """10: a thousand half lines of one uid do not lock out its next caller."""
    daemon = stage.daemon()
    client = await daemon.start()
    crowd, bad = [], []
    try:
        for _ in range(1000):
            with contextlib.suppress(OSError):
                connection = await connect(daemon.socket, 1)
                crowd.append(connection)
                connection.sendall(STATUS[:20])
            await asyncio.sleep(0)
        began = time.monotonic()
        try:
            answer = await ask(daemon.socket, 40)
        except OSError as error:
            answer = error.strerror or type(error).__name__
        first = time.monotonic() - began
        if answer != "result" or first > FIRST_SECONDS:
            bad.append(f"the next caller is told after {first:.1f} s: {answer}")

        async def is_answered():
            with contextlib.suppress(OSError):
                return await ask(daemon.socket, 20) == "result"

        await until(is_answered, 120, "any caller is answered", pause=0.5)
        if bad:
            bad.append(f"the first one is let in after {time.monotonic() - began:.1f} s")
        try:
            await client.call("broker.status", within=60)
        except (Gone, Refused, TimeoutError) as error:
            bad.append(f"a connection of before: {error or type(error).__name__}")
    finally:
        for connection in crowd:
            connection.close()
    if bad:
        raise Wrong("; ".join(bad))
    return f"the next caller was answered after {first:.2f} s"


CASES = {
    "descriptors": descriptors, "callback-descriptors": callback_waits, "overloaded": overloaded,
    "half-lines": half_lines}
