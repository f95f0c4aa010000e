#!/usr/bin/env python3
"""Random bits of a state folder's files are flipped, and the daemon is started on each copy.

    Tests/reliability/flips.py [--flips 250] [--seed 1] [--products DIR] [--only NUMBER]

A ledger has what each account was given before. No start may fail because of one account: only a flip in what SQLite
needs to open the file (its first page), or in the key, may stop it, with a message that says so. Each account gives what
the ledger has, or is named as one that cannot be read, or asks the provider, which is stopped, for a new token. Exit
status: 0 no flip did harm, 1 some did.
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
from grantd_testing import Refused, Wrong, products
from stage import Stage

ACCOUNTS = 10
AT_ONCE = 3
START_SECONDS = 90
# Flips in files other than the database, by weight.
WEIGHTS = {"grantd.db": 20, "audit.db": 2, "grantd.key": 1, "grantd.db-wal": 6, "grantd.commits": 1, "audit.db-wal": 1}
PAGE = 4096
# Members of an account that change with time, or with the provider that is stopped.
UNSTEADY = {"state", "next_refresh_at", "last_error"}


class Ledger:
    """What each account was given before the flips."""

    def __init__(self):
        self.accounts, self.tokens = {}, {}

    async def read(self, client):
        for view in (await client.call("account.list"))["accounts"]:
            self.accounts[view["account"]] = view
            self.tokens[view["account"]] = await client.call("token.get", account=view["account"])


class Flips:
    def __init__(self, options, programs, stage, ledger):
        self.options, self.programs, self.stage, self.ledger = options, programs, stage, ledger
        self.tally, self.failures = collections.Counter(), []

    async def flip(self, number, template):
        choose = random.Random(self.options.seed * 1_000_003 + number)
        folder = self.stage.folder / f"flip-{number}"
        folder.mkdir(mode=0o700)
        shutil.copytree(template, folder / "state")
        files = [name for name in WEIGHTS if (template / name).exists() and (template / name).stat().st_size]
        name = choose.choices(files, [WEIGHTS[name] for name in files])[0]
        path = folder / "state" / name
        offset, bit = choose.randrange(path.stat().st_size), choose.randrange(8)
        with open(path, "r+b") as file:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ 1 << bit]))
        where = f"flip {number}: bit {bit} of byte {offset} of {name}"
        daemon = Daemon(self.programs, folder, self.stage.ledger)
        daemon.start_limit = START_SECONDS
        shutil.copy(self.stage.daemons[0].config, daemon.config)
        try:
            client = await daemon.start()
        except Wrong as error:
            self.tally["refused starts"] += 1
            may_refuse = name == "grantd.key" or name == "grantd.db" and offset < PAGE
            if not may_refuse or daemon.process.status != 65:
                self.failures.append(f"{where}: {error}")
            daemon.kill()
            return
        try:
            await self.judge(client, daemon, where)
        except (Wrong, TimeoutError) as error:
            self.failures.append(f"{where}: {error}")
        finally:
            client.close()
            daemon.kill()
            if not self.options.only:
                shutil.rmtree(folder)

    async def judge(self, client, daemon, where):
        status = await client.call("broker.status")
        if status["store"]["state"] == "older":
            # The latest commits are gone with a part of the log, which is reported.
            self.tally["older copies reported"] += 1
            return
        answers = {}
        for name in self.ledger.tokens:
            try:
                answers[name] = await client.call("token.get", account=name, timeout=2)
            except Refused as refusal:
                answers[name] = refusal
        views = {view["account"]: view for view in (await client.call("account.list"))["accounts"]}
        status = await client.call("broker.status")
        named = {row["account"] for row in status.get("set_aside", []) if "account" in row}
        for name, token in self.ledger.tokens.items():
            answer = answers[name]
            if name in named:
                self.tally["accounts set aside"] += 1
                if not isinstance(answer, Refused) or answer.reason != "login_required" or name not in views:
                    raise Wrong(f"{name} is set aside, and answers {answer}")
            elif isinstance(answer, Refused):
                # Its token is left out, and the provider that would give another is stopped.
                if answer.reason != "temporarily_unavailable" or not (
                        daemon.lines(name, "left out") or daemon.lines("was damaged", "put aside")):
                    raise Wrong(f"{name} is not named, and answers {answer}; {daemon.last_lines(3)}")
                self.tally["tokens left out"] += 1
            else:
                self.compare(name, token, answer, views.get(name))
        if extra := set(views) - set(self.ledger.tokens) - named:
            raise Wrong(f"there are accounts that never were: {extra}")

    def compare(self, name, token, answer, view):
        if view is None:
            raise Wrong(f"{name} gives a token and is not listed")
        for before, after, unsteady in ((token, answer, {"expires_in"}), (self.ledger.accounts[name], view, UNSTEADY)):
            for member in (before.keys() | after.keys()) - unsteady:
                if before.get(member) != after.get(member):
                    raise Wrong(f"{name} has another {member} than before: {after.get(member)}, not {before.get(member)}")
        self.tally["accounts unharmed"] += 1


async def run(options):
    programs = products(options.products)
    async with Stage(programs, False, False) as stage:
        realm = stage.realm(access_seconds=36000)
        daemon = stage.daemon(more='[callback]\nport = 0\n')
        client = await daemon.start()
        await stage.sign_in(daemon, client, realm, ACCOUNTS)
        ledger = Ledger()
        await ledger.read(client)
        client.close()
        # The log of a process that was killed has the latest commits.
        await daemon.stop()
        client = await daemon.start()
        for name in list(ledger.tokens)[:3]:
            await stage.refresh(client, name)
        await ledger.read(client)
        client.close()
        daemon.kill()
        template = stage.folder / "template"
        shutil.copytree(daemon.state, template, ignore=shutil.ignore_patterns("grantd.lock", "*-shm"))
        stage.server.close()
        flips = Flips(options, programs, stage, ledger)
        numbers = iter([options.only] if options.only else range(1, options.flips + 1))

        async def work():
            for number in numbers:
                await flips.flip(number, template)

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        return flips


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flips", type=int, default=250)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31), help="fixes which bits are flipped")
    parser.add_argument("--only", type=int, help="the number of one flip")
    parser.add_argument("--products", help="the folder with grantd")
    options = parser.parse_args()
    began = time.monotonic()
    flips = asyncio.run(run(options))
    for failure in flips.failures:
        print(f"FAIL {failure}")
    counts = ", ".join(f"{count} {what}" for what, count in sorted(flips.tally.items()))
    print(f"# flips: {options.flips} flips, seed {options.seed}, {len(flips.failures)} failed; {counts}; "
          f"{time.monotonic() - began:.0f} s")
    sys.exit(1 if flips.failures else 0)


if __name__ == "__main__":
    os.umask(0o077)
    main()
