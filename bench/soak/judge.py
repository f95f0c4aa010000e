"""Says whether an answer is right, and keeps the counts and times of one process."""

import array
import collections
import sys
import time

from soak.plan import clock

SHOWN = 20


class Judge:
    def __init__(self, plan, shared, name):
        self.plan, self.shared, self.name = plan, shared, name
        self.accounts = {account.name: account for account in plan.accounts}
        self.counts = collections.Counter()
        self.failures = collections.Counter()
        self.examples = []
        self.latencies = collections.defaultdict(lambda: array.array("d"))
        # The newest generation that any connection of this process has seen.
        self.generations = collections.Counter()
        self.owners = {}

    def count(self, what, times=1):
        self.counts[what] += times

    def fail(self, what, detail):
        self.failures[what] += 1
        if len(self.examples) < SHOWN:
            text = f"{what}: {detail}"[:600]
            self.examples.append(text)
            print(f"soak: {self.name}: {text}", file=sys.stderr, flush=True)

    def took(self, what, seconds):
        self.latencies[what].append(seconds)

    def report(self):
        return {"counts": self.counts, "failures": self.failures, "examples": self.examples,
                "latencies": {name: times.tobytes() for name, times in self.latencies.items()}}

    # Answers

    def is_forgiven(self, reason, provider, since):
        return reason == "temporarily_unavailable" and provider is not None and self.shared.is_troubled(provider, since)

    def result(self, reply, what, provider=None, since=0.0, allowed=()):
        """The result, or nil where there is an error; one that was not to be expected is a failure."""
        if "result" in reply:
            return reply["result"]
        error = reply.get("error") or {}
        reason = (error.get("data") or {}).get("reason")
        if self.is_forgiven(reason, provider, since):
            self.count("unavailable while the provider was in trouble")
        elif reason in allowed:
            self.count(f"{reason}, as expected")
        else:
            self.fail(f"{what} was refused", reply)
        return None

    def error(self, reply, code, what):
        if (reply.get("error") or {}).get("code") == code:
            self.count("errors, as provoked")
        else:
            self.fail(f"{what} was not answered with {code}", reply)

    def asks(self, account):
        """What to hand to ``token`` with the answer: the moment, and the generation that may not be undercut."""
        return clock(), time.time(), self.generations[account]

    def token(self, account, reply, asked, allowed=()):
        """The token, where the answer is one: the right account's, nobody else's, not older than one before, and good."""
        since, wall, generation = asked
        about = self.accounts[account]
        result = self.result(reply, "token.get", about.provider, since, allowed)
        if result is None:
            return None
        token = result["access_token"]
        if result["account"] != account or result["provider"] != about.provider:
            self.fail("an answer is another account's", (account, self.without_token(result)))
        if self.owners.setdefault(token, account) != account:
            self.fail("two accounts have one token", (account, self.owners[token]))
        if result["generation"] < generation:
            self.fail("a generation went back", (account, generation, self.without_token(result)))
        self.generations[account] = max(self.generations[account], result["generation"])
        # `expires_at` is rounded down to whole seconds.
        if result["expires_at"] + 1 <= wall or result["expires_in"] < 0:
            self.fail("a token had expired", (account, wall, self.without_token(result)))
        if result["expires_in"] > about.lifetime:
            self.fail("a token lives too long", (account, self.without_token(result)))
        self.count("tokens")
        return result

    @staticmethod
    def without_token(result):
        return {name: value for name, value in result.items() if name != "access_token"}


def self_test(plan, shared):
    """What a broker could do wrong is noticed."""
    def reply(account="calm-1", provider="calm", token="a", generation=5, left=100):
        return {"result": {"account": account, "provider": provider, "access_token": token, "generation": generation,
                           "expires_at": int(time.time()) + left, "expires_in": left}}
    unavailable = {"error": {"code": -32010, "data": {"reason": "temporarily_unavailable"}}}
    cases = {
        "an answer is another account's": ("calm-1", reply(account="calm-2")),
        "two accounts have one token": ("calm-2", reply(account="calm-2", token="b")),
        "a generation went back": ("calm-1", reply(generation=4)),
        "a token had expired": ("calm-1", reply(left=-2)),
        "a token lives too long": ("calm-1", reply(left=4000)),
        "token.get was refused": ("calm-1", unavailable)}
    for what, (account, wrong) in cases.items():
        judge = Judge(plan, shared, "self-test")
        judge.fail = lambda what, detail, judge=judge: judge.failures.update([what])
        for name, token in (("calm-1", "a"), ("calm-1", "b")):
            judge.token(name, reply(token=token), judge.asks(name))
        assert not judge.failures, judge.failures
        judge.token(account, wrong, judge.asks(account))
        assert judge.failures == {what: 1}, (what, judge.failures)
    shared.trouble("strict", clock() + 60)
    judge = Judge(plan, shared, "self-test")
    judge.token("strict-1", unavailable, judge.asks("strict-1"))
    assert not judge.failures and judge.counts["unavailable while the provider was in trouble"] == 1
    shared.trouble("strict", 0)
