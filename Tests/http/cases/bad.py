"""Input that is wrong, slow, or too much: the protocol's own errors, and nobody else notices."""

import concurrent.futures
import contextlib
import itertools
import json
import os
import random
import re
import select
import signal
import subprocess
import time

import people
from cases.token import FORM, credentials, granted
from grantd_testing import wait_until
from rig import case, must
from scene import OTHER, USER
from smuggling import COMPARED, REFUSED, chunks, filled, get, path_of, post, second_reader, taken
from wire import Broken, Reader, ask, dial, raw, request

WORKERS = 8
# In which an answer comes that should not.
FIRST_SECONDS, QUIET_SECONDS = 1.5, 0.25
FUZZ, LONG_FUZZ, SEED = 600, 30_000, 35
IDLE, LONG_IDLE = 4000, 10_000
# With the start of a program of that user, and connections that are tried again since too many came at once.
PROMPT_SECONDS = 30
# The greatest delay of others, at best of some measurements.
OTHERS_SECONDS, TRIES = 0.5, 3
# In which a head, or a body of which nothing comes, is given up.
STOPPED_SECONDS = 95
# Less than the time in which a head is given up.
STOP_SECONDS = 5
ERRORS = {400, 405, 408, 411, 413, 414, 417, 421, 426, 431, 501, 505}


def tried(scene, name, data, **awaited):
    """A request of the table, on a route of its own: what was answered, and what arrived."""
    prefix, whole = f"/forward/work/{name}", []

    def action(exchange):
        body = exchange.body()
        if not exchange.refused():
            fields = [field for field in exchange.fields if field[0].startswith("x-")]
            whole.append((exchange.method, exchange.target, body, fields))
            exchange.reply(200, "ok")
    seen = scene.upstream.route(name, action)
    data = filled(data, scene.broker.address, prefix)
    if h11 := awaited.pop("h11", None):
        awaited["expected"] = len(meant(prefix, taken(h11, data)[0]))
    answers, closed = raw(scene.broker.address, data, quiet=QUIET_SECONDS, first=FIRST_SECONDS, **awaited)
    return prefix, data, [answer.status for answer in answers], closed, whole, seen


def meant(prefix, requests):
    """What is for another place does not arrive at the row's route."""
    return [(method, path_of(target, prefix), body, fields) for method, target, body, fields in requests
            if re.search(re.escape(prefix) + "([/?#]|$)", target)]


def compared(h11, prefix, data, statuses, closed, whole, seen):
    """What is wrong; None: nothing."""
    wanted, begun, refuses = taken(h11, data)
    count = len(wanted)
    wanted = meant(prefix, wanted)
    state = f"h11: {[one[:3] for one in wanted]}{' and more' * begun}{' refused' * refuses}"
    state = f"{state[:400]}; answers {statuses}; arrived {whole}"[:700]

    def shown(item):
        # Several fields of a name may be joined, and a fragment left out.
        method, target, body, fields = item
        joined = {name: ", ".join(value for field, value in fields if field == name) for name, _ in fields}
        return method, target.partition("#")[0], body, joined
    # In their order; of what is left out each was refused by itself, or it is the rest.
    rest, skipped = iter(wanted), []
    for one in whole:
        skipped += itertools.takewhile(lambda other: shown(other) != shown(one), rest)
    if len(whole) + len(skipped) > len(wanted) or len(skipped) > sum(status >= 400 for status in statuses):
        return f"other requests: {state}"
    if len(seen) > len(wanted) + begun:
        return f"{len(seen)} requests began: {state}"
    if len(statuses) > count + 1 or any(status == 500 for status in statuses):
        return f"other answers: {state}"
    is_error = bool(statuses) and statuses[-1] in ERRORS | {403, 404, 502}
    if len(whole) + len(skipped) < len(wanted) and not closed and not is_error:
        return f"no answer, and no end: {state}"
    return None


def table(scene, rows, judge, **awaited):
    """The rows side by side; what is wrong."""
    def one(item):
        number, (what, data) = item
        try:
            found = judge(*tried(scene, f"row{number}", data, **awaited))
        except (Broken, ValueError, OSError) as error:
            found = f"{type(error).__name__}: {error}"
        return f"{what}: {found}" if found else None
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        wrong = [found for found in pool.map(one, enumerate(rows.items())) if found]
    must(not wrong, f"{len(wrong)} of {len(rows)}: " + "; ".join(wrong))


@case("bad.refused")
def refused(scene):
    def judge(prefix, data, statuses, closed, whole, seen):
        if whole:
            return f"it arrived: {whole}"
        if len(statuses) != 1 or statuses[0] not in ERRORS:
            return f"answers {statuses}"
        return None if closed else "the connection stays"
    must(len(REFUSED) + len(COMPARED) >= 60, "the table is short")
    table(scene, REFUSED, judge, closes=True)
    granted(scene, credentials(scene, "work"))


@case("bad.compared")
def as_h11(scene):
    h11 = second_reader(scene)
    table(scene, COMPARED | REFUSED, lambda *found: compared(h11, *found), h11=h11)
    granted(scene, credentials(scene, "work"))


MARKS = [b"\r", b"\n", b"\r\n", b"\0", b" ", b"\t", b":", b";", b",", b"0", b"5", b"\x0b", b"\x7f", b"\xff",
         b"chunked", b"@", b"HTTP/1.1",
         b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n",
         b"Expect: 100-continue\r\n", b"0\r\n\r\n",
         b"X-A: b\r\n", b"HOST\r\n", b"GET @/y HTTP/1.1\r\nHOST\r\n\r\n"]
SEEDS = [get(), get(b"X-A: b") * 2, post(b"Content-Length: 5"), post(b"Content-Length: 5", body=b"hello" + get()),
         chunks(b"5\r\nhello\r\n0\r\n\r\n"), chunks(b"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nX-T: u\r\n\r\n" + get()),
         post(b"Content-Length: 0", body=get(b"X-C: d"))]


def mutated(chance):
    data = bytearray(chance.choice(SEEDS))
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at, way = chance.randrange(len(data) + 1), chance.randrange(5)
        if way == 0:
            data[at:at] = chance.choice(MARKS)
        elif way == 1:
            del data[at:at + chance.choice((1, 1, 2, 5))]
        elif way == 2:
            data[at:at + chance.choice((1, 2))] = chance.choice(MARKS)
        elif way == 3:
            end = min(len(data), at + chance.randrange(1, 40))
            data[at:at] = data[at:end]
        else:
            lines = bytes(data).split(b"\r\n")
            one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
            lines[one], lines[other] = lines[other], lines[one]
            data = bytearray(b"\r\n".join(lines))
    return bytes(data)


@case("bad.random")
def at_random(scene):
    """Requests with errors at random places, from a fixed seed, as h11 takes them."""
    h11, chance = second_reader(scene), random.Random(SEED)
    rows = {f"input {number}": mutated(chance) for number in range(LONG_FUZZ if scene.is_long else FUZZ)}

    def judge(*found):
        wrong = compared(h11, *found)
        return f"{found[1]!r}: {wrong}" if wrong else None
    table(scene, rows, judge, h11=h11)
    granted(scene, credentials(scene, "work"))


@case("bad.limits")
def limits(scene):
    """Heads of 16 KiB, and not more, whatever fills them."""
    def status(*fields, target="/forward/work/echo"):
        answers, _ = raw(scene.broker.address, request("GET", target, scene.broker.address, fields=fields))
        return [answer.status for answer in answers]
    must(status(("X-A", "y" * 14_000)) == [200], f"14,000 bytes: {status(('X-A', 'y' * 14_000))}")
    must(status(*[("X-A", "y" * 100)] * 90) == [200], "90 fields")
    for what, found in {
            "one field": status(("X-A", "y" * 17_000)), "many fields": status(*[("X-A", "y")] * 3000),
            "a megabyte": status(("X-A", "y" * (1 << 20))), "a name": status(("X" * 17_000, "y"))}.items():
        must(found == [431], f"{what}: {found}")
    found = status(target="/forward/work/echo?" + "x" * 17_000)
    must(found in ([414], [431]), f"a target: {found}")
    answers, closed = raw(scene.broker.address, b"G" * 100_000, closes=True)
    must([answer.status for answer in answers] in ([400], [414], [431], [501]) and closed, f"a method: {answers}")


@case("bad.early_answers", "curl")
def early_answers(scene):
    """A request is refused while its body is on its way: the client reads why, and is not cut off (RFC 9112 §9.6)."""
    path = scene.file("body", "x" * (8 << 20))
    for target, words, status in (
            ("/forward/unheard-of/x", [], "404"), ("/forward/work/@evil.example/x", [], "403"),
            ("/forward/work/echo", ["-H", "Origin: x"], "403"), ("/nowhere", [], "404"), ("/token", [], "413")):
        for coding in ([], ["-H", "Transfer-Encoding: chunked"]):
            for _ in range(3):
                done = scene.run("curl", "-q", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Expect:", "-X",
                                 "POST", *words,
                                 *coding, "--data-binary", f"@{path}", scene.broker.url + target)
                must(done.out == status, f"{target} {coding}: {done.out} {done.err}")


@case("bad.stopped")
def stopped(scene):
    """Heads and bodies that stop, or come byte by byte: given up in time, while others are served."""
    head = request("POST", "/token", scene.broker.address, fields=[*FORM, ("Content-Length", "100")])
    coded = request("POST", "/token", scene.broker.address, fields=[*FORM, ("Transfer-Encoding", "chunked")])
    table = {"nothing": b"", "empty lines": b"\r\n" * 50_000, "a letter": b"G", "half a head": head[:40],
             "a head without its end": head[:-2], "a body": head + b"x" * 50, "a chunk": coded + b"32\r\nx",
             "no next chunk": coded + b"1\r\nx\r\n", "trailers": coded + b"0\r\nX: y\r\n", "a size": coded + b"3"}
    with contextlib.ExitStack() as stack:
        begun, waits = time.monotonic(), []
        streams = {what: stack.enter_context(dial(scene.broker.address)) for what in table}
        slow = [stack.enter_context(dial(scene.broker.address)) for _ in range(50)]
        for what, stream in streams.items():
            stream.sendall(table[what])
        for at in range(30):
            for stream in slow:
                with contextlib.suppress(OSError):
                    stream.sendall(head[at:at + 1])
            if at % 10 == 0:
                before = time.monotonic()
                granted(scene, credentials(scene, "work"))
                waits.append(time.monotonic() - before)
        must(min(waits) < 1, f"others wait: {waits}")
        if not scene.is_long:
            return
        wrong = []
        for what, stream in streams.items():
            reader = Reader(stream, max(1, begun + STOPPED_SECONDS - time.monotonic()))
            try:
                statuses = [reader.answer().status] if reader.more() else []
            except (TimeoutError, Broken) as error:
                wrong.append(f"{what}: {error!r}")
                continue
            if what not in ("nothing", "a letter") and statuses not in ([408], [400]):
                wrong.append(f"{what}: {statuses}")
        must(not wrong, "; ".join(wrong))


CROWD = """
import json, socket, sys, time
port, count = json.loads(sys.argv[1])
kept, refused = [], 0
for number in range(count):
    made = socket.socket()
    made.settimeout(30)
    try:
        made.connect(("127.0.0.1", port))
        if number % 2:
            made.sendall(b"POST /token HTTP/1.1\\r\\nHost: 127")
        kept.append(made)
    except OSError:
        refused += 1
print(json.dumps([len(kept), refused]), flush=True)
sys.stdin.readline()
for made in kept:
    made.close()
"""


@case("bad.idle_connections", "setpriv")
def idle_connections(scene):
    """One user has thousands, as many as there can be: others are served at once, and then that user again."""
    broker = scene.system
    count, before = LONG_IDLE if scene.is_long else IDLE, broker.process.resident()
    crowd = subprocess.Popen(people.command(OTHER, CROWD, json.dumps([broker.address, count])), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True, cwd="/", env={"PATH": os.environ["PATH"]})
    try:
        body = "grant_type=client_credentials&client_id=work"
        slowest = 0
        while crowd.poll() is None:
            begun = time.monotonic()
            must(ask(broker.address, "POST", "/token", body, FORM).status == 200, "root is refused")
            slowest = max(slowest, time.monotonic() - begun)
            if select.select([crowd.stdout], [], [], 0.02)[0]:
                kept, refused = json.loads(crowd.stdout.readline())
                break
        must(kept > count / 2, f"{kept} connections, {refused} refused")
        for place in (broker.address, broker.unix):
            begun = time.monotonic()
            status, text = people.ask(USER, place, "POST", "/token", body, FORM)
            must(status == 200, f"another user: {status} {text}")
            slowest = max(slowest, time.monotonic() - begun)
        must(slowest < PROMPT_SECONDS, f"another user waited {slowest:.1f} s")
        status, _ = people.ask(OTHER, broker.address, "POST", "/token", body, FORM)
        must(status in (400, 503), f"that user: {status}")
        must(broker.process.resident() - before < 200 << 20, f"{(broker.process.resident() - before) >> 20} MiB")
        crowd.stdin.write("\n")
        crowd.stdin.flush()
        crowd.wait(60)
    finally:
        crowd.kill()
        crowd.wait()
    wait_until(lambda: len(os.listdir(f"/proc/{broker.process.pid}/fd")) < 200, 60, "the connections are gone")


FLOOD = """
import json, select, selectors, socket, sys
place, count = json.loads(sys.argv[1])
many = b"GET /none HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\n\\r\\n" % place * 1000
ready, offsets, sent = selectors.DefaultSelector(), {}, 0
for number in range(count):
    made = socket.create_connection(("127.0.0.1", place))
    made.setblocking(False)
    # Every other one reads nothing of its answers.
    ready.register(made, selectors.EVENT_WRITE | (selectors.EVENT_READ if number % 2 else 0))
    offsets[made] = 0
print("ready", flush=True)
while offsets and not select.select([sys.stdin], [], [], 0)[0]:
    for key, events in ready.select(0.1):
        made = key.fileobj
        try:
            if events & selectors.EVENT_READ:
                made.recv(1 << 20)
            if events & selectors.EVENT_WRITE:
                done = made.send(many[offsets[made]:])
                offsets[made], sent = (offsets[made] + done) % len(many), sent + done
        except BlockingIOError:
            pass
        except OSError:
            ready.unregister(made)
            del offsets[made]
print(json.dumps([sent, len(offsets)]), flush=True)
"""


@case("bad.pipelined", "setpriv")
def pipelined(scene):
    """One user sends requests without end on many connections, and reads half of the answers: others are served."""
    broker = scene.system
    body, seconds = "grant_type=client_credentials&client_id=work", 20 if scene.is_long else 2
    must(ask(broker.address, "POST", "/token", body, FORM).status == 200, "root is refused")
    before, slowest, most = broker.process.resident(), [], 0
    flood = subprocess.Popen(people.command(OTHER, FLOOD, json.dumps([broker.address, 200])), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True, cwd="/", env={"PATH": os.environ["PATH"]})
    try:
        must(flood.stdout.readline() == "ready\n", "no connections")
        for _ in range(TRIES):
            end, times = time.monotonic() + seconds, []
            while time.monotonic() < end or len(times) < 20:
                begun = time.monotonic()
                must(ask(broker.address, "POST", "/token", body, FORM).status == 200, "another user is refused")
                times.append(time.monotonic() - begun)
                most = max(most, broker.process.resident() - before)
                must(not select.select([flood.stdout], [], [], 0.02)[0], "no connection is left")
            slowest.append(max(times))
        flood.stdin.write("\n")
        flood.stdin.flush()
        sent, kept = json.loads(flood.stdout.readline())
        must(min(slowest) < OTHERS_SECONDS, f"another user waited {slowest} s at most")
        must(most < 100 << 20, f"{most >> 20} MiB; {sent >> 20} MiB were sent")
        must(kept > 0, "no connection is left")
    finally:
        flood.kill()
        flood.wait()


@case("bad.half_at_stop")
def half_at_stop(scene):
    """Halves of requests on each listener hold up no stop."""
    with scene.another(scene.plain()) as broker:
        broker.imported("p", "work")
        stops = [stopped_with_halves(broker)]
        while min(stops) >= STOP_SECONDS and len(stops) < TRIES:
            broker.start()
            stops.append(stopped_with_halves(broker))
        must(min(stops) < STOP_SECONDS, f"the stop takes {stops} s")
        must(not broker.lines("took too long"), "the rest of the stop had no time")
        must(broker.lines("stopped"), broker.last_lines(5))


def stopped_with_halves(broker):
    """Its seconds."""
    with contextlib.ExitStack() as stack:
        for place in (broker.address, broker.unix):
            for data in (b"GET /", request("POST", "/token", place, fields=[*FORM, ("Content-Length", "10")])):
                stack.enter_context(dial(place)).sendall(data)
            must(ask(place, "GET", "/forward/work/echo").status == 200, "others wait")
        begun = time.monotonic()
        status = broker.end(signal.SIGTERM)
        must(status == 0, f"the stop has status {status}")
        return time.monotonic() - begun


@case("bad.not_for_others")
def not_for_others(scene):
    """A client that misbehaves on a connection leaves no trace on that of another, which is open meanwhile."""
    address = scene.broker.address
    with dial(address) as stream:
        reader, chance = Reader(stream), random.Random(SEED)
        good = request("POST", "/forward/work/echo", address, b"good", close=False)
        for number in range(60):
            stream.sendall(good[:30])
            name = f"other{number % 4}"
            scene.upstream.route(name, lambda exchange: exchange.reply(200, "bad"))
            data = filled(mutated(chance), address, f"/forward/work/{name}")
            with dial(address) as other:
                other.sendall(data)
                stream.sendall(good[30:])
                answer = reader.answer()
            must(answer.status == 200 and json.loads(answer.body)["body"] == "good", f"after {data!r}: {answer}")
