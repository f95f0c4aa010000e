#!/usr/bin/env python3
"""Thirty accounts, an independent provider and all faults at random: no grant is lost that could have been kept.

    Tests/reliability/reliability.py [--seconds 60] [--seed N] [--accounts 30] [--products DIR] [--keep DIR]

The programs are those of --products, of $PRODUCTS, or of .build/debug ($BUILD takes another build). The provider
rotates refresh tokens strictly and keeps a ledger. At the end each grant that was lost must be one of which the ledger
shows that the answer with its new refresh token never reached this machine, or that the process was killed with it.
Exit status: 0 all that was lost may be, 1 something else is wrong: it is printed with the lines of ledger and log.
"""

import argparse
import asyncio
import collections
import contextlib
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

from faults import ODD, Fault  # noqa: E402
from judge import Judge, self_test  # noqa: E402
from ledger import Ledger  # noqa: E402
from provider import Realm  # noqa: E402
from rig import SLACK_SECONDS, Daemon, Gone, Refused, SmallDisk, Wrong, namespace, products, raise_files  # noqa: E402
from web import Server  # noqa: E402

REALMS = ("north", "east", "west")
CLIENTS = 6
ACCESS_SECONDS = 8
# How long an older access token stays good beside a newer one, and how soon callers must have the newer one.
OLD_ACCESS_SECONDS = 1
STALE_SECONDS = 2.0
# What passes, or is for a person; anything else is a fault of the daemon's.
EXPECTED = (
    "temporarily_unavailable", "timed_out", "provider_error", "login_required", "store_failure", "shutting_down")
LONG_SECONDS = 300
SETTLE_SECONDS = 150
SHOWN = 40


class Account:
    def __init__(self, name, realm):
        self.name, self.realm = name, realm
        # The family that the daemon has, and the last one of which it said that it is lost.
        self.family, self.lost = None, None


class World:
    def __init__(self, options, folder, tally):
        self.options, self.folder, self.tally, self.wrong = options, folder, tally, []
        self.is_long = options.seconds >= LONG_SECONDS
        self.ledger, self.servers, self.realms, self.accounts = Ledger(folder / "ledger"), [], [], []
        self.disk, self.over, self.rates, self.frozen = None, asyncio.Event(), {}, []

    def random(self, *names):
        return random.Random("/".join(map(str, (self.options.seed, *names))))

    def fail(self, user, what):
        self.wrong.append((user, what))
        if len(self.wrong) <= SHOWN:
            print(f"# {time.monotonic() - self.began:6.1f} s: {user or ''} {what}", flush=True)

    # The world begins and ends

    async def open(self):
        self.began = time.monotonic()
        for name in REALMS:
            server = await Server.open()
            self.servers.append(server)
            self.realms.append(Realm(
                server, name, self.ledger, access_seconds=ACCESS_SECONDS, old_access_seconds=OLD_ACCESS_SECONDS))
        if self.options.inside:
            self.disk = SmallDisk(self.folder / "disk")
        state = self.disk.folder / "state" if self.disk else None
        self.daemon = Daemon(products(self.options.products), self.folder, self.ledger, state)
        self.daemon.configure((realm.section(self.folder) for realm in self.realms), "share = 0.5\njitter = 0.2\n")
        client = await self.daemon.start()
        for number in range(self.options.accounts):
            account = Account(f"account-{number}", self.realms[number % len(self.realms)])
            self.accounts.append(account)
            await self.daemon.login(client, account.realm, account.name)
            account.family = account.realm.family_of(account.name)
        client.close()
        for realm in self.realms:
            realm.choose = self.choose
            self.rates[realm.name] = 0.1
        # One answer that comes later than most clients wait.
        self.realms[0].scripted[self.accounts[0].name].append(Fault(delay=33))

    def close(self):
        self.daemon.kill()
        for server in self.servers:
            server.close()
        if self.options.keep:
            self.options.keep.mkdir(parents=True, exist_ok=True)
            for file in (self.ledger.path, self.daemon.log):
                shutil.copy(file, self.options.keep)
        self.ledger.close()
        if self.disk:
            self.disk.close()

    async def run(self):
        tasks = [asyncio.create_task(self.client(self.random("client", number))) for number in range(CLIENTS)]
        tasks += [asyncio.create_task(self.weather(server, realm)) for server, realm in zip(self.servers, self.realms)]
        tasks.append(asyncio.create_task(self.people()))
        trouble = asyncio.create_task(self.trouble())
        ending = asyncio.create_task(asyncio.sleep(self.options.seconds))
        await asyncio.wait([ending, trouble, *tasks], return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        self.over.set()
        await asyncio.gather(trouble, *tasks)
        await self.settle()

    # What goes wrong at the provider

    def choose(self, realm, user, number):
        """By the seed, the user and the number of the refresh: whatever the order of things."""
        rng = self.random("fault", realm, user, number)
        if rng.random() > self.rates[realm]:
            return None
        hold = rng.uniform(5, 45) if self.is_long else rng.uniform(2, 6)
        share = rng.uniform(0.05, 0.95)
        retry = {"retry_after": rng.choice((0, 1, 3)), "is_date": rng.random() < 0.3} if rng.random() < 0.5 else {}
        faults = {
            Fault(delay=rng.uniform(0.1, 3)): 24,
            Fault(trickle=rng.uniform(0.5, 4)): 8,
            Fault(odd=rng.choice(sorted(ODD))): 16,
            Fault("status", True, status=rng.choice((500, 502, 503)), is_html=rng.random() < 0.5): 9,
            Fault("status", True, status=429, is_html=rng.random() < 0.2, **retry): 7,
            Fault("reset", True): 7,
            Fault("none", True, delay=hold): 3,
            Fault("status", status=500): 2,
            Fault("reset"): 3,
            Fault("cut", share=share): 3,
            Fault("reset", delay=rng.uniform(0, 2)): 2,
            Fault("none", delay=hold): 2,
            Fault(delay=33): 1 if self.is_long else 0}
        return rng.choices(list(faults), list(faults.values()))[0]

    async def weather(self, server, realm):
        """How often it goes wrong there, and when nobody is there at all."""
        rng = self.random("weather", realm.name)
        while not await self.is_over(rng.uniform(3, 8)):
            if rng.random() < 0.3:
                server.refuse()
                self.tally["times that a provider refused connections"] += 1
                await self.is_over(rng.uniform(0.5, 5))
                await server.listen()
            self.rates[realm.name] = rng.choice((0.02, 0.1, 0.1, 0.4))
            if rng.random() < 0.1:
                account = rng.choice([account for account in self.accounts if account.realm is realm])
                realm.end(account.family, "the provider's own reasons")
        if server.listener is None:
            await server.listen()

    # What goes wrong on the machine

    async def trouble(self):
        rng, count = self.random("trouble"), 0
        kinds = ["freeze"] * 4 + ["kill"] * 3 + ["restart"] * 2 + (["full"] * 2 if self.disk else [])
        # Each kind once, in whatever order, before chance has its way.
        first = rng.sample(sorted(set(kinds)), len(set(kinds)))
        while not await self.is_over(rng.uniform(1, 4)):
            kind, count = first.pop() if first else rng.choice(kinds), count + 1
            self.tally[{
                "freeze": "times that the daemon was stopped (SIGSTOP)", "kill": "kills (SIGKILL)",
                "restart": "restarts (SIGTERM)", "full": "times that the disk was full"}[kind]] += 1
            if kind == "freeze":
                # Once in a long run longer than a request may take.
                await self.freeze(40 if self.is_long and count > 3 and not self.frozen_long() else rng.uniform(0.3, 4))
            elif kind == "full":
                self.disk.fill()
                self.daemon.tell("disk-full")
                await asyncio.sleep(rng.uniform(0.5, 4))
                self.disk.free()
                self.daemon.tell("disk-free")
            else:
                if self.daemon.process.status is not None:
                    raise Wrong(f"the daemon ended by itself, with status {self.daemon.process.status}")
                if kind == "kill":
                    self.daemon.kill()
                else:
                    await self.end_in_order()
                await asyncio.sleep(rng.uniform(0, 0.5))
                (await self.daemon.start()).close()

    async def end_in_order(self):
        """Status 0, unless an exchange was not read to its end."""
        stop = asyncio.create_task(self.daemon.stop(90))
        unread = 0
        while not stop.done():
            unread = sum(realm.in_flight for realm in self.realms)
            await asyncio.sleep(0.01)
        if (status := stop.result()) and not unread:
            self.fail(None, f"an orderly end has status {status}: {self.daemon.last_lines(3)}")

    def frozen_long(self):
        return any(end - start > 30 for start, end in self.frozen)

    async def freeze(self, seconds):
        start = time.monotonic()
        self.daemon.freeze()
        await asyncio.sleep(seconds)
        self.daemon.thaw()
        self.frozen.append((start, time.monotonic()))

    async def is_over(self, seconds):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.over.wait()
        return self.over.is_set()

    # Programs

    async def client(self, rng):
        """Asks for tokens all the time, and looks at the provider whether they are good."""
        while not self.over.is_set():
            try:
                client = await self.daemon.connect()
            except (Gone, TimeoutError):
                await asyncio.sleep(0.05)
                continue
            with contextlib.suppress(Gone):
                while not self.over.is_set():
                    await self.ask(client, rng.choice(self.accounts), rng)
                    await asyncio.sleep(rng.uniform(0, 0.1))
            client.close()

    async def ask(self, client, account, rng):
        params = {"timeout": rng.choice((1, 3, 10))}
        if rng.random() < 0.5:
            params["min_ttl"] = rng.choice((0, 1, 4))
        began = time.monotonic()
        try:
            answer = await client.call("token.get", within=params["timeout"] + 60, account=account.name, **params)
            self.tally["tokens that were looked at"] += 1
            if not self.check(account, answer["access_token"], began) and rng.random() < 0.5:
                await client.call(
                    "token.report_rejected", within=params["timeout"] + 60, account=account.name,
                    generation=answer["generation"], timeout=params["timeout"])
        except Refused as refusal:
            if refusal.reason not in EXPECTED:
                self.fail(account.name, f"an answer that nobody expects: {refusal}")
            self.tally[f"answers: {refusal.reason}"] += 1
        except TimeoutError:
            self.fail(account.name, f"no answer at all to a call with a time-out of {params['timeout']} s")
        took = time.monotonic() - began - self.frozen_between(began)
        self.tally["longest wait beyond its time-out, in ms"] = max(
            self.tally["longest wait beyond its time-out, in ms"], int(1000 * (took - params["timeout"])))
        # A token that is refused is a second call.
        if took > 2 * params["timeout"] + SLACK_SECONDS:
            self.fail(account.name, f"a call with a time-out of {params['timeout']} s took {took:.1f} s")

    def frozen_between(self, began):
        return sum(max(0.0, end - max(start, began)) for start, end in self.frozen)

    def check(self, account, value, asked):
        """Whether the provider takes the token; older ones may not be handed out for long."""
        token = account.realm.access_tokens.get(value)
        if token is None or token.family.user != account.name:
            self.fail(account.name, f"it was given a token {f'of {token.family.user}' if token else 'of nobody'}")
            return True
        if account.realm.is_active(token):
            return True
        judge = Judge(self.ledger.records)
        newer, own = judge.answers.get(token.replaced_by), judge.answers.get(token.exchange)
        if not token.family.revoked and newer and newer["arrived"] and not newer["odd"]:
            end = judge.first_end(judge.requests[token.replaced_by]["t"], newer["t"] + STALE_SECONDS)
            if not end and judge.worked(max(newer["t"], token.dead_at), asked) > STALE_SECONDS:
                self.fail(account.name, f"it was given {token.label}, which a newer one had replaced {newer}")
        if not token.family.revoked and asked > token.ends + STALE_SECONDS and not (own and own["odd"]):
            self.fail(account.name, f"it was given {token.label}, which had ended {asked - token.ends:.1f} s before")
        return False

    async def people(self):
        """Sees which accounts need somebody, and signs in there."""
        while not await self.is_over(0.5):
            with contextlib.suppress(Gone, Refused, TimeoutError, OSError, asyncio.IncompleteReadError):
                client = await self.daemon.connect()
                try:
                    for view in (await client.call("account.list"))["accounts"]:
                        await self.look(client, view)
                finally:
                    client.close()

    async def look(self, client, view, is_last=False):
        account = next(account for account in self.accounts if account.name == view["account"])
        if view["state"] != "login_required":
            # A login may be complete though its answer did not come.
            account.family = account.realm.family_of(account.name) if account.lost else account.family
            account.lost = None
            return
        if account.lost is None:
            account.lost = account.family
            error = view.get("last_error") or {}
            self.tally["grants lost"] += 1
            self.ledger.write(
                "lost", user=account.name, family=account.family.name,
                why=f"{error.get('reason')}: {error.get('message')}")
        if not is_last:
            await self.daemon.login(client, account.realm, account.name)
            account.family, account.lost = account.realm.family_of(account.name), None
            self.tally["logins after a loss"] += 1

    # When it is over

    async def settle(self):
        """Nothing goes wrong any more: each account must give a new token, or be lost justly."""
        for realm in self.realms:
            realm.choose = None
            realm.scripted.clear()
        await self.prove_all("accounts that work when all is well again")
        await self.end_in_order()
        (await self.daemon.start()).close()
        await self.prove_all("accounts that work after one more restart")
        await self.end_in_order()

    async def prove_all(self, what):
        client = await self.daemon.connect()
        names = {view["account"] for view in (await client.call("account.list"))["accounts"]}
        for account in self.accounts:
            if account.name not in names:
                self.fail(account.name, "the account is gone")
        end = time.monotonic() + SETTLE_SECONDS
        proven = await asyncio.gather(
            *(self.prove(client, account, end) for account in self.accounts if account.name in names))
        self.tally[what] = sum(proven)
        client.close()

    async def prove(self, client, account, end):
        """True: it gives a new token; False: it is lost, which the ledger has to justify."""
        view = await client.call("account.get", account=account.name)
        problem, generation = "it was not asked", view["generation"]
        while time.monotonic() < end:
            try:
                await client.call(
                    "token.report_rejected", account=account.name, generation=generation, timeout=10)
                answer = await client.call("token.get", account=account.name, timeout=10)
                token = account.realm.access_tokens.get(answer["access_token"])
                if answer["generation"] > generation and token and account.realm.is_active(token):
                    return True
                problem = f"generation {answer['generation']} of {token and token.label}"
            except Refused as refusal:
                problem = str(refusal)
                if refusal.reason == "login_required":
                    await self.look(client, await client.call("account.get", account=account.name), is_last=True)
                    return False
            except TimeoutError:
                problem = "no answer"
            await asyncio.sleep(0.3)
        self.fail(account.name, f"no new token {SETTLE_SECONDS} s after all faults are over: {problem}")
        return False

    # The verdict

    def report(self):
        judge = Judge(self.ledger.records)
        shown = [(user, what, None) for user, what in self.wrong] + judge.violations()
        for user, what, record in shown[:SHOWN]:
            print(f"\n==== {user or 'the daemon'}: {what}")
            first = judge.requests.get((record or {}).get("first"), record) or {"t": 0}
            lines = [line for line in self.ledger.of(user) if line["t"] >= first["t"] - 1] if user else []
            for line in lines[:SHOWN] if record else lines[-SHOWN:]:
                print(f"  ledger: {line}")
            for line in self.daemon.lines(f"account={user}")[-SHOWN:] if user else self.daemon.lines()[-10:]:
                print(f"  log: {line}")
        for user, what, _ in shown:
            print(f"not ok: {user or 'the daemon'}: {what}")
        for name in sorted(self.tally):
            print(f"# {self.tally[name]:6} {name}")
        for why, count in sorted(judge.tally().items()):
            print(f"# {count:6} grants ended: {why}")
        print(
            f"# {self.options.seconds} s, {len(self.accounts)} accounts, {len(judge.spent)} refreshes, "
            f"{self.tally['grants lost']} grants lost, {len(shown)} without need or promises broken; "
            f"seed {self.options.seed}; {time.monotonic() - self.began:.0f} s")
        return not shown


async def run(options):
    with tempfile.TemporaryDirectory(prefix="grantd-reliability-") as folder:
        world = World(options, pathlib.Path(folder), collections.Counter())
        try:
            await world.open()
            await world.run()
        except Wrong as wrong:
            world.fail(None, str(wrong))
        finally:
            is_well = world.report()
            world.close()
        return is_well


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--accounts", type=int, default=30)
    parser.add_argument("--products", help="the folder with grantd and grantctl")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for the ledger and the daemon's log")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside and (command := namespace()):
        again = [sys.executable, __file__, *sys.argv[1:], "--seed", str(options.seed), "--inside"]
        os.execvp(command[0], [*command, *again])
    self_test()
    raise_files()
    print(f"# reliability: --seconds {options.seconds} --seed {options.seed} --accounts {options.accounts}", flush=True)
    if not options.inside:
        print("# the disk is never full: this machine gives no mount namespace")
    sys.exit(0 if asyncio.run(run(options)) else 1)


main()
