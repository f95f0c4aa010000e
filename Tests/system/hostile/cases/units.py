"""One user in four units: its slice and three system units. All of them have one share."""

import contextlib
import time

import flood
import measure
from actor import READY_SECONDS, Who, ended
from caller import attempt
from grantd_testing import BlockingClient, Gone, Refused, line, message, wait_until
from machine import SOCKET, USERS
from stage import ask_apart, best, hold

from .connects import ask_at_once

UNITS = tuple(f"hostile-many-{number}.service" for number in range(3))
# As many as one of them may have: none is refused, so that no refusal protects the others.
CONNECTIONS, REQUESTS = 1024, 64
WAIT_SECONDS = 300
# Freed long before the waits end.
PROMPT_SECONDS, FREE_SECONDS = 1.0, 60.0
# A unit with a rule, of the user who has none.
NAMED = "hostile-named.service"
# Fewer connections a second than one user may open, with more lines than a caller without a rule may send.
LINES, CONNECT_PAUSE_SECONDS, ASK_SECONDS = 100, 0.01, 3.0


def units(stage, name):
    """The user's slice, and the three units."""
    for unit in UNITS:
        with contextlib.suppress(Exception):
            stage.machine.hold(unit, "system.slice")
    return [stage.machine.user(name), *(Who(USERS[name], f"/system.slice/{unit}") for unit in UNITS)]


def wait_for_login(tell, realm, account, count):
    """`login.wait` on each of so many connections; how many are open."""
    login = attempt("login.start", provider=realm, account=account).get("login_id", "none")
    request = line(message("login.wait", {"login_id": login, "timeout": WAIT_SECONDS}, 1))
    clients = []
    for _ in range(count):
        with contextlib.suppress(OSError):
            clients.append(BlockingClient(SOCKET, 60))
            clients[-1].socket.sendall(request)
    tell(len(clients))
    ended.wait()
    return {}


def token(who, stage):
    """Why no token was returned; nil: one was."""
    return stage.once(who, ask_apart, "token.get", {"account": "shared"}).get("reason")


def connections(stage):
    """Connections of one user in four units that wait leave connections to others, and none is held after they close."""
    stage.begin("main")
    stage.sign_in("main", "shared")
    attackers = [stage.attack(who, wait_for_login, "main", f"new-{number}", CONNECTIONS)
                 for number, who in enumerate(units(stage, "signer"))]
    opened = sum(one.next(READY_SECONDS) for one in attackers)
    told = [token(who, stage) for who in (stage.machine.unit(), stage.machine.user("owner"))]
    held = attempt("broker.status")
    for one in attackers:
        one.close()
    began = time.monotonic()
    with contextlib.suppress(Exception):
        wait_until(lambda: not stage.once(stage.machine.unit(), ask_many), FREE_SECONDS, "connections are free")
    took = time.monotonic() - began
    return hold([
        (told == [None, None], f"{opened} connections: a unit {told[0] or 'served'}, another user {told[1] or 'served'}"),
        (took < FREE_SECONDS, f"all free {took:.1f} s after their end"),
        (held.get("state") == "running", f"root: {held.get('state')}")])


def ask_many(_):
    """How many of 300 connections at a time are refused."""
    refused, clients = 0, []
    for _ in range(300):
        try:
            clients.append(BlockingClient(SOCKET, 60))
            clients[-1].call("token.get", account="shared")
        except (OSError, Gone, Refused):
            refused += 1
    return refused


def prompt(stage):
    """A request of the unit: the conditions, and those on speed."""
    began = time.monotonic()
    request = {"account": "shared", "method": "GET", "url": "/echo", "timeout": 20}
    answer = stage.once(stage.machine.unit(), ask_apart, "request.send", request)
    took = time.monotonic() - began
    return [("status" in answer, f"the unit's request {answer.get('reason', 'served')}")], [
        (took <= PROMPT_SECONDS, f"after {took:.1f} s")]


def slots(stage):
    """Requests of one user in four units that hang leave slots at the provider to others."""
    stage.begin("main")
    stage.sign_in("main", "mine", "mallory")
    stage.sign_in("main", "shared", "ada")
    hanging = {"account": "mine", "method": "GET", "url": "/hang", "timeout": 300}
    attackers = [stage.attack(who, flood.requests, 1, REQUESTS, "request.send", hanging) for who in units(stage, "owner")]
    for one in attackers:
        one.next(READY_SECONDS)
    wait_until(lambda: stage.provider.counts("main")["calls"] >= 16, 60, "requests hang")
    conditions = best(lambda: prompt(stage))
    calls = stage.provider.counts("main")["calls"]
    counts = [one.finish() for one in attackers]
    return hold([
        *conditions, (True, f"{calls} hang"),
        (True, f"attackers: {measure.sum_of(counts)}")])


def send_too_much(_):
    """Connects again and again, with many lines each time; how often."""
    count = 0
    while not ended.wait(CONNECT_PAUSE_SECONDS):
        with contextlib.suppress(OSError):
            client = BlockingClient(SOCKET, 1)
            client.socket.sendall(line(message("token.get", {"account": "shared"}, 1)) * LINES)
            client.close()
            count += 1
    return count


def ruleless(stage):
    """A user's process without a rule that sends too much causes no refusal of the user's system unit with a rule."""
    stage.begin("main", more=f'[[rule]]\nunit = "{NAMED}"\naccounts = ["*"]\naccess = ["use"]\n')
    stage.sign_in("main", "shared")
    stage.machine.hold(NAMED, "system.slice")
    victim = stage.act(Who(USERS["ruleless"], f"/system.slice/{NAMED}"), ask_at_once, "shared")
    victim.next(READY_SECONDS)
    sending = stage.attack(stage.machine.user("ruleless"), send_too_much)
    time.sleep(ASK_SECONDS)
    count, unit = sending.finish(), victim.finish()
    return hold([
        (unit["served"] and not unit["refused"], f"the unit: {unit['served']} served, refused {unit['refused']}"),
        (count > 0, f"{count / ASK_SECONDS:.0f} connections a second without a rule")])


CASES = {"units-connections": connections, "units-slots": slots, "units-ruleless": ruleless}
