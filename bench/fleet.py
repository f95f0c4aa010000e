"""A store that machines share, beside SQLite in the same run: the part `fleet` of scripts/bench.

It needs Debian's PostgreSQL. Accounts are refreshed with `account.refresh`.
"""

import concurrent.futures
import os
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "Tests" / "postgresql")]
from cluster import Cluster, folder_of_programs
import instructions
from crowd import FastProvider
from grantd_testing import BlockingClient, Gone, Refused
from machines import Machine, eventually, new_key
from standby import Pair

# The broker's own pacing of a provider, 50 refreshes a second after a first 100, does not count: they have several.
ACCOUNTS, ACCOUNTS_QUICK, PROVIDERS = 800, 320, 16
PACE_SECONDS = 2
CALLERS, ROUNDS = 256, 5
# Refreshes of the first broker are heard of at the second: in all so many each second, of which some are measured.
HEARD_ROUNDS, HEARD_SECONDS, HEARD_RATE, MEASURED_RATE, LOADERS, POLL_SECONDS = 3, 8, 400, 40, 16, 0.0002
# Some statements are due every 30 s.
IDLE_SECONDS, REST_SECONDS = 60, 5
RATE_WANTED, FLUSHES_WANTED, HEARD_WANTED_MS, MORE_MB_WANTED = 0.6, 0.2, 20, 4
IDLE_WANTED, CONTINUES_WANTED, RESUMES_WANTED = 1, 5, 2
INSTRUCTIONS_WANTED = 1.01
CALL_SECONDS = 60
PROVIDER = """
[provider.fast{number}]
kind = "oauth2"
discovery = false
client_id = "bench"
rotation = "strict"
authorization_endpoint = "{url}/authorize"
token_endpoint = "{url}/token"
"""
LIMITS = """
[refresh]
concurrent_per_provider = 1024

[limits]
requests_per_second = 1000000
burst = 10000000
"""


def is_possible():
    try:
        folder_of_programs()
    except SystemExit:
        print("SKIP  PostgreSQL is not installed", flush=True)
        return False
    return True


class Fleet:
    def __init__(self, programs, folder, fasttoken, udsbench, quick):
        folder.mkdir()
        # PostgreSQL's user must reach its folder.
        folder.parent.chmod(0o711)
        folder.chmod(0o755)
        self.programs, self.folder, self.results, self.missed = programs, folder, {}, []
        self.names = [f"n{number}" for number in range(ACCOUNTS_QUICK if quick else ACCOUNTS)]
        self.key = new_key(folder / "key")
        self.cluster, self.provider, self.udsbench = None, FastProvider(fasttoken), udsbench

    def verdict(self, name, good, text):
        print(f"{'PASS' if good else 'FAIL'}  {text}", flush=True)
        self.results.setdefault("gates", {})[name] = good
        if not good:
            self.missed.append(name)

    def run(self):
        machines = []
        try:
            self.cluster = Cluster(self.folder / "pg")
            connection = f"host={self.cluster.folder} user=grantd dbname=grantd"
            alone, one, two = machines = [
                self.machine("alone", 'kind = "sqlite"'),
                *(self.machine(name, f'kind = "postgresql"\nconnection = "{connection}"') for name in ("one", "two"))]
            for machine, first in ((alone, "s"), (one, "p")):
                names = [first + name for name in self.names]
                self.each(machine, "account.import", names,
                          lambda name: {"provider": f"fast{int(name[2:]) % PROVIDERS}", "refresh_token": f"{name}-r1"})
                time.sleep(PACE_SECONDS)
                self.each(machine, "account.refresh", names)
            self.rates(alone, one)
            self.heard(one, two)
            self.idle()
            self.restarts(one, two)
            self.memory(alone, one)
            self.cached(connection)
        finally:
            for machine in machines:
                machine.close()
            if self.cluster:
                self.cluster.close()
        try:
            self.promotion()
        finally:
            self.provider.stop()

    def cached(self, connection):
        """Instructions of a cached token.get."""
        if not instructions.is_possible():
            return
        programs = instructions.wrap(self.programs, self.folder / "counted")
        counts = []
        for name, store in (("sqlite", 'kind = "sqlite"'), ("shared", f'kind = "postgresql"\nconnection = "{connection}"')):
            machine = self.machine(f"counted-{name}", store, programs)
            counts.append(instructions.measure(machine, f"c{name}", programs, self.udsbench))
        ratio = counts[1] / counts[0]
        self.results["cached_instructions"] = {"sqlite": counts[0], "postgresql": counts[1], "ratio": ratio}
        self.verdict("cached", ratio <= INSTRUCTIONS_WANTED,
                     f"a cached token takes {counts[1]:.0f} instructions, {ratio:.4f} of the {counts[0]:.0f} with SQLite; "
                     f"at most {INSTRUCTIONS_WANTED} wanted")

    def machine(self, name, store, programs=None):
        """`programs`: it is not started."""
        sections = "".join(PROVIDER.format(url=self.provider.url, number=number) for number in range(PROVIDERS))
        machine = Machine(programs or self.programs, self.folder / name, self.key, store, sections + LIMITS)
        machine.options = ()
        if not programs:
            machine.launch_and_wait()
        return machine

    def each(self, machine, method, names, more=lambda name: {}):
        """Each caller has a connection, and the names are divided among them. Seconds."""
        def call(names):
            client = BlockingClient(machine.socket, CALL_SECONDS)
            try:
                for name in names:
                    client.call(method, account=name, **more(name))
            finally:
                client.close()

        begun = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(CALLERS) as pool:
            list(pool.map(call, [names[start::CALLERS] for start in range(CALLERS)]))
        return time.monotonic() - begun

    def rates(self, alone, one):
        flushes = "SELECT wal_sync FROM pg_stat_wal"
        ratios, rates, syncs = [], {alone: [], one: []}, []
        for _ in range(ROUNDS):
            before = int(self.cluster.value(flushes))
            for machine, first in ((alone, "s"), (one, "p")):
                rates[machine].append(
                    len(self.names) / self.each(machine, "account.refresh", [first + name for name in self.names]))
            # The server counts when a process is idle for a second.
            time.sleep(PACE_SECONDS)
            syncs.append((int(self.cluster.value(flushes)) - before) / len(self.names))
            ratios.append(rates[one][-1] / rates[alone][-1])
        ratio, sync = statistics.median(ratios), statistics.median(syncs)
        self.results["refreshes"] = {
            "postgresql_per_s": statistics.median(rates[one]), "sqlite_per_s": statistics.median(rates[alone]),
            "ratio": ratio, "flushes_per_refresh": sync}
        self.verdict("rate", ratio >= RATE_WANTED,
                     f"refreshes of {CALLERS} callers: {statistics.median(rates[one]):.0f} per second, {ratio:.2f} of the "
                     f"{statistics.median(rates[alone]):.0f} with SQLite, at least {RATE_WANTED} wanted")
        self.verdict("flushes", sync <= FLUSHES_WANTED, f"{sync:.3f} flushes per refresh, at most {FLUSHES_WANTED} wanted")

    def memory(self, alone, one):
        """At rest after a start. Private memory; the mapped files of libpq and its libraries are shared with other programs."""
        for machine in (alone, one):
            machine.close()
            machine.launch_and_wait()
        time.sleep(REST_SECONDS)
        more = [(self.memory_of(one, kind) - self.memory_of(alone, kind)) / 1e3 for kind in ("RssAnon", "RssFile")]
        self.results["more_memory_mb"] = dict(zip(("private", "mapped_files"), more))
        self.verdict("memory", more[0] <= MORE_MB_WANTED,
                     f"{more[0]:.1f} MB more than with SQLite, at most {MORE_MB_WANTED} wanted; {more[1]:.1f} MB more of mapped "
                     "files")

    @staticmethod
    def memory_of(machine, kind):
        """In kB."""
        status = pathlib.Path(f"/proc/{machine.process.pid}/status").read_text()
        return int(status.split(f"{kind}:")[1].split()[0])

    def heard(self, one, two):
        """From the answer at the first machine, which is after the commit, to the new token at the second; meanwhile other
        accounts are refreshed."""
        """The median of some rounds."""
        rounds = sorted((self.heard_once(one, two) for _ in range(HEARD_ROUNDS)), key=lambda found: found["p99_ms"])
        found = self.results["heard"] = rounds[len(rounds) // 2]
        self.verdict("heard", found["p99_ms"] <= HEARD_WANTED_MS,
                     f"a new token is at the other machine after {found['p50_ms']:.1f} ms, p99 {found['p99_ms']:.1f} ms, of "
                     f"{found['samples']} samples with {found['per_s']:.0f} refreshes per second, at most {HEARD_WANTED_MS} ms "
                     f"wanted. Of {os.cpu_count()} processors: "
                     + ", ".join(f"{name} {share:.2f}" for name, share in found["shares"].items()))

    def heard_once(self, one, two):
        names, times, counts = ["p" + name for name in self.names], [], []
        used, begun = self.used(one, two), time.monotonic()
        end = begun + HEARD_SECONDS

        def load(start):
            client, number = BlockingClient(one.socket, CALL_SECONDS), start
            while time.monotonic() < end:
                time.sleep(max(0, begun + number / (HEARD_RATE - MEASURED_RATE) - time.monotonic()))
                client.call("account.refresh", account=names[PROVIDERS + number % (len(names) - PROVIDERS)])
                number += LOADERS
                counts.append(number)
            client.close()

        with concurrent.futures.ThreadPoolExecutor(LOADERS) as pool:
            loads = [pool.submit(load, start) for start in range(LOADERS)]
            first, second = (BlockingClient(machine.socket, CALL_SECONDS) for machine in (one, two))
            while time.monotonic() < end:
                time.sleep(max(0, begun + len(times) / MEASURED_RATE - time.monotonic()))
                name = names[len(times) % PROVIDERS]
                generation = first.call("account.refresh", account=name)["generation"]
                moment = time.monotonic()
                while second.call("token.get", account=name)["generation"] < generation:
                    time.sleep(POLL_SECONDS)
                times.append(time.monotonic() - moment)
            first.close()
            second.close()
            for one_load in loads:
                one_load.result()
        seconds = time.monotonic() - begun
        rate = (len(counts) + len(times)) / seconds
        shares = {name: (after - used[name]) / seconds for name, after in self.used(one, two).items()}
        times.sort()
        middle, late = (times[int(len(times) * share)] * 1000 for share in (0.5, 0.99))
        return {"p50_ms": middle, "p99_ms": late, "per_s": rate, "samples": len(times), "shares": shares}

    def used(self, one, two):
        """The processor time until now, in seconds, of each program; and the time in which their threads waited for one."""
        backends = self.cluster.value(
            "SELECT string_agg(pid::text, ' ') FROM pg_stat_activity WHERE backend_type = 'client backend'"
            " AND pid <> pg_backend_pid()").split()
        pids = {"first broker": [one.process.pid], "second broker": [two.process.pid], "callers": [os.getpid()],
                "database": backends, "provider": [self.provider.process.pid]}
        used, waited = {}, 0
        for name, pids in pids.items():
            stats = [pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split() for pid in pids]
            used[name] = sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf("SC_CLK_TCK")
            files = [file for pid in pids for file in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")]
            waited += sum(int(file.read_text().split()[1]) for file in files) / 1e9
        idle = float(pathlib.Path("/proc/uptime").read_text().split()[1])
        used["all processors"] = os.cpu_count() * time.monotonic() - idle
        return {**used, "waiting for a processor": waited}

    def idle(self):
        """Two brokers; the log has a line for each statement."""
        self.cluster.sql("ALTER SYSTEM SET log_statement = 'all'", database="postgres")
        self.cluster.sql("SELECT pg_reload_conf()", database="postgres")
        time.sleep(2 * REST_SECONDS)
        log = self.cluster.folder / "log"

        def statements():
            return sum("execute " in line or "statement: " in line for line in log.read_text(errors="replace").splitlines())

        before = statements()
        time.sleep(IDLE_SECONDS)
        rate = (statements() - before) / IDLE_SECONDS / 2
        self.cluster.sql("ALTER SYSTEM RESET log_statement", database="postgres")
        self.cluster.sql("SELECT pg_reload_conf()", database="postgres")
        self.results["idle_statements_per_s"] = rate
        self.verdict("idle", rate <= IDLE_WANTED, f"{rate:.2f} statements per second while idle, at most {IDLE_WANTED} wanted")

    def restarts(self, one, two):
        name = "pn0"
        one.process.kill()
        one.process.wait(CALL_SECONDS)
        begun = time.monotonic()
        one.launch_and_wait()
        self.refresh(one, name)
        self.seconds("continues", "a killed broker refreshes", time.monotonic() - begun, CONTINUES_WANTED)
        self.cluster.restart("immediate")
        begun = time.monotonic()
        for machine in (one, two):
            self.refresh(machine, name)
        self.seconds("resumes", "writes resume after a restart of the database", time.monotonic() - begun, RESUMES_WANTED)

    def promotion(self):
        pair = machine = None
        try:
            pair = Pair(self.folder / "pair")
            hosts = f"{pair.primary.folder},{pair.standby.folder}"
            machine = self.machine(
                "of-pair", f'kind = "postgresql"\nconnection = "host={hosts} user=grantd dbname=grantd"')
            machine.call("account.import", account="a", provider="fast0", refresh_token="a-r1")
            self.refresh(machine, "a")
            # Without a second standby a commit would wait.
            pair.wait_for_standby(False)
            pair.fail_over()
            begun = time.monotonic()
            self.refresh(machine, "a")
            self.seconds("promotion", "writes resume after a promotion", time.monotonic() - begun, RESUMES_WANTED)
        finally:
            for other in (machine, pair):
                if other:
                    other.close()

    def refresh(self, machine, name):
        def works():
            try:
                return machine.call("account.refresh", CALL_SECONDS, account=name) is not None
            except (Refused, Gone, OSError):
                return False

        eventually("a refresh works", works, CALL_SECONDS)

    def seconds(self, name, what, found, wanted):
        self.results[f"{name}_s"] = found
        self.verdict(name, found <= wanted, f"{what} after {found:.2f} s, at most {wanted} s wanted")
