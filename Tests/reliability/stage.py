"""What a directed test runs on: a daemon, an independent provider, accounts that are signed in."""

import asyncio
import collections
import contextlib
import time

from daemon import Daemon
from grantd_testing import Gone, Refused, Wrong, temporary_folder
from machine import Skip
from provider.judge import Judge
from provider.ledger import Ledger
from provider.realm import Realm
from provider.web import Server


class Stage:
    def __init__(self, products, has_mounts, has_network):
        self.products, self.has_mounts, self.has_network = products, has_mounts, has_network
        self.open_ones = contextlib.ExitStack()
        self.accounts, self.daemons = {}, []

    async def __aenter__(self):
        self.folder = self.open_ones.enter_context(temporary_folder("grantd-directed-"))
        self.ledger = Ledger(self.folder / "ledger")
        self.open_ones.callback(self.ledger.close)
        self.server = await Server.open()
        self.open_ones.callback(self.server.close)
        return self

    async def __aexit__(self, *_):
        for daemon in self.daemons:
            daemon.kill()
        self.open_ones.close()

    def disk(self, kind):
        if not self.has_mounts:
            raise Skip("this machine gives no mount namespace")
        disk = kind(self.folder / "disk")
        self.open_ones.callback(disk.close)
        return disk

    def realm(self, name="main", **settings):
        return Realm(self.server, name, self.ledger, **settings)

    def daemon(self, refresh="", more="", state=None, folder=None, **section):
        """A daemon for all realms that there are."""
        daemon = Daemon(self.products, folder or self.folder, self.ledger, state)
        daemon.log = self.folder / f"grantd-{len(self.daemons)}.log"
        realms = self.server.realms.values()
        daemon.configure([realm.section(daemon.folder, **section) for realm in realms], refresh, more)
        self.daemons.append(daemon)
        return daemon

    async def sign_in(self, daemon, client, realm, count, prefix="account"):
        names = [f"{prefix}-{number}" for number in range(count)]
        for name in names:
            await daemon.login(client, realm, name)
            self.accounts[name] = realm
        return names

    async def refresh(self, client, name, timeout=10.0):
        """A new token now; how long that took, and the answer."""
        generation = (await client.call("account.get", account=name))["generation"]
        began = time.monotonic()
        answer = await client.call(
            "token.report_rejected", within=timeout + 60, account=name, generation=generation, timeout=timeout)
        return time.monotonic() - began, answer

    async def attempt(self, client, name, timeout=10.0):
        """The same; None where it fails, as by a time-out."""
        with contextlib.suppress(Refused):
            return await self.refresh(client, name, timeout)

    async def prove(self, client, names, seconds=180.0):
        """Each account gives a new token, of a refresh of now, that the provider takes."""
        end, lost, stuck = time.monotonic() + seconds, [], {}

        async def one(name):
            generation = (await client.call("account.get", account=name))["generation"]
            while time.monotonic() < end:
                try:
                    await client.call("token.report_rejected", account=name, generation=generation, timeout=10)
                    answer = await client.call("token.get", account=name, timeout=10)
                    token = self.accounts[name].access_tokens.get(answer["access_token"])
                    if answer["generation"] > generation and token and self.accounts[name].is_active(token):
                        stuck.pop(name, None)
                        return
                    stuck[name] = f"generation {answer['generation']}"
                except Refused as refusal:
                    stuck[name] = str(refusal)
                    if refusal.reason in ("login_required", "unknown_account"):
                        lost.append(name)
                        return
                except TimeoutError:
                    stuck[name] = "no answer"
                await asyncio.sleep(0.2)

        await asyncio.gather(*(one(name) for name in names))
        found = Judge(self.ledger.records).violations()
        if lost or found:
            reasons = collections.Counter(what for _, what, _ in found)
            more = "; ".join(list(reasons)[:2]) or "; ".join(f"{name}: {stuck[name]}" for name in lost[:2])
            raise Wrong(f"{len(lost)} of {len(names)} accounts lost; {more}")
        if stuck:
            first = "; ".join(f"{name}: {why}" for name, why in list(stuck.items())[:2])
            raise Wrong(f"{len(stuck)} of {len(names)} accounts have no new token after {seconds:g} s: {first}")

    def requests(self, user, since=0):
        """The refreshes that the provider was asked for, from that line of the ledger on."""
        return [
            record for record in self.ledger.records[since:]
            if record["event"] == "request" and record["user"] == user]

    async def restart(self, daemon, seconds=90.0):
        """In order; a client of the new process."""
        status = await daemon.stop(seconds)
        try:
            return await daemon.start()
        except (Wrong, Gone) as error:
            raise Wrong(f"the stop had status {status}; then {error}") from error
