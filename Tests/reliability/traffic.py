"""The programs that use the daemon meanwhile, and the people who sign in again."""

import asyncio
import contextlib
import time

from grantd_testing import Gone, Refused
from provider.judge import Judge

# What a call may take beyond the time-out that it names, and how soon callers must have a newer token.
SLACK_SECONDS = 10.0
STALE_SECONDS = 6.0
# What passes, or is for a person; anything else is a fault of the daemon's.
EXPECTED = (
    "temporarily_unavailable", "timed_out", "provider_error", "login_required", "store_failure", "shutting_down")


class Account:
    def __init__(self, name, realm):
        self.name, self.realm = name, realm
        # The family that the daemon has, and the last one of which it said that it is lost.
        self.family, self.lost = None, None


class Traffic:
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
        asked = time.monotonic()
        ttl = {"min_ttl": rng.choice((0, 1, 4))} if rng.random() < 0.5 else {}
        answer = await self.timed(client, "token.get", account, **params, **ttl)
        if answer is None:
            return
        self.tally["tokens that were looked at"] += 1
        if not self.check(account, answer["access_token"], asked) and rng.random() < 0.5:
            await self.timed(client, "token.report_rejected", account, generation=answer["generation"], **params)

    async def timed(self, client, method, account, timeout, **params):
        """The result; None where it is an error. Nobody waits longer than they said."""
        began = time.monotonic()
        try:
            return await client.call(method, within=timeout + 60, account=account.name, timeout=timeout, **params)
        except Refused as refusal:
            if refusal.reason not in EXPECTED:
                self.fail(account.name, f"an answer that nobody expects: {refusal}")
            self.tally[f"answers: {refusal.reason}"] += 1
        except TimeoutError:
            self.fail(account.name, f"no answer at all to a call with a time-out of {timeout} s")
        finally:
            beyond = time.monotonic() - began - self.frozen_between(began) - timeout
            self.tally["longest wait beyond a time-out, in ms"] = max(
                self.tally["longest wait beyond a time-out, in ms"], int(1000 * beyond))
            if beyond > SLACK_SECONDS:
                self.fail(account.name, f"{method} with a time-out of {timeout} s took {timeout + beyond:.1f} s")
        return None

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
        if not token.family.revoked and newer and newer["arrived"] and newer["carries"] and not newer["odd"]:
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
