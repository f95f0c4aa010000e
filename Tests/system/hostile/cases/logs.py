"""Lines of the journal: what stands in them, and a journal that takes none."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time

import measure
from actor import READY_SECONDS, Who
from caller import attempt
from grantd_testing import BlockingClient, Refused
from machine import SOCKET, command
from stage import best, hold

from .audit import call_from_new_groups, user_tree

# What would steer a terminal, and turn the order of a line round.
RAW = {"ESC": "\x1b", "U+202E": "\u202e"}
NAME = "a\x1b[31mred\u202edesrever.service"
SECONDS, REFRESH_SECONDS = 2.0, 30.0
FLOODERS, CONNECTIONS = 2, 300


def call_from(_, tree, name):
    group = pathlib.Path(tree) / name
    group.mkdir()
    (group / "cgroup.procs").write_text(str(os.getpid()))
    return attempt("token.get", account="shared").get("reason", "served")


def escapes(stage):
    """A control group's name reaches the journal and grantctl escaped."""
    stage.begin("main")
    stage.sign_in("main", "shared")
    tree, who = user_tree("ruleless")
    told = stage.once(who, call_from, tree, NAME)
    time.sleep(1)
    journal = subprocess.run(
        ["journalctl", "-q", "-o", "export", "--all", "-u", "grantd.service"], capture_output=True, check=True,
        timeout=120).stdout
    found = [name for name, raw in RAW.items() if raw.encode() in journal]
    shown = command("grantctl", "audit", "--system", "--refused").stdout
    raw = [name for name, character in RAW.items() if character in shown]
    return hold([
        (told == "not_permitted", f"a caller from such a group: {told}"),
        (not found, f"raw in the journal: {', '.join(found) or 'nothing'}"),
        (not raw, f"raw in grantctl audit: {', '.join(raw) or 'nothing'}")])


def connect_too_often(_):
    """More connections than one user may have: the socket itself refuses these, and notes it."""
    clients = []
    for _ in range(CONNECTIONS):
        with contextlib.suppress(OSError):
            clients.append(BlockingClient(SOCKET, 0.2))
    return len(clients)


def refresh_once(_, account):
    try:
        with contextlib.closing(BlockingClient(SOCKET, REFRESH_SECONDS)) as client:
            client.call("account.refresh", account=account)
    except Refused as refusal:
        return refusal.reason
    except OSError:
        return f"no answer within {REFRESH_SECONDS:g} s"
    return "served"


def stuck(stage):
    """A journald that stands still stops no token."""
    stage.begin("main")
    stage.sign_in("main", "shared")
    tree, who = user_tree("ruleless")
    return hold(best(lambda: stuck_once(stage, tree, who)))


def stuck_once(stage, tree, who):
    """The conditions, and those on speed."""
    journald = int(command("systemctl", "show", "-P", "MainPID", "systemd-journald.service").stdout)
    victim = stage.act(stage.machine.unit(), measure.sample, "shared")
    victim.next(READY_SECONDS)
    os.kill(journald, signal.SIGSTOP)
    try:
        flooders = [stage.attack(who, call_from_new_groups, tree) for _ in range(FLOODERS)]
        time.sleep(SECONDS)
        stage.once(stage.machine.user("other"), connect_too_often)
        # While the journal is stuck still.
        waited = measure.answered_after("broker.status", REFRESH_SECONDS)
        refresh = stage.once(Who(0), refresh_once, "shared")
    finally:
        os.kill(journald, signal.SIGCONT)
    calls = sum(flooder.finish() for flooder in flooders)
    figures = victim.finish()
    return [
        (refresh == "served", f"a refresh: {refresh}"),
        (measure.refused(figures)[0] == 0, f"the unit: {measure.told(figures)}"),
    ], [
        (waited <= measure.UNCACHED_SECONDS, f"{calls} refusals: root waits {measure.milliseconds(waited)}"),
        (figures["cached"]["longest"] <= 2 * measure.UNCACHED_SECONDS,
         f"longest wait for a cached token {measure.milliseconds(figures['cached']['longest'])}")]


CASES = {"log-escapes": escapes, "log-stuck": stuck}
