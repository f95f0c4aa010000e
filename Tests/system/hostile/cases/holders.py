"""A user with subordinate uids takes what is shared as one user, not as 65,536."""

import collections
import contextlib
import os
import time

import measure
from actor import READY_SECONDS, Who, ended
from caller import PATIENCE, Caller, attempt, connect
from grantd_testing import BlockingClient, Gone, Refused, line, message, wait_until
from machine import NO_UNIT, SOCKET, SUBORDINATE_FIRST, USERS
from stage import best, hold

MANY_UIDS, UIDS, LOGINS_EACH, APPROVALS_EACH = 60_000, 48, 64, 8
# Together these are more than the 256 logins, and the 256 releases, that wait at most.
LOGIN_UIDS = 6
SECONDS, WAIT_SECONDS = 3.0, 25
# Connections in all are 1,024 by default.
CONNECTS_PER_SECOND, KEPT, FEW = 4000, 1100, 8
CONNECT_SECONDS = 0.25


def subordinate_uids(count):
    return range(SUBORDINATE_FIRST, SUBORDINATE_FIRST + count)


def rules(count, *lines):
    """Rules go on naming uids."""
    return "\n".join(
        "\n".join(["[[rule]]", f"uid = {uid}", 'accounts = ["*"]', *lines]) for uid in subordinate_uids(count))


def crowd(stage):
    """root, who takes each of the user's uids by turns, in the user's own control group, as newuidmap(1) would."""
    return Who(0, stage.machine.user("many").group)


@contextlib.contextmanager
def acting_as(uid):
    """SO_PEERCRED has the effective uid at connect(2)."""
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def start_logins(_, realm, uids, each):
    told = collections.Counter()
    for uid in range(SUBORDINATE_FIRST, SUBORDINATE_FIRST + uids):
        with acting_as(uid), contextlib.closing(Caller()) as caller:
            for number in range(each):
                answer = caller.attempt("login.start", provider=realm, account=f"many-{uid}-{number}")
                told[answer.get("reason", "started")] += 1
    return told


def start_login(_, realm, account):
    return attempt("login.start", provider=realm, account=account).get("reason", "started")


def logins(stage):
    """Subordinate uids of one user leave pending logins to root and to other users, also after a restart."""
    return logins_by(stage, crowd(stage))


def range_of_uids(stage):
    """The same uids in a control group that says nothing of the user: /etc/subuid does."""
    return logins_by(stage, Who(0, f"/{NO_UNIT.name}"))


def logins_by(stage, those):
    stage.begin("main", more=rules(LOGIN_UIDS, 'access = ["login"]'))
    told = stage.once(those, start_logins, "main", LOGIN_UIDS, LOGINS_EACH, seconds=READY_SECONDS)
    root, other = Who(0), stage.machine.user("signer")
    before = [stage.once(who, start_login, "main", f"before-{who.uid}") for who in (root, other)]
    stage.machine.restart()
    after = [stage.once(who, start_login, "main", f"after-{who.uid}") for who in (root, other)]
    return hold([
        (before == ["started"] * 2,
         f"{measure.sum_of([told])} by {LOGIN_UIDS} uids: root {before[0]}, another user {before[1]}"),
        (after == ["started"] * 2, f"after a restart root {after[0]}, another user {after[1]}")])


def ask_for_release(tell, uids, each):
    """Releases that wait for a person, until the end."""
    clients = []
    request = message("token.get", {"account": "shared", "timeout": 120}, 1)
    for uid in range(SUBORDINATE_FIRST, SUBORDINATE_FIRST + uids):
        with acting_as(uid):
            clients.append(BlockingClient(SOCKET))
        clients[-1].socket.sendall(line(request) * each)
    tell("sent")
    ended.wait()
    return {}


def waiting(stage):
    return collections.Counter(one["caller"]["uid"] for one in stage.ask("release.list")["waiting"])


def approvals(stage):
    """Subordinate uids of one user leave another user a place to wait for a person's word."""
    stage.begin("main", more=rules(UIDS, 'access = ["use"]', "confirm = true"))
    stage.sign_in("main", "shared")
    asking = stage.attack(crowd(stage), ask_for_release, UIDS, APPROVALS_EACH)
    asking.next(READY_SECONDS)
    time.sleep(1)
    theirs = sum(waiting(stage).values())
    capped = stage.act(stage.machine.user("capped"), ask_narrowed, "shared")
    with contextlib.suppress(Exception):
        wait_until(lambda: USERS["capped"] in waiting(stage), WAIT_SECONDS, "the other's waits")
    is_waiting = USERS["capped"] in waiting(stage)
    told = "waits" if is_waiting else capped.next(READY_SECONDS)
    return hold([(is_waiting, f"{theirs} releases of {UIDS} uids wait; another user's {told}")])


def ask_narrowed(_, account):
    return attempt("token.get", account=account, scopes=["email"], timeout=WAIT_SECONDS).get("reason", "served")


def connect_on(tell, uids):
    """Connects as one uid after the other, asks and leaves, some thousand times a second."""
    count, began, request = 0, time.monotonic(), line(message("token.get", {"account": "shared"}, 1))
    while not ended.is_set():
        with acting_as(SUBORDINATE_FIRST + count % uids), contextlib.suppress(OSError):
            client = BlockingClient(SOCKET, 1)
            client.socket.sendall(request)
            client.close()
        count += 1
        time.sleep(max(0, began + count / CONNECTS_PER_SECOND - time.monotonic()))
    return count


def keep_connections(tell, count):
    """One connection of each uid."""
    clients = []
    for uid in subordinate_uids(count):
        with acting_as(uid), contextlib.suppress(OSError):
            clients.append(BlockingClient(SOCKET, 0.5))
    tell(len(clients))
    ended.wait()
    return {}


def ask_anew(tell, account):
    """Each token on a connection of its own."""
    times, told = [], collections.Counter()
    tell("ready")
    while not ended.is_set():
        began = time.monotonic()
        try:
            with contextlib.closing(connect()) as client:
                client.call("token.get", account=account)
            times.append(time.monotonic() - began)
        except (OSError, Gone, Refused) as error:
            told[getattr(error, "reason", None) or type(error).__name__] += 1
        ended.wait(0.02)
    return measure.summary(times, told)


def connects(stage):
    """Connections of ruleless subordinate uids, thousands a second, leave others a place in the listen queue."""
    stage.begin("main")
    stage.sign_in("main", "shared")
    return hold(best(lambda: connects_once(stage)))


def connects_once(stage):
    """The conditions, and those on speed."""
    victims = [stage.act(who, ask_anew, "shared") for who in (stage.machine.unit(), Who(0))]
    for victim in victims:
        victim.next(READY_SECONDS)
    connecting = stage.attack(crowd(stage), connect_on, MANY_UIDS)
    time.sleep(SECONDS)
    count = connecting.finish()
    figures = [victim.finish() for victim in victims]
    named = list(zip(("the unit", "root"), figures))
    return [
        *((not one["refused"], f"{name}: {one['served']} served, refused {one['refused']}") for name, one in named),
        (count > 0, f"{count / SECONDS:.0f} connects a second"),
    ], [(one["p99"] <= CONNECT_SECONDS, f"{name}: p99 {measure.milliseconds(one['p99'])}") for name, one in named]


def keep_idle(tell, account, count):
    """A program that keeps some connections; how many of them still serve at the end."""
    clients = [BlockingClient(SOCKET, PATIENCE) for _ in range(count)]
    for client in clients:
        client.call("token.get", account=account)
    tell("ready")
    ended.wait()
    alive = 0
    for client in clients:
        with contextlib.suppress(OSError, Gone, Refused):
            client.call("token.get", account=account)
            alive += 1
    return alive


def connections(stage):
    """Connections that many subordinate uids keep take none from others who keep a few."""
    stage.begin("main")
    stage.sign_in("main", "shared")
    keeper = stage.act(stage.machine.unit(), keep_idle, "shared", FEW)
    keeper.next(READY_SECONDS)
    keeping = stage.attack(crowd(stage), keep_connections, KEPT)
    count = keeping.next(READY_SECONDS)
    root = measure.answered_after("broker.status")
    alive = keeper.finish()
    return hold([
        (alive == FEW, f"{count} connections of as many uids: {alive} of the unit's {FEW} live on"),
        (root <= CONNECT_SECONDS, f"root is answered after {measure.milliseconds(root)}")])


def ask_with_group(_, uid, gid):
    os.setgroups([gid])
    os.setegid(gid)
    os.seteuid(uid)
    return attempt("token.get", account="shared").get("reason", "served")


def group(stage):
    """A rule on a group does not match a subordinate uid that has the group."""
    gid = USERS["many"]
    stage.begin("main", more=f'[[rule]]\ngid = {gid}\naccounts = ["*"]\naccess = ["use"]\n')
    stage.sign_in("main", "shared")
    told = {name: stage.once(crowd(stage), ask_with_group, uid, gid)
            for name, uid in (("the user", gid), ("a subordinate uid", SUBORDINATE_FIRST))}
    return hold([
        (told["the user"] == "served", f"the user: {told['the user']}"),
        (told["a subordinate uid"] == "not_permitted", f"a subordinate uid: {told['a subordinate uid']}")])


CASES = {
    "holders-logins": logins, "holders-range": range_of_uids, "holders-approvals": approvals,
    "holders-connects": connects, "holders-connections": connections, "holders-group": group}
