"""One daemon and its three providers, killed again and again."""

import asyncio
import contextlib
import json
import random
import shutil
import signal

from grantd_testing import Gone, Refused, Wrong
from judge import Disk, check_disk, prove
from programs import Daemon, Provider
from traffic import CALLERS, Traffic

# Accounts that stay, at each provider; others come and go beside them.
RESIDENTS = {"strict": 4, "grace": 2, "none": 2}
# Seconds.
POINT_LIMIT = 4.0
# Each of them is reached.
MIGRATIONS, MIGRATION_LIMIT = 5, 60.0
# A provider answers within its faults' delays, which are shorter.
SETTLE_SECONDS = 60


class World(Traffic):
    def __init__(self, products, folder, tally):
        self.products, self.folder, self.tally = products, folder, tally
        self.accounts, self.users, self.dropped_answers = {}, 0, 0
        self.unfinished = []
        self.daemon = Daemon(products, folder)
        self.providers = {}
        self.is_ending = False

    async def open(self):
        for name, ttl in (("strict", 3), ("grace", 3), ("none", 2)):
            self.providers[name] = Provider(self.products, self.folder, name, ttl)
        for provider in self.providers.values():
            await provider.ready()
        self.daemon.configure(self.providers.values())
        await self.fresh(random.Random(0), kills=0)

    def close(self):
        for process in [self.daemon.process, *(provider.process for provider in self.providers.values())]:
            if process:
                process.kill()

    # One round

    async def round(self, plan):
        rng = random.Random(plan.seed)
        await self.set_faults(plan.faults)
        self.is_ending, self.pause = False, plan.pause
        if plan.kind == "empty":
            await self.fresh(rng, kills=3)
        elif plan.kind == "start":
            self.daemon.launch()
            await self.kill_after(rng.uniform(0, self.daemon.start_seconds * 1.2), "at an instant of the start")
        elif plan.kind == "start point":
            await self.live(rng, plan, plan.point)
        else:
            await self.live(rng, plan, plan.point if plan.kind in ("point", "twice") else None)
        await self.examine()
        if plan.kind == "twice":
            self.daemon.launch()
            await self.kill_after(rng.uniform(0, self.daemon.start_seconds * 2), "again, soon after the start")
            await self.examine()
        await self.clear_faults()
        await self.recover(rng)
        await self.kill_after(0, "after all was proven")
        await self.examine()

    async def set_faults(self, faults):
        for provider in self.providers.values():
            for fault in faults:
                await provider.control("fault", **fault)

    async def clear_faults(self):
        stats = await self.providers["strict"].stats()
        self.dropped_answers = stats["fault_hits"].get("drop_after_commit", 0)
        for provider in self.providers.values():
            await provider.control("reset")

    async def live(self, rng, plan, point):
        """Traffic until the daemon is dead."""
        self.daemon.launch(crash_at=point)
        tasks = []
        try:
            with contextlib.suppress(Gone):
                (await self.daemon.ready()).close()
                tasks = [asyncio.create_task(self.caller(random.Random(rng.random()))) for _ in range(CALLERS)]
                tasks.append(asyncio.create_task(self.people(random.Random(rng.random()))))
            if point and await self.daemon.process.ended(POINT_LIMIT):
                if self.daemon.process.status != -signal.SIGKILL:
                    raise Wrong(f"the daemon ended by itself, with status {self.daemon.process.status}")
                self.killed(f"as a commit was {point.split(':')[0]}")
            elif point:
                await self.kill_after(0, "at an instant, the write point was not reached", has_point=True)
            elif plan.kind == "drain":
                await self.kill_in_drain(rng, plan)
            else:
                await self.kill_after(plan.traffic, "at an instant of the traffic")
        finally:
            # They end by themselves as the daemon is gone, and tell what they found.
            self.daemon.process.kill()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def kill_after(self, seconds, place, has_point=False):
        """`has_point`: the daemon may reach its write point before."""
        await asyncio.sleep(seconds)
        if self.daemon.process.status not in ((None, -signal.SIGKILL) if has_point else (None,)):
            raise Wrong(f"the daemon ended by itself, with status {self.daemon.process.status}")
        self.daemon.process.kill()
        self.killed(place)

    async def kill_in_drain(self, rng, plan):
        await asyncio.sleep(plan.traffic)
        self.is_ending = True
        self.daemon.process.send_signal(signal.SIGTERM)
        if await self.daemon.process.ended(rng.uniform(0, 0.3)):
            if self.daemon.process.status != 0:
                raise Wrong(f"an orderly end has status {self.daemon.process.status}")
            self.tally["orderly ends, before the kill came"] += 1
        else:
            self.daemon.process.kill()
            self.killed("in an orderly end")

    def killed(self, place):
        self.tally[f"kills: {place}"] += 1

    # After a kill

    async def settle(self):
        """A request of the dead daemon that the provider still works on would overtake one of the next daemon's."""
        await asyncio.sleep(0.01)
        for provider in self.providers.values():
            async with asyncio.timeout(SETTLE_SECONDS):
                while (await provider.stats())["refreshes_in_flight"]:
                    await asyncio.sleep(0.01)

    async def examine(self):
        await self.settle()
        disk = Disk(self.daemon.state)
        self.tally["refreshes without an answer on disk at a kill"] += len(disk.intents)
        await check_disk(self, disk)
        for account in list(self.accounts.values()):
            if account.presence == "out":
                await self.check_forgotten(account, disk)

    async def check_forgotten(self, account, disk):
        """What was forgotten is revoked, or is on disk to be."""
        del self.accounts[account.name]
        if account.grant is None:
            return
        grants = (await account.provider.stats())["grants"]
        ended = next(grant["ended"] for grant in grants if grant["id"] == account.grant)
        if not ended and not disk.revocations.get(account.provider.name):
            raise Wrong(f"{account.name} is forgotten, but its grant {account.grant} lives and nobody will revoke it")

    async def recover(self, rng):
        """Started again, everything works, or was lost justly and is signed in again."""
        self.daemon.launch()
        client = await self.daemon.ready()
        try:
            await asyncio.gather(*(self.prove_one(client, account, rng) for account in list(self.accounts.values())))
            unfinished, self.unfinished = self.unfinished, []
            for account, login_id, callback in unfinished:
                await self.finish_login(client, account, login_id, callback)
            for name, count in RESIDENTS.items():
                for number in range(count):
                    if f"{name}-{number}" not in self.accounts:
                        await self.login(client, self.stranger(rng, f"{name}-{number}", name), rng)
        except Refused as refusal:
            raise Wrong(f"after the start: {refusal}") from refusal
        except Gone as gone:
            raise Wrong(f"the daemon ended by itself, with status {self.daemon.process.status}") from gone
        finally:
            client.close()

    async def prove_one(self, client, account, rng):
        self.tally["accounts proven after a kill"] += 1
        if not await prove(self, client, account):
            self.tally[f"lost at a provider with rotation {account.provider.rotation}"] += 1
            await self.login(client, account, rng)
            await prove(self, client, account)

    async def finish_login(self, client, account, login_id, callback):
        """A login that was started before the kill, and whose code nobody has used, completes after it."""
        self.accounts[account.name] = account
        await client.call("login.handle_callback", url=callback)
        account.presence = "in"
        await prove(self, client, account)
        self.tally["logins begun before a kill and completed after it"] += 1

    async def fresh(self, rng, kills):
        """A new state folder: its first starts are killed while they make the key, the database and its tables."""
        shutil.rmtree(self.daemon.state, ignore_errors=True)
        self.accounts, self.unfinished = {}, []
        for number in range(kills):
            self.daemon.launch(crash_at=f"migrated:{rng.randint(1, MIGRATIONS)}:0" if number == 0 else None)
            if number == 0 and await self.daemon.process.ended(MIGRATION_LIMIT):
                self.killed("in a migration of the empty store")
            else:
                seconds = rng.uniform(0, self.daemon.start_seconds * 1.1)
                await self.kill_after(seconds, "at an instant of the first start")
            Disk(self.daemon.state)
        if kills == 0:
            await self.recover(rng)
            await self.kill_after(0, "after all was proven")
            await self.examine()

    # Where it fails

    async def report(self):
        """The ledgers, what is on disk and the end of the daemon's log."""
        lines = []
        for provider in self.providers.values():
            with contextlib.suppress(Exception):
                stats = await provider.stats()
                users = {account.user for account in self.accounts.values()}
                grants = [grant for grant in stats["grants"] if grant["user"] in users]
                lines += [f"ledger {provider.name}: {json.dumps(grant)}" for grant in grants[-20:]]
        with contextlib.suppress(Exception):
            disk = Disk(self.daemon.state)
            lines += [f"disk: {json.dumps(row)}" for row in disk.grants.values()]
            lines += [f"disk: intent {account} {sha256}" for account, sha256 in disk.intents.items()]
        lines += self.daemon.lines()[-150:]
        return "\n".join(lines)
