"""All attacks at once, while a user, a unit and root do what they always do."""

import collections
import itertools
import time

import flood
import measure
from actor import READY_SECONDS, Who
from grantd_testing import Gone, Refused, Wrong
from machine import GROWTH_BYTES, MEGABYTE, USERS
from stage import best, hold, log_in

from .audit import MARGIN, SHARE, TRAIL, call_from_new_groups, forge_logouts, records, releases, user_tree
from .holders import MANY_UIDS, connect_on, crowd, rules, start_logins
from .memory import LINE_BYTES
from .places import REPLIES_EACH, SILENT_UIDS, idle_at, never_read
from .reports import report_blindly, report_own
from .turns import start_and_cancel
from .waits import SMALL

SECONDS, LONG_SECONDS = 6.0, 60.0
LINE_CONNECTIONS, WAIT_CONNECTIONS, SILENT_CONNECTIONS, IDLE_CONNECTIONS = 64, 64, 100, 400
LOGIN_UIDS, LOGINS_EACH = 4, 64
PAUSE_SECONDS, LOGIN_SECONDS = 1.0, 5.0
# As many attackers share the two cores with grantd; bench has the tight bounds.
CACHED_SECONDS, UNCACHED_SECONDS = 0.25, 0.5
# In the journal, of all causes together, for each second.
LINES_EACH_SECOND = 100

RULES = f"""
[[rule]]
uid = {USERS["other"]}
accounts = ["*"]
access = ["use"]
"""


def attack(stage):
    """The attackers, by name."""
    user, address = stage.machine.user, stage.ask("broker.status")["callback"][0]
    tree, from_tree = user_tree("ruleless")
    return [
        stage.attack(user("ruleless"), flood.lines, LINE_CONNECTIONS, 1, "1", LINE_BYTES, PAUSE_SECONDS),
        stage.attack(user("capped"), report_blindly, "shared"),
        stage.attack(user("other"), report_own, "shared"),
        stage.attack(user("other"), flood.requests, WAIT_CONNECTIONS, 64, "request.send", SMALL, PAUSE_SECONDS),
        stage.attack(from_tree, call_from_new_groups, tree),
        stage.attack(user("ruleless"), forge_logouts, address, "/backchannel-logout/main"),
        stage.attack(user("ruleless"), idle_at, address, IDLE_CONNECTIONS),
        stage.attack(crowd(stage), connect_on, MANY_UIDS),
        stage.attack(crowd(stage), never_read, SILENT_CONNECTIONS, SILENT_UIDS, REPLIES_EACH),
        stage.attack(crowd(stage), start_logins, "main", LOGIN_UIDS, LOGINS_EACH),
        stage.attack(user("signer"), start_and_cancel, "theirs")]


def latencies(name, figures):
    """The conditions on the speed that one victim met."""
    cached, uncached = figures["cached"]["p99"], figures["uncached"]["p99"]
    return [
        (cached <= CACHED_SECONDS, f"{name}: cached p99 {measure.milliseconds(cached)}"),
        (uncached <= UNCACHED_SECONDS, f"uncached p99 {measure.milliseconds(uncached)}")]


def timed_login(stage, account):
    """The condition on the login, and that on its speed."""
    began = time.monotonic()
    try:
        told = stage.once(Who(0), log_in, "second", account, "ada")
    except Wrong as wrong:
        told = str(wrong)
    took = time.monotonic() - began
    return (told == "completed", f"a login is {told}"), (took <= LOGIN_SECONDS, f"after {took:.1f} s")


def trail(stage, kept):
    """The conditions on the audit trail: what was there is there, and refusals have their share."""
    try:
        found = records(stage)
    except (Gone, OSError, Refused) as error:
        return [(False, f"the trail cannot be read: {error}")]
    ruleless = [USERS["ruleless"], *range(1_000_000, 1_100_000)]
    counts = collections.Counter(record.get("uid") in ruleless for record in found if record["result"] != "ok")
    ids = {record["id"] for record in found}
    lost = sum(record["id"] not in ids for record in kept)
    return [
        (counts[True] <= SHARE + MARGIN, f"{counts[True]} records of ruleless uids"),
        (not lost, f"{lost} of {len(kept)} earlier records lost")]


def growth_throughout(stage, idle, seconds):
    end, peak = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        peak = max(peak, stage.machine.resident() - idle)
        time.sleep(0.2)
    return peak


def all_at_once(stage):
    """All attacks at once: the user, the unit and root are served in time, memory and audit trail stay in bounds."""
    seconds = LONG_SECONDS if stage.is_long else SECONDS
    more = TRAIL + RULES + rules(LOGIN_UIDS, 'access = ["login"]')
    stage.begin("main", "second", more=more, backchannel_logout=True)
    stage.sign_in("main", "shared")
    stage.sign_in("main", "mine", "mallory")
    stage.once(stage.machine.unit(), releases, "shared")
    kept, accounts = records(stage), (f"new{number}" for number in itertools.count())
    return hold(best(lambda: attacked(stage, seconds, kept, next(accounts))))


def attacked(stage, seconds, kept, account):
    """The conditions, and those on speed."""
    pid, idle, began = stage.machine.pid(), stage.machine.resident(), time.monotonic()
    lines, _ = stage.machine.journal_size()
    victims = {
        name: stage.act(who, measure.sample, "shared")
        for name, who in (("the user", stage.machine.user("owner")), ("the unit", stage.machine.unit()))}
    for victim in victims.values():
        victim.next(READY_SECONDS)
    attackers = attack(stage)
    growth = growth_throughout(stage, idle, seconds)
    login, login_speed = timed_login(stage, account)
    root = measure.answered_after("broker.status", bound=UNCACHED_SECONDS)
    figures = {name: victim.finish() for name, victim in victims.items()}
    for attacker in attackers:
        attacker.close()
    more_lines, took = stage.machine.journal_size()[0] - lines, time.monotonic() - began
    is_alive = stage.machine.pid() == pid
    return [
        *((measure.refused(one)[0] == 0, f"{name}: {measure.told(one)}") for name, one in figures.items()), login,
        (growth <= GROWTH_BYTES, f"{growth // MEGABYTE} MB above idle"),
        (more_lines <= LINES_EACH_SECOND * took, f"{more_lines} lines of the journal"),
        (is_alive, "the process is the same" if is_alive else "the process is another"),
        *(trail(stage, kept) if is_alive else ()),
    ], [
        *(condition for name, one in figures.items() for condition in latencies(name, one)), login_speed,
        (root <= UNCACHED_SECONDS, f"root waits {measure.milliseconds(root)}")]


CASES = {"all-at-once": all_at_once}
