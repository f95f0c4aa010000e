#!/usr/bin/env python3
"""Thirty accounts, an independent provider and all faults at random: no grant is lost that could have been kept.

    Tests/reliability/reliability.py [--seconds 60] [--seed N] [--accounts 30] [--products DIR] [--keep DIR]

The programs are those of --products, of $PRODUCTS, or of .build-make/debug ($BUILD takes another build). The provider
rotates refresh tokens strictly and keeps a ledger. At the end each grant that was lost must be one of which the ledger
shows that the answer with its new refresh token never reached this machine, or that the process was killed with it.
Exit status: 0 all that was lost may be, 1 something else is wrong: it is printed with the lines of ledger and log.
"""

import argparse
import asyncio
import collections
import os
import pathlib
import random
import shutil
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
sys.dont_write_bytecode = True

from daemon import Daemon
from grantd_testing import Refused, Wrong, products, temporary_folder
from machine import SmallDisk, namespace, raise_files
from provider.faults import Fault
from provider.judge import Judge, self_test
from provider.ledger import Ledger
from provider.realm import Realm
from provider.web import Server
from traffic import Account, Traffic
from trouble import Trouble

REALMS = ("north", "east", "west")
CLIENTS = 6
ACCESS_SECONDS = 8
# How long an older access token stays good beside a newer one.
OLD_ACCESS_SECONDS = 1
LONG_SECONDS = 300
SETTLE_SECONDS = 300
SHOWN = 40


class World(Trouble, Traffic):
    def __init__(self, options, folder, tally):
        self.options, self.folder, self.tally, self.wrong = options, folder, tally, []
        self.is_long = options.seconds >= LONG_SECONDS
        self.ledger, self.servers, self.realms, self.accounts = Ledger(folder / "ledger"), [], [], []
        self.disk, self.over, self.rates, self.frozen = None, asyncio.Event(), {}, []

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
        tasks += [asyncio.create_task(self.people()), asyncio.create_task(self.note_pauses())]
        trouble = asyncio.create_task(self.trouble())
        ending = asyncio.create_task(asyncio.sleep(self.options.seconds))
        await asyncio.wait([ending, trouble, *tasks], return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        self.over.set()
        await asyncio.gather(trouble, *tasks)
        await self.settle()

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
            about = self.daemon.lines(f"account={user}")[-SHOWN:] if user else self.daemon.crash_lines()
            for line in about or self.daemon.lines()[-10:]:
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
    with temporary_folder("grantd-reliability-") as folder:
        world = World(options, folder, collections.Counter())
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
