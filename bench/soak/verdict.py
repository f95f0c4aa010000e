"""Puts the reports of a soak together and says what is wrong."""

import array
import collections
import json
import re

from soak import watch
from soak.plan import refused_account

MB = 1_000_000
# Connections to providers that are in use, beside those at the first look.
POOLED = 12
THREADS = 4
STOP_SECONDS = 10
STARVED = 0.05
# A checkpoint comes at 1,000 pages of 4 KiB; what is written meanwhile comes on top.
DATABASE, WAL = 4 * MB, 16 * MB
BAD_LINES = re.compile(r"\b(error|critical|fatal)\b", re.I)
SHOWN = 10


class Verdict:
    def __init__(self, plan):
        self.plan, self.figures, self.missed = plan, {}, []
        self.counts, self.failures = collections.Counter(), collections.Counter()
        self.latencies = collections.defaultdict(lambda: array.array("d"))
        self.examples, self.asker = [], None

    def figure(self, name, value):
        self.figures[name] = value

    def say(self, good, text):
        print(f"{'PASS' if good else 'FAIL'}  {text}", flush=True)
        if not good:
            self.missed.append(text)

    def fail(self, text):
        self.say(False, text)

    # What the clients say

    def add(self, report):
        self.counts.update(report["counts"])
        self.failures.update(report["failures"])
        self.examples += report["examples"]
        for name, times in report["latencies"].items():
            self.latencies[name].frombytes(times)

    def asked(self, process):
        if process is None:
            return
        output, _ = process.communicate()
        if process.returncode != 0:
            self.fail(f"the asker in C ended with {process.returncode}")
            return
        self.asker = json.loads(output)
        self.figure("asker", self.asker)
        bad = self.asker["errors"] + self.asker["io_errors"]
        self.say(not bad, f"the asker in C: {self.asker['requests']:,} tokens, {bad} errors")

    def latency(self, samples):
        """Cached tokens come at once. Where the machine had no CPU for the broker, that says nothing about it."""
        starved = (samples[-1].starved - samples[0].starved) / (samples[-1].at - samples[0].at)
        self.figure("starved", starved)
        p50, p99, longest = (self.asker[f"{name}_us"] / 1e3 for name in ("p50", "p99", "max"))
        text = (f"cached token, asker in C: p50 {p50:.2f} ms, p99 {p99:.2f} ms (at most {self.plan.p99 * 1e3:.0f}), "
                f"longest {longest:.1f} ms; the broker had no CPU for {starved * 100:.1f} % of the time")
        if starved > STARVED:
            print(f"      not judged: {text}", flush=True)
        else:
            self.say(p99 <= self.plan.p99 * 1e3, text)

    def load(self, samples, seconds, troubles, reloads):
        if self.asker:
            self.latency(samples)
        for name, times in sorted(self.latencies.items()):
            ordered = sorted(times)
            p50, p99 = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
            self.figures.setdefault("latencies", {})[name] = {
                "count": len(ordered), "p50": p50, "p99": p99, "max": ordered[-1]}
            print(f"      {name}: {len(ordered):,} times, p50 {p50 * 1e3:.2f} ms, p99 {p99 * 1e3:.1f} ms, "
                  f"longest {ordered[-1] * 1e3:.0f} ms")
        for name, times in sorted(self.counts.items()):
            print(f"      {name}: {times:,}")
        cpu = (samples[-1].cpu - samples[0].cpu) / (samples[-1].at - samples[0].at)
        print(f"      {seconds:.0f} s, {troubles} times trouble at a provider, {reloads} reloads by signal, "
              f"{cpu * 100:.0f} % of a CPU")
        self.figures |= {"counts": self.counts, "seconds": seconds, "cpu": cpu, "troubles": troubles,
                         "reloads": reloads}
        for text in self.examples[:SHOWN]:
            print(f"      {text}")
        wrong = sum(self.failures.values())
        kinds = "; ".join(f"{what} ({times})" for what, times in self.failures.most_common())
        self.say(not wrong, f"{self.counts['tokens']:,} tokens, each the right one; {wrong} wrong or missing answers"
                 + (f": {kinds}" if kinds else ""))
        for needed in ("tokens", "batches", "tokens reported as refused", "tokens shown to their provider", "events",
                       "storm: connections refused", "accounts that came and went", "accounts signed in again",
                       "unavailable while the provider was in trouble"):
            if not self.counts[needed]:
                self.fail(f"nothing was counted for '{needed}': the soak did not do what it says")

    # What the process took

    @staticmethod
    def has_settled(base, now):
        return now.open <= base.open + POOLED and not now.peers

    def growth(self, base, samples, end):
        warm = [one for one in samples if one.at - samples[0].at >= self.plan.warm_up]
        self.figure("samples", [vars(one) for one in samples])
        memory = watch.trend([(one.at, one.rss) for one in warm])
        self.figures |= {"rss_base": base.rss, "rss_warm": warm[0].rss, "rss_end": warm[-1].rss, "rss_left": end.rss,
                         "rss_trend": memory, "descriptors_base": base.open, "descriptors_left": end.open}
        self.say(memory <= self.plan.growth,
                 f"resident memory: {base.rss / MB:.1f} MB before, {warm[0].rss / MB:.1f} after the warm-up, "
                 f"{max(one.rss for one in warm) / MB:.1f} at most, {warm[-1].rss / MB:.1f} at the end, "
                 f"{end.rss / MB:.1f} when all had left; trend {memory / MB:+.2f} MB "
                 f"(at most {self.plan.growth / MB:.0f})")
        if all(one.live for one in warm):
            held = watch.trend([(one.at, one.live) for one in warm])
            self.figures |= {"live_trend": held, "live_base": base.live, "live_left": end.live}
            self.say(held <= self.plan.live,
                     f"memory in use: {base.live / MB:.1f} MB before, {warm[0].live / MB:.1f} after the warm-up, "
                     f"{max(one.live for one in warm) / MB:.1f} at most, {end.live / MB:.1f} when all had left; "
                     f"trend {held / MB:+.2f} MB (at most {self.plan.live / MB:.0f})")
        self.say(self.has_settled(base, end),
                 f"descriptors: {base.open} before, {max(one.open for one in samples)} at most, "
                 f"{end.open} when all had left ({end.descriptors})")
        most = max(one.threads for one in samples)
        self.say(end.threads <= base.threads + THREADS and most <= base.threads + 2 * THREADS,
                 f"threads: {base.threads} before, {most} at most, {end.threads} when all had left")
        database, wal = max(one.database for one in samples), max(one.wal for one in samples)
        self.figures |= {"threads": most, "database": database, "wal": wal,
                         "descriptors_most": max(one.open for one in samples)}
        self.say(database <= DATABASE and wal <= WAL,
                 f"files: database {database / MB:.1f} MB, write-ahead log {wal / MB:.1f} MB at most")

    # The end and the restart

    def well(self, states, when):
        sick = {name: state for name, state in states.items() if state not in ("ok", "refreshing")}
        missing = {account.name for account in self.plan.accounts} - set(states)
        self.say(not sick and not missing, f"{len(states)} accounts are well {when}"
                 + (f", but not {sick or sorted(missing)}" if sick or missing else ""))

    def stopped(self, seconds, status):
        self.figure("stop_seconds", seconds)
        self.say(status == 0 and seconds <= STOP_SECONDS, f"SIGTERM: ended with {status} after {seconds:.2f} s")

    def grants(self, refreshed, grants):
        """`grants`: each provider's own word. Those who were never signed in again have one grant, and it lives."""
        self.say(refreshed == len(self.plan.accounts),
                 f"{refreshed} of {len(self.plan.accounts)} grants got a new token after the restart")
        settled = {account.user for account in self.plan.accounts if account.name != refused_account(account.provider)}
        dead = [(name, grant["user"], grant["ended"]) for name, those in grants.items() for grant in those
                if grant["user"] in settled and not grant["live"]]
        most = max(grant["refreshes_in_flight_max"] for those in grants.values() for grant in those)
        refreshes = {name: sum(grant["refreshes"] for grant in those) for name, those in grants.items()}
        self.figures |= {"refreshes": refreshes}
        self.say(not dead and most <= 1,
                 f"{sum(refreshes.values()):,} refreshes at the providers, {most} at once for a grant at most, "
                 f"{len(dead)} grants lost" + (f": {dead}" if dead else ""))

    def log(self, path):
        lines = path.read_text(errors="replace").splitlines()
        bad = [line for line in lines if BAD_LINES.search(line)]
        self.figures |= {"log_lines": len(lines), "log_bytes": path.stat().st_size}
        self.say(not bad, f"log: {len(lines):,} lines, {len(bad)} of errors"
                 + "".join(f"\n      {one[:300]}" for one in bad[:SHOWN]))

    def close(self):
        verdict = f"FAILED: {len(self.missed)} checks" if self.missed else "PASSED: no error, no growth"
        refreshes = sum(self.figures.get("refreshes", {}).values())
        done = f"{self.counts['tokens']:,} tokens, {refreshes:,} refreshes, seed {self.plan.seed}"
        print(f"\n{verdict}; {done}", flush=True)
        return 1 if self.missed else 0
