"""Two programs beside the many: one whose tokens are refused, and one that asks the providers whose they are."""

import json
import random

from grantd_testing import http
from soak.plan import clock, pause, refused_account
from soak.wire import Wire

REPORT_EVERY = 12
OWNERSHIP_EVERY = 1
ANSWER_SECONDS = 60


class Reporter:
    """The program whose tokens are refused: it says so, and gets another."""

    def __init__(self, judge, provider):
        self.judge, self.account = judge, refused_account(provider)
        self.shared, self.plan, self.provider = judge.shared, judge.plan, provider

    async def run(self):
        wire = await Wire.open(self.plan.socket)
        while not self.shared.over.is_set():
            await self.turn(wire)
            await pause(self.shared, REPORT_EVERY)
        wire.close()

    async def turn(self, wire):
        asked = self.judge.asks(self.account)
        before = self.judge.token(self.account, await wire.ask("token.get", account=self.account), asked)
        if before is None:
            return
        since = clock()
        reply = await wire.ask("token.report_rejected", account=self.account, generation=before["generation"])
        result = self.judge.result(reply, "token.report_rejected", self.provider, since)
        if result is None:
            return
        if result["generation"] <= before["generation"]:
            self.judge.fail("a refused token was not replaced", (before["generation"], result))
        asked = self.judge.asks(self.account)
        after = self.judge.token(self.account, await wire.ask("token.get", account=self.account), asked)
        if after and after["access_token"] == before["access_token"]:
            self.judge.fail("a refused token was handed out again", self.account)
        self.judge.count("tokens reported as refused")


class Owner:
    """Asks the providers themselves whose the tokens are."""

    def __init__(self, judge):
        self.judge, self.shared, self.plan = judge, judge.shared, judge.plan
        self.random = random.Random(f"{self.plan.seed}/owner")
        self.accounts = [one for one in self.plan.accounts if one.name != refused_account(one.provider)]

    async def run(self):
        wire = await Wire.open(self.plan.socket)
        while not self.shared.over.is_set():
            account = self.random.choice(self.accounts)
            asked = self.judge.asks(account.name)
            reply = await wire.ask("token.get", account=account.name)
            if token := self.judge.token(account.name, reply, asked):
                await self.check(account, token)
            await pause(self.shared, OWNERSHIP_EVERY)
        wire.close()

    async def check(self, account, token):
        begun = clock()
        status, _, body = await http(
            "GET", f"{self.plan.issuers[account.provider]}/userinfo",
            headers=[f"Authorization: Bearer {token['access_token']}"], seconds=ANSWER_SECONDS)
        # What the token had left is rounded down.
        if clock() - begun >= token["expires_in"]:
            return
        if status != 200:
            self.judge.fail("a provider refuses its token", (account.name, status, self.judge.without_token(token)))
        elif json.loads(body)["sub"] != account.subject:
            self.judge.fail("a token is another person's", (account.name, body))
        self.judge.count("tokens shown to their provider")
