"""What local users without any rule can do to the broker's memory, and to how long others wait."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time

from broker import Broker
from grantd_testing import BlockingClient, BlockingDemo, Program, free_ports

ATTACKER = os.path.join(os.path.dirname(__file__), "attacker.py")
KINDS = ("batch", "objects", "arrays", "texts", "calls", "unread", "denied-unread", "halves", "connects", "churn",
         "churn at 45,000/s")
# The rate of the attack that was reported, in connections a second of all attackers together.
REPORTED_RATE = 45_000
# At the HTTP port, by connections of each attacker.
HTTP_KINDS = {"http": 64, "http-churn": 1, "slow-bodies": 600}
HTTP_NEIGHBOUR = os.path.join(os.path.dirname(__file__), "http_neighbour.py")
CONNECTIONS = 256
NEIGHBOUR, FIRST_ATTACKER = 20_001, 30_001
RULE = f"""
[[rule]]
uid = {NEIGHBOUR}
accounts = ["*"]
access = ["use"]
"""
CACHED = '{"jsonrpc":"2.0","id":{{id}},"method":"token.get","params":{"account":"alice"}}'
# The time-out keeps it off the fast path: it is parsed, and the broker decides.
UNCACHED = '{"jsonrpc":"2.0","id":{{id}},"method":"token.get","params":{"account":"alice","min_ttl":0.5}}'
# Requests a second: of a neighbour, not of a load test. The last are of cached tokens, each on a new connection.
CACHED_RATE, UNCACHED_RATE, NEW_RATE = 500, 100, 100
# What the attack may do to others.
GROWTH_WANTED_MB, UNCACHED_P99_WANTED_MS = 200, 50
CACHED_FACTOR, CACHED_NOISE_MS = 2, 0.5
NEW_P99_WANTED_MS = 5
# Requests a second at the HTTP port, and what an attack may do to them.
HTTP_RATE, HTTP_P99_WANTED_MS = 50, 20
SAMPLE_SECONDS, REST_SECONDS, ROOT_SECONDS = 0.02, 8, 20


class Memory(threading.Thread):
    """The broker's most resident memory."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.process, self.most, self.ends = process, process.resident(), threading.Event()
        self.start()

    def run(self):
        while not self.ends.wait(SAMPLE_SECONDS):
            with contextlib.suppress(OSError):
                self.most = max(self.most, self.process.resident())


class Hostile:
    def __init__(self, binaries, folder, udsbench, seconds=5):
        self.binaries, self.folder, self.udsbench, self.seconds = binaries, folder, udsbench, seconds
        self.results, self.missed = {}, []

    def neighbour(self, request, rate, *more):
        return subprocess.Popen(
            ["setpriv", f"--reuid={NEIGHBOUR}", f"--regid={NEIGHBOUR}", "--clear-groups", self.udsbench, "--socket",
             self.broker.socket, "--connections", "4", "--rate", str(rate), "--duration", str(self.seconds),
             "--request", request, *more], stdout=subprocess.PIPE)

    def measure(self):
        """The p99 in ms of cached and of uncached tokens, and on new connections, and errors."""
        all_three = [self.neighbour(CACHED, CACHED_RATE), self.neighbour(UNCACHED, UNCACHED_RATE),
                     self.neighbour(CACHED, NEW_RATE, "--connect-per-request")]
        seen = [json.loads(one.communicate()[0]) for one in all_three]
        # Of requests that were not answered when it ended the longest wait counts as well.
        late = [one.get("oldest_unanswered_us", 0) for one in seen]
        worst = [max(one["p99_us"], wait if wait > 1e6 else 0) / 1000 for one, wait in zip(seen, late, strict=True)]
        # A full listen queue is an error to a program that does not try again.
        return worst, sum(one["errors"] + one["io_errors"] + one["connect_retries"] for one in seen)

    def measure_http(self):
        """The p99 in ms of tokens by HTTP, on a kept and on new connections, and errors."""
        both = [subprocess.Popen(
            [sys.executable, HTTP_NEIGHBOUR, str(self.port), str(NEIGHBOUR), str(HTTP_RATE), str(self.seconds), kind],
            stdout=subprocess.PIPE) for kind in ("kept", "new")]
        seen = [json.loads(one.communicate()[0]) for one in both]
        return [one["p99_ms"] for one in seen], sum(one["errors"] for one in seen)

    def attack_http(self, kind, count):
        idle, memory = self.broker.process.resident(), Memory(self.broker.process)
        attackers = [
            Program([sys.executable, ATTACKER, kind, self.port, FIRST_ATTACKER + number, HTTP_KINDS[kind]],
                    stdout=subprocess.DEVNULL, stderr=self.errors)
            for number in range(count)]
        try:
            time.sleep(1)
            (kept, new), errors = self.measure_http()
        finally:
            for one in attackers:
                one.kill()
        memory.ends.set()
        memory.join()
        time.sleep(REST_SECONDS)
        return {"grown_mb": (memory.most - idle) / 1e6, "kept_p99_ms": kept, "new_p99_ms": new, "errors": errors}

    def report_http(self, name, seen):
        self.results[f"port: {name}"] = seen
        wrong = [figure for figure in ("kept", "new") if seen[f"{figure}_p99_ms"] > HTTP_P99_WANTED_MS]
        wrong += ["memory"] if seen.get("grown_mb", 0) > GROWTH_WANTED_MB else []
        wrong += [f"{seen['errors']} errors"] if seen["errors"] else []
        seen["pass"] = not wrong
        self.missed += [f"port: {name}"] if wrong else []
        print(f"{name:24}{seen.get('grown_mb', 0):>7.0f} MB{seen['kept_p99_ms']:>9.2f} ms{seen['new_p99_ms']:>9.2f} ms  "
              f"{', '.join(wrong)}", flush=True)

    def run_http(self, counts):
        print(f"{'HTTP port':24}{'memory +':>10}{'kept p99':>12}{'new p99':>12}")
        (kept, new), errors = self.measure_http()
        self.report_http("none", {"kept_p99_ms": kept, "new_p99_ms": new, "errors": errors})
        for kind in HTTP_KINDS:
            for count in counts:
                self.report_http(f"{kind}, {count}", self.attack_http(kind, count))

    def ask_as_root(self):
        """Milliseconds until root has connected and is answered."""
        began = time.monotonic()
        while True:
            try:
                client = BlockingClient(self.broker.socket)
                break
            except BlockingIOError:
                # The queue of those who are not accepted yet is full.
                if time.monotonic() > began + ROOT_SECONDS:
                    raise
                time.sleep(0.001)
        client.call("broker.status")
        client.close()
        return 1000 * (time.monotonic() - began)

    def attack(self, kind, count):
        idle = self.broker.process.resident()
        memory, cpu, began = Memory(self.broker.process), self.broker.process.cpu_seconds(), time.monotonic()
        attackers = [
            Program([sys.executable, ATTACKER, kind.split()[0], self.broker.socket, FIRST_ATTACKER + number, CONNECTIONS,
                     *([REPORTED_RATE / count] if " at " in kind else [])],
                    stdout=subprocess.DEVNULL, stderr=self.errors)
            for number in range(count)]
        try:
            time.sleep(1)
            (cached, uncached, new), errors = self.measure()
            root = self.ask_as_root()
        finally:
            share = (self.broker.process.cpu_seconds() - cpu) / (time.monotonic() - began)
            for one in attackers:
                one.kill()
        memory.ends.set()
        memory.join()
        time.sleep(REST_SECONDS)
        return {"grown_mb": (memory.most - idle) / 1e6, "kept_mb": (self.broker.process.resident() - idle) / 1e6,
                "cached_p99_ms": cached, "uncached_p99_ms": uncached, "new_p99_ms": new, "errors": errors, "cpu": share,
                "root_ms": root}

    def run(self, kinds=KINDS, counts=(1, 8)):
        self.folder.mkdir(mode=0o755)
        provider = BlockingDemo(self.binaries, self.folder, "--access-ttl", 86400, "--refresh-ttl", 864000)
        [self.port] = free_ports(1)
        more = f'[http]\nlisten = "127.0.0.1:{self.port}"\n'
        self.broker = Broker(self.binaries, self.folder, {"demo": provider}, "system", more + RULE)
        self.errors = open(self.folder / "attackers.log", "ab")
        try:
            self.broker.start()
            self.folder.parent.chmod(0o755)
            client = BlockingClient(self.broker.socket)
            self.broker.sign_in(client, "demo", "alice", "alice")
            client.close()
            (cached, uncached, new), errors = self.measure()
            idle = self.broker.process.resident() / 1e6
            self.results["alone"] = {"cached_p99_ms": cached, "uncached_p99_ms": uncached, "new_p99_ms": new,
                                     "idle_mb": idle}
            print(f"{'attack':24}{'memory +':>10}{'kept +':>9}{'cached p99':>12}{'uncached p99':>14}{'new p99':>12}"
                  f"{'root':>10}{'CPU':>7}")
            print(f"{'none':24}{idle:>7.0f} MB{'':9}{cached:>9.2f} ms{uncached:>11.2f} ms"
                  f"{new:>9.2f} ms", flush=True)
            for kind in kinds:
                for count in counts:
                    self.report(f"{kind}, {count}", self.attack(kind, count))
            self.run_http(counts)
        finally:
            self.broker.stop()
            provider.close()
            self.errors.close()

    def report(self, name, seen):
        alone = self.results["alone"]
        self.results[name] = seen
        wrong = []
        if seen["grown_mb"] > GROWTH_WANTED_MB:
            wrong.append("memory")
        if seen["cached_p99_ms"] > CACHED_FACTOR * alone["cached_p99_ms"] + CACHED_NOISE_MS:
            wrong.append("cached")
        if seen["uncached_p99_ms"] > UNCACHED_P99_WANTED_MS:
            wrong.append("uncached")
        if seen["new_p99_ms"] > NEW_P99_WANTED_MS:
            wrong.append("new")
        if seen["errors"]:
            wrong.append(f"{seen['errors']} errors")
        seen["pass"] = not wrong
        self.missed += [name] if wrong else []
        print(f"{name:24}{seen['grown_mb']:>7.0f} MB{seen['kept_mb']:>6.0f} MB{seen['cached_p99_ms']:>9.2f} ms"
              f"{seen['uncached_p99_ms']:>11.2f} ms{seen['new_p99_ms']:>9.2f} ms{seen['root_ms']:>7.0f} ms"
              f"{100 * seen['cpu']:>5.0f} %  {', '.join(wrong)}", flush=True)
