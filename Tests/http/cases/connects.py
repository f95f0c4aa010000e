"""One user opens connections as fast as it can: it is refused, and other users get theirs."""

import contextlib
import json
import socket
import struct
import time

import people
from cases.floods import P99_SECONDS, attacker, delays, least_delays
from grantd_testing import wait_until
from rig import case, must
from scene import OTHER, USER
from wire import Reader, request

# Requests, each on a new connection, and how many the listener lets a user without a rule open.
MANY, BURST, PER_SECOND = 700, 200, 100
NOISE = 30
ATTACKERS, SECONDS = 4, 3
# Connections of another user, and how many of them may have lost a SYN: the 99th percentile has none.
MADE, LOST = 200, 2
WAIT_SECONDS = 60
# The offset of `tcpi_total_retrans` in linux/tcp.h.
TCP_INFO_BYTES, TOTAL_RETRANS = 104, 100

COUNT = """
import json, socket, sys, time
place, count = json.loads(sys.argv[1])
text = b"GET /none HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\nConnection: close\\r\\n\\r\\n" % place
answered, begun = 0, time.monotonic()
for number in range(count):
    try:
        with socket.create_connection(("127.0.0.1", place), 60) as made:
            made.sendall(text)
            answered += made.recv(1 << 16).startswith(b"HTTP/1.1 404")
    except ConnectionError:
        pass
print(json.dumps([answered, time.monotonic() - begun]))
"""

CHURN = """
import json, socket, sys
[place] = json.loads(sys.argv[1])
print("ready", flush=True)
while True:
    with socket.socket() as made:
        try:
            made.connect(("127.0.0.1", place))
            made.send(b"x")
        except OSError:
            pass
"""


@case("accept.rate", "setpriv")
def rate(scene):
    """A user without a rule opens few connections in a second; a user with a rule as many as a program needs."""
    place = json.dumps([scene.system.address, MANY])
    # The case before may have taken all places of the user, which is remembered for 0.1 s.
    wait_until(lambda: people.run(USER, COUNT, json.dumps([scene.system.address, 1]))[0] == 1, WAIT_SECONDS,
               "a place is free")
    time.sleep(0.2)
    answered, seconds = people.run(USER, COUNT, place)
    must(answered == MANY, f"{answered} of {MANY} requests of a user with a rule are answered")
    answered, seconds = people.run(OTHER, COUNT, place)
    most = BURST + PER_SECOND * seconds + NOISE
    must(BURST / 2 <= answered <= most, f"{answered} of {MANY} requests are answered in {seconds:.1f} s, {most:.0f} at most")

    def reported():
        return scene.system.lines(f"uid {OTHER} opens more than {PER_SECOND}")
    with contextlib.ExitStack() as stack:
        if answered == MANY:
            # This machine makes fewer connections in a second if each has a request.
            stack.enter_context(attacker(OTHER, CHURN, scene.system.address))
        wait_until(reported, WAIT_SECONDS, "the log reports it")


def has_lost(port):
    """Whether a new connection had to send its SYN again, as its kernel counts, whatever time this takes."""
    with socket.create_connection(("127.0.0.1", port), WAIT_SECONDS) as made:
        info = made.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
        made.sendall(request("GET", "/none", port))
        must(Reader(made).answer().status == 404, "another user is refused")
    return struct.unpack_from("=I", info, TOTAL_RETRANS)[0] > 0


@case("accept.churn", "setpriv")
def churn(scene):
    """Four users connect, send a byte and close without end: no other user's connection waits for a second SYN."""
    broker = scene.system
    quiet = max(delays(broker, 1))
    with contextlib.ExitStack() as stack:
        for number in range(ATTACKERS):
            stack.enter_context(attacker(OTHER + 100 + number, CHURN, broker.address))
        time.sleep(0.2)
        lost = sum(has_lost(broker.address) for _ in range(MADE))
        must(lost <= LOST, f"{lost} of {MADE} connections waited for a second SYN")
        new, kept = least_delays(broker, SECONDS, max(P99_SECONDS, 2 * quiet))
    figures = f"p99 of new connections {new * 1000:.0f} ms, of an open one {kept * 1000:.0f} ms, {quiet * 1000:.0f} ms before"
    must(new < max(P99_SECONDS, 2 * quiet) and kept < max(P99_SECONDS, 2 * quiet), figures)
    print(f"# {figures}", flush=True)
