"""Places that are few: subscriptions, unread replies, and connections of the callback."""

import contextlib
import itertools
import json
import select
import socket
import time
import urllib.parse

import measure
from actor import READY_SECONDS, Who, ended
from caller import attempt
from grantd_testing import BlockingClient, Gone, Refused, line, message, wait_until
from machine import GROWTH_BYTES, MEGABYTE, SOCKET, SUBORDINATE_FIRST
from measure import CACHED_SECONDS
from stage import best, hold, log_in

from .holders import acting_as, crowd

SUBSCRIPTIONS = 300
SILENT_CONNECTIONS, SILENT_UIDS, REPLIES_EACH = 250, 50, 64
IDLE_CONNECTIONS = 400
LOGIN_SECONDS = 3.0
SECONDS, REST_SECONDS = 3.0, 30.0
# What of the replies may be left when the connections have gone.
REST_BYTES = 100 * MEGABYTE


def subscribe_often(tell, count):
    """Many subscriptions on one connection; then how many copies of one event come."""
    told = 0
    with contextlib.closing(BlockingClient(SOCKET, 60)) as client:
        for _ in range(count):
            with contextlib.suppress(Gone, OSError, Refused):
                client.call("events.subscribe", events=["token.refreshed"])
                told += 1
        tell(told)
        data = b""
        while not ended.is_set():
            if select.select([client.socket], [], [], 0.1)[0]:
                if not data:
                    tell("an event")
                data += client.socket.recv(1 << 16)
    return sum(json.loads(text).get("method") == "event" for text in data.splitlines())


def subscribe(_):
    return attempt("events.subscribe").get("reason", "subscribed")


def subscriptions(stage):
    """Subscriptions of one connection close events to nobody, and bring one copy of an event."""
    stage.begin("main")
    stage.sign_in("main", "shared")
    attacker = stage.attack(stage.machine.user("owner"), subscribe_often, SUBSCRIPTIONS)
    granted = attacker.next(READY_SECONDS)
    told = {name: stage.once(who, subscribe) for name, who in (("root", Who(0)), ("the unit", stage.machine.unit()))}
    attempt("account.refresh", account="shared")
    attacker.next(READY_SECONDS)
    time.sleep(1)
    copies = attacker.finish()
    return hold([
        (set(told.values()) == {"subscribed"},
         f"{granted} on one connection: root {told['root']}, the unit {told['the unit']}"),
        (copies == 1, f"{copies} copies of one event")])


def never_read(tell, connections, uids, each):
    """Asks for long replies and reads none."""
    clients = []
    payload = line(message("rpc.discover", None, 1)) * each
    for number in range(connections):
        with contextlib.suppress(OSError, Gone):
            with acting_as(SUBORDINATE_FIRST + number % uids):
                clients.append(BlockingClient(SOCKET, 2))
            clients[-1].socket.sendall(payload)
    tell(len(clients))
    ended.wait()
    return {}


def unread(stage):
    """Connections that never read their replies take bounded memory, which comes back, and no neighbour's time."""
    stage.begin("main")
    stage.sign_in("main", "shared")
    return hold(best(lambda: unread_once(stage)))


def unread_once(stage):
    """The conditions, and those on speed."""
    idle = stage.machine.resident()
    victim = stage.act(stage.machine.user("owner"), measure.sample, "shared")
    victim.next(READY_SECONDS)
    attacker = stage.attack(crowd(stage), never_read, SILENT_CONNECTIONS, SILENT_UIDS, REPLIES_EACH)
    growth = stage.machine.growth(idle, SECONDS)
    attacker.finish()
    figures = victim.finish()
    with contextlib.suppress(Exception):
        wait_until(lambda: stage.machine.resident() - idle <= REST_BYTES, REST_SECONDS, "memory is given back")
    rest = stage.machine.resident() - idle
    return [
        (growth <= GROWTH_BYTES, f"{SILENT_CONNECTIONS} connections: {growth // MEGABYTE} MB above idle"),
        (rest <= REST_BYTES, f"{rest // MEGABYTE} MB when they had gone"),
        (measure.refused(figures)[0] == 0, f"the owner: {measure.told(figures)}"),
    ], [(figures["cached"]["p99"] <= CACHED_SECONDS, f"cached p99 {measure.milliseconds(figures['cached']['p99'])}")]


def idle_at(tell, address, count):
    """Connections that send nothing."""
    place = urllib.parse.urlsplit(address)
    open_ones = []
    for _ in range(count):
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex((place.hostname, place.port))
        open_ones.append(one)
    time.sleep(1)
    tell(len(select.select([], open_ones, [], 0)[1]))
    ended.wait()
    return {}


def callback(stage):
    """Idle connections to the callback keep nobody from signing in."""
    stage.begin("main")
    address = stage.ask("broker.status")["callback"][0]
    attacker = stage.attack(stage.machine.user("ruleless"), idle_at, address, IDLE_CONNECTIONS)
    count = attacker.next(READY_SECONDS)
    names = (f"shared{number}" for number in itertools.count())
    return hold([(True, f"{count} idle connections"), *best(lambda: logins(stage, names, 1))])


def logins(stage, names, count):
    """Some logins: the conditions, and those on speed."""
    told, took = [], []
    for name in itertools.islice(names, count):
        began = time.monotonic()
        told.append(stage.once(Who(0), log_in, "main", name, "ada"))
        took.append(time.monotonic() - began)
    return [(set(told) == {"completed"}, f"logins are {', '.join(told)}")], [
        (max(took) <= LOGIN_SECONDS, f"after {max(took):.1f} s at most")]


def crowd_at(tell, address, request, count):
    """So many connections that send something and never read; each that is closed is made anew."""
    place = urllib.parse.urlsplit(address)
    payload = request.replace("HOST", place.netloc).encode()
    poller, open_ones, told = select.poll(), {}, 0
    while not ended.is_set():
        while len(open_ones) < count:
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex((place.hostname, place.port))
            open_ones[one.fileno()] = one
            poller.register(one, select.POLLOUT | select.POLLRDHUP)
        for number, event in poller.poll(50):
            if event & (select.POLLERR | select.POLLHUP | select.POLLRDHUP):
                poller.unregister(number)
                open_ones.pop(number).close()
                continue
            with contextlib.suppress(OSError):
                open_ones[number].send(payload)
            poller.modify(number, select.POLLRDHUP)
            told += 1
            if told == count:
                tell(told)
    return told


def callback_crowd(stage):
    """Connections that ask, are answered and stay, made anew as they are closed, keep nobody from signing in."""
    stage.begin("main")
    address = stage.ask("broker.status")["callback"][0]
    attackers = [
        stage.attack(stage.machine.user(user), crowd_at, address, request, IDLE_CONNECTIONS)
        for user, request in (("ruleless", "GET / HTTP/1.1\r\nHost: HOST\r\n\r\n"), ("many", "G"))]
    for one in attackers:
        one.next(READY_SECONDS)
    names = (f"shared{number}" for number in itertools.count())
    conditions = best(lambda: logins(stage, names, 3))
    counts = [one.finish() for one in attackers]
    return hold([(True, f"{sum(counts)} connections of two users"), *conditions])


CASES = {"callback-crowd": callback_crowd, "subscriptions": subscriptions, "unread-replies": unread, "callback-places": callback}
