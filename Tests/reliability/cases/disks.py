"""Disks that take nothing: a login that meets a full one, and a start on one that is read-only."""

import asyncio
import contextlib

from grantd_testing import Refused, Wrong
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
    if asyncio.get_running_loop().time() - began > 10:
        raise Wrong("login.wait took longer than its timeout")
    with contextlib.suppress(Refused):
        await client.call("token.get", account="late")
        raise Wrong("an account that is not on disk gives a token")
    return disk, realm, daemon, client, started["login_id"]


async def login_full(stage):
    """A login whose exchange meets a full disk is completed once there is space, and its grant is kept."""
    disk, realm, daemon, client, login = await unsaved_login(stage, None)
    command = asyncio.create_task(daemon.grantctl("login", "continue", login, seconds=60))
    waiting = asyncio.create_task(client.call("login.wait", login_id=login, timeout=60, within=70))
    await asyncio.sleep(7)
    if waiting.done():
        raise Wrong(f"while the disk is full login.wait ends: {waiting.exception() or waiting.result()}")
    disk.free()
    answer = await waiting
    if answer["state"] != "completed" or len(realm.families) != 1:
        raise Wrong(f"with space on the disk the login is {answer}")
    status, output = await command
    if status or "Waiting for the disk" not in output:
        raise Wrong(f"grantctl login continue has status {status}: {output}")
    await stage.prove(client, ["late"], 30)
    client.close()
    client = await stage.restart(daemon)
    await stage.prove(client, ["late"], 30)
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
    await stage.prove(client, ["late"], 30)
    client.close()
    client = await stage.restart(daemon)
    await stage.prove(client, ["late"], 30)
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


CASES = {
    "login-full-disk": login_full, "login-full-disk-stop": login_full_stop, "login-full-disk-lost": login_full_lost}
