"""Refreshes beside others: providers that hang, are out of order or have no name, callers that ask for much."""

import asyncio
import contextlib
import socket
import subprocess
import time

from grantd_testing import Gone, Refused, Wrong, until
from machine import Skip
from provider.faults import Fault

WIDE = "concurrent_per_provider = 64\n"
ADDRESSES_KEPT = 150
OBSERVATIONS = 60
# For others to recover while a request is stuck for much longer; and for an account whose own delay is longer.
STUCK_SECONDS, RECOVERY_SECONDS = 30, 20
# Of a refresh whose time is measured: the best counts, since this machine may pause.
TRIES, QUICK_SECONDS = 3, 5


async def quickest(stage, client, names, what):
    """The time of a refresh, of some accounts until one is quick; all must work."""
    took = []
    for name in names:
        try:
            took.append((await stage.refresh(client, name, timeout=50))[0])
        except Refused as refusal:
            raise Wrong(f"{what}: {refusal}") from refusal
        if took[-1] <= QUICK_SECONDS:
            break
    return min(took)


async def neighbour(stage):
    """3: two providers at one host and port; one hangs, the other's refresh takes less than 2 s."""
    hanging, other = stage.realm("hanging"), stage.realm("other")
    daemon = stage.daemon(WIDE)
    client = await daemon.start()
    names = await stage.sign_in(daemon, client, hanging, 12)
    quick = await stage.sign_in(daemon, client, other, TRIES, prefix="quick")
    hanging.choose = lambda *_: Fault("none", True, delay=200)
    tasks = [asyncio.create_task(stage.attempt(client, name, timeout=1)) for name in names]
    await until(lambda: hanging.in_flight >= 8, 120, "8 refreshes do not hang")
    took = await quickest(stage, client, quick, f"{hanging.in_flight} refreshes hang at one provider; at the other")
    await asyncio.gather(*tasks)
    if took > QUICK_SECONDS:
        raise Wrong(f"{hanging.in_flight} refreshes hang at one provider; one at the other took {took:.1f} s")
    return f"{hanging.in_flight} refreshes hang at one provider; one at the other took {took:.2f} s"


async def calls(stage):
    """3: slow calls of one caller (request.send) stop no refresh of that provider."""
    realm = stage.realm()
    daemon = stage.daemon(WIDE, api_base=realm.issuer + "/api")
    client = await daemon.start()
    names = await stage.sign_in(daemon, client, realm, 1 + TRIES)
    slow = [
        asyncio.create_task(client.call(
            "request.send", account=names[0], method="GET", url="/slow?seconds=200", timeout=150))
        for _ in range(8)]
    try:
        await until(lambda: realm.calls >= 8, 120, "8 calls are not under way")
        took = await quickest(stage, client, names[1:], "8 slow calls are under way; a refresh")
    finally:
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
    if took > QUICK_SECONDS:
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
        realm.peak, realm.choose = 0, lambda *_: Fault(delay=20 if setting > 30 else 0.2)
        await asyncio.gather(*(stage.attempt(client, name, timeout=100) for name in names))
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

    async def works(way, client, seconds=90.0):
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
    check = await client.call("provider.check", within=90, provider="check", timeout=60)
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


async def rate_limit(stage):
    """48: 240 accounts are due at a provider that allows 4 requests per second; callers wait for some of them."""
    rate, burst, hold, count = 4, 4, 2, 240
    realm = stage.realm(access_seconds=80)
    daemon = stage.daemon()
    client = await daemon.start()
    names = await stage.sign_in(daemon, client, realm, count)
    bucket, seen, waits = [burst, time.monotonic()], [], []

    def choose(*_):
        now = time.monotonic()
        bucket[:] = min(burst, bucket[0] + (now - bucket[1]) * rate), now
        seen.append((now, bucket[0] >= 1))
        if bucket[0] < 1:
            return Fault("status", True, status=429, retry_after=hold)
        bucket[0] -= 1
        return None

    realm.choose = choose
    tasks = []

    async def one(name):
        waits.append((await stage.refresh(client, name, timeout=100))[0])

    # Each token is due after 32 to 40 of its 80 s.
    await until(lambda: len(seen) > 30, 200, "nothing is due")
    for name in names[:-41:-1]:
        tasks.append(asyncio.create_task(one(name)))
        await asyncio.sleep(0.4)
    await asyncio.gather(*tasks)
    await until(lambda: len({record["user"] for record in stage.ledger.records if record["event"] == "spent"}) == count,
                200, "not all accounts were refreshed")
    client.close()
    refused = sum(not ok for _, ok in seen)
    spent = seen[-1][0] - seen[0][0]
    share = (len(seen) - refused) / (burst + rate * spent)
    waits.sort()
    dead = [name for name in names if stage.requests(name) and realm.family_of(name).revoked]
    told = (f"{len(seen)} requests in {spent:.0f} s, {refused} answered with 429, {share:.2f} of the allowed rate; "
            f"callers wait {waits[len(waits) // 2]:.1f} s (median), {waits[-1]:.1f} s (longest)")
    if dead or share < 0.6 or refused > 0.08 * len(seen) or waits[len(waits) // 2] > 5:
        raise Wrong(f"{told}; {len(dead)} accounts ended")
    return told


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

    await until(is_open, 120, "the provider does not count as unreachable")
    realm.script.append(Fault("none", True, delay=150))
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
        await until(lambda: realm.in_flight, 120, "nobody tries the provider")
        began = time.monotonic()
        # All but the one whose request is stuck.
        await until(lambda: sum(task.done() for task in callers) >= 5, 120, "5 of 6 accounts have no new token")
        took = time.monotonic() - began
    finally:
        for task in callers:
            task.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
    if took > STUCK_SECONDS:
        raise Wrong(f"with the first request stuck, the other accounts had new tokens after {took:.1f} s")
    return f"with the first request stuck, the other accounts had new tokens after {took:.1f} s"


async def one_account(stage):
    """5.12: one account met an outage that the provider's circuit did not see; a caller's question ends its wait."""
    realm = stage.realm()
    daemon = stage.daemon('retry_delays = ["3s", "6s", "60s"]\n')
    client = await daemon.start()
    name, = await stage.sign_in(daemon, client, realm, 1)
    realm.choose = lambda *_: Fault("status", True, status=503)
    generation = (await client.call("account.get", account=name))["generation"]

    async def caller():
        with contextlib.suppress(Refused):
            await client.call("token.report_rejected", account=name, generation=generation, timeout=1)
            return (await client.call("token.get", account=name, timeout=1))["generation"] > generation

    begin = len(stage.ledger.records)
    # Three failures: the account's own next attempt is a minute later.
    end = time.monotonic() + 120
    while len(stage.requests(name, begin)) < 3 and time.monotonic() < end:
        await caller()
        await asyncio.sleep(1)
    asked = len(stage.requests(name, begin))
    realm.choose, began = None, time.monotonic()
    while not await caller():
        if time.monotonic() - began > 30:
            raise Wrong(f"no new token within 30 s of the end of the outage, after {asked} failed requests")
        await asyncio.sleep(1)
    took = time.monotonic() - began
    if took > RECOVERY_SECONDS or asked < 3:
        raise Wrong(f"the account recovered {took:.1f} s after the outage, after {asked} failed requests")
    return f"the account recovered {took:.1f} s after the outage, after {asked} failed requests"


async def lists(stage):
    """9: an observer that asks for all of 1,000 accounts again and again, and hangs up, delays nobody."""
    realm = stage.realm()
    daemon = stage.daemon()
    client = await daemon.start()
    room = asyncio.Semaphore(16)

    async def one(number):
        async with room:
            await daemon.login(client, realm, f"account-{number}")

    await asyncio.gather(*(one(number) for number in range(1000)))
    names = (f"account-{number}" for number in range(1000))
    over, times = asyncio.Event(), {}

    async def measure(name, call):
        while not over.is_set():
            began = time.monotonic()
            with contextlib.suppress(Refused, TimeoutError):
                await call()
            times.setdefault(name, []).append(time.monotonic() - began)
            await asyncio.sleep(0.1)

    async def observe():
        """As many at once as a connection may have."""
        reader, writer = await asyncio.open_unix_connection(daemon.socket)
        writer.write(b'{"jsonrpc":"2.0","id":1,"method":"account.list"}\n' * 64)
        await writer.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await reader.read(1)
        writer.transport.abort()

    observer = await daemon.connect()
    tasks = [
        asyncio.create_task(measure("broker.status", lambda: observer.call("broker.status", within=60))),
        # Another account each time: whose tokens are refused again and again is answered more and more slowly.
        asyncio.create_task(measure("a refresh", lambda: stage.refresh(client, next(names), timeout=10)))]
    for _ in range(OBSERVATIONS):
        await observe()
    await asyncio.sleep(3)
    over.set()
    await asyncio.gather(*tasks)
    # Two may have met a pause of this machine.
    slowest = {name: sorted(all_times)[-3:][0] for name, all_times in times.items()}
    text = ", ".join(f"{name} took {took:.1f} s" for name, took in sorted(slowest.items()))
    if max(slowest.values()) > 3:
        raise Wrong(f"beside one observer of 1,000 accounts {text}")
    return f"beside one observer of 1,000 accounts all but two times {text} at most"


class SilentNames:
    """A name server that never answers, and a hosts file beside it, for all that runs in this namespace."""

    def __init__(self, stage):
        if not stage.has_network:
            raise Skip("this machine gives no network namespace")
        self.hosts = stage.folder / "hosts"
        servers = stage.folder / "resolv.conf"
        servers.write_text("nameserver 127.0.0.1\n")
        self.hosts.write_text("")
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        stage.open_ones.callback(self.socket.close)
        self.socket.bind(("127.0.0.1", 53))
        for file, place in ((servers, "/etc/resolv.conf"), (self.hosts, "/etc/hosts")):
            subprocess.run(["mount", "--bind", file, place], check=True)
            stage.open_ones.callback(subprocess.run, ["umount", "-l", place], check=False)

    def know(self, *names):
        self.hosts.write_text("".join(f"127.0.0.1 {name}\n" for name in ("localhost", *names)))

    def asked(self):
        """How many questions have come so far and were read away."""
        count = 0
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while self.socket.recv(512):
                count += 1
        return count


async def silent_names(stage):
    """4: the name server answers nothing for four providers; a refresh at a fifth, in the hosts file, takes 2 s."""
    names = SilentNames(stage)
    hosts = [f"silent-{number}.test" for number in range(4)]
    names.know("known.test", *hosts)
    realms = [stage.realm(host.removesuffix(".test")) for host in ("known.test", *hosts)]
    for realm in realms:
        realm.issuer = f"http://{realm.name}.test:{stage.server.port}/{realm.name}"
    daemon = stage.daemon(allow_insecure_http=True)
    client = await daemon.start()
    for realm in realms:
        await daemon.login(client, realm, realm.name)
    names.know("known.test")
    for connection in list(stage.server.connections):
        connection.reset()
    names.asked()

    async def again(name):
        # As who manages the account: reports have a budget.
        with contextlib.suppress(Refused):
            await client.call("account.refresh", within=90, account=name, timeout=30)

    # Addresses are known for half a minute.
    end = time.monotonic() + ADDRESSES_KEPT
    while True:
        silent = [asyncio.create_task(again(realm.name)) for realm in realms[1:]]
        await asyncio.sleep(0.5)
        if names.asked():
            break
        await asyncio.gather(*silent, return_exceptions=True)
        for connection in list(stage.server.connections):
            connection.reset()
        if time.monotonic() > end:
            raise Wrong(f"nobody asks the name server within {ADDRESSES_KEPT} s")
        await asyncio.sleep(2)
    await asyncio.sleep(0.5)
    try:
        took = await quickest(
            stage, client, ["known"] * TRIES, "the names of 4 providers are not answered; a refresh at another")
    finally:
        for task in silent:
            task.cancel()
        await asyncio.gather(*silent, return_exceptions=True)
    if took > QUICK_SECONDS:
        raise Wrong(f"the names of 4 providers are not answered; a refresh at another took {took:.1f} s")
    return f"the names of 4 providers are not answered; a refresh at another took {took:.2f} s"


async def half_written(stage):
    """48: a reload in the middle of writing the configuration changes nothing; a removed provider's accounts are named."""
    realm = stage.realm()
    daemon = stage.daemon()
    client = await daemon.start()
    # Reports of one account have a rate.
    names = await stage.sign_in(daemon, client, realm, 5)
    whole = daemon.config.read_bytes()
    bad = []
    halves = {"empty": b"", "no newline": whole.rstrip(b"\n"), "cut": whole[:whole.index(b"[refresh]") + 12], "gone": None}
    for name, (kind, content) in zip(names, halves.items()):
        if content is None:
            daemon.config.rename(daemon.config.with_suffix(".old"))
        else:
            daemon.config.write_bytes(content)
        status, output = await daemon.grantctl("reload")
        if status != 78 or str(daemon.config) not in output:
            bad.append(f"{kind}: status {status}: {' '.join(output.split())[:200]}")
        if not await stage.attempt(client, name, timeout=40):
            bad.append(f"{kind}: no refresh afterwards")
    daemon.config.write_bytes(b"# nothing\n")
    status, output = await daemon.grantctl("reload")
    if status or not all(name in output for name in (*names, realm.name)):
        bad.append(f"the removed provider's accounts are not named: status {status}: {output}")
    daemon.config.write_bytes(whole)
    await client.call("broker.reload")
    if not await stage.attempt(client, names[-1], timeout=40):
        bad.append("no refresh with the provider back")
    if bad:
        raise Wrong("; ".join(bad))
    return f"{len(halves)} incomplete files changed nothing, with status 78; {len(names)} accounts are named"


CASES = {
    "hanging-neighbour": neighbour, "slow-calls": calls, "concurrent-per-provider": concurrency,
    "retry-after": retry_after, "rate-limit": rate_limit, "stuck-probe": probe, "one-account-outage": one_account,
    "silent-names": silent_names, "account-lists": lists, "half-written": half_written}
# Signs 1,000 accounts in, for which this process, with the providers of all tests, works for a long time without a
# pause: the others would measure that, and this one measures how long callers wait.
ALONE = ("account-lists",)
