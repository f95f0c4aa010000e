"""People who sign in, change their minds, sign in again and leave, while all the rest goes on."""

import random

from grantd_testing import BlockingClient, Gone, Refused, get
from soak.judge import Judge
from soak.plan import CALM, clock, refused_account

PAUSE_SECONDS = 1.0
LOGIN_SECONDS = 60


class People:
    def __init__(self, judge):
        self.judge, self.plan, self.shared = judge, judge.plan, judge.shared
        self.random = random.Random(f"{self.plan.seed}/people")
        self.client = BlockingClient(self.plan.socket)
        self.guests = 0
        kinds = sorted({account.provider for account in self.plan.accounts})
        self.providers = [kind for kind in kinds if kind != CALM]

    def run(self):
        deeds = (self.changes_mind, self.changes_mind, self.visits, self.signs_in_again, self.asks_to_reload)
        while not self.shared.over.is_set():
            try:
                self.random.choice(deeds)()
            except (Gone, Refused) as error:
                self.judge.fail("a person met an error", error)
            self.shared.over.wait(PAUSE_SECONDS)
        self.client.close()

    def start(self, provider, account, user):
        return self.client.call(
            "login.start", provider=provider, account=account, login_hint=user, destinations=["browser"])

    def changes_mind(self):
        """Starts a login and cancels it."""
        login = self.start(self.random.choice(self.providers), "guest-0", "user-900")
        pending = [one["login_id"] for one in self.client.call("login.list")["logins"]]
        if login["login_id"] not in pending:
            self.judge.fail("a login is not listed", login["login_id"])
        if not self.client.call("login.cancel", login_id=login["login_id"])["cancelled"]:
            self.judge.fail("a login was not cancelled", login)
        self.judge.count("logins cancelled")

    def visits(self):
        """Signs in, uses the account and leaves for good."""
        self.guests += 1
        account, provider = f"guest-{self.guests}", self.random.choice(self.providers)
        self.sign_in(provider, account, f"user-{1000 + self.guests}")
        token = self.client.call("token.get", account=account)
        if (token["account"], token["provider"]) != (account, provider):
            self.judge.fail("an answer is another account's", account)
        self.client.call("account.logout", account=account)
        if account in [view["account"] for view in self.client.call("account.list")["accounts"]]:
            self.judge.fail("an account is there after its logout", account)
        self.judge.count("accounts that came and went")

    def signs_in_again(self):
        """The same person once more, whatever the account is doing: nobody else asks for this one's tokens."""
        name = refused_account(self.random.choice(self.providers))
        account = next(one for one in self.plan.accounts if one.name == name)
        before = self.client.call("account.get", account=name)["generation"]
        self.sign_in(account.provider, name, account.user)
        view = self.client.call("account.get", account=name)
        if view["generation"] <= before or view["identity"]["subject"] != account.subject:
            self.judge.fail("a new login did not take the old one's place", (before, view))
        self.judge.count("accounts signed in again")

    def sign_in(self, provider, account, user):
        begun = clock()
        login = self.start(provider, account, user)
        get(login["destinations"][0]["url"])
        outcome = self.client.call("login.wait", login_id=login["login_id"], timeout=LOGIN_SECONDS)
        if outcome["state"] != "completed" or outcome["account"]["account"] != account:
            self.judge.fail("a login did not complete", outcome)
        self.judge.took("a login", clock() - begun)

    def asks_to_reload(self):
        self.client.call("broker.reload")
        self.judge.count("reloads by call")


def main(plan, shared, answer):
    judge = Judge(plan, shared, "people")
    try:
        People(judge).run()
    except Exception as error:  # the report has to come, whatever happened
        judge.fail("a client broke", repr(error))
    answer.send(judge.report())
