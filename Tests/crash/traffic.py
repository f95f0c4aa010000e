"""The programs and the people that use a daemon while it lives."""

import asyncio
import contextlib

from grantd_testing import Gone, Refused, Wrong, http
from judge import TRANSIENT, Account

CALLERS = 4
# At most so many accounts that come and go, beside those that stay.
GUESTS = 4


class Traffic:
    async def caller(self, rng):
        """A program that wants tokens, and is told by resource servers that they are no good."""
        with contextlib.suppress(Gone):
            client = await self.daemon.connect()
            try:
                while True:
                    inside = [account for account in self.accounts.values() if account.presence == "in"]
                    if inside:
                        await self.use(client, rng.choice(inside), rng)
                    await asyncio.sleep(rng.uniform(0, 0.08))
            finally:
                client.close()

    async def use(self, client, account, rng):
        try:
            min_ttl = {"min_ttl": rng.choice((0, 1, 5))} if rng.random() < 0.5 else {}
            token = await client.call("token.get", account=account.name, timeout=10, **min_ttl)
            self.tally["tokens handed out"] += 1
            account.seen = max(account.seen, token["generation"])
            if rng.random() < 0.1:
                self.tally["tokens refused by a resource server"] += 1
                await client.call(
                    "token.report_rejected", account=account.name, generation=token["generation"], timeout=10)
        except Refused as refusal:
            if refusal.reason not in (*TRANSIENT, "login_required", "unknown_account", "shutting_down"):
                raise Wrong(f"{account.name}: {refusal}") from refusal

    async def people(self, rng):
        """Somebody who signs accounts in, anew and again, and out."""
        with contextlib.suppress(Gone):
            client = await self.daemon.connect()
            try:
                while True:
                    await asyncio.sleep(rng.uniform(0, self.pause))
                    guests = [a for a in self.accounts.values() if a.name.startswith("guest") and a.presence == "in"]
                    inside = [account for account in self.accounts.values() if account.presence == "in"]
                    choice = rng.random()
                    try:
                        if choice < 0.25 and inside:
                            await self.logout(client, rng.choice(inside), revoke=rng.random() < 0.7)
                        elif choice < 0.5 and inside:
                            await self.login(client, rng.choice(inside), rng)
                        elif choice < 0.6:
                            account = self.stranger(rng)
                            self.unfinished.append((account, *await self.start_login(client, account)))
                        elif len(guests) < GUESTS:
                            await self.login(client, self.stranger(rng), rng)
                    except Refused as refusal:
                        if refusal.reason != "shutting_down":
                            raise Wrong(f"a login or a logout: {refusal}") from refusal
            finally:
                client.close()

    def stranger(self, rng, name=None, provider=None):
        self.users += 1
        provider = self.providers[provider or rng.choice(list(self.providers))]
        account = Account(name or f"guest-{self.users}", provider, f"user-{self.users}")
        self.accounts[account.name] = account
        return account

    # A person's login

    async def start_login(self, client, account):
        """As far as the address that the browser is sent back to: it must still do after a crash."""
        started = await client.call(
            "login.start", provider=account.provider.name, account=account.name, login_hint=account.user,
            destinations=["manual"])
        _, headers, _ = await http("GET", started["destinations"][0]["url"])
        return started["login_id"], headers["location"]

    async def login(self, client, account, rng):
        before, logged_in_at = account.presence, account.logged_in_at
        login_id, callback = await self.start_login(client, account)
        account.presence = "in" if before == "in" else "unknown"
        if rng.random() < 0.5:
            # The browser's connection may fall with the daemon. Who waits for the login has its answer before the page.
            page = asyncio.create_task(http("GET", callback))
            try:
                result = await client.call("login.wait", login_id=login_id, timeout=50)
            finally:
                page.cancel()
                await asyncio.gather(page, return_exceptions=True)
            if result["state"] != "completed":
                if self.is_ending:
                    return
                raise Wrong(f"{account.name}: the login is {result['state']} after the callback")
        else:
            await client.call("login.handle_callback", url=callback)
        view = await client.call("account.get", account=account.name)
        account.presence, account.grant, account.was_acted_on = "in", None, False
        account.logged_in_at = max(logged_in_at, view["logged_in_at"] * 1000)
        account.seen = max(account.seen, view["generation"])
        self.tally["logins"] += 1

    async def logout(self, client, account, revoke):
        account.presence = "unknown"
        if not revoke:
            account.grant = None
        await client.call("account.logout", account=account.name, revoke=revoke)
        account.presence = "out"
        self.tally["logouts"] += 1
