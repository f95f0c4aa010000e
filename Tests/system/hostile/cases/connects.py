"""Connections that are opened and closed without a pause, also with descriptors: others' are served as before."""

import collections
import contextlib
import os
import pathlib
import socket
import struct
import time

import measure
from actor import READY_SECONDS, Who, ended
from grantd_testing import BlockingClient, Gone, Refused
from machine import SOCKET, USERS
from stage import best, hold

# The attacker in a system unit: a second unit of the same user.
UNIT = "hostile-churn.service"
SECONDS = 3.0
# Of a debug build on two processors that the attackers share. `scripts/bench --parts hostile` has tighter bounds.
NEW_SECONDS, KEPT_SECONDS = 0.15, 0.05
PAUSE_SECONDS = 0.01
# Of each attacker; together the 45,000 a second that one process reached on the machine of the report.
CHURN_RATE = 22500
# Sockets whose close waits for a minute; then connections with any descriptor, more than the service may have open.
LINGERING, LINGER_SECONDS, WITH_DESCRIPTORS = 64, 60, 20_000
SEND_PAUSE_SECONDS, OPEN_DESCRIPTORS = 0.0001, 2000


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
    return hold(best(lambda: churned_once(stage)))


def churned_once(stage):
    """The conditions, and those on speed."""
    victims = [stage.act(stage.machine.unit(), work, "shared") for work in (ask_at_once, measure.sample)]
    for victim in victims:
        victim.next(READY_SECONDS)
    churning = [stage.attack(who, churn)
                for who in (stage.machine.user("ruleless"), Who(USERS["ruleless"], f"/system.slice/{UNIT}"))]
    time.sleep(SECONDS)
    count = sum(one.finish() for one in churning)
    new, kept = (victim.finish() for victim in victims)
    cached = kept["cached"]
    return [
        (not new["refused"], f"{new['served']} new connections, refused {new['refused']}"),
        (not cached["refused"], f"open ones: refused {cached['refused']}"),
        (True, f"{count / SECONDS:.0f} connections a second"),
    ], [
        (new["p99"] <= NEW_SECONDS, f"new p99 {measure.milliseconds(new['p99'])}"),
        (cached["p99"] <= KEPT_SECONDS, f"open p99 {measure.milliseconds(cached['p99'])}")]


def lingering():
    """A TCP socket with unread output, which lingers when it is closed, and its other end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    one.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            one.send(bytes(65536))
    one.setblocking(True)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER_SECONDS))
    return one, other


def send_descriptor(descriptor):
    """On a new connection, which is closed then. False: the kernel or the broker refused it."""
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(1)
            one.connect(str(SOCKET))
            socket.send_fds(one, [b"x"], [descriptor])
            return True
    except OSError:
        return False


def send_descriptors(tell):
    """Blocks as many closing threads as it can, and then lets connections wait behind them; how many it sent."""
    others, count = [], 0
    for _ in range(LINGERING):
        one, other = lingering()
        others.append(other)
        if send_descriptor(one.fileno()):
            count += 1
        else:
            # It would linger here.
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()
    tell("ready")
    null = os.open("/dev/null", os.O_RDONLY)
    for _ in range(WITH_DESCRIPTORS):
        if ended.wait(SEND_PAUSE_SECONDS):
            break
        count += send_descriptor(null)
    ended.wait()
    return count


def descriptors(stage):
    """Sent descriptors, of which some take long to close, leave the broker's own to other users and to root."""
    stage.begin("main")
    stage.sign_in("main", "shared")
    return hold(best(lambda: sent_once(stage)))


def sent_once(stage):
    """The conditions, and those on speed."""
    victims = [stage.act(who, ask_at_once, "shared") for who in (stage.machine.unit(), Who(0))]
    for victim in victims:
        victim.next(READY_SECONDS)
    sending = stage.attack(stage.machine.user("ruleless"), send_descriptors)
    sending.next(READY_SECONDS)
    time.sleep(SECONDS)
    held = len(os.listdir(pathlib.Path("/proc", str(stage.machine.pid()), "fd")))
    count = sending.finish()
    figures = [victim.finish() for victim in victims]
    named = list(zip(("the unit", "root"), figures))
    return [
        *((one["served"] and not one["refused"], f"{name}: {one['served']} served, refused {one['refused']}")
          for name, one in named),
        (held <= OPEN_DESCRIPTORS, f"{count} descriptors sent, the broker has {held} open"),
    ], [(one["p99"] <= NEW_SECONDS, f"{name}: p99 {measure.milliseconds(one['p99'])}") for name, one in named]


CASES = {"connects-churn": churned, "connects-descriptors": descriptors}
