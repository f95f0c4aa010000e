"""Refreshes: late, odd and lost answers, providers that hang beside others, outages."""

import asyncio
import contextlib
import re
import time

from faults import ODD, Fault
from rig import Gone, Refused, Wrong, until

WIDE = "concurrent_per_provider = 64\n"
# In these the access token is there, and nothing says that it is no bearer token.
HARMLESS = (
    "expires_in -1", 'expires_in ""', 'expires_in "abc"', "expires_in true", "expires_in []", "no token_type",
    "status 201")


async def freeze(stage):
    """1: the provider answers after 0.4 s, the process stands still from 0.15 s to 40 s."""
    realm = stage.realm()
    daemon = stage.daemon(WIDE)
    client = await daemon.start()
    names = await stage.sign_in(daemon, client, realm, 24)
    for name in names:
        realm.scripted[name].append(Fault(delay=0.4))
    tasks = [asyncio.create_task(stage.attempt(client, name)) for name in names]
    await until(lambda: realm.in_flight, 10, "no refresh has begun", pause=0.002)
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
    await until(lambda: not realm.in_flight, 60, "the provider has not answered")
    await stage.prove(client, names, 90)
    if longest > 6.5:
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
        end = time.monotonic() + 30
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
            + (f"; no second refresh in 30 s: {', '.join(silent)}" if silent else ""))
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
            await stage.refresh(client, account, timeout=3)
            answer = await client.call("token.get", account=account, timeout=3)
            token = realm.access_tokens[answer["access_token"]]
            if not token.label.endswith(":1") or answer.get("token_type") != "Bearer":
                refused.append(f"{name} ({token.label}, {answer.get('token_type')})")
        except Refused as refusal:
            refused.append(f"{name} ({refusal.reason})")

    await asyncio.gather(*(one(number, name) for number, name in enumerate(realms)))
    if refused:
        raise Wrong(f"{len(refused)} of {len(HARMLESS)} are not taken: {', '.join(sorted(refused))}")
    return f"the token is handed out after each of {len(HARMLESS)} harmless oddities"


async def neighbour(stage):
    """3: two providers at one host and port; one hangs, the other's refresh takes less than 2 s."""
    hanging, other = stage.realm("hanging"), stage.realm("other")
    daemon = stage.daemon(WIDE)
    client = await daemon.start()
    names = await stage.sign_in(daemon, client, hanging, 12)
    quick = await stage.sign_in(daemon, client, other, 2, prefix="quick")
    hanging.choose = lambda *_: Fault("none", True, delay=40)
    tasks = [asyncio.create_task(stage.attempt(client, name, timeout=1)) for name in names]
    await until(lambda: hanging.in_flight >= 8, 10, "8 refreshes do not hang")
    took = []
    for name in quick:
        try:
            took.append((await stage.refresh(client, name, timeout=10))[0])
        except Refused as refusal:
            raise Wrong(f"{hanging.in_flight} refreshes hang at one provider; at the other: {refusal}") from refusal
    await asyncio.gather(*tasks)
    if max(took) > 2:
        raise Wrong(f"{hanging.in_flight} refreshes hang at one provider; one at the other took {max(took):.1f} s")
    return f"{hanging.in_flight} refreshes hang at one provider; one at the other took {max(took):.2f} s"


async def calls(stage):
    """3: slow calls of one caller (request.send) stop no refresh of that provider."""
    realm = stage.realm()
    daemon = stage.daemon(WIDE, api_base=realm.issuer + "/api")
    client = await daemon.start()
    names = await stage.sign_in(daemon, client, realm, 2)
    slow = [
        asyncio.create_task(client.call(
            "request.send", account=names[0], method="GET", url="/slow?seconds=20", timeout=15))
        for _ in range(8)]
    try:
        await until(lambda: realm.calls >= 8, 10, "8 calls are not under way")
        try:
            took, _ = await stage.refresh(client, names[1], timeout=10)
        except Refused as refusal:
            raise Wrong(f"8 slow calls are under way; a refresh: {refusal}") from refusal
    finally:
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
    if took > 2:
        raise Wrong(f"8 slow calls are under way; a refresh took {took:.1f} s")
    return f"8 slow calls are under way; a refresh took {took:.2f} s"


async def concurrency(stage):
    """3: concurrent_per_provider is what it says, above and below its default."""
    realm = stage.realm()
    seen = {}
    for setting in (64, 3):
        daemon = stage.daemon(f"concurrent_per_provider = {setting}\n")
        client = await daemon.start()
        names = list(stage.accounts) or await stage.sign_in(daemon, client, realm, 30)
        realm.peak, realm.choose = 0, lambda *_: Fault(delay=2 if setting > 30 else 0.2)
        await asyncio.gather(*(stage.attempt(client, name, timeout=20) for name in names))
        seen[setting], realm.choose = realm.peak, None
        await daemon.stop()
    if seen[64] < 28 or seen[3] > 3:
        raise Wrong(f"of 30 refreshes at once the provider saw {seen[64]} with 64, and {seen[3]} with 3")
    return f"of 30 refreshes at once the provider saw {seen[64]} with 64, and {seen[3]} with 3"


async def retry_after(stage):
    """6: after a Retry-After of an hour the provider is back: four things that release it."""
    ways = ("refresh", "check", "reload", "restart")
    realms = {way: stage.realm(way) for way in ways}
    daemon = stage.daemon()
    client = await daemon.start()
    bad, waits = [], []
    for way, realm in realms.items():
        await daemon.login(client, realm, way)
        realm.script.append(Fault("status", True, status=429, retry_after=3600))
        try:
            await stage.refresh(client, way, timeout=5)
        except Refused as refusal:
            waits.append(refusal.data.get("retry_after") or 0)
    if waits and max(waits) > 305:
        bad.append(f"callers are told to come again after {max(waits):.0f} s")

    async def works(way, client, seconds=8.0):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(Gone):
                if await stage.attempt(client, way, timeout=2) and realms[way].asked[way] > 1:
                    return
            await asyncio.sleep(0.2)
        bad.append(f"{way} does not release it")

    status, output = await daemon.grantctl("refresh", "refresh")
    if status:
        bad.append(f"grantctl refresh: status {status}: {' '.join(output.split())[:160]}")
    check = await client.call("provider.check", provider="check", timeout=20)
    if not check["ok"]:
        raise Wrong(f"provider.check is not ok: {check}")
    await works("check", client)
    await client.call("broker.reload")
    await works("reload", client)
    client.close()
    await works("restart", await stage.restart(daemon))
    if bad:
        raise Wrong("; ".join(bad))
    return f"released by each of {', '.join(ways)}; callers are told {max(waits, default=0):.0f} s at most"


async def probe(stage):
    """11: the first request after an outage is stuck; the others recover within some seconds."""
    realm = stage.realm()
    daemon = stage.daemon()
    client = await daemon.start()
    names = await stage.sign_in(daemon, client, realm, 6)
    stage.server.refuse()

    async def is_open():
        await asyncio.gather(*(stage.attempt(client, name, timeout=1) for name in names))
        conditions = (await client.call("broker.status")).get("provider_conditions") or []
        return any(condition["condition"] == "unreachable" for condition in conditions)

    await until(is_open, 40, "the provider does not count as unreachable")
    realm.script.append(Fault("none", True, delay=60))
    await stage.server.listen()
    generations = {name: (await client.call("account.get", account=name))["generation"] for name in names}

    async def caller(name):
        while True:
            with contextlib.suppress(Refused):
                answer = await client.call("token.get", account=name, timeout=1)
                if answer["generation"] > generations[name]:
                    return
            await asyncio.sleep(0.2)

    callers = [asyncio.create_task(caller(name)) for name in names]
    try:
        await until(lambda: realm.in_flight, 40, "nobody tries the provider")
        began = time.monotonic()
        # All but the one whose request is stuck.
        await until(lambda: sum(task.done() for task in callers) >= 5, 60, "5 of 6 accounts have no new token")
        took = time.monotonic() - began
    finally:
        for task in callers:
            task.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
    if took > 10:
        raise Wrong(f"with the first request stuck, the other accounts had new tokens after {took:.1f} s")
    return f"with the first request stuck, the other accounts had new tokens after {took:.1f} s"


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

    await until(is_lost, 40, "the account does not need a login, though its family has ended")
    await asyncio.sleep(0.5)
    missing = []
    if not any(event["type"] == "login.required" and event.get("account") == name for event in listener.events):
        missing.append("no event login.required")
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
    if name not in status or "grantctl login" not in status or "lost" not in status:
        missing.append("grantctl status does not say account, reason and hint")
    if missing:
        raise Wrong("; ".join(missing))
    return "event, metric, log with the rule, status"


CASES = {
    "freeze": freeze, "late-answer": late, "odd-members": odd, "odd-harmless": harmless, "hanging-neighbour": neighbour,
    "slow-calls": calls, "concurrent-per-provider": concurrency, "retry-after": retry_after, "stuck-probe": probe,
    "lost-is-told": told}
