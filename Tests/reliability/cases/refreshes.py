"""Refreshes of one account: answers that are late, odd or lost."""

import asyncio
import contextlib
import re
import time

from grantd_testing import Refused, Wrong, until
from provider.faults import FRAMED, ODD, Fault

# The unit's TimeoutStopSec=.
STOP_SECONDS = 45
WIDE = "concurrent_per_provider = 64\n"
# In these the access token is there, and nothing says that it is no bearer token.
HARMLESS = (
    "expires_in -1", 'expires_in ""', 'expires_in "abc"', "expires_in true", "expires_in []", "no token_type",
    "status 201", *FRAMED)


async def freeze(stage):
    """1: the provider answers after 0.4 s, the process stands still from 0.15 s to 40 s."""
    realm = stage.realm()
    daemon = stage.daemon(WIDE)
    client = await daemon.start()
    names = await stage.sign_in(daemon, client, realm, 24)
    for name in names:
        realm.scripted[name].append(Fault(delay=0.4))
    tasks = [asyncio.create_task(stage.attempt(client, name)) for name in names]
    await until(lambda: realm.in_flight, 120, "no refresh has begun", pause=0.002)
    await asyncio.sleep(0.15)
    sent = realm.in_flight
    daemon.freeze()
    await asyncio.sleep(40)
    daemon.thaw()
    await asyncio.gather(*tasks)
    await stage.prove(client, names)
    return f"{sent} refreshes in flight at the stop, none of 24 grants lost"


async def late(stage):
    """1: an answer after 33 s; callers are answered at their time-out."""
    realm = stage.realm()
    daemon = stage.daemon(WIDE)
    client = await daemon.start()
    names = await stage.sign_in(daemon, client, realm, 30)
    for name in names:
        realm.scripted[name].append(Fault(delay=33))

    async def caller(name):
        began = time.monotonic()
        with contextlib.suppress(Refused):
            await stage.refresh(client, name, timeout=5)
        return time.monotonic() - began

    longest = max(await asyncio.gather(*(caller(name) for name in names)))
    begun = realm.in_flight
    await until(lambda: not realm.in_flight, 120, "the provider has not answered")
    await stage.prove(client, names)
    if longest > 20:
        raise Wrong(f"a caller with a time-out of 5 s waited {longest:.1f} s")
    return f"{begun} refreshes in flight, none of 30 grants lost; callers with 5 s waited {longest:.1f} s at most"


async def odd(stage):
    """2: after each odd answer the next refresh presents the new refresh token."""
    realms = {name: stage.realm(f"odd-{number}") for number, name in enumerate(ODD)}
    daemon = stage.daemon()
    client = await daemon.start()
    kept, silent = [], []

    async def one(number, name):
        realm, account = realms[name], f"odd-{number}"
        await daemon.login(client, realm, account)
        realm.script.append(Fault(odd=name))
        await stage.attempt(client, account, timeout=3)
        end = time.monotonic() + 120
        while realm.asked[account] < 2 and time.monotonic() < end:
            with contextlib.suppress(Refused):
                await stage.refresh(client, account, timeout=2)
            await asyncio.sleep(0.1)
        requests = stage.requests(account)
        if len(requests) < 2:
            silent.append(name)
        elif not requests[1]["rt"].endswith(":1"):
            kept.append(name)

    await asyncio.gather(*(one(number, name) for number, name in enumerate(realms)))
    if kept or silent:
        raise Wrong(
            f"{len(kept)} of {len(ODD)} threw the new refresh token away: {', '.join(sorted(kept)) or '-'}"
            + (f"; no second refresh in 120 s: {', '.join(silent)}" if silent else ""))
    return f"the new refresh token is used after each of {len(ODD)} odd answers"


async def harmless(stage):
    """2: what is harmless is taken: an unreadable expires_in is unknown, a missing token_type Bearer, 201 a success."""
    realms = {name: stage.realm(f"odd-{number}") for number, name in enumerate(HARMLESS)}
    daemon = stage.daemon()
    client = await daemon.start()
    refused = []

    async def one(number, name):
        realm, account = realms[name], f"odd-{number}"
        await daemon.login(client, realm, account)
        realm.script.append(Fault(odd=name))
        try:
            await stage.refresh(client, account, timeout=40)
            answer = await client.call("token.get", account=account, timeout=40)
            token = realm.access_tokens[answer["access_token"]]
            if not token.label.endswith(":1") or answer.get("token_type") != "Bearer":
                refused.append(f"{name} ({token.label}, {answer.get('token_type')})")
        except Refused as refusal:
            refused.append(f"{name} ({refusal.reason})")

    await asyncio.gather(*(one(number, name) for number, name in enumerate(realms)))
    if refused:
        raise Wrong(f"{len(refused)} of {len(HARMLESS)} are not taken: {', '.join(sorted(refused))}")
    return f"the token is handed out after each of {len(HARMLESS)} harmless oddities"


async def grace(stage):
    """With a grace period answers that are lost in any way cost nothing."""
    realm = stage.realm(grace=150)
    daemon = stage.daemon(rotation="grace 150s")
    client = await daemon.start()
    faults = (Fault("reset"), Fault("cut"), Fault("none", delay=1), Fault("status", status=500))
    names = await stage.sign_in(daemon, client, realm, len(faults))
    for name, fault in zip(names, faults):
        realm.scripted[name].append(fault)
    await asyncio.gather(*(stage.attempt(client, name, timeout=3) for name in names))
    await stage.prove(client, names)
    return f"{len(faults)} answers lost, no grant"


async def stop_waits(stage):
    """11: an orderly stop waits for an answer that is on its way."""
    realm = stage.realm()
    daemon = stage.daemon()
    client = await daemon.start()
    (name,) = await stage.sign_in(daemon, client, realm, 1)
    realm.script.append(Fault(delay=15))
    task = asyncio.create_task(stage.attempt(client, name, timeout=2))
    await until(lambda: realm.in_flight, 120, "no refresh has begun")
    began = time.monotonic()
    status = await daemon.stop(STOP_SECONDS)
    took = time.monotonic() - began
    await asyncio.gather(task, return_exceptions=True)
    await stage.prove(await daemon.start(), [name])
    if status:
        raise Wrong(f"the grant is kept, but the exit status is {status}")
    return f"the stop took {took:.1f} s, and the grant is kept"


async def stop_unread(stage):
    """11: an answer that does not come within the unit's stop time: it ends in time and says whose it is."""
    realm = stage.realm()
    daemon = stage.daemon()
    client = await daemon.start()
    (name,) = await stage.sign_in(daemon, client, realm, 1)
    realm.script.append(Fault(delay=70))
    task = asyncio.create_task(stage.attempt(client, name, timeout=2))
    await until(lambda: realm.in_flight, 120, "no refresh has begun")
    before, began = len(daemon.lines()), time.monotonic()
    await daemon.stop(STOP_SECONDS)
    took = time.monotonic() - began
    await asyncio.gather(task, return_exceptions=True)
    lines = [line for line in daemon.lines()[before:] if re.search(rf" (warning|error|critical) .*\b{name}\b", line)]
    if not lines:
        raise Wrong(f"the stop took {took:.1f} s, and no line says that the answer for {name} was not read")
    return f"the stop took {took:.1f} s, and says: {lines[0][25:160]}"


async def told(stage):
    """12: a lost grant is an event, a metric, a line of the log with reason and rule, and in the status."""
    realm = stage.realm()
    daemon = stage.daemon()
    client = await daemon.start()
    (name,) = await stage.sign_in(daemon, client, realm, 1)
    listener = await daemon.connect()
    await listener.call("events.subscribe")
    realm.script.append(Fault("reset"))

    async def is_lost():
        await stage.attempt(client, name, timeout=2)
        return (await client.call("account.get", account=name))["state"] == "login_required"

    await until(is_lost, 120, "the account does not need a login, though its family has ended")
    missing = []

    def is_told():
        return any(event["type"] == "login.required" and event.get("account") == name for event in listener.events)

    try:
        await until(is_told, 120, "no event login.required")
    except Wrong as wrong:
        missing.append(str(wrong))
    metrics = (await client.call("broker.metrics"))["text"]
    samples = [line for line in metrics.splitlines() if not line.startswith("#") and "lost" in line]
    if not any(float(line.split()[-1]) >= 1 for line in samples):
        missing.append("no metric counts what is lost")
    lines = [line for line in daemon.lines(f"account={name}") if re.search(r" (warning|error|critical) ", line)]
    if not any("lost" in line and "grantctl login" in line for line in lines):
        missing.append("no line of the log has reason and hint")
    if not any(re.search("rotat|strict|once", line) for line in lines):
        missing.append("no line of the log names the provider's rule (rotation)")
    _, status = await daemon.grantctl("status")
    if words := [word for word in (name, "grantctl login", "lost") if word not in status]:
        missing.append(f"grantctl status does not say: {', '.join(words)}")
    if missing:
        raise Wrong("; ".join(missing))
    return "event, metric, log with the rule, status"


CASES = {
    "freeze": freeze, "late-answer": late, "odd-members": odd, "odd-harmless": harmless, "grace-period": grace,
    "stop-waits": stop_waits, "stop-unread": stop_unread, "lost-is-told": told}
