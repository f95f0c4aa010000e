"""/forward: bodies as they come, whatever their size and speed; memory; and a token that a server sends back."""

import base64
import contextlib
import json
import signal
import statistics
import threading
import time

from cases.forward import forward, live, own_error
from grantd_testing import wait_until
from rig import case, must
from wire import Broken, Reader, ask, dial, request

WAIT_SECONDS = 60
# What running requests get, and a little.
SHUTDOWN_SECONDS = 55
STALLED_SECONDS = 660
UPLOAD_BYTES = 100 << 20
PIECE = b"p" * (64 << 10)
# Above what it takes idle.
MEMORY_BYTES = 40 << 20
LATENCY_SECONDS, EVENTS = 0.005, 40
# On a busy machine the way of an event takes so many times the direct one; less than a delayed ACK takes.
LATENCY_FACTOR, MOST_LATENCY_SECONDS, ROUNDS = 6, 0.03, 6
# A client leaves, and the server learns it in this time, at best of three.
LEFT_SECONDS = 5
SLOW_BYTES = 200 << 20
# What the kernel's buffers on the way may hold: two sockets, each of some megabytes.
BUFFERED_BYTES = 48 << 20


class Watch:
    """The most memory that the broker took while this ran, above what it took before."""

    def __init__(self, scene):
        self.process, self.most, self.is_over = scene.broker.process, 0, threading.Event()

    def __enter__(self):
        self.before = self.process.resident()
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()
        return self

    def look(self):
        while not self.is_over.wait(0.02):
            with contextlib.suppress(OSError, TypeError):
                self.most = max(self.most, self.process.resident() - self.before)

    def __exit__(self, *error):
        self.is_over.set()
        self.thread.join()

    def check(self, what):
        must(self.most <= MEMORY_BYTES, f"{what}: {self.most >> 20} MiB more")


# ---- events of servers

def events(exchange):
    """An event as soon as it is asked for, each on a connection of its own, which stays open."""
    if exchange.refused():
        return
    exchange.head(200, [("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")])
    exchange.chunk(f"data: {time.perf_counter():.9f}\n\n".encode())
    with contextlib.suppress(OSError, TimeoutError):
        exchange.stream.settimeout(WAIT_SECONDS)
        exchange.stream.recv(1)
    exchange.closes = True


def first_events(place, target, token):
    """How long the first event took on its way, many times."""
    found = []
    for _ in range(EVENTS):
        with dial(place) as stream:
            stream.sendall(request("GET", target, place, fields=[("Authorization", f"Bearer {token}")]))
            reader = Reader(stream)
            status, _, _ = reader.answer_head()
            must(status == 200, f"status {status}")
            line = next(reader.chunks())
            found.append(time.perf_counter() - float(line.split()[1]))
    return statistics.median(found)


@case("forward.first_event")
def first_event(scene):
    """The clock is one for all processes of a machine."""
    scene.upstream.route("events", events)
    token = scene.broker.token("work")
    found = []
    for _ in range(ROUNDS):
        direct = first_events(scene.upstream.port, "/events", token)
        through = first_events(scene.broker.address, "/forward/work/events", token)
        found.append(f"{1000 * through:.1f} ms, {1000 * direct:.1f} ms direct")
        most = min(max(LATENCY_SECONDS, LATENCY_FACTOR * direct), MOST_LATENCY_SECONDS)
        if through - direct <= most:
            return
    must(False, f"the first event takes {'; '.join(found)}")


@case("forward.both_ways")
def both_ways(scene):
    """An answer that begins before the request has ended, and what is said in turn."""
    def action(exchange):
        if exchange.refused():
            return
        exchange.head(200, [("Transfer-Encoding", "chunked")])
        for piece in exchange.pieces():
            exchange.chunk(b"<" + piece + b">")
        exchange.send(b"0\r\n\r\n")
    scene.upstream.route("turns", action)
    # A token that is alive: the request need not be kept for a second try.
    head = request("POST", "/forward/work/turns", scene.broker.address, fields=[("Transfer-Encoding", "chunked")])
    with dial(scene.broker.address) as stream:
        stream.sendall(head)
        reader, found, wanted = Reader(stream), b"", b""
        chunks = None
        for number in range(20):
            word = b"word-%d" % number
            wanted += b"<" + word + b">"
            stream.sendall(b"%x\r\n%b\r\n" % (len(word), word))
            if not chunks:
                must(reader.answer_head()[0] == 200, "no answer before the request has ended")
                chunks = reader.chunks()
            while len(found) < len(wanted):
                found += next(chunks)
            must(found == wanted, f"{found} in place of {wanted}")
        stream.sendall(b"0\r\n\r\n")
        must(isinstance(next(chunks), list), "the answer does not end")


@case("forward.long_idle")
def long_idle(scene):
    """Nothing for a while is no end, of what is a stream of events."""
    seconds = 65 if scene.is_long else 3

    def action(exchange):
        if not exchange.refused():
            exchange.head(200, [("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")])
            for number in range(2):
                exchange.chunk(b"data: %d\n\n" % number)
                time.sleep(seconds)
            exchange.send(b"0\r\n\r\n")
    scene.upstream.route("idle", action)
    answer = forward(scene, "GET", "/idle", seconds=WAIT_SECONDS + seconds)
    must(answer.is_whole and answer.body == b"data: 0\n\ndata: 1\n\n", f"{answer}")


# ---- sizes

@case("forward.uploads")
def uploads(scene):
    """By length and in chunks, with little memory."""
    def action(exchange):
        count = sum(map(len, exchange.pieces()))
        if not exchange.refused():
            exchange.reply(200, str(count))
    scene.upstream.route("count", action)
    for field in (("Content-Length", str(UPLOAD_BYTES)), ("Transfer-Encoding", "chunked")):
        with Watch(scene) as watch, dial(scene.broker.address) as stream:
            stream.sendall(request("POST", "/forward/work/count", scene.broker.address, fields=[field]))
            for _ in range(UPLOAD_BYTES // len(PIECE)):
                stream.sendall(b"%x\r\n%b\r\n" % (len(PIECE), PIECE) if field[1] == "chunked" else PIECE)
            if field[1] == "chunked":
                stream.sendall(b"0\r\n\r\n")
            answer = Reader(stream, WAIT_SECONDS).answer()
            must((answer.status, answer.body) == (200, str(UPLOAD_BYTES).encode()), f"{field}: {answer}")
        watch.check(f"{field}")


@case("forward.upload_by_curl", "curl")
def upload_by_curl(scene):
    """With `Expect: 100-continue`, which the broker answers, and curl waits a second for."""
    def action(exchange):
        count = sum(map(len, exchange.pieces()))
        if not exchange.refused():
            exchange.reply(200, f"{count} {exchange.get('expect')}")
    scene.upstream.route("count", action)
    path = scene.file("large", "x" * (5 << 20))
    url = f"{scene.broker.url}/forward/work/count"
    for words in (["-T", path], ["--data-binary", f"@{path}"], ["-T", "-"], ["-H", "Transfer-Encoding: chunked", "-d",
                                                                             "@" + str(path)]):
        begun = time.monotonic()
        done = scene.run("curl", "-q", "-sS", "-f", "-H", "Expect: 100-continue", "--expect100-timeout", str(WAIT_SECONDS),
                         *words, url, seconds=2 * WAIT_SECONDS,
                         text="x" * (5 << 20) if "-" in words else None).ok()
        must(done.out == f"{5 << 20} None", f"{words[:2]}: {done.out}")
        must(time.monotonic() - begun < WAIT_SECONDS, f"{words[:2]}: curl waited for 100")


@case("forward.slow_upstream")
def slow_upstream(scene):
    """A server that takes no body: the client is not read from."""
    event = threading.Event()

    def action(exchange):
        event.wait(WAIT_SECONDS)
        exchange.reply(200, str(sum(map(len, exchange.pieces()))))
    scene.upstream.route("slow", action)
    with Watch(scene) as watch, dial(scene.broker.address) as stream:
        stream.sendall(request("POST", "/forward/work/slow", scene.broker.address,
                               fields=[("Content-Length", str(UPLOAD_BYTES))]))
        stream.settimeout(1.5)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < UPLOAD_BYTES:
                sent += stream.send(PIECE)
        must(sent <= BUFFERED_BYTES, f"{sent >> 20} MiB were taken that nobody reads")
        event.set()
        stream.settimeout(WAIT_SECONDS)
        while sent < UPLOAD_BYTES:
            sent += stream.send(PIECE[:UPLOAD_BYTES - sent])
        answer = Reader(stream, WAIT_SECONDS).answer()
        must((answer.status, answer.body) == (200, str(UPLOAD_BYTES).encode()), f"{answer}")
    watch.check("a server that does not read")


@case("forward.slow_reader")
def slow_reader(scene):
    """A client that does not read: the server is not read from."""
    state = {"sent": 0}

    def action(exchange):
        if not exchange.refused():
            exchange.head(200, [("Content-Length", str(SLOW_BYTES))])
            for _ in range(SLOW_BYTES // len(PIECE)):
                exchange.send(PIECE)
                state["sent"] += len(PIECE)
    scene.upstream.route("flood", action)
    with Watch(scene) as watch, dial(scene.broker.address) as stream:
        stream.sendall(request("GET", "/forward/work/flood", scene.broker.address))
        wait_until(lambda: state["sent"], WAIT_SECONDS, "the server's answer begins")
        before = 0
        while state["sent"] != before:
            before = state["sent"]
            must(before <= BUFFERED_BYTES, f"{before >> 20} MiB were taken that nobody reads")
            time.sleep(2)
        answer = forward(scene, "GET", "/echo")
        must(answer.status == 200, "others wait")
        reader, count = Reader(stream, WAIT_SECONDS), 0
        status, _, _ = reader.answer_head()
        for piece in reader.pieces(SLOW_BYTES):
            count += len(piece)
        must((status, count) == (200, SLOW_BYTES), f"{status}, {count} bytes")
    watch.check("a client that does not read")


@case("forward.client_leaves")
def client_leaves(scene):
    """At any moment; the server is told soon, and nobody else notices."""
    gone = []

    def action(exchange):
        if exchange.refused():
            return
        exchange.closes = True
        exchange.head(200, [("Transfer-Encoding", "chunked")])
        begun = time.monotonic()
        try:
            while time.monotonic() < begun + WAIT_SECONDS:
                exchange.chunk(b"tick\n")
                time.sleep(0.05)
        except OSError:
            gone.append(time.monotonic() - begun)
    scene.upstream.route("ticks", action)
    for _ in range(3):
        with dial(scene.broker.address) as stream:
            stream.sendall(request("GET", "/forward/work/ticks", scene.broker.address))
            Reader(stream).answer_head()
    wait_until(lambda: len(gone) == 3, WAIT_SECONDS, "the server sees that the clients are gone")
    must(min(gone) < LEFT_SECONDS, f"{gone}")
    # In the middle of what it sends: the server must not take it for whole.
    taken = []

    def upload(exchange):
        try:
            taken.append(("whole", len(exchange.body())))
        except (Broken, OSError) as error:
            taken.append(("cut", str(error)[:80]))
        exchange.closes = True
    scene.upstream.route("upload", upload)
    for field, data in ((("Content-Length", "1000"), b"x" * 400), (("Transfer-Encoding", "chunked"),
                                                                   b"190\r\n" + b"x" * 400)):
        count = len(taken)
        with dial(scene.broker.address) as stream:
            stream.sendall(request("POST", "/forward/work/upload", scene.broker.address, fields=[field]) + data)
            time.sleep(0.2)
        # A broker that has kept the whole body first never asks.
        time.sleep(0.5)
        must(all(what == "cut" for what, _ in taken[count:]), f"{field}: the server saw {taken[count:]}")
    must(forward(scene, "GET", "/echo").status == 200, "others are served")


# ---- a token that comes back

@case("forward.echoed_token")
def echoed_token(scene):
    """In a header field, in a body, and in pieces cut at each of its bytes."""
    def cut(exchange):
        """Half of it, a pause, and the rest; the target says where."""
        if exchange.refused():
            return
        body = f"<{exchange.token}|{exchange.token}>".encode()
        at = min(int(exchange.target.split("/")[2]), len(body) - 1)
        exchange.head(200, [("Transfer-Encoding", "chunked"), ("X-Token", exchange.token)])
        for piece in (body[:at], body[at:]):
            if piece:
                exchange.chunk(piece)
                time.sleep(0.004)
        exchange.send(b"0\r\n\r\n")

    def reflect(exchange):
        live(exchange, 200, json.dumps(dict(exchange.fields)), [
            ("X-Echo", f"Bearer {exchange.token}"), ("X-More", f"a={exchange.token}; b={exchange.token}"),
            ("X-Base64", base64.b64encode(exchange.token.encode()).decode()), ("Content-Type", "application/json")])
    scene.upstream.route("reflect", reflect)
    token = scene.broker.token("work")
    answer = forward(scene, "GET", "/reflect")
    text = json.dumps(answer.fields) + answer.body.decode()
    must(answer.is_whole and answer.status == 200 and token not in text, f"{text}")
    value = json.loads(answer.body)
    must(value["host"] == scene.upstream.place and value["authorization"].startswith("Bearer"), f"the rest: {value}")
    must((answer.get("x-more") or "").startswith("a="), f"{answer.fields}")
    scene.upstream.route("cut", cut)
    for at in range(0, len(token) + 4):
        answer = forward(scene, "GET", f"/cut/{at}")
        body = answer.body.decode()
        must(answer.status == 200 and answer.is_whole and token not in body, f"cut at {at}: {body}")
        must(body.startswith("<") and body.endswith(">") and "|" in body, f"cut at {at}: {body}")
        must(token[8:20] not in body, f"cut at {at}: a part of it: {body}")
    # What only begins as it does comes through, and soon.
    part = token[:20]
    scene.upstream.route("part", lambda exchange: live(exchange, 200, f"{part}-{part}"))
    must(forward(scene, "GET", "/part").body.decode() == f"{part}-{part}", "a part of a token was changed")
    for body in (token * 500, "x" * 65530 + token, token[:-1] * 300 + token):
        scene.upstream.route("many", lambda exchange: live(exchange, 200, body))
        answer = forward(scene, "GET", "/many")
        must(answer.is_whole and token.encode() not in answer.body, "a token among many")
    scene.upstream.route("until-close", lambda exchange: (
        exchange.head(200, [("Connection", "close")]), exchange.send(f"a{exchange.token}b"),
        setattr(exchange, "closes", True)))
    answer = forward(scene, "GET", "/until-close")
    must(token.encode() not in answer.body and answer.body[:1] == b"a" and answer.body[-1:] == b"b", f"{answer.body}")
    answer = forward(scene, "HEAD", "/reflect")
    must(token not in json.dumps(answer.fields), f"HEAD: {answer.fields}")


@case("forward.echoed_elsewhere")
def echoed_elsewhere(scene):
    """Where nobody looks for a token: none of it in any byte that comes back."""
    token, place = scene.broker.token("work"), scene.upstream.url
    fine = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    table = {
        "the reason": b"HTTP/1.1 200 TOKEN\r\nContent-Length: 2\r\n\r\nok",
        "a name": b"HTTP/1.1 200 OK\r\nX-TOKEN: y\r\nContent-Length: 2\r\n\r\nok",
        "an interim answer": b"HTTP/1.1 103 Early TOKEN\r\nLink: <TOKEN>\r\n\r\n" + fine,
        "a trailer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: TOKEN\r\n\r\n",
        "an extension": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;TOKEN\r\nok\r\n0;TOKEN\r\n\r\n",
        "a redirect": b"HTTP/1.1 302 Found\r\nLocation: %b/x?t=TOKEN\r\nContent-Length: 0\r\n\r\n" % place.encode(),
        "a foreign redirect": b"HTTP/1.1 302 No\r\nLocation: https://x.example/?t=TOKEN\r\nContent-Length: 0\r\n\r\n",
        "an error": b"HTTP/1.1 400 No\r\nContent-Length: 250\r\n\r\n" + b"TOKEN".ljust(300),
        "no HTTP": b"TOKEN TOKEN\r\n\r\n", "a bad field": b"HTTP/1.1 200 OK\r\nTOKEN\r\n\r\n",
        "a challenge": b'HTTP/1.1 401 No\r\nWWW-Authenticate: Bearer x="TOKEN"\r\nContent-Length: 5\r\n\r\nTOKEN'}
    data = [b""]

    def action(exchange):
        exchange.body()
        exchange.closes = True
        exchange.send(data[0].replace(b"TOKEN", (exchange.token or "none").encode()))
    scene.upstream.route("elsewhere", action)
    for what, data[0] in table.items():
        found = b""
        with dial(scene.broker.address) as stream:
            stream.sendall(request("GET", "/forward/work/elsewhere", scene.broker.address))
            while piece := stream.recv(1 << 16):
                found += piece
        must(found.startswith(b"HTTP/1.1 ") and b"tok-work" not in found and token.encode() not in found,
             f"{what}: {found}")


@case("forward.shutdown")
def shutdown(scene):
    """The broker ends though a stream does not, and what is under way by then is cut, not completed."""
    scene.upstream.route("events", events)
    with scene.another(scene.plain()) as broker:
        broker.imported("p", "work")
        with dial(broker.address) as stream:
            stream.sendall(request("GET", "/forward/work/events", broker.address))
            reader = Reader(stream, SHUTDOWN_SECONDS)
            reader.answer_head()
            chunks = reader.chunks()
            next(chunks)
            begun = time.monotonic()
            status = broker.end(signal.SIGTERM)
            must(status == 0 and time.monotonic() - begun < SHUTDOWN_SECONDS,
                 f"{status}: {time.monotonic() - begun:.0f} s")
            try:
                must(not isinstance(next(chunks), list), "a stream that was cut looks whole")
            except Broken:
                pass
        broker.start()
        must(ask(broker.address, "GET", "/forward/work/echo").status == 200, "after the restart")


@case("forward.partial_event")
def partial_event(scene):
    """The end of an event looks like the beginning of a token: it comes nevertheless, while the stream stays open."""
    token, has_come, came = scene.broker.token("work"), threading.Event(), []

    def action(exchange):
        if not exchange.refused():
            exchange.head(200, [("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")])
            exchange.chunk(b"data: x\n\n" + token[:1].encode())
            came.append(has_come.wait(WAIT_SECONDS / 2))
            exchange.chunk(b"data: y\n\n")
            exchange.send(b"0\r\n\r\n")
    scene.upstream.route("partial", action)
    with dial(scene.broker.address) as stream:
        stream.sendall(request("GET", "/forward/work/partial", scene.broker.address))
        reader = Reader(stream)
        reader.answer_head()
        chunks = reader.chunks()
        must(next(chunks).startswith(b"data: x\n\n"), "another event")
        has_come.set()
        must(isinstance(list(chunks)[-1], list) and came == [True], "the event waited for the next")


# ---- servers out of order

@case("forward.bad_servers")
def bad_servers(scene):
    """Before the answer began: 502. Afterwards the connection is cut, so that nobody takes it for whole."""
    table = {
        "nothing": b"", "no HTTP": b"SSH-2.0-x\r\n\r\n", "no status": b"HTTP/1.1 \r\n\r\n",
        "HTTP/2": b"HTTP/2 200 OK\r\n\r\n",
        "HTTP/0.9": b"<html>", "half a head": b"HTTP/1.1 200 OK\r\nContent-Le", "status 99": b"HTTP/1.1 099 x\r\n\r\n",
        "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        "a bad length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nxx",
        "a plus": b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nxx",
        "length and coding": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "two codings": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "a space before the colon": b"HTTP/1.1 200 OK\r\nX : y\r\nContent-Length: 0\r\n\r\n",
        "a folded field": b"HTTP/1.1 200 OK\r\nX: y\r\n z\r\nContent-Length: 0\r\n\r\n",
        "a NUL": b"HTTP/1.1 200 OK\r\nX: \0\r\nContent-Length: 0\r\n\r\n",
        "a CR": b"HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: x\r\nContent-Length: 0\r\n\r\n",
        "an endless head": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200_000}
    data = [b""]

    def action(exchange):
        exchange.body()
        exchange.closes = True
        exchange.send(data[0])
    scene.upstream.route("bad", action)
    # These a tolerant reader may take.
    may_pass = {"a space before the colon", "a folded field", "two codings", "length and coding"}
    for what, data[0] in table.items():
        answer = forward(scene, "GET", "/bad")
        if what in may_pass and answer.status == 200:
            must(not (answer.all("content-length") and answer.all("transfer-encoding")), f"{what}: {answer}")
            continue
        own_error(answer, 502)
    cut = {
        "a short body": (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", b"half"),
        "a chunk that stops": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nhalf", b"half"),
        "no last chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", b"half"),
        "a bad chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\n\r\n", b"half"),
        "a long chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalfXX\r\n0\r\n\r\n", b"half")}
    for what, (data[0], found) in cut.items():
        answer = forward(scene, "GET", "/bad")
        must(answer.status == 502 or not answer.is_whole, f"{what}: taken for whole: {answer}")
        must(answer.status == 502 or found.startswith(answer.body), f"{what}: {answer}")
    # More than it said: the rest is of no answer.
    data[0] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfineHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother"
    with dial(scene.broker.address) as stream:
        reader = Reader(stream)
        for path, wanted in (("/bad", b"fine"), ("/part", None), ("/bad", b"fine")):
            stream.sendall(request("GET", f"/forward/work{path}", scene.broker.address, close=False))
            answer = reader.answer()
            must(answer.status in (200, 404) and answer.body in (wanted, answer.body if wanted is None else wanted),
                 f"{path}: {answer}")
            must(answer.body != b"other", "an answer of nobody's")
    must(forward(scene, "GET", "/echo").status == 200, "others are served")


@case("forward.unreachable")
def unreachable(scene):
    """Nobody listens there; and where a connection that was kept is closed, the request is sent on another."""
    scene.upstream.route("once", lambda exchange: (live(exchange, 200, "x"), setattr(exchange, "closes", True)))
    for _ in range(5):
        must(forward(scene, "GET", "/once").status == 200, "a connection that was kept")
        must(forward(scene, "POST", "/once", b"x").status == 200, "POST on a connection that was kept")
    with scene.another(scene.section("p", 'api_base = "http://127.0.0.1:1"')) as broker:
        broker.imported("p", "work")
        own_error(ask(broker.address, "GET", "/forward/work/x"), 502)


@case("forward.stalled")
def stalled(scene):
    """A server that never answers: 504 after ten minutes, and until then nobody waits."""
    event = threading.Event()
    scene.upstream.route("stalled", lambda exchange: (exchange.body(), event.wait(STALLED_SECONDS),
                                                      setattr(exchange, "closes", True)))
    with dial(scene.broker.address) as stream:
        stream.sendall(request("GET", "/forward/work/stalled", scene.broker.address))
        waits = []
        for _ in range(20):
            begun = time.monotonic()
            must(forward(scene, "GET", "/echo").status == 200, "others are served")
            waits.append(time.monotonic() - begun)
        must(sorted(waits)[10] < 1, f"others wait: {waits}")
        if scene.is_long:
            own_error(Reader(stream, STALLED_SECONDS).answer(), 504)
    event.set()


@case("forward.many")
def many(scene):
    """Hundreds of streams at once do not stop each other."""
    event, count = threading.Event(), 200

    def action(exchange):
        if not exchange.refused():
            exchange.head(200, [("Transfer-Encoding", "chunked")])
            exchange.chunk(b"first\n")
            event.wait(WAIT_SECONDS)
            exchange.chunk(b"last\n")
            exchange.send(b"0\r\n\r\n")
    scene.upstream.route("held", action)
    with contextlib.ExitStack() as stack:
        readers = []
        for _ in range(count):
            stream = stack.enter_context(dial(scene.broker.address))
            stream.sendall(request("GET", "/forward/work/held", scene.broker.address))
            readers.append(Reader(stream))
        streams = []
        for reader in readers:
            status, _, _ = reader.answer_head()
            must(status == 200, f"status {status} of one of {count}")
            streams.append(reader.chunks())
            must(next(streams[-1]) == b"first\n", "the first of it")
        must(forward(scene, "GET", "/echo").status == 200, "another request waits")
        event.set()
        must(all(next(stream) == b"last\n" for stream in streams), "the last of it")
