"""What a case runs on: a provider, a new grantd, accounts that are signed in, and the processes of others."""

import contextlib
import re
import urllib.parse
import urllib.request

from actor import Actor, Who
from api import Provider
from caller import attempt, connect
from grantd_testing import Refused, Wrong, wait_until
from machine import READER, USERS
from measure import TRIES

ANSWER_SECONDS = 60
BROWSER_SECONDS = 60
ATTACKER_NICENESS = 10

# Who may what, beside root, in every case.
RULES = f"""
[[rule]]
name = "owner"
uid = {USERS["owner"]}
accounts = ["*"]
access = ["use", "observe", "login"]

[[rule]]
name = "unit"
unit = "{READER}"
accounts = ["*"]
access = ["use", "observe"]

[[rule]]
name = "capped"
uid = {USERS["capped"]}
accounts = ["*"]
access = ["use"]
scopes = ["email"]
confirm = true

[[rule]]
name = "signer"
uid = {USERS["signer"]}
accounts = ["*"]
access = ["login"]
"""


class Stage:
    def __init__(self, machine, is_long):
        self.machine, self.is_long = machine, is_long
        self.open_ones = contextlib.ExitStack()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.open_ones.close()

    def begin(self, *realms, more="", **section):
        """A provider with these realms, and a grantd that knows them."""
        self.provider = Provider(*realms)
        self.open_ones.callback(self.provider.close)
        sections = [self.provider.section(realm, **section) for realm in realms] + [self.provider.system(realms[0])]
        self.configuration = "\n".join([*sections, RULES, more, ""])
        self.machine.start(self.configuration)

    def act(self, who, work, *arguments):
        """A process of `who`; it ends with the case."""
        actor = Actor(who, work, *arguments)
        self.open_ones.callback(actor.close)
        return actor

    def attack(self, who, work, *arguments):
        """The same for an attacker: the kernel divides the processors, and that is not what is tested."""
        actor = Actor(who, work, *arguments, niceness=ATTACKER_NICENESS)
        self.open_ones.callback(actor.close)
        return actor

    def once(self, who, work, *arguments, seconds=ANSWER_SECONDS):
        """What a process of `who` returns."""
        actor = self.act(who, work, *arguments)
        try:
            return actor.next(seconds)
        finally:
            actor.close()

    def sign_in(self, realm, account, user="ada", who=Who(0)):
        """A login as a person with a browser makes it."""
        result = self.once(who, log_in, realm, account, user, seconds=120)
        if result != "completed":
            raise Wrong(f"the login of {account} is {result}")

    def ask(self, method, /, **params):
        """As root."""
        return ask(method, **params)

    def ask_as(self, who, method, /, **params):
        """The result, or the reason of the refusal under "reason"."""
        return self.once(who, ask_apart, method, params)

    def state(self, account):
        return self.ask("account.get", account=account)["state"]

    def lose_grant(self, realm, account, user):
        """The provider ends it, and the broker learns of that."""
        self.provider.do(realm, "end", user=user)
        # A second refusal ends it.
        for _ in range(2):
            with contextlib.suppress(Refused):
                self.ask("account.refresh", account=account, now=True)
        wait_until(lambda: self.state(account) == "login_required", 60, f"{account} needs a login")


def hold(conditions):
    """The figures; Wrong where a condition does not hold. `conditions` are pairs: what must be true, what was seen."""
    wrong = [seen for is_well, seen in conditions if not is_well]
    well = [seen for is_well, seen in conditions if is_well]
    if wrong:
        raise Wrong("; ".join(wrong) + (f" (well: {'; '.join(well)})" if well else ""))
    return "; ".join(well)


def best(measure):
    """The conditions of an attack that `measure` runs: those that hold each time, and those on speed, for which the best
    of some attacks counts."""
    for _ in range(TRIES):
        conditions, speeds = measure()
        if not all(is_well for is_well, _ in conditions) or all(is_well for is_well, _ in speeds):
            break
    return conditions + speeds


def ask(method, /, **params):
    with contextlib.closing(connect(ANSWER_SECONDS)) as client:
        return client.call(method, **params)


def ask_apart(_, method, params):
    return attempt(method, **params)


def browser_address(started):
    return next(place["url"] for place in started["destinations"] if place["kind"] == "browser")


def visit(url, form=None):
    """Status, address and text of the page at the end of all redirects."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    data = urllib.parse.urlencode(form).encode() if form else None
    try:
        with opener.open(url, data, BROWSER_SECONDS) as answer:
            return answer.status, answer.url, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.url, error.read().decode()


def sign_in_at(url, user):
    """What a browser and a person do at an address: the page, its form, the callback; that page."""
    status, _, page = visit(url)
    action = re.search(r'action="([^"]+)"', page)
    hidden = re.search(r'name="page" type="hidden" value="([^"]+)"', page)
    if not action or not hidden:
        return status, url, page
    return visit(action[1], {"page": hidden[1], "user": user})


def log_in(_, realm, account, user):
    started = attempt("login.start", provider=realm, account=account)
    if "reason" in started:
        return started["message"]
    try:
        sign_in_at(browser_address(started), user)
    except OSError as error:
        return f"cut short in the browser: {error}"
    result = attempt("login.wait", login_id=started["login_id"], timeout=20)
    return result.get("state") or result["message"]
