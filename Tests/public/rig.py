"""What a row runs on: a broker, its own fake providers, the user's browser, and grantctl."""

import contextlib
import json
import subprocess

from grantd_testing import BlockingClient, DaemonProcess, Refused, Wrong, environment, wait_until
from browser import browse, follow
from provider import Provider

ANSWER_SECONDS = 20
START_SECONDS = 30
COMMAND_SECONDS = 20
LOGIN_SECONDS = 10
PAUSE_SECONDS = 0.02


class Skip(Exception):
    """This machine cannot run the row."""


def must(condition, what):
    if not condition:
        raise Wrong(what)


def same(found, wanted, what):
    if found != wanted:
        raise Wrong(f"{what} is {found!r}, not {wanted!r}")


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {toml(one)}" for name, one in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


class Broker(DaemonProcess):
    """One grantd, and calls from any thread. `variables` are added to its environment."""

    def __init__(self, products, folder):
        super().__init__(products, folder)
        self.variables = {}

    def configure(self, head, sites):
        lines = [head]
        for site in sites:
            lines += [f"[provider.{site.name}]", *(f"{name} = {toml(value)}" for name, value in site.keys.items()), ""]
        self.config.write_text("\n".join(lines))

    def connect(self):
        if self.process.status is not None:
            raise Wrong(f"grantd ended with status {self.process.status}: {self.last_lines(3)}")
        with contextlib.suppress(OSError):
            return BlockingClient(self.socket, ANSWER_SECONDS)

    def ready(self):
        wait_until(self.connect, START_SECONDS, "grantd listens", PAUSE_SECONDS).close()

    def call(self, method, /, **params):
        client = wait_until(self.connect, START_SECONDS, "grantd listens", PAUSE_SECONDS)
        client.socket.settimeout(ANSWER_SECONDS + params.get("timeout", 0))
        try:
            return client.call(method, **params)
        finally:
            client.close()

    def refused(self, method, /, **params):
        """The error of a call that must fail."""
        try:
            result = self.call(method, **params)
        except Refused as error:
            return error
        raise Wrong(f"{method} is not refused: {result}")

    def ctl(self, *arguments, home=None, text=None, **more):
        """grantctl without a terminal, with its own home folder."""
        home = home or self.folder
        given = {"stdin": subprocess.DEVNULL} if text is None else {"input": text}
        return subprocess.run(
            [self.products / "grantctl", *map(str, arguments)], capture_output=True, text=True, timeout=COMMAND_SECONDS,
            env=environment(home, GRANTD_SOCKET=str(self.socket), **more), **given)


class Login:
    """A login that waits, and the user who signs in."""

    def __init__(self, site, result):
        self.site, self.result, self.id = site, result, result["login_id"]

    def url(self, kind="manual"):
        found = [one for one in self.result["destinations"] if one["kind"] == kind]
        must(found, f"there is no destination {kind}: {self.result['destinations']}")
        return found[0]["url"]

    def callback(self):
        """The URL that the provider sends the browser to. Each call is a visit of the provider's page."""
        return follow(self.url())

    def wait(self, seconds=LOGIN_SECONDS):
        """The result of `login.wait`, or its error."""
        try:
            return self.site.broker.call("login.wait", login_id=self.id, timeout=seconds)
        except Refused as error:
            return error

    def pending(self):
        answer = self.wait(0)
        return isinstance(answer, dict) and answer["state"] == "pending"

    def completed(self, seconds=LOGIN_SECONDS):
        """The account of a login that must succeed."""
        answer = self.wait(seconds)
        must(isinstance(answer, dict) and answer["state"] == "completed", f"the login is not completed: {described(answer)}")
        return answer["account"]

    def failed(self, seconds=LOGIN_SECONDS):
        """The error of a login that must fail."""
        answer = self.wait(seconds)
        must(isinstance(answer, Refused), f"the login has not failed: {answer}")
        return answer


def described(answer):
    return f"{answer} {json.dumps(answer.data)}" if isinstance(answer, Refused) else answer


class Site:
    """One provider of the broker, and the fake behind it."""

    def __init__(self, name, section):
        self.name, self.broker, self.fake = name, None, Provider(**section.options)
        self.keys = {name: self.filled(value) for name, value in section.keys.items()}
        # Parts of the reasons for which the fake may refuse a request.
        self.expected = []

    def filled(self, value):
        return value.replace("{issuer}", self.fake.issuer) if isinstance(value, str) else value

    def start(self, account=None, **params):
        params |= {"account": account, "login_hint": account} if account else {}
        return Login(self, self.broker.call("login.start", provider=self.name, **params))

    def sign_in(self, account=None, **params):
        """A whole login, by the browser; the account."""
        login = self.start(account, **params)
        browse(login.callback())
        return login.completed()

    def account(self, name=None):
        return self.broker.call("account.get", account=name or self.name)

    def token(self, name=None, **params):
        return self.broker.call("token.get", account=name or self.name, **params)["access_token"]

    def refresh(self, name=None, now=True):
        """Whether a refresh gave a new token, or its error."""
        try:
            return self.broker.call("account.refresh", account=name or self.name, now=now)["refreshed"]
        except Refused as error:
            return error

    def refreshed(self, name=None, now=True):
        """A refresh that must give a new token."""
        answer = self.refresh(name, now)
        must(answer is True, f"the refresh failed: {described(answer)}")

    def verdict(self):
        """The fake's complaints, except the expected ones."""
        found = [reason for reason in self.fake.wrong if not any(part in reason for part in self.expected)]
        must(not found, f"the provider refused: {'; '.join(found[:3])}")
