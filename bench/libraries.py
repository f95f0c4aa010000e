"""What the libraries add to a request (docs/developers/benchmarks.md#libraries), with their drivers of Tests/libraries."""

import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "Tests" / "libraries"), str(ROOT / "Tests" / "python")]

from languages import CLIENTS, SYSTEM_PYTHON, Asyncio, C, Go, JavaScript, Python, Swift
from rig import Skip, Stage, driving

TOKEN_WANTED_US, ADDED_WANTED_US, IMPORT_WANTED_MS = 60, 25, 15
# Of the requests of udsbench on one connection, one after the other.
SHARE_WANTED = 0.9
# Of as many threads or tasks with a connection each.
TOGETHER, TOGETHER_WANTED = 16, 0.9
# After so many calls, the memory of the program at most: the median of the last readings, less that of the first ones. A
# collector's heap reaches its size in a few steps, one of which may come late: a program that exceeds the limit makes as
# many calls again. A leak grows each time.
GROWTH_CALLS, GROWTH_CALLS_QUICK, GROWTH_WANTED_KIB = 1_000_000, 200_000, 1024
GROWTH_WARM_CALLS, GROWTH_READINGS, GROWTH_RUNS = 200_000, 10, 2
WARM_CALLS = 20_000
CALLS, CALLS_QUICK, ROUNDS = 20_000, 5_000, 5
# Short and many: the speed of a program depends on the processors that it and the daemon happen to run on.
BATCH, BATCH_QUICK, BATCHES = 4_000, 1_600, 15
IMPORTS = 21
REQUEST = '{"jsonrpc":"2.0","id":{{id}},"method":"token.get","params":{"account":"work"}}'
# In turn, in batches: what the machine does for a moment concerns both.
IN_TURN = """
import json, socket, sys, time
import grantd
path, count, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
client = grantd.Client(path)
bare = socket.socket(socket.AF_UNIX)
bare.connect(path)
line = b'{"jsonrpc":"2.0","id":1,"method":"token.get","params":{"account":"work"}}\\n'
def through_the_socket():
    bare.sendall(line)
    bare.recv(65536)
def through_the_library():
    client.token("work")
found = {"bare": [], "token": []}
used = dict.fromkeys(found, 0.0)
for _ in range(rounds):
    for name, call in (("bare", through_the_socket), ("token", through_the_library)):
        began = time.process_time()
        for _ in range(count // rounds):
            start = time.perf_counter_ns()
            call()
            found[name].append(time.perf_counter_ns() - start)
        used[name] += time.process_time() - began
print(json.dumps({name: {"p50_us": sorted(times)[len(times) // 2] / 1000, "cpu_us": used[name] / len(times) * 1e6}
                  for name, times in found.items()}))
"""
IMPORT = """
import sys, time
began, used = time.perf_counter(), time.process_time()
import grantd
print((time.perf_counter() - began) * 1000, (time.process_time() - used) * 1000)
"""


class OptimisedSwift(Swift):
    options = (*Swift.options, "-c", "release")


class Libraries:
    def __init__(self, binaries, folder, udsbench, quick):
        self.folder, self.udsbench, self.quick, self.results, self.missed = folder, udsbench, quick, {}, []
        folder.mkdir()
        self.stage = Stage(binaries, folder, [])
        self.languages = [Python(), Asyncio(), JavaScript(), C(), Go(), OptimisedSwift()]

    def verdict(self, name, good, text):
        print(f"{'PASS' if good else 'FAIL'}  {text}", flush=True)
        self.results[name]["pass"] = good
        if not good:
            self.missed.append(f"libraries.{name}")

    def run(self):
        for language in self.languages:
            try:
                language.build(self.stage)
            except Skip as reason:
                language.unusable = reason
        try:
            self.stage.start()
            self.python()
            self.imported()
            for language in self.languages:
                if language.unusable:
                    print(f"SKIP  {language.name}: {language.unusable}", flush=True)
                    continue
                with driving(self.stage, language) as driver:
                    if isinstance(language, (Go, Swift)):
                        self.beside_udsbench(language.name, driver)
                    self.together(language.name, driver)
                    self.growth(language.name, driver)
        finally:
            self.stage.close()

    def environment(self):
        # With compiled modules, as a package installs them.
        return {"PATH": os.environ["PATH"], "PYTHONPATH": str(CLIENTS / "python" / "src"),
                "PYTHONPYCACHEPREFIX": str(self.folder / "compiled")}

    def python(self):
        calls = CALLS_QUICK if self.quick else CALLS
        command = [SYSTEM_PYTHON, "-c", IN_TURN, self.stage.daemon.socket, str(calls), str(ROUNDS)]
        done = subprocess.run(command, env=self.environment(), check=True, stdout=subprocess.PIPE)
        found = self.results["python"] = json.loads(done.stdout)
        bare, token = found["bare"]["p50_us"], found["token"]["p50_us"]
        self.verdict("python", token <= TOKEN_WANTED_US and token - bare <= ADDED_WANTED_US,
                     f"Python: token() p50 {token:.0f} µs, at most {TOKEN_WANTED_US} wanted, and {token - bare:.0f} µs more "
                     f"than a bare socket, at most {ADDED_WANTED_US} wanted; processor {found['token']['cpu_us']:.0f} and "
                     f"{found['bare']['cpu_us']:.0f} µs")

    def imported(self):
        command = [SYSTEM_PYTHON, "-c", IMPORT]
        # The first compiles.
        starts = [subprocess.run(command, env=self.environment(), check=True, stdout=subprocess.PIPE).stdout.split()
                  for _ in range(IMPORTS + 1)][1:]
        elapsed, used = (sorted(float(start[kind]) for start in starts)[IMPORTS // 2] for kind in (0, 1))
        self.results["import"] = {"p50_ms": elapsed, "cpu_ms": used}
        self.verdict("import", elapsed <= IMPORT_WANTED_MS,
                     f"import grantd: p50 {elapsed:.1f} ms, at most {IMPORT_WANTED_MS} wanted; processor {used:.1f} ms")

    def beside_udsbench(self, name, driver):
        """In turn, as often; the median of the ratios."""
        calls, runs = BATCH_QUICK if self.quick else BATCH, []
        driver.ok(do="many", account="work", count=WARM_CALLS, threads=1)
        for _ in range(BATCHES):
            began = time.monotonic()
            done = driver.ok(do="many", account="work", count=calls, threads=1)
            mine = calls / (time.monotonic() - began)
            if done != {"good": calls, "failed": []}:
                raise RuntimeError(f"{name}: {done}")
            command = [self.udsbench, "--socket", self.stage.daemon.socket, "--connections", "1", "--requests", str(calls),
                       "--duration", "60", "--request", REQUEST]
            bare = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["rps"]
            runs.append((mine / bare, mine, bare))
        ratio, mine, bare = sorted(runs)[BATCHES // 2]
        self.results[name] = {"ratio": ratio, "rps": mine, "udsbench_rps": bare}
        self.verdict(name, ratio >= SHARE_WANTED,
                     f"{name}: {mine:,.0f} calls/s, one after the other; udsbench {bare:,.0f}; ratio {ratio:.2f}, at least "
                     f"{SHARE_WANTED} wanted")

    def together(self, name, driver):
        """Threads or tasks with one client, and with a client each, in turn; the median of the ratios."""
        calls, runs = BATCH_QUICK if self.quick else BATCH, []
        for _ in range(BATCHES):
            rates = []
            for is_separate in (False, True):
                began = time.monotonic()
                done = driver.ok(do="many", account="work", count=calls, threads=TOGETHER, separate=is_separate)
                rates.append(calls / (time.monotonic() - began))
                if done != {"good": calls, "failed": []}:
                    raise RuntimeError(f"{name}: {done}")
            runs.append((rates[0] / rates[1], *rates))
        ratio, shared, separate = sorted(runs)[BATCHES // 2]
        key = f"together_{name}"
        self.results[key] = {"ratio": ratio, "rps": shared, "separate_rps": separate}
        self.verdict(key, ratio >= TOGETHER_WANTED,
                     f"{name}: {TOGETHER} threads or tasks {shared:,.0f} calls/s with one client; {separate:,.0f} with a "
                     f"connection each; ratio {ratio:.2f}, at least {TOGETHER_WANTED} wanted")

    def growth(self, name, driver):
        calls = GROWTH_CALLS_QUICK if self.quick else GROWTH_CALLS

        def resident(count):
            """After each of the batches."""
            for _ in range(count // WARM_CALLS):
                driver.ok(do="many", account="work", count=WARM_CALLS, threads=2)
                yield driver.resident()

        def median(some):
            return sorted(some)[len(some) // 2]
        readings, grown = list(resident(GROWTH_WARM_CALLS)), []
        while not grown or grown[-1] > GROWTH_WANTED_KIB and len(grown) < GROWTH_RUNS:
            readings = [*readings[-GROWTH_READINGS // 2:], *resident(calls)]
            grown.append((median(readings[-GROWTH_READINGS:]) - median(readings[:GROWTH_READINGS])) >> 10)
        key = f"growth_{name}"
        self.results[key] = {"calls": calls, "kib": grown}
        text = ", then ".join(f"{one} KiB" for one in grown)
        self.verdict(key, grown[-1] <= GROWTH_WANTED_KIB,
                     f"{name}: {text} more after {calls:,} calls, at most {GROWTH_WANTED_KIB} wanted")
