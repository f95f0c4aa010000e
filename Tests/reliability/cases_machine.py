"""The machine: descriptors, the connection limit, files that are damaged or gone, a full disk at the end."""

import asyncio
import contextlib
import json
import pathlib
import shutil
import socket
import time

from faults import Fault
from rig import Gone, Refused, Wrong, until

STATUS = b'{"jsonrpc":"2.0","id":1,"method":"broker.status"}\n'
# "Every few seconds" the daemon looks whether its files are as it left them.
LOOK_SECONDS = 8
LIMIT = 160
FLOOD = 400


def connect(path, seconds=5.0):
    """A blocking connection; also where the queue of those that are not accepted yet is full for a moment."""
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
            time.sleep(0.01)


def ask(path, seconds=5.0, pause=0.0):
    """A client that writes first and reads then. What it is told: the result, or the error's reason."""
    with connect(path, seconds) as connection:
        time.sleep(pause)
        connection.sendall(STATUS)
        line = connection.makefile("rb").readline()
    if not line:
        return "hung up"
    answer = json.loads(line)
    return "result" if "result" in answer else answer["error"].get("data", {}).get("reason")


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
        cpu, began = daemon.process.cpu_seconds(), time.monotonic()
        await asyncio.sleep(3)
        share = (daemon.process.cpu_seconds() - cpu) / (time.monotonic() - began)
        if share > 0.4:
            bad.append(f"{100 * share:.0f} % CPU while nothing is asked")
        # A connection of its own is needed: those to the provider that are kept are closed.
        for connection in list(stage.server.connections):
            connection.reset()
        await asyncio.sleep(0.2)
        try:
            took, _ = await stage.refresh(client, name, timeout=8)
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
    try:
        await until(lambda: ask(daemon.socket, 2) == "result", 10, "a new client is answered", pause=0.5)
    except (OSError, Wrong) as error:
        bad.append(f"after the crowd has gone: {error}")
    if bad:
        raise Wrong("; ".join(bad))
    return (
        f"{FLOOD} connections with {LIMIT} descriptors: {100 * share:.0f} % CPU, a refresh took {took:.2f} s, "
        f"said {said}")


async def overloaded(stage):
    """10: beyond the limit of connections a client that writes first reads `overloaded`."""
    daemon = stage.daemon(more="[socket]\nconnections = 6\nconnections_per_user = 4\n")
    (await daemon.start()).close()
    await asyncio.sleep(0.2)
    crowd = [connect(daemon.socket) for _ in range(12)]
    told = {}
    try:
        for number in range(60):
            try:
                answer = ask(daemon.socket, pause=0.02 if number % 2 else 0)
            except OSError as error:
                answer = error.strerror or type(error).__name__
            told[answer] = told.get(answer, 0) + 1
            await asyncio.sleep(0)
    finally:
        for connection in crowd:
            connection.close()
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
                connection = connect(daemon.socket, 1)
                crowd.append(connection)
                connection.sendall(STATUS[:20])
            await asyncio.sleep(0)
        began = time.monotonic()
        try:
            answer = ask(daemon.socket, 40)
        except OSError as error:
            answer = error.strerror or type(error).__name__
        first = time.monotonic() - began
        if answer != "result" or first > 2:
            bad.append(f"the next caller is told after {first:.1f} s: {answer}")

        def is_answered():
            with contextlib.suppress(OSError):
                return ask(daemon.socket, 5) == "result"

        await until(is_answered, 60, "any caller is answered", pause=0.5)
        if bad:
            bad.append(f"the first one is let in after {time.monotonic() - began:.1f} s")
        try:
            await client.call("broker.status", within=5)
        except (Gone, Refused, TimeoutError) as error:
            bad.append(f"a connection of before: {error or type(error).__name__}")
    finally:
        for connection in crowd:
            connection.close()
    if bad:
        raise Wrong("; ".join(bad))
    return f"the next caller was answered after {first:.2f} s"


# Files

def overwrite(state):
    with open(state / "grantd.db", "r+b") as file:
        size = file.seek(0, 2)
        file.seek(size // 3)
        file.write(b"\xa5" * (size // 3))


def truncate(state):
    with open(state / "grantd.db", "r+b") as file:
        file.truncate(file.seek(0, 2) // 2)


def empty_log(state):
    with open(state / "grantd.db-wal", "r+b") as file:
        file.truncate(0)


def remove_key(state):
    (state / "grantd.key").unlink()


def damaged(damage, wait=0.0, is_killed=False):
    """7: a file of the state is damaged while the daemon runs; then it is started again: nothing is lost."""
    async def case(stage):
        realm = stage.realm()
        daemon = stage.daemon()
        client = await daemon.start()
        names = await stage.sign_in(daemon, client, realm, 12)
        # What was written is in the database itself, and then something in the log.
        client.close()
        client = await stage.restart(daemon)
        for name in names[:6]:
            await stage.refresh(client, name)
        damage(daemon.state)
        await asyncio.sleep(wait)
        client.close()
        if is_killed:
            daemon.kill()
            client = await daemon.start()
        else:
            client = await stage.restart(daemon)
        await stage.prove(client, names, 30)
        return f"all of 12 accounts work after a {'kill' if is_killed else 'stop'} and a start"

    return case


async def lock_removed(stage):
    """7: the lock file is removed: a second broker must not start on the folder."""
    realm = stage.realm()
    daemon = stage.daemon()
    client = await daemon.start()
    names = await stage.sign_in(daemon, client, realm, 2)
    (daemon.state / "grantd.lock").unlink()
    bad = []
    for wait in (0, LOOK_SECONDS):
        await asyncio.sleep(wait)
        second_folder = stage.folder / f"second-{wait}"
        second_folder.mkdir(mode=0o700)
        second = stage.daemon(state=daemon.state, folder=second_folder)
        second.launch()
        if await second.process.ended(8):
            if second.process.status == 0:
                bad.append(f"{wait} s after, the second ends with status 0")
        else:
            bad.append(f"{wait} s after, a second broker runs on the same folder")
            second.kill()
        if daemon.process.status is not None:
            raise Wrong("; ".join([*bad, f"the first ended with status {daemon.process.status}"]))
    if bad:
        raise Wrong("; ".join(bad))
    await stage.prove(client, names, 30)
    return "the second ended at once, and after some seconds; the first serves"


async def folder_removed(stage):
    """7: after rm -rf of the folder and a newer broker on it, the old one never replaces the new one's database."""
    realm = stage.realm()
    old = stage.daemon()
    client = await old.start()
    await stage.sign_in(old, client, realm, 2, prefix="old")
    shutil.rmtree(old.state)
    newer_folder = stage.folder / "newer"
    newer_folder.mkdir(mode=0o700)
    new = stage.daemon(state=old.state, folder=newer_folder)
    new.launch()
    try:
        newer = await new.ready()
    except Wrong:
        # The old one was quicker: it has its folder again, and must keep what it had.
        await stage.prove(await stage.restart(old), ["old-0", "old-1"], 30)
        return "the old broker had written its folder anew before the newer one came, which ended"
    names = await stage.sign_in(new, newer, realm, 2, prefix="new")
    # Something to write for the old one, which it may not write.
    with contextlib.suppress(Gone, Refused, TimeoutError):
        await stage.attempt(client, "old-0", timeout=2)
    ended = await old.process.ended(60)
    await asyncio.sleep(1)
    newer = await stage.restart(new)
    there = {account["account"] for account in (await newer.call("account.list"))["accounts"]}
    if not there >= set(names):
        raise Wrong(f"the old broker replaced the newer one's database, which has {', '.join(sorted(there)) or 'none'}")
    await stage.prove(newer, names, 30)
    if not ended:
        raise Wrong("the newer one's database stayed, but the old broker runs on after 60 s")
    if not old.process.status:
        raise Wrong("the newer one's database stayed; the old broker ended with status 0")
    return f"the newer one's database stayed; the old broker ended with {old.process.status}: {old.last_lines(1)[:160]}"


# The end, with a disk that is full

async def renewal_in_memory(stage, runtime):
    """A daemon that is ended with a renewal that it could not write; its account, status, and lines of its end."""
    disk = stage.disk()
    realm = stage.realm()
    daemon = stage.daemon(folder=disk.folder)
    daemon.runtime = runtime or disk.folder
    client = await daemon.start()
    (name,) = await stage.sign_in(daemon, client, realm, 1)
    realm.script.append(Fault(delay=2))
    task = asyncio.create_task(stage.attempt(client, name, timeout=8))
    await until(lambda: realm.in_flight, 10, "no refresh has begun")
    disk.fill()
    await until(lambda: not realm.in_flight, 10, "the provider has not answered")

    async def is_failing():
        return (await client.call("broker.status"))["store"]["state"] == "failing"

    await until(is_failing, 15, "the store does not fail on a full disk")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    before = len(daemon.lines())
    status = await daemon.stop(60)
    return disk, daemon, name, status, daemon.lines()[before:]


async def unsaved(stage):
    """8: SIGTERM, a full disk and a renewal in memory: the exit status is not 0, and a line says who is lost."""
    _, _, name, status, lines = await renewal_in_memory(stage, None)
    said = [line for line in lines if name in line and ("lost" in line or "sign in" in line or "login" in line)]
    bad = [f"the exit status is {status}"] if status == 0 else []
    bad += [] if said else ["no line names the account and what to do"]
    if bad:
        raise Wrong("; ".join(bad))
    return f"status {status}: {said[0][25:200]}"


async def taken_over(stage):
    """8: the same with a runtime folder elsewhere: the next start takes the renewal over."""
    runtime = pathlib.Path(stage.folder / "runtime")
    runtime.mkdir(mode=0o700)
    disk, daemon, name, status, _ = await renewal_in_memory(stage, runtime)
    disk.free()
    client = await daemon.start()
    await stage.prove(client, [name], 30)
    return f"the status was {status}, and the account works after the next start"


CASES = {
    "descriptors": descriptors, "overloaded": overloaded, "half-lines": half_lines,
    "database-overwritten": damaged(overwrite), "database-overwritten-noticed": damaged(overwrite, LOOK_SECONDS),
    "database-cut": damaged(truncate), "database-cut-noticed": damaged(truncate, LOOK_SECONDS),
    "log-emptied": damaged(empty_log), "log-emptied-then-kill": damaged(empty_log, LOOK_SECONDS, True),
    "key-removed": damaged(remove_key), "key-removed-then-kill": damaged(remove_key, LOOK_SECONDS, True),
    "lock-removed": lock_removed, "folder-removed": folder_removed, "unsaved-at-end": unsaved,
    "unsaved-taken-over": taken_over}
# What needs the machine for itself: it measures, or blocks this process.
ALONE = ("descriptors", "overloaded", "half-lines")
