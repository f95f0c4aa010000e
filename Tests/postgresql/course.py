"""The course of a storm: machines, callers, events, and its judgement."""

import collections
import datetime
import random
import signal
import threading
import time

from grantd_testing import Gone, Refused, free_ports
from judge import AUDIT, Judge
from links import DATABASE, PROVIDER, links
from machines import Machine, Provider, eventually, new_key
from cluster import make_certificate
from standby import Pair
from weather import Weather

MACHINES = 3
ACCOUNTS = 12
# Seconds; a broker renews an access token some seconds before its end.
LIFETIME = 3
CALLERS = 6
CALL_SECONDS = 3
TICK = 0.02
RELAUNCH_SECONDS = 0.5
END_SECONDS = 200
START_SECONDS = 90
# Of the accounts with a problem: how many are shown, and how much of their course.
MOST_SHOWN, SHOWN_SECONDS = 3, 15


class Storm(Weather):
    def __init__(self, programs, folder, options, environment):
        super().__init__(options.seed)
        self.options = options
        self.links = links(MACHINES, environment)
        self.counts, self.kills, self.excused, self.problems = collections.Counter(), [], [], []
        # Events under way: when the next step is due.
        self.running = []
        self.accounts, self.names, self.is_over = [], 0, False
        self.is_enough, self.looked, self.ledger, self.saved = False, 0, {}, {}
        self.provider = Provider(folder, self.links.addresses[PROVIDER])
        make_certificate(folder)
        ports = free_ports(2)
        self.database = Pair(folder / "pg", ports, self.links.addresses[DATABASE], folder)
        self.links.connect(ports, self.provider.port)
        key = new_key(folder / "key")
        self.machines = [self.machine(number, programs, folder, key) for number in range(MACHINES)]

    def machine(self, number, programs, folder, key):
        connection = f"{self.links.database(number)} user=grantd dbname=grantd sslrootcert={folder}/authority.pem"
        machine = Machine(
            programs, folder / f"machine{number}", key, f'kind = "postgresql"\nconnection = "{connection}"',
            self.provider.sections(origin=self.links.origin(number)) + self.links.sections(number))
        machine.prefix, machine.number = self.links.prefix(number), number
        machine.launched, machine.crashed = 0, False
        return machine

    # MARK: Its course

    def run(self):
        for machine in self.machines:
            machine.launch_and_wait()
        self.database.sql(AUDIT)
        self.provider.lifetime(LIFETIME)
        while len(self.accounts) < ACCOUNTS:
            self.adopt()
        callers = [threading.Thread(target=self.ask, args=(self.random.random(),), daemon=True) for _ in range(CALLERS)]
        for caller in callers:
            caller.start()
        end = time.monotonic() + self.options.seconds
        while self.goes_on() or self.running:
            if time.monotonic() > end:
                self.problems.append(f"only {self.expiries()} expiries in {self.options.seconds} s")
                break
            self.tick()
            time.sleep(TICK)
        self.settle()
        self.is_over = True
        for caller in callers:
            caller.join(CALL_SECONDS * 2)
        return self.problems

    def expiries(self):
        self.ledger = self.provider.ledger
        return sum(number - 1 for number in self.ledger["current"].values())

    def goes_on(self):
        if time.monotonic() - self.looked > 1:
            self.looked = time.monotonic()
            self.is_enough = self.expiries() >= self.options.expiries
            for name in set(self.ledger["revoked"]) & set(self.accounts):
                self.accounts.remove(name)
        return not self.is_enough or self.steps

    def tick(self):
        now = time.monotonic()
        for machine in self.machines:
            if machine.process.status is not None:
                self.ended(machine, now)
        for entry in [entry for entry in self.running if entry[0] <= now]:
            self.running.remove(entry)
            self.go_on(entry[1])
        if self.is_enough and not self.steps:
            return
        if len(self.accounts) < ACCOUNTS and self.random.random() < 0.2:
            self.adopt()
        if self.random.random() < 0.06:
            event = self.begin()
            if event:
                self.running.append((0, event))

    def ended(self, machine, now):
        status = machine.process.status
        if status < 0 and status != -signal.SIGKILL and not machine.crashed:
            machine.crashed = True
            self.problems.append(f"machine {machine.number} ended with {status}: {machine.last_lines(3)[-600:]}")
        if now - machine.launched > RELAUNCH_SECONDS:
            machine.launched, machine.crashed = now, False
            machine.launch()

    def go_on(self, event):
        try:
            self.running.append((time.monotonic() + next(event), event))
        except StopIteration:
            pass

    # MARK: Callers

    def adopt(self):
        self.names += 1
        name = f"f{self.names}"
        try:
            machine = self.random.choice([machine for machine in self.machines if machine.number not in self.stopped])
            machine.call("account.import", CALL_SECONDS, account=name, provider="strict", refresh_token=f"{name}-r1")
            self.accounts.append(name)
        except (Refused, Gone, OSError, IndexError):
            pass

    def ask(self, seed):
        """One caller, in a thread."""
        chance = random.Random(seed)
        while not self.is_over:
            try:
                machine = chance.choice(self.machines)
                if machine.number not in self.stopped:
                    machine.call("token.get", CALL_SECONDS, account=chance.choice(self.accounts), timeout=1)
                    self.counts["tokens"] += 1
            except (Refused, Gone, OSError, IndexError):
                self.counts["without a token"] += 1
            time.sleep(TICK)

    # MARK: Its end

    def settle(self):
        """All is well again: every account that was not lost has its newest token at all machines."""
        self.provider.delay(0)
        for machine in self.machines:
            for kind in (DATABASE, PROVIDER):
                self.links.heal(kind, machine.number)
            machine.process.send_signal(signal.SIGCONT)
        begun = time.monotonic()
        for machine in self.machines:
            eventually(f"machine {machine.number} serves", lambda: self.serves(machine), START_SECONDS)
        for name in self.accounts:
            try:
                eventually(f"{name} has one token at all machines", lambda: self.agree(name), END_SECONDS)
            except AssertionError as error:
                self.problems.append(str(error))
        self.counts["seconds until all machines agreed"] = round(time.monotonic() - begun)
        self.expiries()
        rows = self.database.sql("SELECT account, generation, extract(epoch FROM at) FROM public.audit")
        saved = collections.defaultdict(list)
        for account, generation, at in rows:
            saved[account].append((int(generation), float(at)))
        self.saved = saved
        judge = Judge(self.ledger, self.kills, saved)
        self.excused = [detail for _, detail in judge.excused]
        self.problems += judge.problems
        for name, moment in judge.broken[:MOST_SHOWN]:
            self.problems.append(f"the course of {name}:\n" + "\n".join(f"    {line}" for line in self.course(name, moment)))

    def course(self, name, moment):
        """The events before the moment, and the log's lines of the account."""
        lines = [(at, text) for at, text in self.events + [(at, f"generation {generation} is saved")
                                                           for generation, at in self.saved[name]]]
        for machine in self.machines:
            for line in machine.log_text().splitlines():
                if f"account={name} " in line or "account=" not in line and "info" not in line:
                    stamp = line.split(" ", 1)[0]
                    try:
                        at = datetime.datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()
                    except ValueError:
                        continue
                    lines.append((at, f"machine {machine.number}: {line[25:200]}"))
        for request in self.ledger["requests"]:
            if request["token"].startswith(f"{name}-"):
                lines.append((request["at"], f"{request['token']} is sent by {request['peer']}"))
        return [f"{at:.3f} {text}" for at, text in sorted(lines) if moment - SHOWN_SECONDS < at < moment + 1]

    def serves(self, machine):
        if machine.process.status is not None:
            self.ended(machine, time.monotonic())
            return False
        return machine.serves()

    def agree(self, name):
        if name in self.provider.ledger["revoked"]:
            return True
        self.provider.lifetime(3600)
        tokens = [machine.get(name, START_SECONDS) for machine in self.machines]
        ledger = self.provider.ledger
        return name in ledger["revoked"] or set(tokens) == {f"{name}-a{ledger['current'].get(name, 1)}"}

    def summary(self):
        counts = ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items()))
        expiries = sum(number - 1 for number in self.ledger["current"].values())
        return f"{expiries} expiries, {len(self.excused)} grants ended with a killed process; {counts}"

    def close(self):
        self.is_over = True
        for machine in self.machines:
            machine.process.send_signal(signal.SIGCONT)
            machine.close()
        self.provider.close()
        self.database.close()
        self.links.close()
