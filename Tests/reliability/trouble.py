"""What goes wrong at the providers and on the machine, by a seed."""

import asyncio
import contextlib
import random
import time

from grantd_testing import Wrong
from provider.faults import ODD, Fault


class Trouble:
    def random(self, *names):
        return random.Random("/".join(map(str, (self.options.seed, *names))))

    async def is_over(self, seconds):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.over.wait()
        return self.over.is_set()

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
        # In a long run now and then a while without trouble, in which what takes long can end.
        while not await self.is_over(rng.uniform(40, 50) if self.is_long and count % 10 == 9 else rng.uniform(1, 4)):
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

    async def note_pauses(self):
        """Times at which this machine gave this process no turn, and probably none to the daemon."""
        while not self.over.is_set():
            start = time.monotonic()
            await asyncio.sleep(0.1)
            if (now := time.monotonic()) - start > 0.6:
                self.frozen.append((start, now))

    async def freeze(self, seconds):
        start = time.monotonic()
        self.daemon.freeze()
        await asyncio.sleep(seconds)
        self.daemon.thaw()
        self.frozen.append((start, time.monotonic()))
