"""Connections that are opened and closed without a pause: others' new and open ones are served as before."""

import collections
import contextlib
import socket
import time

import measure
from actor import Who, ended
from grantd_testing import BlockingClient, Gone, Refused
from machine import SOCKET, USERS
from stage import hold

# The attacker in a system unit: a second unit of the same user.
UNIT = "hostile-churn.service"
SECONDS = 3.0
# Of a debug build on two processors that the attackers share. `scripts/bench --parts hostile` has tighter bounds.
NEW_SECONDS, KEPT_SECONDS = 0.15, 0.05
PAUSE_SECONDS = 0.01
# Of each attacker; together the 45,000 a second that one process reached on the machine of the report.
CHURN_RATE = 22500


def churn(_):
    """Connects, sends a byte and closes, at the rate of one attacker; how often."""
    count, began = 0, time.monotonic()
    while not ended.is_set():
        # On fast machines two such loops would leave the broker no processor.
        if count % 100 == 0 and (ahead := count / CHURN_RATE - (time.monotonic() - began)) > 0:
            time.sleep(ahead)
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as one:
            one.connect(str(SOCKET))
            one.send(b"x")
            count += 1
    return count


def ask_at_once(tell, account):
    """Each token on a new connection, which is not tried again if the listen queue is full (EAGAIN)."""
    times, refused = [], collections.Counter()
    tell("ready")
    while not ended.is_set():
        began = time.monotonic()
        try:
            with contextlib.closing(BlockingClient(SOCKET)) as client:
                client.call("token.get", account=account)
            times.append(time.monotonic() - began)
        except (OSError, Gone, Refused) as error:
            refused[getattr(error, "reason", None) or type(error).__name__] += 1
        ended.wait(PAUSE_SECONDS)
    return measure.summary(times, refused)


def churned(stage):
    """Connections of one user in two units, opened and closed without a pause, delay no other user's."""
    stage.begin("main")
    stage.sign_in("main", "shared")
    stage.machine.hold(UNIT, "system.slice")
    victims = [stage.act(stage.machine.unit(), work, "shared") for work in (ask_at_once, measure.sample)]
    for victim in victims:
        victim.next(10)
    churning = [stage.attack(who, churn)
                for who in (stage.machine.user("ruleless"), Who(USERS["ruleless"], f"/system.slice/{UNIT}"))]
    time.sleep(SECONDS)
    count = sum(one.finish() for one in churning)
    new, kept = (victim.finish() for victim in victims)
    cached = kept["cached"]
    return hold([
        (not new["refused"] and new["p99"] <= NEW_SECONDS,
         f"{new['served']} new connections, refused {new['refused']}, p99 {measure.milliseconds(new['p99'])}"),
        (not cached["refused"] and cached["p99"] <= KEPT_SECONDS, f"open p99 {measure.milliseconds(cached['p99'])}"),
        (True, f"{count / SECONDS:.0f} connections a second")])


CASES = {"connects-churn": churned}
