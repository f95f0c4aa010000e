"""The audit trail and the journal, filled by somebody who has no right to anything."""

import collections
import contextlib
import os
import pathlib
import socket
import time
import urllib.parse

from actor import READY_SECONDS, Who, ended
from caller import attempt
from grantd_testing import BlockingClient, Gone, Refused
from machine import MEGABYTE, SOCKET, STATE, USERS, command
from stage import hold

SECONDS = 3.0
RECORDS = 1000
# What those whom no rule names may have of the trail together, and a margin for what is being written.
SHARE, MARGIN = RECORDS // 4, 50
# Lines and bytes of the journal for one cause, in the seconds of a case.
LINES, JOURNAL_BYTES, DATABASE_BYTES = 500, 1 * MEGABYTE, 8 * MEGABYTE
FLOODERS = 2
# Of each flooder.
ENOUGH_CALLS = RECORDS // 2 // FLOODERS + 1
TRAIL = f"[audit]\nrecords = {RECORDS}\n"


def call_from_new_groups(tell, tree):
    """Each request from a control group that has a name of its own, in a tree that systemd delegated to the user. Tells
    when there were enough."""
    count, former = 0, None
    while not ended.is_set():
        group = pathlib.Path(tree) / f"flood-{os.getpid()}-{count}.service"
        group.mkdir()
        (group / "cgroup.procs").write_text(str(os.getpid()))
        if former:
            former.rmdir()
        former, count = group, count + 1
        with contextlib.suppress(OSError, Gone, Refused), contextlib.closing(BlockingClient(SOCKET, 60)) as client:
            client.call("token.get", account="shared")
        if count == ENOUGH_CALLS:
            tell(count)
    return count


def user_tree(name):
    """The control group that systemd delegated to a user's manager, and a process that may move there."""
    uid = USERS[name]
    command("systemctl", "start", f"user@{uid}.service")
    tree = f"/user.slice/user-{uid}.slice/user@{uid}.service"
    return f"/sys/fs/cgroup{tree}", Who(uid, f"{tree}/init.scope")


def releases(_, account):
    """Records of releases: each with a scope of its own is one. Nobody answers those that wait for an approval."""
    return [attempt("token.get", account=account, timeout=5, **more).get("reason") for more in ({}, {"min_ttl": 40})]


def records(stage, **filters):
    """All of the trail, by its pages."""
    found, before = [], {}
    for _ in range(RECORDS):
        page = stage.ask("audit.list", limit=500, **filters, **before)
        found += page["records"]
        if "next" not in page:
            break
        before = {"before": page["next"]}
    return found


def size_of_trail():
    return sum(file.stat().st_size for file in STATE.glob("audit.db*"))


def flood(stage):
    """Refusals from ever new control groups stay within a quarter of the trail, and push out no release."""
    stage.begin("main", more=TRAIL)
    stage.sign_in("main", "shared")
    for who in (stage.machine.user("owner"), stage.machine.unit()):
        stage.once(who, releases, "shared")
    kept = records(stage)
    lines, size = stage.machine.journal_size()
    tree, who = user_tree("ruleless")
    flooders = [stage.attack(who, call_from_new_groups, tree) for _ in range(FLOODERS)]
    time.sleep(SECONDS)
    calls = sum(flooder.finish() for flooder in flooders)
    found = records(stage)
    more_lines, more_size = (now - then for now, then in zip(stage.machine.journal_size(), (lines, size)))
    counts = collections.Counter(record.get("uid") for record in found)
    lost = [record for record in kept if record["id"] not in {other["id"] for other in found}]
    refusals = counts[USERS["ruleless"]]
    return hold([
        (refusals <= SHARE + MARGIN, f"{calls} calls: {refusals} records of them among {RECORDS}"),
        (len(found) <= RECORDS + MARGIN, f"{len(found)} records in all"),
        (not lost, f"{len(lost)} of {len(kept)} earlier records lost"),
        (size_of_trail() <= DATABASE_BYTES, f"{size_of_trail() // MEGABYTE} MB of database"),
        (more_lines <= LINES, f"{more_lines} lines of the journal"),
        (more_size <= JOURNAL_BYTES, f"{more_size // 1024} KiB of it")])


def flood_releases(stage):
    """Releases to ever new control groups of a user with a rule push out no record of others, and fill no journal."""
    stage.begin("main", more=TRAIL)
    stage.sign_in("main", "shared")
    for who in (stage.machine.user("capped"), stage.machine.user("ruleless"), stage.machine.unit()):
        stage.once(who, releases, "shared")
    kept = records(stage)
    lines, size = stage.machine.journal_size()
    tree, who = user_tree("owner")
    flooders = [stage.attack(who, call_from_new_groups, tree) for _ in range(FLOODERS)]
    time.sleep(SECONDS)
    for flooder in flooders:
        flooder.next(READY_SECONDS)
    calls = sum(flooder.finish() for flooder in flooders)
    found = records(stage)
    more_lines, more_size = (now - then for now, then in zip(stage.machine.journal_size(), (lines, size)))
    theirs = [record for record in found if record.get("uid") == USERS["owner"]]
    lost = [record for record in kept if record["id"] not in {other["id"] for other in found}]
    counted = sum(record["count"] for record in theirs)
    return hold([
        (calls > RECORDS // 2, f"{calls} releases"),
        (counted == calls, f"{counted} are counted"),
        (len(theirs) <= RECORDS // 8 + MARGIN, f"in {len(theirs)} records"),
        (not lost, f"{len(lost)} of {len(kept)} earlier records lost"),
        (more_lines <= LINES, f"{more_lines} lines of the journal"),
        (more_size <= JOURNAL_BYTES, f"{more_size // 1024} KiB of it")])


def forge_logouts(tell, address, path):
    """Logout tokens that no provider signed, one after the other. Tells when there were more than lines may be written."""
    body = urllib.parse.urlencode({"logout_token": "e30.e30.AAAA"})
    host = urllib.parse.urlsplit(address)
    request = (
        f"POST {path} HTTP/1.1\r\nHost: {host.netloc}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}").encode()
    told = collections.Counter()
    while not ended.is_set():
        try:
            with socket.create_connection((host.hostname, host.port), 60) as connection:
                connection.sendall(request)
                told[connection.recv(64).split(b"\r\n")[0].decode()] += 1
        except OSError as error:
            told[type(error).__name__] += 1
        if sum(told.values()) == LINES + 1:
            tell(LINES + 1)
    return told


def logouts(stage):
    """Forged logout tokens write a bounded number of lines."""
    stage.begin("main", backchannel_logout=True)
    stage.sign_in("main", "shared")
    address = stage.ask("broker.status")["callback"][0]
    lines, _ = stage.machine.journal_size()
    forger = stage.attack(stage.machine.user("ruleless"), forge_logouts, address, "/backchannel-logout/main")
    time.sleep(SECONDS)
    forger.next(READY_SECONDS)
    told = forger.finish()
    more = stage.machine.journal_size()[0] - lines
    return hold([
        (sum(told.values()) > LINES, f"{sum(told.values())} forged tokens"),
        (more <= LINES, f"{more} lines of the journal"),
        (stage.state("shared") == "ok", f"the account is {stage.state('shared')}")])


CASES = {"audit-flood": flood, "audit-releases": flood_releases, "log-flood": logouts}
