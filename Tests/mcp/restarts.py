"""The SDK's client by HTTP: through restarts of the broker, and through the end of its grant."""

import contextlib
import os
import re
import signal
import subprocess
import threading

from clients import PEERS, START_SECONDS
from grantd_testing import wait_until
from logins import case
from manager import ManagedBroker
from scene import must, same
from sessions import LONG, SHORT, fixed_port, is_long, sdk_server

HINT_SECONDS, TRIES = 1, 3


class Client:
    """The SDK's client in a process; `lines` are its calls, with the seconds that each took."""

    def __init__(self, scene, program, broker, calls, pause):
        url = f"http://127.0.0.1:{broker.address}/forward/notes/mcp"
        self.run = subprocess.Popen([program, PEERS / "sdk_client.py", url, str(calls), str(pause), "times"], text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        scene.closing.callback(self.run.kill)
        self.lines, self.calls = [], calls
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.run.stdout:
            self.lines.append(line.strip().split(" ", 1))

    def wait(self, count, seconds):
        wait_until(lambda: len(self.lines) >= count or not self.reader.is_alive(), seconds, f"{count} calls")

    def answers(self, seconds):
        self.reader.join(seconds)
        return [text for _, text in self.lines]

    def first(self, fits, what, start=0):
        """The index of the first call that fits."""
        return wait_until(lambda: next((number for number, (_, text) in enumerate(list(self.lines))
                                        if number >= start and fits(text)), None), START_SECONDS, what)


@case
def http_session(scene):
    """A session with short tokens and two restarts: with a manager that keeps the listening socket no call fails.

    Without one the SDK's client ends at the first request that finds no server; the stdio bridge (long-session) waits.
    """
    broker = scene.closing.enter_context(contextlib.closing(ManagedBroker(scene.programs, scene.folder)))
    fixed_port(scene)
    seconds, calls, lifetime, restarts = LONG if is_long else SHORT
    program, resource, log = sdk_server(scene, lifetime)
    broker.start()
    broker.login(resource, "notes")
    client = Client(scene, program, broker, calls, seconds / calls)
    for number in range(restarts):
        client.wait(calls * (number + 1) // (restarts + 1), seconds + START_SECONDS)
        broker.end(15)
        broker.start()
    answers = client.answers(2 * seconds + START_SECONDS)
    refreshes = log.read_text().count("REFRESHED")
    must(refreshes >= seconds / lifetime - 1, f"only {refreshes} refreshes")
    same(answers, [f"sum {number + 1}" for number in range(calls)], "the answers")
    print(f"# {calls} calls by HTTP with 2 restarts and a kept socket: 0 failed")


@case
def grant_that_ended(scene):
    """The provider ends the grant: the login command within a second, and the session goes on after the sign-in."""
    program, resource, log = sdk_server(scene, 600)
    server = int(re.search(r"process \[(\d+)\]", log.read_text())[1])
    broker = scene.start()
    broker.login(resource, "notes")
    client = Client(scene, program, broker, 1200, 0.1)
    client.wait(3, START_SECONDS)
    times = []
    while not times or min(times) >= HINT_SECONDS and len(times) < TRIES:
        number = len(client.lines)
        os.kill(server, signal.SIGUSR1)
        number = client.first(lambda text: not text.startswith("sum"), "an error", number)
        number = client.first(lambda text: "grantctl login" in text, f"the command: {client.lines[number:]}", number)
        took, text = client.lines[number]
        times.append(float(took))
        must("login_required" in text, f"the reason: {text}")
        broker.login(resource, "notes")
        client.first(lambda text: text.startswith("sum"), "an answer after the sign-in", len(client.lines))
    must(min(times) < HINT_SECONDS, f"the error took {times} s")
    print(f"# the login command after {min(times)} s")
