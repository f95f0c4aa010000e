"""What the suites with servers of PyPI share: grantd, its configuration, and the checks that each server must pass."""

import json
import os
import pathlib
import signal
import sys

from grantd_testing import CommandedDaemon, products, temporary_folder
from login import Login
from narrow import OTHER_USER, SCOPES, Narrow
from person import Person
from server import ROOT, Server, python_with

LOGIN_REQUIRED, TEMPORARILY_UNAVAILABLE = 3, 5


class Broker(CommandedDaemon):
    """The system's broker for root, so that another user can ask it; else the user's."""

    instance = "system" if os.getuid() == 0 else "user"
    options = (*CommandedDaemon.options, "--templates", ROOT / "config" / "providers.d")

    def account(self, name):
        return next((a for a in self.json("list")["accounts"] if a["account"] == name), None)

    def refresh(self, name):
        """A new token, now."""
        before = self.account(name)["generation"]
        answer = self.ctl("refresh", name)
        assert answer.returncode == 0, answer.stderr
        after = self.account(name)["generation"]
        assert after > before, (before, after)
        return self.token(name)

    def login(self, account, option="--no-browser"):
        return Login([self.products / "grantctl", "--socket", self.socket, "login", "server", account, option, "--json"])


class Suite(Narrow):
    """One server and one broker. `pending`: checks that are known to fail."""

    name, modules, pending = None, (), ()
    server = broker = None
    waiting = 0

    def prepare(self, python, folder):
        folder.chmod(0o755)
        self.seen = set()
        self.server = Server(self.name, python, folder)
        self.broker = Broker(products(), folder, 0, self.sections())

    def sections(self):
        """The issuer and the client id are all that is set."""
        info = self.server.info
        reader = 'user = "root"\n' if Broker.instance == "system" else ""
        return (f'[provider.server]\nprofile = "oidc"\nissuer = "{info["issuer"]}"\nclient_id = "{info["client"]}"\n\n'
                f'[[file]]\naccount = "filed"\npath = "filed.token"\nscopes = ["openid"]\n{reader}\n'
                f'[[rule]]\nuid = {OTHER_USER}\naccounts = ["capped"]\naccess = ["use"]\nscopes = ["openid"]\n')

    def check(self, name, action):
        self.seen.add(name)
        if name not in self.pending:
            return super().check(name, action)
        try:
            action()
        except Exception as error:
            self.waiting += 1
            print(f"pending - {name}\n  {type(error).__name__}: {error}", flush=True)
        else:
            self.failed += 1
            print(f"not ok - {name}\n  it passes: remove it from pending", flush=True)

    def skip(self, name, reason):
        self.seen.add(name)
        print(f"skip - {name}: {reason}", flush=True)

    # ---- the user in the browser, by server

    def consent(self, person, url):
        """Signs in, and allows what is asked."""
        raise NotImplementedError

    def login(self, account):
        with self.broker.login(account) as login:
            login.succeeds(self.consent(Person(), login.url))

    # ---- the checks

    def sign_in(self):
        self.login("alice")
        account = self.broker.account("alice")
        assert account["state"] == "ok", account
        assert set(account["scopes"]) == SCOPES, account

    def token_works(self):
        token = self.broker.token("alice")
        assert self.server.scopes(token) == SCOPES, self.server.introspect(token)
        status, claims = self.server.userinfo(token)
        assert (status, claims.get("sub")) == (200, self.broker.account("alice")["identity"]["subject"]), (status, claims)

    def refreshes(self):
        first = self.broker.token("alice")
        assert self.broker.refresh("alice") != first
        self.token_works()

    def rotates(self):
        """Each refresh sends the refresh token of the answer before it."""
        for _ in range(3):
            self.broker.refresh("alice")
        sent = [entry for entry in self.server.requests("refresh_token") if entry["status"] == 200]
        for before, after in zip(sent[-3:], sent[-2:]):
            assert after["fields"]["refresh_token"] == [before["answer"]["refresh_token"]]
            assert before["answer"]["refresh_token"] not in before["fields"]["refresh_token"], "nothing rotated"
        self.token_works()

    def survives_restart(self):
        status = self.broker.end(signal.SIGTERM)
        assert status == 0, status
        self.broker.start()
        self.broker.refresh("alice")
        self.token_works()

    def reuse(self):
        """Another program uses an old refresh token: the server ends the grant, and grantd asks for a login."""
        self.login("reused")
        old = self.server.requests("authorization_code")[-1]["answer"]["refresh_token"]
        self.broker.refresh("reused")
        status, members = self.server.refresh(old)
        assert (status, members.get("error")) == (400, "invalid_grant"), (status, members)
        answer = self.broker.ctl("refresh", "reused")
        assert answer.returncode == TEMPORARILY_UNAVAILABLE, f"{answer.returncode} {answer.stderr}"
        # The second refusal ends the grant while the access token still works.
        answer = self.broker.ctl("refresh", "reused", "--now")
        assert answer.returncode == LOGIN_REQUIRED, f"{answer.returncode} {answer.stderr}"
        self.login("reused")
        assert self.server.scopes(self.broker.token("reused")) == SCOPES

    def revokes(self):
        self.login("leaving")
        token = self.broker.token("leaving")
        refresh_token = self.server.requests("authorization_code")[-1]["answer"]["refresh_token"]
        answer = self.broker.ctl("logout", "leaving", "--json")
        steps = {step["step"]: step["result"] for step in json.loads(answer.stdout)["steps"]}
        assert steps["forget"] == "done", steps
        status, members = self.server.refresh(refresh_token)
        assert (status, members.get("error")) == (400, "invalid_grant"), f"the refresh token lives: {status} {steps}"
        assert not self.server.introspect(token)["active"], f"the access token lives: {steps}"
        assert set(steps.values()) == {"done"}, steps

    def no_secrets(self):
        log = self.broker.log_text()
        issued = [entry["answer"] for kind in ("authorization_code", "refresh_token") for entry in self.server.requests(kind)]
        secrets = {answer[name] for answer in issued for name in ("access_token", "refresh_token") if name in answer}
        assert len(secrets) > 10
        assert not any(secret in log for secret in secrets), "a token is in the log"

    def stopped(self):
        status = self.broker.end(signal.SIGTERM)
        assert status == 0, status

    def own(self):
        """Checks of one server only."""

    def main(self):
        self.broker.start()
        self.check("sign in", self.sign_in)
        self.check("the token is good at the server, with all scopes", self.token_works)
        self.check("refresh", self.refreshes)
        self.check("rotate: each refresh sends the newest refresh token", self.rotates)
        self.check("a restart needs no new login", self.survives_restart)
        self.check("deny: the login ends at once", self.deny)
        self.own()
        self.narrow_checks()
        self.check("a refresh token that another program used: a login is required, and repairs it", self.reuse)
        self.check("revoke: a logout ends both tokens at the server", self.revokes)
        self.check("no token is in the log", self.no_secrets)
        self.check("it stops in order", self.stopped)
        unknown = set(self.pending) - self.seen
        if unknown:
            self.failed += 1
            print(f"not ok - pending names no check: {sorted(unknown)}")

    def close(self):
        for part in (self.broker, self.server):
            if part:
                part.close()


def run(kind):
    """The exit status: 0 all checks hold or are pending, 1 some do not, 77 the server is not installed."""
    python = python_with(*kind.modules)
    if not python:
        print(f"SKIP: Python has no {' or '.join(kind.modules)}: scripts/deps --tests installs them", file=sys.stderr)
        return 77
    suite = kind()
    with temporary_folder(f"grantd-{kind.name}.", in_memory=True) as folder:
        try:
            suite.prepare(pathlib.Path(python), folder)
            suite.main()
            if suite.failed:
                print("the end of grantd's log:\n" + "\n".join(suite.broker.lines()[-40:]))
        finally:
            suite.close()
    print(f"# {kind.name}: {suite.passed} passed, {suite.failed} failed, {suite.waiting} pending")
    return 1 if suite.failed else 0
