"""One soak: the world is set up, loaded, watched, taken down and looked over."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from broker import Broker
from grantd_testing import BlockingClient, BlockingDemo, Program
from soak import hostile, people, steady, watch
from soak.plan import CONTEXT, IDLE_SECONDS, KINDS, RECOVERY_SECONDS, Shared, clock
from soak.verdict import Verdict

SAMPLE_SECONDS = 5
# A provider's connection that nobody uses is closed after 5 s.
SETTLE_SECONDS = 7
LEAVE_SECONDS, REPORT_SECONDS, WELL_SECONDS = 30, 120, 60
ASKING = ["--connections", "2", "--rate", "200"]
QUESTION = '{"jsonrpc":"2.0","id":{{id}},"method":"token.get","params":{"account":"calm-1"}}'


class Run:
    def __init__(self, plan, binaries, folder):
        self.plan, self.binaries, self.folder = plan, binaries, folder
        self.shared, self.verdict = Shared(), Verdict(plan)
        self.providers, self.broker, self.asker = {}, None, None
        self.samples, self.reloads, self.trouble = [], 0, 0

    def whole(self, json_file):
        try:
            self.set_up()
            self.load()
            self.look_over()
            self.restart()
        finally:
            self.shared.over.set()
            for process in (self.asker, self.broker and self.broker.process):
                if process:
                    process.stop()
            for provider in self.providers.values():
                provider.close()
        self.verdict.log(self.broker.log)
        if json_file:
            json_file.write_text(json.dumps(self.verdict.figures, indent=1) + "\n")
        return self.verdict.close()

    # Before

    def set_up(self):
        for kind in KINDS:
            self.providers[kind.name] = BlockingDemo(
                self.binaries, self.folder, "--access-ttl", kind.access_ttl, "--refresh-ttl", 86400, "--rotation",
                kind.rotation, "--grace", kind.grace, name=kind.name)
            self.plan.issuers[kind.name] = self.providers[kind.name].issuer
        self.broker = Broker(self.binaries, self.folder, self.providers)
        self.configure()
        if heap := self.compile("heap", "-shared", "-fPIC"):
            self.broker.more = {"LD_PRELOAD": str(heap), "HEAP_FILE": str(self.folder / "heap")}
        self.verdict.figure("ready_ms", self.broker.start() * 1000)
        self.plan.socket = str(self.broker.socket)
        client = BlockingClient(self.broker.socket)
        for account in self.plan.accounts:
            self.broker.sign_in(client, account.provider, account.name, account.user)
        self.plan.methods = frozenset(method["name"] for method in client.call("rpc.discover")["methods"])
        client.close()
        time.sleep(SETTLE_SECONDS)
        self.base = watch.sample(self.broker)

    def configure(self):
        """Writes the configuration, each time a little different, and never half."""
        self.reloads += 1
        sections = [
            f'[provider.{kind.name}]\ndisplay_name = "{kind.name}, reading {self.reloads}"\nkind = "oidc"\n'
            f'issuer = "{self.providers[kind.name].issuer}"\nclient_id = "demo"\nallow_insecure_http = true\n'
            f'scopes = ["openid", "offline_access"]\nrotation = "{kind.configured_rotation}"\n' for kind in KINDS]
        sections.append('[refresh]\nretry_delays = ["1s", "2s", "3s"]\n')
        sections.append(f'[socket]\nidle_timeout = "{IDLE_SECONDS}s"\n')
        # All clients are threads of this process, and so one caller.
        sections.append("[limits]\nrequests_per_second = 20000\nburst = 80000\n")
        new = self.broker.config.with_suffix(".new")
        new.write_text("\n".join(sections))
        new.replace(self.broker.config)

    # During

    def load(self):
        print(f"{self.plan.connections} connections and their enemies for {self.plan.seconds:.0f} s, "
              f"seed {self.plan.seed} …", file=sys.stderr, flush=True)
        workers = [self.worker(part) for part in (steady, hostile, people)]
        self.asker = self.ask()
        begun = clock()
        schedule = sorted(self.schedule(), key=lambda item: item[0])
        for moment, deed in schedule:
            time.sleep(max(0, begun + moment - clock()))
            deed()
            if self.broker.process.status is not None:
                raise RuntimeError(f"grantd ended: {self.broker.log.read_text()[-2000:]}")
        self.shared.over.set()
        self.loaded = clock() - begun
        for name, process, pipe in workers:
            self.collect(name, process, pipe)
        self.verdict.asked(self.asker)

    def worker(self, part):
        here, there = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=part.main, args=(self.plan, self.shared, there), daemon=True)
        process.start()
        there.close()
        return part.__name__, process, here

    def collect(self, name, process, pipe):
        if pipe.poll(REPORT_SECONDS):
            try:
                self.verdict.add(pipe.recv())
            except EOFError:
                self.verdict.fail(f"the clients of {name} ended without a report")
        else:
            self.verdict.fail(f"the clients of {name} did not end")
            process.kill()
        process.join()

    def schedule(self):
        """What happens when, in seconds from the start."""
        def every(step, first=None):
            moment = step if first is None else first
            while moment < self.plan.seconds:
                yield moment
                moment += step
        yield from ((moment, self.watch) for moment in every(SAMPLE_SECONDS if self.plan.seconds > 120 else 1, 0))
        yield from ((moment, self.reload) for moment in every(self.plan.reload_every))
        faulty = [kind for kind in KINDS if kind.faults]
        for number, moment in enumerate(every(self.plan.fault_every, self.plan.first_fault)):
            kind = faulty[number % len(faulty)]
            fault = kind.faults[number // len(faulty) % len(kind.faults)]
            yield moment, lambda kind=kind, fault=fault: self.begin_trouble(kind, fault)
            yield min(moment + self.plan.fault_seconds, self.plan.seconds), lambda kind=kind: self.end_trouble(kind)
        yield self.plan.seconds, self.watch

    def begin_trouble(self, kind, fault):
        self.trouble += 1
        self.shared.trouble(kind.name, clock() + 3600)
        self.providers[kind.name].control("fault", endpoint="token.refresh", **fault)

    def end_trouble(self, kind):
        self.providers[kind.name].control("reset")
        self.shared.trouble(kind.name, clock() + RECOVERY_SECONDS)

    def watch(self):
        self.samples.append(watch.sample(self.broker))

    def reload(self):
        self.configure()
        self.broker.process.send_signal(signal.SIGHUP)

    def ask(self):
        """An asker in C, whose own time does not count: nil where there is no compiler."""
        program = self.compile("udsbench")
        return program and Program(
            [program, "--socket", self.broker.socket, *ASKING, "--duration", str(self.plan.seconds - 2),
             "--request", QUESTION], stdout=subprocess.PIPE)

    def compile(self, name, *flags):
        """One of the programs in C beside this one; nil where there is no compiler."""
        compiler = os.environ.get("CC", "cc")
        if not shutil.which(compiler):
            return None
        product, source = self.folder / name, pathlib.Path(__file__).resolve().parent.parent / f"{name}.c"
        product = product.with_suffix(".so" if flags else "")
        subprocess.run([compiler, "-O2", "-pthread", *flags, "-o", product, source], check=True)
        return product

    # After

    def look_over(self):
        """Everybody has left: what they had of the broker is given back."""
        end = clock() + LEAVE_SECONDS
        while True:
            time.sleep(1)
            left = watch.sample(self.broker)
            if self.verdict.has_settled(self.base, left) or clock() > end:
                break
        time.sleep(SETTLE_SECONDS)
        self.verdict.growth(self.base, self.samples, watch.sample(self.broker))
        self.verdict.load(self.samples, self.loaded, self.trouble, self.reloads - 1)

    def restart(self):
        """In order down and up again; and each grant still gets new tokens from its provider."""
        self.verdict.well(self.states(), "before the end")
        begun = clock()
        self.broker.stop()
        self.verdict.stopped(clock() - begun, self.broker.process.returncode)
        self.broker.start()
        self.verdict.well(self.states(), "after a restart")
        client, refreshed = BlockingClient(self.broker.socket), 0
        for account in self.plan.accounts:
            generation = client.call("token.get", account=account.name)["generation"]
            told = client.call("token.report_rejected", account=account.name, generation=generation)
            # A short-lived one may have been refreshed in between by itself.
            refreshed += told["refreshed"] or told["generation"] > generation
        client.close()
        self.verdict.grants(refreshed, {name: provider.stats()["grants"] for name, provider in self.providers.items()})

    def states(self):
        """The state of each account, once all are well or it has taken too long."""
        client, end = BlockingClient(self.broker.socket), clock() + WELL_SECONDS
        while True:
            views = client.call("account.list")["accounts"]
            states = {view["account"]: view["state"] for view in views if not view["account"].startswith("guest")}
            if all(state in ("ok", "refreshing") for state in states.values()) or clock() > end:
                client.close()
                return states
            time.sleep(0.5)
