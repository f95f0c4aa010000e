"""/forward: clients that close while their answer is on its way."""

import contextlib
import os
import signal
import threading

from cases.forward import forward
from rig import case, must
from wire import Reader, dial, request

WAIT_SECONDS = 20
ROUNDS = 8
# More than the broker keeps back, which might be the beginning of a token.
PIECE = b"p" * 4096


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
