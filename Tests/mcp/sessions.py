"""Long sessions and many processes: tokens of a few seconds, restarts of the broker, strict rotation. Longer with
GRANTD_TEST_LONG in the environment."""

import contextlib
import http.client
import json
import os
import statistics
import subprocess
import threading
import time

from bridge import INITIALIZE, Bridge
from clients import PEERS, START_SECONDS, python
from grantd_testing import Program, free_ports, wait_until
from logins import case
from scene import must, same
from streaming import Streaming

# Seconds, calls, lifetime of a token, restarts of the broker.
SHORT, LONG = (40, 120, 8, 2), (600, 500, 20, 2)
EVENTS = 40
# Of a debug build next to other stages. `Tests/http/run forward.first_event` has the limit of a release build.
# As many times the direct way on a busy machine, and less than what is between the event and the answer's end.
LATER_MILLISECONDS, LATER_FACTOR, MOST_LATER_MILLISECONDS = 40, 6, 80
PROCESSES = 20
# Seconds of many processes, and the lifetime of their tokens.
SHORT_CROWD, LONG_CROWD = (20, 5), (600, 30)
is_long = bool(os.environ.get("GRANTD_TEST_LONG"))


def sdk_server(scene, lifetime):
    program, log = python(), scene.folder / "sdk.log"
    (port,) = free_ports()
    server = Program([program, PEERS / "sdk_server.py", port, lifetime], log)
    scene.closing.callback(server.kill)
    wait_until(lambda: "running on" in log.read_text(), START_SECONDS, "the SDK's server serves")
    return program, f"http://127.0.0.1:{port}/mcp", log


def fixed_port(scene):
    """A port that stays over a restart, as a configuration has it."""
    (port,) = free_ports()
    config = scene.broker.config
    config.write_text(config.read_text().replace("127.0.0.1:0", f"127.0.0.1:{port}"))


@case
def long_session(scene):
    """A client by stdio through tokens that end and two restarts of the broker: no call fails."""
    seconds, calls, lifetime, restarts = LONG if is_long else SHORT
    fixed_port(scene)
    program, resource, log = sdk_server(scene, lifetime)
    broker = scene.start()
    broker.login(resource, "notes")
    pause = seconds / calls
    url = f"http://127.0.0.1:{broker.address}/forward/notes/mcp"
    bridge = [broker.products / "grantctl", "--socket", broker.socket, "mcp", "notes"]
    # The SDK's client by HTTP does not repeat a request that found no server: it runs after the restarts.
    clients = [[program, PEERS / "stdio_client.py", str(calls), str(pause), *bridge]]
    runs = [subprocess.Popen(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for words in clients]
    for run in runs:
        scene.closing.callback(run.kill)
    lines = [[] for _ in runs]
    readers = [threading.Thread(target=lambda run=run, own=own: own.extend(line.strip() for line in run.stdout), daemon=True)
               for run, own in zip(runs, lines)]
    for reader in readers:
        reader.start()
    for number in range(restarts):
        wait_until(lambda: len(lines[0]) > calls * (number + 1) // (restarts + 1), seconds + START_SECONDS, "the next part")
        broker.end(15)
        broker.start()
    for reader in readers:
        reader.join(seconds + START_SECONDS)
    for own in lines:
        same(own, ["add"] + [f"sum {number + 1}" for number in range(calls)], "the answers")
    refreshes = log.read_text().count("REFRESHED")
    must(refreshes >= seconds / lifetime - 1, f"only {refreshes} refreshes")
    direct = subprocess.run([program, PEERS / "sdk_client.py", url, "10", "0.1"], capture_output=True, text=True,
                            timeout=START_SECONDS)
    same(direct.stdout.split("\n")[:2], ["sum 1", "sum 2"], "the answers by HTTP after the restarts")
    print(f"# {calls} calls in {seconds} s with tokens of {lifetime} s and {restarts} restarts: 0 failed, {refreshes} refreshes")


def first_event(port, path, headers):
    """Milliseconds until the first event of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "pauses"}})
    with contextlib.closing(connection):
        connection.connect()
        began = time.perf_counter()
        connection.request("POST", path, body, headers | {
            "Content-Type": "application/json", "Accept": "application/json, text/event-stream"})
        answer = connection.getresponse()
        while not answer.readline().startswith(b"id:"):
            pass
        later = (time.perf_counter() - began) * 1000
        answer.read()
        return later


@case
def first_event_later(scene):
    """The first event of an answer comes as soon as the server sends it: nothing waits for the answer's end.

    Other work of the machine makes an event later, and none earlier: the quickest quarters are compared.
    """
    authorization = scene.authorization()
    server = scene.closing.enter_context(contextlib.closing(Streaming(authorization)))
    broker = scene.start()
    broker.login(scene.url(server), "notes")
    token = next(iter(authorization.tokens))
    session = "fixed"
    server.sessions[session] = {"events": []}
    direct, through = [], []
    for _ in range(EVENTS):
        direct.append(first_event(server.listener.server_address[1], "/mcp",
                                  {"Authorization": f"Bearer {token}", "Mcp-Session-Id": session}))
        through.append(first_event(broker.address, "/forward/notes/mcp", {"Mcp-Session-Id": session}))
    base, later = (statistics.quantiles(times, n=4)[0] for times in (direct, through))
    print(f"# first event: {base:.2f} ms directly, {later - base:.2f} ms later through the broker")
    most = min(max(LATER_MILLISECONDS, LATER_FACTOR * base), MOST_LATER_MILLISECONDS)
    must(later - base < most, f"the first event comes {later - base:.1f} ms later")


@case
def many_processes(scene):
    """20 clients start at once at a server with strict rotation and short tokens: one sign-in, one refresh each time."""
    seconds, lifetime = LONG_CROWD if is_long else SHORT_CROWD
    authorization = scene.authorization()
    authorization.lifetime = lifetime
    server = scene.closing.enter_context(contextlib.closing(Streaming(authorization)))
    broker = scene.start()
    clients = [scene.closing.enter_context(contextlib.closing(Bridge(broker, "notes"))) for _ in range(PROCESSES)]
    # Before the first sign-in each gets the hint; one sign-in is for all.
    for client in clients:
        client.send(INITIALIZE)
    for client in clients:
        same(client.answer(0)["error"]["data"]["reason"], "unknown_account", "the answer before the sign-in")
    broker.login(scene.url(server), "notes")
    failed, counts = [], []

    def work(client):
        client.begin()
        end, number = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            number += 1
            answer = client.ask(number, "tools/call", name="add")
            if "result" not in answer:
                failed.append(answer)
            time.sleep(0.5)
        counts.append(number)

    threads = [threading.Thread(target=work, args=(client,)) for client in clients]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 2 * START_SECONDS)
    took = time.monotonic() - began
    same(failed, [], "the calls that failed")
    same(len(counts), PROCESSES, "the clients that came to the end")
    forms = [form for form in authorization.forms("/token") if form["grant_type"] == "refresh_token"]
    used = [form["refresh_token"] for form in forms]
    same(len(used), len(set(used)), "refresh tokens that were used once")
    must(seconds / lifetime - 2 <= len(forms) <= took / lifetime * 3 + 2, f"{len(forms)} refreshes in {took:.0f} s")
    same(len([form for form in authorization.forms("/token") if form["grant_type"] == "authorization_code"]), 1, "sign-ins")
    print(f"# {PROCESSES} processes, {sum(counts)} calls in {seconds} s: {len(forms)} refreshes, 0 failed")
