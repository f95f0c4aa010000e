"""What a broker with many accounts costs: the part of scripts/bench that shows how the costs grow from 1,000 to a million.

    bench/scale.py --binaries DIR [--sizes 1000,10000] [--quick] [--json FILE] [--only ready,storm] [--keep FOLDER]

DIR has grantd and store-fixture. scripts/bench builds them, and runs this with the numbers of docs/developers/benchmarks.md.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "Tests" / "python"), str(ROOT / "bench")]
import waits
from crowd import LIFETIME, SETTLE_SECONDS, VERSION, FastProvider, State
from grantd_testing import Program, temporary_folder
from scale_report import RATE_WANTED, judge, show

SIZES = [1_000, 10_000, 100_000, 1_000_000]
QUICK_SIZES = [1_000, 10_000]
PARTS = ["ready", "migrate", "idle", "waits", "single", "latency", "storm"]

# Of more accounts than the first number only the second are due in a storm.
STORM_ALL, STORM_SOME = 100_000, 50_000
SINGLE = 500
TRICKLE_RATE = 500
# The broker spreads a provider's backlog over a minute, so that fewer accounts cannot be refreshed faster.
SPREAD_SECONDS = 60
GIVEN_BACK_SECONDS = 15
READERS_RATE, READERS_ROUNDS = 2_000, 3


class Scale:
    def __init__(self, options, folder, binaries):
        self.options, self.folder, self.binaries = options, folder, binaries
        self.results, self.missed = {}, []
        self.readers_seconds = 1 if options.quick else 4
        self.udsbench, self.provider = self.compile("udsbench"), FastProvider(self.compile("fasttoken"))

    def compile(self, name):
        program = self.folder / name
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-pthread", "-o", program, ROOT / "bench" / f"{name}.c"],
                       check=True)
        return program

    def verdict(self, name, good, text):
        print(f"{'PASS' if good else 'FAIL'}  {text}", flush=True)
        self.results.setdefault("gates", {})[name] = good
        if not good:
            self.missed.append(name)

    def empty(self):
        """What a broker without accounts takes."""
        state = State(self, 0)
        state.start()
        noise, _ = waits.longest(self.udsbench, state, waits.nothing, "broker.status")
        found = {"rss": state.broker.process.resident(), "noise_ms": noise}
        state.broker.stop()
        print(f"without accounts: {found['rss'] / 1e6:.1f} MB resident; callers wait {noise:.1f} ms at most", flush=True)
        return found

    def measure(self, accounts, empty):
        text = f"{accounts:,} accounts"
        print(f"\n{text}\n{'-' * len(text)}", flush=True)
        state = State(self, accounts)
        result = self.results.setdefault("sizes", {}).setdefault(str(accounts), {})
        try:
            print(f"state made in {state.fill():.0f} s", flush=True)
            for part in PARTS:
                if part in self.options.only:
                    begun = time.monotonic()
                    getattr(self, part)(state, result, empty)
                    print(f"    ({part} measured in {time.monotonic() - begun:.0f} s)", flush=True)
        except Exception:
            if state.broker.log.exists():
                print(f"--- grantd's log\n{state.broker.log.read_text()[-3000:]}", file=sys.stderr)
            raise
        finally:
            state.broker.stop()

    def ready(self, state, result, empty):
        ready, first = [], []
        for _ in range(3 if self.options.quick or state.accounts > 100_000 else 7):
            state.broker.stop()
            ready.append(state.broker.start() * 1000)
            begun = time.monotonic()
            client = state.client()
            client.call("token.get", account=state.random_account())
            first.append((time.monotonic() - begun) * 1000)
            client.close()
        result["ready_ms"], result["first_answer_ms"] = statistics.median(ready), statistics.median(first)
        result["ready_runs_ms"] = ready
        state.broker.stop()
        state.start()
        result["rss"] = state.broker.process.resident()
        result["bytes_per_account"] = (result["rss"] - empty["rss"]) / state.accounts
        print(f"READY after {result['ready_ms']:.0f} ms ({min(ready):.0f} to {max(ready):.0f}), first token "
              f"{result['first_answer_ms']:.1f} ms later; {result['rss'] / 1e6:.0f} MB resident, "
              f"{result['bytes_per_account']:,.0f} bytes an account", flush=True)

    def migrate(self, state, result, empty):
        state.broker.stop()
        older = state.older()
        try:
            result["migration_ms"] = older.start() * 1000
            # The second start has nothing to migrate.
            steps = [told for told in older.told if "step" in told]
            older.stop()
            result["migrated_ready_ms"] = older.start() * 1000
            older.stop()
            if len(steps) != VERSION - 1 or any("step" in told for told in older.told):
                raise RuntimeError(f"a migration is told step by step, once: {steps}, then {older.told}")
            before = state.make_newer(older)
            try:
                older.start()
            except RuntimeError as refusal:
                if "newer" not in str(refusal):
                    raise
            else:
                raise RuntimeError("a database of a newer version was opened")
            if state.digest(older) != before:
                raise RuntimeError("a database of a newer version was written")
        finally:
            older.stop()
            shutil.rmtree(older.folder)
        print(f"from the first schema READY after {result['migration_ms']:.0f} ms, {len(steps)} steps told; "
              f"the next start takes {result['migrated_ready_ms']:.0f} ms; a newer schema is refused untouched", flush=True)

    def idle(self, state, result, empty):
        state.rest()
        # What is read once more behind the first answers begins after two seconds.
        time.sleep(4)
        state.rest()
        seconds = 10 if self.options.quick else 60
        before = state.broker.process.cpu_seconds()
        time.sleep(seconds)
        result["idle_minute_cpu_s"] = (state.broker.process.cpu_seconds() - before) * 60 / seconds
        print(f"an idle minute takes {result['idle_minute_cpu_s']:.2f} s of CPU", flush=True)

    def waits(self, state, result, empty):
        state.rest()
        result["waits_ms"], result["took_ms"] = {}, {}
        for name, action in waits.actions(state).items():
            # What was asked for before may go on without its caller.
            state.broker.settle(seconds=SETTLE_SECONDS)
            longest, took = waits.longest(self.udsbench, state, action, "account.get")
            result["waits_ms"][name], result["took_ms"][name] = longest, took
            print(f"{name + ':':<16} others wait {longest:.1f} ms at most; it took {took:.0f} ms", flush=True)

    def single(self, state, result, empty):
        state.rest()
        count = min(SINGLE, state.accounts // 2)
        client = state.client()
        self.provider.reset()
        before, begun = state.broker.process.cpu_seconds(), time.monotonic()
        for number in random.sample(range(1, state.accounts + 1), count):
            # More than it has left: no more can be asked for than a fresh token has.
            client.call("token.get", account=f"user{number:07}", min_ttl=LIFETIME, timeout=30)
        took, used = time.monotonic() - begun, state.broker.process.cpu_seconds() - before
        client.close()
        asked, count = count, self.provider.stats()["refreshes"]
        # In a state that was kept some have a fresh token already.
        if not asked // 2 <= count <= asked:
            raise RuntimeError(f"{count} refreshes instead of {asked}")
        result["single_cpu_ms"], result["single_ms"] = used / count * 1000, took / count * 1000
        print(f"one at a time: {result['single_cpu_ms']:.2f} ms of CPU for each of {count} refreshes, "
              f"which takes {result['single_ms']:.1f} ms", flush=True)

    def readers(self, state):
        """How long they wait who ask for random accounts' tokens, which are all cached: medians of some rounds."""
        rounds = [waits.result(Program(
            [self.udsbench, "--socket", state.broker.socket, "--connections", "8", "--depth", "8",
             "--rate", str(READERS_RATE), "--warmup", "0.2", "--duration", str(self.readers_seconds),
             "--random", str(state.accounts), "--request",
             '{"jsonrpc":"2.0","id":{{id}},"method":"token.get","params":{"account":"user{{random}}"}}'],
            stdout=subprocess.PIPE, text=True)) for _ in range(READERS_ROUNDS)]
        return {key: statistics.median(one[key] for one in rounds) for key in ("p50_us", "p99_us")}

    def latency(self, state, result, empty):
        state.rest()
        before = self.readers(state)
        rate = min(TRICKLE_RATE, int(0.9 * state.accounts / SPREAD_SECONDS))
        # A second before the readers, and some after them.
        spread = min(READERS_ROUNDS * (self.readers_seconds + 0.5) + 2, state.accounts / rate)
        _, due = state.restart_with_due(int(rate * spread), spread)
        self.provider.reset()
        time.sleep(due + 1 - time.monotonic())
        first, begun = self.provider.stats()["refreshes"], time.monotonic()
        during = self.readers(state)
        found, took = self.provider.stats(), time.monotonic() - begun
        self.check_repeated()
        result["trickle_rate"] = (found["refreshes"] - first) / took
        result["p99_us"], result["p99_us_trickle"] = before["p99_us"], during["p99_us"]
        result["p50_us"], result["p50_us_trickle"] = before["p50_us"], during["p50_us"]
        print(f"random accounts' cached tokens, {READERS_RATE} a second: p50 {before['p50_us']:.0f} µs, "
              f"p99 {before['p99_us']:.0f} µs; at {result['trickle_rate']:.0f} refreshes a second p50 "
              f"{during['p50_us']:.0f} µs, p99 {during['p99_us']:.0f} µs", flush=True)
        state.broker.stop()

    def check_repeated(self):
        found = self.provider.stats()
        if found["repeated"] or found["other"]:
            raise RuntimeError(f"refresh tokens were sent twice, or something else was: {found}")

    def storm(self, state, result, empty):
        count, due = state.restart_with_due(state.accounts if state.accounts <= STORM_ALL else STORM_SOME)
        self.provider.reset()
        before = state.broker.process.cpu_seconds()
        deadline = due + 2 * SPREAD_SECONDS + count / 50
        while (found := self.provider.stats())["refreshes"] < count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{found['refreshes']} of {count} refreshes: {found}")
            time.sleep(0.1)
        state.broker.settle(seconds=SETTLE_SECONDS)
        used, found = state.broker.process.cpu_seconds() - before, self.provider.stats()
        # The broker gives freed memory back to the kernel when it has been calm for some seconds.
        time.sleep(GIVEN_BACK_SECONDS)
        self.check_repeated()
        took = (found["last_us"] - found["first_us"]) / 1e6
        result.update(storm_accounts=count, storm_s=took, storm_rate=count / took, storm_cpu_ms=used / count * 1000,
                      storm_rate_wanted=min(RATE_WANTED, 0.9 * state.accounts / SPREAD_SECONDS),
                      storm_cpu_share=used / took)
        result["storm_rss"] = state.broker.process.resident()
        result["bytes_per_account_after_storm"] = (result["storm_rss"] - empty["rss"]) / state.accounts
        print(f"storm: {count:,} refreshes in {took:.1f} s, {result['storm_rate']:,.0f} a second; "
              f"{result['storm_cpu_ms']:.2f} ms of CPU each, {result['storm_cpu_share'] * 100:.0f} % of a CPU; "
              f"{result['storm_rss'] / 1e6:.0f} MB resident, {result['bytes_per_account_after_storm']:,.0f} bytes an account",
              flush=True)
        self.check_durable(state, count)

    def check_durable(self, state, count):
        """After a restart nobody is due, since all that was answered is on disk."""
        state.broker.stop()
        state.start()
        found = self.provider.stats()
        if found["refreshes"] != count:
            raise RuntimeError(f"{found['refreshes'] - count} refreshes were not on disk: {found}")
        state.broker.stop()

    def run(self):
        try:
            empty = self.results["empty"] = self.empty()
            for size in self.options.sizes:
                self.measure(size, empty)
            sizes = {int(size): one for size, one in self.results["sizes"].items()}
            show(sizes)
            judge(sizes, empty, self.verdict)
        finally:
            self.provider.stop()


def numbers(text):
    return [int(word.replace("_", "")) for word in text.split(",")]


def add_options(parser):
    """The arguments that scripts/bench has as well."""
    parser.add_argument("--sizes", type=numbers, help="numbers of accounts")
    parser.add_argument("--only", type=lambda text: text.split(","), default=PARTS, help=f"of {','.join(PARTS)}")
    parser.add_argument("--refresh", action="append", default=[], metavar="LINE", help="one more line of [refresh]")


def complete(options):
    options.sizes = options.sizes or (QUICK_SIZES if options.quick else SIZES)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, required=True)
    parser.add_argument("--quick", action="store_true", help="shorter runs, and fewer accounts unless --sizes says more")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--keep", metavar="FOLDER", help="work here, and leave states and logs for the next run")
    add_options(parser)
    chosen = parser.parse_args()
    complete(chosen)
    # So that the broker and the provider are ended as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with temporary_folder("grantd-scale.") as temporary:
        folder = pathlib.Path(chosen.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        scale = Scale(chosen, folder, chosen.binaries.resolve())
        scale.run()
        if chosen.json:
            pathlib.Path(chosen.json).write_text(json.dumps(scale.results, indent=2) + "\n")
    if scale.missed:
        sys.exit(f"\nmissed: {', '.join(scale.missed)}")


if __name__ == "__main__":
    main()
