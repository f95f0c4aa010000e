"""The state folder: files that are damaged or gone, a second broker, a full disk at the end."""

import asyncio
import contextlib
import shutil
import time

from grantd_testing import Gone, Refused, Wrong, until
from machine import FrozenDisk, SmallDisk
from provider.faults import Fault

# TimeoutStopSec of the unit.
STOP_SECONDS = 45
# "Every few seconds" the daemon looks whether its files are as it left them.
LOOK_SECONDS = 20


def overwrite(state):
    with open(state / "grantd.db", "r+b") as file:
        size = file.seek(0, 2)
        file.seek(size // 3)
        file.write(b"\xa5" * (size // 3))


def truncate(state):
    with open(state / "grantd.db", "r+b") as file:
        file.truncate(file.seek(0, 2) // 2)


def overwrite_log(state):
    with open(state / "grantd.db-wal", "r+b") as file:
        size = file.seek(0, 2)
        file.seek(0)
        file.write(b"\xa5" * size)


def empty_log(state):
    with open(state / "grantd.db-wal", "r+b") as file:
        file.truncate(0)


def remove_key(state):
    (state / "grantd.key").unlink()


def remove_database_and_key(state):
    for path in [*state.glob("grantd.db*"), state / "grantd.key"]:
        path.unlink()


def damaged(damage, wait=0.0, is_killed=False, commits=False):
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
        if commits:
            # The start has read all of it, and a look has found it sound.
            await asyncio.sleep(LOOK_SECONDS)
        damage(daemon.state)
        if commits:
            await stage.attempt(client, names[0])
        await asyncio.sleep(wait)
        client.close()
        if is_killed:
            daemon.kill()
            client = await daemon.start()
        else:
            client = await stage.restart(daemon)
        await stage.prove(client, names)
        return f"all of 12 accounts work after a {'kill' if is_killed else 'stop'} and a start"

    return case


def lock_removed(wait):
    """7: the lock file is removed: a second broker must not start on the folder, at once or some seconds later."""
    async def case(stage):
        realm = stage.realm()
        daemon = stage.daemon()
        client = await daemon.start()
        names = await stage.sign_in(daemon, client, realm, 2)
        (daemon.state / "grantd.lock").unlink()
        await asyncio.sleep(wait)
        second_folder = stage.folder / "second"
        second_folder.mkdir(mode=0o700)
        second = stage.daemon(state=daemon.state, folder=second_folder)
        second.launch()
        if not await second.process.ended(90):
            first = daemon.process.status
            raise Wrong(
                "a second broker starts on the folder; the first "
                + ("goes on too, 90 s after" if first is None else f"has ended with {first}: {daemon.last_lines(2)}"))
        if second.process.status == 0:
            raise Wrong("the second broker ends with status 0")
        if daemon.process.status is not None:
            raise Wrong(f"the second broker ends, and the first has ended with status {daemon.process.status}")
        await stage.prove(client, names)
        return f"the second ended with status {second.process.status}; the first serves"

    return case


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
        await stage.prove(await stage.restart(old), ["old-0", "old-1"])
        return "the old broker had written its folder anew before the newer one came, which ended"
    names = await stage.sign_in(new, newer, realm, 2, prefix="new")
    # Something to write for the old one, which it may not write.
    with contextlib.suppress(Gone, Refused, TimeoutError):
        await stage.attempt(client, "old-0", timeout=2)
    ended = await old.process.ended(90)
    newer = await stage.restart(new)
    there = {account["account"] for account in (await newer.call("account.list"))["accounts"]}
    if not there >= set(names):
        raise Wrong(f"the old broker replaced the newer one's database, which has {', '.join(sorted(there)) or 'none'}")
    await stage.prove(newer, names)
    if not ended:
        raise Wrong("the newer one's database stayed, but the old broker runs on after 60 s")
    if not old.process.status:
        raise Wrong("the newer one's database stayed; the old broker ended with status 0")
    return f"the newer one's database stayed; the old broker ended with {old.process.status}: {old.last_lines(1)[:160]}"


# The end, with a disk that is full

async def store_fails(client):
    async def is_failing():
        return (await client.call("broker.status"))["store"]["state"] == "failing"

    await until(is_failing, 120, "the store does not fail on a full disk")


async def unsaved_renewal(stage, runtime, more=""):
    """A daemon with a renewal that it cannot write, and the account."""
    disk = stage.disk(SmallDisk)
    realm = stage.realm()
    daemon = stage.daemon(folder=disk.folder, more=more)
    daemon.runtime = runtime or disk.folder
    client = await daemon.start()
    (name,) = await stage.sign_in(daemon, client, realm, 1)

    def fill(*_):
        disk.fill()
        realm.choose = None

    # As soon as the provider has the request.
    realm.choose = fill
    task = asyncio.create_task(stage.attempt(client, name, timeout=8))
    await until(lambda: disk.is_full, 120, "no refresh has begun")
    await until(lambda: not realm.in_flight, 120, "the provider has not answered")
    await store_fails(client)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return disk, daemon, name


async def renewal_in_memory(stage, runtime):
    """The same, ended: with its status, and the lines of its end."""
    disk, daemon, name = await unsaved_renewal(stage, runtime)
    before = len(daemon.lines())
    status = await daemon.stop(60)
    return disk, daemon, name, status, daemon.lines()[before:]


async def unsaved(stage):
    """8: SIGTERM, a full disk and a renewal in memory: the exit status is not 0, and a line says who is lost."""
    _, _, name, status, lines = await renewal_in_memory(stage, None)
    said = [line for line in lines if name in line and "could not be saved" in line and "sign in again" in line]
    bad = [f"the exit status is {status}"] if status == 0 else []
    bad += [] if said else ["no line names the account and what to do"]
    if bad:
        raise Wrong("; ".join(bad))
    return f"status {status}: {said[0][25:200]}"


def runtime_folder(stage):
    runtime = stage.folder / "runtime"
    runtime.mkdir(mode=0o700)
    return runtime


async def taken_over(stage):
    """8: the same with a runtime folder elsewhere: the next start takes the renewal over."""
    disk, daemon, name, status, _ = await renewal_in_memory(stage, runtime_folder(stage))
    disk.free()
    client = await daemon.start()
    await stage.prove(client, [name])
    return f"the status was {status}, and the account works after the next start"


def still_full(stops_again):
    """8: the disk is full at the next start as well, and perhaps at another stop; the renewal is not forgotten."""
    async def case(stage):
        disk, daemon, name, _, _ = await renewal_in_memory(stage, runtime_folder(stage))
        client = await daemon.start()
        await stage.attempt(client, name, timeout=3)
        if stops_again:
            client.close()
            await daemon.stop(60)
            disk.free()
            client = await daemon.start()
        else:
            disk.free()
        await stage.prove(client, [name])
        client.close()
        client = await stage.restart(daemon)
        await stage.prove(client, [name])
        left = [path.name for path in stage.folder.rglob("*.unsaved.db*")]
        if left:
            raise Wrong(f"{', '.join(left)} stayed")
        await client.call("account.logout", account=name)
        client.close()
        client = await stage.restart(daemon)
        if (await client.call("account.list"))["accounts"]:
            raise Wrong("the account came back after its logout")
        return "the account works, and is gone after its logout"

    return case


async def lost_and_full(stage):
    """7, 8: the database is cut while the disk is full: all that is in memory goes into the runtime folder."""
    disk = stage.disk(SmallDisk)
    realm = stage.realm()
    daemon = stage.daemon(folder=disk.folder)
    daemon.runtime = runtime_folder(stage)
    client = await daemon.start()
    names = await stage.sign_in(daemon, client, realm, 3)
    client.close()
    client = await stage.restart(daemon)
    truncate(daemon.state)
    disk.fill()
    await store_fails(client)
    client.close()
    before = len(daemon.lines())
    status = await daemon.stop(60)
    said = [line for line in daemon.lines()[before:] if all(name in line for name in names)]
    if status == 0 or not said:
        raise Wrong(f"the exit status is {status}, and {len(said)} lines name the accounts")
    disk.free()
    daemon.launch(None)
    if not await daemon.process.ended(90) or not daemon.lines("unsaved.db", "copy it elsewhere"):
        raise Wrong("a start on the damaged database does not say where the latest tokens are")
    # As the hint says of a damaged database.
    for path in daemon.state.glob("grantd.db*"):
        path.unlink()
    client = await daemon.start()
    await stage.prove(client, names)
    return f"status {status}: all of {len(names)} accounts work after the next start"


async def slow_hook(stage):
    """8: a hook that does not end takes none of the time that is left for the renewal, nor for the line that tells of it."""
    mark = stage.folder / "hook"
    hook = (f'\n[[on_event]]\ncommand = ["/bin/sh", "-c", "trap : TERM; touch {mark}; sleep 100; sleep 100"]\n'
            'timeout = "5m"\nevents = ["store.failed"]\n')
    _, daemon, _ = await unsaved_renewal(stage, runtime_folder(stage), hook)
    await until(mark.exists, 120, "the hook does not run")
    began = time.monotonic()
    stop = asyncio.create_task(daemon.stop(80))
    await until(lambda: list(daemon.runtime.rglob("*.unsaved.db")), 120, "nothing was put into the runtime folder")
    took = time.monotonic() - began
    await until(lambda: daemon.lines("could not be saved"), 120, "no line tells of it")
    await stop
    ended = time.monotonic() - began
    if took > 30 or ended > STOP_SECONDS:
        raise Wrong(f"the renewal was in the runtime folder {took:.0f} s after SIGTERM, and the end took {ended:.0f} s")
    return f"the renewal was in the runtime folder {took:.1f} s after SIGTERM; the end took {ended:.1f} s"


async def hanging_disk(stage):
    """8: a disk that hangs, also for the audit trail: the renewal is put beside the socket, and told, in the stop's time."""
    disk = stage.disk(FrozenDisk)
    realm = stage.realm()
    daemon = stage.daemon(state=disk.folder / "state")
    client = await daemon.start()
    name, other = await stage.sign_in(daemon, client, realm, 2)
    realm.script.append(Fault(delay=15))
    task = asyncio.create_task(stage.attempt(client, name, timeout=8))
    await until(lambda: realm.in_flight, 120, "no refresh has begun")
    # Nothing ends this process before the disk works again, not even SIGKILL.
    with disk.freeze():
        await until(lambda: not realm.in_flight, 120, "the provider has not answered")
        # A record of the audit trail that cannot be written.
        await client.call("token.get", account=other)

        async def is_slow():
            return (await client.call("broker.status"))["store"]["state"] == "slow"

        await until(is_slow, 120, "no status tells that a commit takes long")
        began = time.monotonic()
        stop = asyncio.create_task(daemon.stop(100))
        await until(lambda: list(daemon.folder.glob("*.unsaved.db")), 120, "nothing was put beside the socket")
        await until(lambda: daemon.lines("could not be saved"), 120, "no line tells of it")
        took = time.monotonic() - began
    status = await stop
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    if took > STOP_SECONDS or status == 0:
        raise Wrong(f"the renewal was beside the socket {took:.0f} s after SIGTERM; the exit status was {status}")
    client = await daemon.start()
    await stage.prove(client, [name, other])
    return f"the renewal was beside the socket {took:.1f} s after SIGTERM, and works after the next start"


CASES = {
    "database-overwritten": damaged(overwrite), "database-overwritten-noticed": damaged(overwrite, LOOK_SECONDS),
    "database-cut": damaged(truncate), "database-cut-noticed": damaged(truncate, LOOK_SECONDS),
    "damage-then-commit": damaged(overwrite, LOOK_SECONDS, commits=True),
    "log-overwritten": damaged(overwrite_log, LOOK_SECONDS),
    "log-overwritten-kill": damaged(overwrite_log, LOOK_SECONDS + 4, True),
    "log-overwritten-commit": damaged(overwrite_log, LOOK_SECONDS, True, commits=True),
    "log-emptied": damaged(empty_log), "log-emptied-then-kill": damaged(empty_log, LOOK_SECONDS, True),
    "key-removed": damaged(remove_key), "key-removed-then-kill": damaged(remove_key, LOOK_SECONDS, True),
    "key-and-database-removed": damaged(remove_database_and_key),
    "key-and-database-removed-then-kill": damaged(remove_database_and_key, LOOK_SECONDS, True),
    "lock-removed": lock_removed(0), "lock-removed-noticed": lock_removed(LOOK_SECONDS),
    "folder-removed": folder_removed, "unsaved-at-end": unsaved, "unsaved-taken-over": taken_over,
    "unsaved-still-full": still_full(False), "unsaved-twice": still_full(True), "unsaved-database-lost": lost_and_full,
    "unsaved-slow-hook": slow_hook, "unsaved-hanging-disk": hanging_disk}
