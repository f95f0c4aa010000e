"""Clients that close while their answer is on its way, and clients that come while the broker accepts none."""

import contextlib
import os
import signal
import socket
import threading
import time

from cases.forward import forward
from rig import case, must
from wire import Reader, dial, request

WAIT_SECONDS = 60
ROUNDS = 8
# More than the broker keeps back, which might be the beginning of a token.
PIECE = b"p" * 4096


# As many wait in the kernel, for less than the second after which it sends a SYN again.
WAITING, CONNECT_SECONDS = 400, 0.9


@contextlib.contextmanager
def stopped(process):
    """What happens during this meets the broker at once when it continues."""
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


@case("forward.hangup")
def hangup(scene):
    """The end of an answer and the end of its client come in one pass of the broker's event loop."""
    allowed, ended = threading.Semaphore(0), threading.Semaphore(0)

    def action(exchange):
        if exchange.refused():
            return
        exchange.head(200, [("Transfer-Encoding", "chunked")])
        exchange.chunk(PIECE)
        allowed.acquire(timeout=WAIT_SECONDS)
        with contextlib.suppress(OSError):
            exchange.chunk(PIECE)
            exchange.send(b"0\r\n\r\n")
        ended.release()
    scene.upstream.route("hangup", action)
    for place in (scene.broker.unix, scene.broker.address) * ROUNDS:
        with dial(place) as stream:
            stream.sendall(request("GET", "/forward/work/hangup", place, close=False))
            reader = Reader(stream)
            must(reader.answer_head()[0] == 200 and next(reader.chunks()), "no answer")
            with stopped(scene.broker.process):
                allowed.release()
                must(ended.acquire(timeout=WAIT_SECONDS), "the server does not answer")
                stream.close()
        answer = forward(scene, "GET", "/echo")
        must(answer.status == 200, f"the next request: status {answer.status}")


def connecting(place):
    """Of this many clients, how many connect in the time."""
    made = []
    try:
        for _ in range(WAITING):
            one = socket.socket(socket.AF_UNIX if isinstance(place, str) else
                                socket.AF_INET6 if ":" in place[0] else socket.AF_INET)
            one.setblocking(False)
            made.append(one)
            with contextlib.suppress(BlockingIOError):
                one.connect(place)
        time.sleep(CONNECT_SECONDS)
        return sum(is_connected(one) for one in made)
    finally:
        for one in made:
            one.close()


def is_connected(one):
    try:
        one.getpeername()
    except OSError:
        return False
    return True


def has_address(host, port):
    try:
        socket.create_connection((host, port)).close()
    except OSError:
        return False
    return True


@case("accept.queue")
def queue(scene):
    """The kernel keeps hundreds of connections for the broker, at both addresses of the port and at the Unix socket."""
    port = scene.broker.address
    for place in ("127.0.0.1", port), ("::1", port, 0, 0), str(scene.broker.unix):
        if place[0] == "::1" and not has_address(*place[:2]):
            continue
        with stopped(scene.broker.process):
            count = connecting(place)
        must(count == WAITING, f"{place}: {count} of {WAITING} clients connect within {CONNECT_SECONDS} s")
        must(scene.ask("GET", "/none").status == 404, "the broker does not answer afterwards")
