"""Disks that take nothing: a login that meets a full one, and a start on one that is read-only."""

import asyncio
import contextlib
import subprocess

from grantd_testing import Refused, Wrong, until
from machine import SmallDisk
from provider.web import sign_in


async def unsaved_login(stage, runtime):
    """A sign-in whose tokens come when the disk has just become full: the daemon and the login."""
    disk = stage.disk(SmallDisk)
    realm = stage.realm()
    daemon = stage.daemon(folder=disk.folder)
    daemon.runtime = runtime or disk.folder
    client = await daemon.start()
    stage.accounts["late"] = realm
    # The code is spent on disk, and being exchanged.
    realm.before_exchange = disk.fill
    started = await client.call("login.start", provider=realm.name, account="late", login_hint="late")
    url = next(place["url"] for place in started["destinations"] if place["kind"] == "browser")
    status, _, page = await sign_in(url, "late")
    if status != 200 or b"signed in as" in page.lower():
        raise Wrong(f"the page after the sign-in has status {status}: {page[:300]}")
    began = asyncio.get_running_loop().time()
    answer = await client.call("login.wait", login_id=started["login_id"], timeout=1)
    if answer["state"] != "pending" or "the disk" not in answer.get("waiting_for", ""):
        raise Wrong(f"login.wait answers {answer}")
    if asyncio.get_running_loop().time() - began > 30:
        raise Wrong("login.wait took longer than its timeout")
    with contextlib.suppress(Refused):
        await client.call("token.get", account="late")
        raise Wrong("an account that is not on disk gives a token")
    return disk, realm, daemon, client, started["login_id"]


async def login_full(stage):
    """A login whose exchange meets a full disk is completed once there is space, and its grant is kept."""
    disk, realm, daemon, client, login = await unsaved_login(stage, None)
    command = asyncio.create_task(daemon.grantctl("login", "continue", login, seconds=250))
    waiting = asyncio.create_task(client.call("login.wait", login_id=login, timeout=200, within=250))
    await asyncio.sleep(12)
    if waiting.done():
        raise Wrong(f"while the disk is full login.wait ends: {waiting.exception() or waiting.result()}")
    disk.free()
    answer = await waiting
    if answer["state"] != "completed" or len(realm.families) != 1:
        raise Wrong(f"with space on the disk the login is {answer}")
    status, output = await command
    if status or "Waiting for the disk" not in output:
        raise Wrong(f"grantctl login continue has status {status}: {output}")
    await stage.prove(client, ["late"])
    client.close()
    client = await stage.restart(daemon)
    await stage.prove(client, ["late"])
    return "it waits for the disk, is completed, and works after a start"


async def login_full_stop(stage):
    """The same, stopped before there is space: the next start has the account."""
    runtime = stage.folder / "runtime"
    runtime.mkdir(mode=0o700)
    disk, _, daemon, client, _ = await unsaved_login(stage, runtime)
    client.close()
    status = await daemon.stop(60)
    if not status or not daemon.lines("late", "could not be saved"):
        raise Wrong(f"the stop has status {status}: {daemon.last_lines(3)}")
    disk.free()
    client = await daemon.start()
    await stage.prove(client, ["late"])
    client.close()
    client = await stage.restart(daemon)
    await stage.prove(client, ["late"])
    return f"the stop has status {status}, and the account works after the next start"


async def login_full_lost(stage):
    """The same, if no other folder takes anything: the stop has a status, and the log names the account."""
    _, _, daemon, client, _ = await unsaved_login(stage, None)
    client.close()
    # The runtime folder is on the same disk.
    status = await daemon.stop(60)
    lines = daemon.lines("late", "could not be saved", "sign in again")
    if not status or not lines:
        raise Wrong(f"the stop has status {status}: {daemon.last_lines(3)}")
    return f"status {status}: {lines[0][25:200]}"


def mounted(disk, how):
    subprocess.run(["mount", "-o", f"remount,{how}", str(disk.folder)], check=True)


def read_only_start(is_killed):
    """A start on a read-only disk returns the tokens on disk, begins nothing, and continues once it is writable."""
    async def case(stage):
        disk = stage.disk(SmallDisk)
        realm = stage.realm()
        daemon = stage.daemon(state=disk.folder / "state")
        client = await daemon.start()
        names = await stage.sign_in(daemon, client, realm, 4)
        tokens = {name: (await client.call("token.get", account=name))["access_token"] for name in names}
        client.close()
        if is_killed:
            daemon.kill()
            await daemon.process.ended(90)
        else:
            await daemon.stop()
        mounted(disk, "ro")
        since, sign_ins = len(stage.ledger.records), len(realm.families)
        client = await daemon.start()
        for name, token in tokens.items():
            if (await client.call("token.get", account=name))["access_token"] != token:
                raise Wrong(f"{name} gives another token than the one on disk")
        store = (await client.call("broker.status"))["store"]
        if store["state"] != "degraded" or "read-only" not in store["message"]:
            raise Wrong(f"the store's state is {store}")
        _, status = await daemon.grantctl("status")
        _, doctor = await daemon.grantctl("doctor")
        for name, output in (("status", status), ("doctor", doctor)):
            if "degraded" not in output or "read-only" not in output or "Mount it read-write" not in output:
                raise Wrong(f"{name} does not name the disk: {output}")
        for method, values in (("login.start", {"provider": realm.name, "account": "new"}),
                               ("token.report_rejected", {"account": names[0], "generation": 1, "timeout": 30})):
            try:
                raise Wrong(f"{method} answers {await client.call(method, **values)}")
            except Refused as refusal:
                if refusal.reason != "store_failure" or "read-only" not in str(refusal):
                    raise Wrong(f"{method} is refused with {refusal.reason}: {refusal}") from refusal
        if any(stage.requests(name, since) for name in names) or len(realm.families) != sign_ins:
            raise Wrong("the provider got requests")
        mounted(disk, "rw")

        async def works():
            return (await client.call("broker.status"))["store"]["state"] == "ok"

        await until(works, 120, "the store stays degraded though the disk is writable")
        await stage.prove(client, names)
        (new,) = await stage.sign_in(daemon, client, realm, 1, prefix="new")
        client.close()
        client = await stage.restart(daemon)
        await stage.prove(client, [*names, new])
        return "4 accounts are served; refreshes and logins follow once the disk is writable"

    return case


async def read_only_no_state(stage):
    """Without a database on the read-only disk the start fails, and the error names the disk."""
    disk = stage.disk(SmallDisk)
    stage.realm()
    daemon = stage.daemon(state=disk.folder / "state")
    daemon.state.mkdir(mode=0o700)
    mounted(disk, "ro")
    daemon.launch()
    if not await daemon.process.ended(90) or daemon.process.status == 0:
        raise Wrong(f"the start has status {daemon.process.status}")
    if not daemon.lines("ead-only"):
        raise Wrong(f"the error does not name the disk: {daemon.last_lines(2)}")
    return daemon.last_lines(1)[:200]


CASES = {
    "read-only-start": read_only_start(False), "read-only-start-killed": read_only_start(True),
    "read-only-no-state": read_only_no_state,
    "login-full-disk": login_full, "login-full-disk-stop": login_full_stop, "login-full-disk-lost": login_full_lost}
