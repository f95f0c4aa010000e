"""The port of `[http]` under load: requests without an end, and bodies that never come, of users without a rule."""

import collections
import contextlib
import http.client
import os
import select
import socket
import struct
import time

import measure
from actor import READY_SECONDS, ended
from machine import GROWTH_BYTES, MEGABYTE
from stage import best, hold

PORT = 7817
ADDRESS = ("127.0.0.1", PORT)
SECTION = f'[http]\nlisten = "127.0.0.1:{PORT}"\n'
UNIX = "/run/grantd/http.sock"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
BODY = "grant_type=client_credentials&client_id=shared"
REQUEST = (f"POST /token HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nContent-Type: {FORM['Content-Type']}\r\n"
           f"Content-Length: {len(BODY)}\r\n\r\n{BODY}").encode()
SLOW = (f"POST /token HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nContent-Type: {FORM['Content-Type']}\r\n"
        "Content-Length: 4000\r\n\r\ngrant_type=").encode()
CONNECTIONS, SLOW_CONNECTIONS, TOGETHER = 64, 600, 32
NEW_GROUPS, BURST = 150, 128
# Enough for all event loops; closing one takes LINGER_SECONDS.
DESCRIPTORS, LINGER_SECONDS = 64, 30
# Earlier kernels cannot refuse descriptors (SO_PASSRIGHTS).
REFUSING_KERNEL = (6, 16)
SECONDS, PAUSE_SECONDS, HTTP_SECONDS = 4.0, 0.05, 60
# Of others' requests; a connection each.
P99_SECONDS = 0.5


def ask():
    """The status of one request for a token on a new connection, or the name of an error."""
    connection = http.client.HTTPConnection(*ADDRESS, timeout=HTTP_SECONDS)
    try:
        connection.request("POST", "/token", BODY, FORM)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__
    finally:
        connection.close()


def sample(tell):
    """Requests until the end: how many had which status, and the times of those that were served."""
    statuses, times = collections.Counter(), []
    tell("ready")
    while not ended.is_set():
        began = time.monotonic()
        status = ask()
        statuses[str(status)] += 1
        if status == 200:
            times.append(time.monotonic() - began)
        ended.wait(PAUSE_SECONDS)
    return {"statuses": dict(statuses), "p99": measure.percentile(times, 0.99)}


def pipeline(tell, count):
    """Requests on so many connections, as fast as they are taken."""
    poller, open_ones, sent = select.poll(), {}, 0
    tell("ready")
    while not ended.is_set():
        while len(open_ones) < count and not ended.is_set():
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(ADDRESS)
            open_ones[one.fileno()] = one
            poller.register(one, select.POLLIN | select.POLLOUT | select.POLLRDHUP)
        for number, event in poller.poll(50):
            one = open_ones[number]
            try:
                if event & select.POLLIN and not one.recv(1 << 16):
                    raise ConnectionResetError
                if event & (select.POLLERR | select.POLLHUP | select.POLLRDHUP):
                    raise ConnectionResetError
                if event & select.POLLOUT:
                    sent += one.send(REQUEST * TOGETHER)
            except BlockingIOError:
                continue
            except OSError:
                poller.unregister(number)
                open_ones.pop(number).close()
    return sent // len(REQUEST)


def slow(tell, count):
    """A request on each connection, whose body gets a byte now and then; each that is closed is made again."""
    open_ones, closed = [], 0
    is_told = False
    while not ended.is_set():
        while len(open_ones) < count and not ended.is_set():
            one = socket.socket()
            one.settimeout(1)
            with contextlib.suppress(OSError):
                one.connect(ADDRESS)
                one.sendall(SLOW)
                open_ones.append(one)
                continue
            one.close()
            break
        if not is_told:
            tell(len(open_ones))
            is_told = True
        for one in list(open_ones):
            try:
                one.send(b"x", socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except BlockingIOError:
                continue
            except OSError:
                open_ones.remove(one)
                one.close()
                closed += 1
        ended.wait(1)
    return closed


def churn(tell):
    """A request on each of ever new connections, without waiting for an answer."""
    count = 0
    tell("ready")
    while not ended.is_set():
        with contextlib.suppress(OSError), socket.create_connection(ADDRESS, timeout=1) as one:
            one.sendall(REQUEST)
            count += 1
    return count


def pass_descriptors(tell):
    """Sends TCP sockets with unread data and SO_LINGER over the Unix socket; how many the kernel passed and refused."""
    counts = collections.Counter(passed=0, refused=0)
    with contextlib.ExitStack() as open_ones:
        listener = open_ones.enter_context(socket.create_server(("127.0.0.1", 0)))
        for _ in range(DESCRIPTORS):
            one = open_ones.enter_context(socket.create_connection(listener.getsockname()))
            open_ones.enter_context(listener.accept()[0])
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    one.send(bytes(1 << 16))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER_SECONDS))
            one.setblocking(True)
            with socket.socket(socket.AF_UNIX) as sender:
                sender.connect(UNIX)
                try:
                    socket.send_fds(sender, [b"G"], [one.fileno()])
                    counts["passed"] += 1
                    # The last copy is the receiver's.
                    one.close()
                except PermissionError:
                    counts["refused"] += 1
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
        tell("ready")
        ended.wait()
    return dict(counts)


def burst(_):
    """A request on each of many connections that are opened at once: how many had which status."""
    statuses = collections.Counter()
    with contextlib.ExitStack() as open_ones:
        clients = [open_ones.enter_context(socket.socket()) for _ in range(BURST)]
        for one in clients:
            one.setblocking(False)
            one.connect_ex(ADDRESS)
        for one in clients:
            one.settimeout(HTTP_SECONDS)
            try:
                one.sendall(REQUEST)
                words = one.recv(1 << 16).split(b" ")
                statuses[words[1].decode() if len(words) > 1 else "closed"] += 1
            except OSError as error:
                statuses[type(error).__name__] += 1
    return dict(statuses)


def ask_once(_):
    return ask()


def under(stage, work, users, count):
    stage.begin("main", more=SECTION)
    stage.sign_in("main", "shared")
    return hold(best(lambda: under_once(stage, work, users, count)))


def under_once(stage, work, users, count):
    """The conditions, and those on speed."""
    idle = stage.machine.resident()
    attackers = [stage.attack(stage.machine.user(user), work, count) for user in users]
    for one in attackers:
        one.next(READY_SECONDS)
    victim = stage.act(stage.machine.unit(), sample)
    victim.next(READY_SECONDS)
    growth = stage.machine.growth(idle, SECONDS)
    seen = victim.finish()
    done = [one.finish() for one in attackers]
    others = {status: number for status, number in seen["statuses"].items() if status != "200"}
    return [
        (seen["statuses"].get("200", 0) > 0 and not others, f"the unit's requests: {seen['statuses']}"),
        (growth <= GROWTH_BYTES, f"{growth // MEGABYTE} MB above idle"),
        (True, f"attackers: {done}"),
    ], [(seen["p99"] <= P99_SECONDS, f"p99 {measure.milliseconds(seen['p99'])}")]


def load(stage):
    """A user without a rule sends requests without an end on 64 connections to the HTTP port."""
    return under(stage, pipeline, ["ruleless"], CONNECTIONS)


def slow_bodies(stage):
    """Three users without a rule keep 1,800 requests whose bodies never end."""
    return under(stage, slow, ["ruleless", "other", "many"], SLOW_CONNECTIONS)


def new_groups(stage):
    """Users without a rule open connections without an end, while processes of a unit ask from control groups that the
    broker has not seen: their unit is not known when they are accepted."""
    stage.begin("main", more=SECTION)
    stage.sign_in("main", "shared")
    attackers = [stage.attack(stage.machine.user("ruleless"), pipeline, CONNECTIONS)]
    attackers += [stage.attack(stage.machine.user(user), churn) for user in ("other", "many") for _ in range(2)]
    for one in attackers:
        one.next(READY_SECONDS)
    statuses = collections.Counter(
        str(stage.once(stage.machine.unit(f"part-{number}"), ask_once)) for number in range(NEW_GROUPS))
    done = [one.finish() for one in attackers]
    return hold([
        (set(statuses) == {"200"}, f"the unit's requests: {dict(statuses)}"),
        (all(done), f"attackers: {done}")])


def new_unit(stage):
    """A unit opens 128 connections at once as its first ones, while another user opens connections without an end."""
    stage.begin("main", more=SECTION)
    stage.sign_in("main", "shared")
    attacker = stage.attack(stage.machine.user("ruleless"), churn)
    attacker.next(READY_SECONDS)
    statuses = stage.once(stage.machine.unit("burst"), burst, seconds=120)
    count = attacker.finish()
    return hold([(statuses == {"200": BURST}, f"the unit's requests: {statuses}"), (count > 0, f"attacker: {count}")])


def descriptors(stage):
    """A user without a rule sends descriptors over the Unix socket, which take long to close."""
    if tuple(int(part) for part in os.uname().release.split(".")[:2]) < REFUSING_KERNEL:
        return "this kernel cannot refuse descriptors"
    stage.begin("main", more=f'{SECTION}unix = "{UNIX}"\n')
    stage.sign_in("main", "shared")
    return hold(best(lambda: descriptors_once(stage)))


def descriptors_once(stage):
    """The conditions, and those on speed."""
    attacker = stage.attack(stage.machine.user("ruleless"), pass_descriptors)
    attacker.next(READY_SECONDS)
    victim = stage.act(stage.machine.unit(), sample)
    victim.next(READY_SECONDS)
    time.sleep(SECONDS)
    seen = victim.finish()
    counts = attacker.finish()
    others = {status: number for status, number in seen["statuses"].items() if status != "200"}
    return [
        (seen["statuses"].get("200", 0) > 0 and not others, f"the unit's requests: {seen['statuses']}"),
        (counts["refused"] == DESCRIPTORS, f"descriptors: {counts}"),
    ], [(seen["p99"] <= P99_SECONDS, f"p99 {measure.milliseconds(seen['p99'])}")]


CASES = {
    "http-descriptors": descriptors, "http-load": load, "http-new-groups": new_groups, "http-new-unit": new_unit,
    "http-slow-bodies": slow_bodies}
