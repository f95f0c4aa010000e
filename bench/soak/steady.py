"""The clients that count: many connections, each of which asks what a program asks, and judges every answer."""

import asyncio
import json
import random

from grantd_testing import Gone, Refused, message
from soak.judge import Judge
from soak.plan import CALM, clock, refused_account
from soak.wire import Wire, key, request, some_id, written
from soak.witness import Owner, Reporter

TURNS_PER_CONNECTION = 100, 3000
LONGEST_BATCH, TOO_LONG_BATCH = 64, 100
DEEPEST = 32
# Less than a refresh may take.
SHORT_TIMEOUT = 0.5
WIDE_VIEWS = ("account.list", "broker.status", "broker.metrics", "provider.list", "provider.get", "login.list")
INVALID_REQUEST, UNKNOWN_METHOD, BAD_PARAMS, UNKNOWN_ACCOUNT, PARSE_ERROR = -32600, -32601, -32602, -32000, -32700


class Steady:
    """One client; it connects again now and then."""

    def __init__(self, judge, number):
        self.judge, self.plan, self.shared = judge, judge.plan, judge.shared
        self.random = random.Random(f"{self.plan.seed}/{number}")
        refused = {refused_account(account.provider) for account in self.plan.accounts if account.provider != CALM}
        self.accounts = [account for account in self.plan.accounts if account.name not in refused]
        self.calm = [account for account in self.accounts if account.provider == CALM]
        self.turns = (
            (self.cached, 40), (self.current, 30), (self.pipelined, 12), (self.exacting, 1), (self.roundabout, 8),
            (self.view, 8), (self.wide_view, 3), (self.batch, 3), (self.notification, 2), (self.mistake, 3),
            (self.discover, 0.2))
        self.wire, self.done = None, 0

    async def run(self):
        while not self.shared.over.is_set():
            since, self.done = clock(), 0
            try:
                self.wire = await Wire.open(self.plan.socket)
                await self.life()
            except Refused:
                await self.refused(since)
            except TimeoutError:
                self.judge.fail("a request was not answered", "in time")
            except (Gone, OSError) as error:
                # Whoever writes to a connection that is refused just then may not see why.
                if self.done == 0 and self.shared.is_storm(since):
                    await self.refused(since)
                else:
                    self.judge.fail("a good client's connection was closed", repr(error))
            finally:
                if self.wire:
                    self.wire.close()
                    self.wire = None

    async def life(self):
        choices, weights = zip(*self.turns)
        for _ in range(self.random.randint(*TURNS_PER_CONNECTION)):
            await self.random.choices(choices, weights)[0]()
            self.judge.count("turns")
            self.done += 1
            if self.shared.over.is_set():
                return
            await asyncio.sleep(self.random.expovariate(1 / self.plan.think))

    async def refused(self, since):
        if self.shared.is_storm(since):
            self.judge.count("connections refused in a storm")
        else:
            self.judge.fail("a good client's connection was refused", "and there was no storm")
        await asyncio.sleep(0.2)

    # Tokens

    async def cached(self):
        """A token that has long to live: what nothing of all that goes on may slow down."""
        account = self.random.choice(self.calm).name
        asked = self.judge.asks(account)
        reply = await self.wire.ask("token.get", account=account)
        self.judge.took("a cached token", clock() - asked[0])
        self.judge.token(account, reply, asked)

    async def current(self):
        """A token that lives a few seconds: often waits for a refresh."""
        account = self.random.choice(self.accounts)
        asked = self.judge.asks(account.name)
        made = message("token.get", {"account": account.name}, some_id(self.random, 1))
        await self.wire.send(written(self.random, made))
        reply = await self.wire.answer()
        if not self.shared.is_troubled(account.provider, asked[0]):
            self.judge.took("a token that lives seconds", clock() - asked[0])
        if reply.get("id") != made["id"]:
            self.judge.fail("an answer has another id", (made["id"], reply.get("id")))
        self.judge.token(account.name, reply, asked)

    async def pipelined(self):
        """Many at once, answered in any order."""
        waiting, payload = {}, []
        for number in range(self.random.randint(2, DEEPEST)):
            account = self.random.choice(self.accounts).name
            made = message("token.get", {"account": account}, some_id(self.random, number))
            if self.random.random() < 0.2:
                made["params"]["min_ttl"] = self.random.choice((0, 1, 0.5))
            waiting[key(made["id"])] = account, self.judge.asks(account)
            payload.append(written(self.random, made))
        await self.wire.send(*payload)
        while waiting:
            reply = await self.wire.answer()
            found = waiting.pop(key(reply.get("id")), None)
            if found is None:
                self.judge.fail("an answer to nothing that was asked", reply)
                return
            self.judge.token(found[0], reply, found[1])

    async def exacting(self):
        """More time than most tokens have left: refreshed for this caller."""
        account = self.random.choice(self.accounts)
        asked = self.judge.asks(account.name)
        params = {"account": account.name, "min_ttl": 10**6}
        allowed = ()
        if self.random.random() < 0.3:
            params["timeout"] = SHORT_TIMEOUT
            allowed = ("timed_out",)
        reply = await self.wire.ask("token.get", **params)
        self.judge.token(account.name, reply, asked, allowed)

    async def roundabout(self):
        """What the fast road does not take."""
        account = self.random.choice(self.accounts)
        asked = self.judge.asks(account.name)
        params = self.random.choice((
            {"scopes": ["openid", "offline_access"]}, {"scopes": [], "timeout": 20}, {"min_ttl": 0.25},
            {"min_ttl": None, "resource": None}))
        reply = await self.wire.ask("token.get", account=account.name, **params)
        self.judge.token(account.name, reply, asked)

    # Everything else

    async def view(self):
        account = self.random.choice(self.accounts)
        since = clock()
        result = self.judge.result(await self.wire.ask("account.get", account=account.name), "account.get")
        self.judge.took("account.get", clock() - since)
        if result:
            self.check_view(account, result, since)

    def check_view(self, account, view, since):
        if (view["account"], view["provider"]) != (account.name, account.provider):
            self.judge.fail("account.get answers for another account", view)
        if view.get("identity", {}).get("subject") != account.subject:
            self.judge.fail("an account is another person's", view)
        fine = view["state"] in ("ok", "refreshing")
        if not fine and not self.shared.is_troubled(account.provider, since):
            self.judge.fail("an account is not well", view)

    async def wide_view(self):
        method = self.random.choice([name for name in WIDE_VIEWS if name in self.plan.methods])
        params = {"provider": self.random.choice(self.accounts).provider} if method == "provider.get" else {}
        since = clock()
        result = self.judge.result(await self.wire.ask(method, **params), method)
        self.judge.took("lists and status", clock() - since)
        if method == "account.list" and result:
            seen = {view["account"]: view for view in result["accounts"]}
            for account in self.accounts:
                if account.name in seen:
                    self.check_view(account, seen[account.name], since)
                else:
                    self.judge.fail("an account is not listed", account.name)

    async def discover(self):
        if document := self.judge.result(await self.wire.ask("rpc.discover"), "rpc.discover"):
            if not any(method["name"] == "token.get" for method in document["methods"]):
                self.judge.fail("rpc.discover knows no token.get", document)

    async def notification(self):
        """Carried out and never answered: the next answer is that to the next request."""
        account = self.random.choice(self.accounts).name
        unanswered = written(self.random, message("token.get", {"account": account}))
        asked = self.judge.asks(account)
        await self.wire.send(unanswered, request("token.get", {"account": account}, 7))
        reply = await self.wire.answer()
        if reply.get("id") != 7:
            self.judge.fail("a notification was answered", reply)
            return
        self.judge.token(account, reply, asked)

    async def mistake(self):
        line, code = self.random.choice((
            (b"{\n", PARSE_ERROR), (b"[]\n", INVALID_REQUEST), (b"17\n", INVALID_REQUEST), (b"\xff\xfe\n", PARSE_ERROR),
            (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}\n', PARSE_ERROR),
            (request("token.gte", {}, 1), UNKNOWN_METHOD),
            (request("token.get", {"account": "nobody"}, 1), UNKNOWN_ACCOUNT),
            (request("token.get", {"account": "calm-1", "extra": 1}, 1), BAD_PARAMS),
            (request("token.get", {"account": 5}, 1), BAD_PARAMS),
            (request("token.get", {"account": "calm-1", "min_ttl": -1}, 1), BAD_PARAMS)))
        if self.done == 0 and line[:1] not in (b"{", b"["):
            # As a connection's first line it would be another protocol's.
            await self.cached()
        await self.wire.send(line)
        self.judge.error(await self.wire.answer(), code, line)

    # Batches

    async def batch(self):
        size = self.random.choice((1, 2, 5, 20, LONGEST_BATCH, self.random.randint(1, TOO_LONG_BATCH)))
        members = [self.member(number) for number in range(size)]
        await self.wire.send(json.dumps([made for made, _ in members]).encode() + b"\n")
        if size > LONGEST_BATCH:
            self.judge.error(await self.wire.answer(), INVALID_REQUEST, "a batch that is too long")
            return
        checks = [check for _, check in members if check]
        if not checks:
            return
        replies = await self.wire.answer()
        if not isinstance(replies, list) or len(replies) != len(checks):
            self.judge.fail("a batch has another number of answers", (len(checks), replies))
            return
        for reply, check in zip(replies, checks):
            check(reply)
        self.judge.count("batches")

    def member(self, number):
        """A member of a batch, and what checks its answer; nil where there is none."""
        kind, account = self.random.random(), self.random.choice(self.accounts).name
        if kind < 0.15:
            return message("token.get", {"account": account}), None
        if kind < 0.3:
            old = {"jsonrpc": "1.0", "method": "token.get", "id": number}
            invalid = self.random.choice((1, "x", None, [], {}, old))
            return invalid, lambda reply: self.judge.error(reply, INVALID_REQUEST, "an invalid member of a batch")
        made, asked = message("token.get", {"account": account}, some_id(self.random, number)), self.judge.asks(account)

        def check(reply):
            if reply.get("id") != made["id"]:
                self.judge.fail("a batch is not answered in its order", (made["id"], reply))
            self.judge.token(account, reply, asked)
        return made, check


async def crowd(judge):
    runs = [Steady(judge, number).run() for number in range(judge.plan.connections)]
    providers = {account.provider for account in judge.plan.accounts} - {CALM}
    runs += [Reporter(judge, provider).run() for provider in sorted(providers)]
    async with asyncio.TaskGroup() as group:
        for run in [*runs, Owner(judge).run()]:
            group.create_task(run)


def main(plan, shared, answer):
    judge = Judge(plan, shared, "steady clients")
    try:
        asyncio.run(crowd(judge))
    except* Exception as errors:
        judge.fail("a client broke", errors.exceptions)
    answer.send(judge.report())
