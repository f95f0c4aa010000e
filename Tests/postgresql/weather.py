"""What fails in a storm. Each event is a generator of the seconds until its next step."""

import random
import signal
import time

from links import DATABASE, PROVIDER

# Longer than a lease.
LONG_STOP, SHORT_STOP = 125, 2
DATABASE_SHARE = 0.12


class Weather:
    # Of a Storm.
    machines = links = provider = database = options = counts = kills = None

    def __init__(self, seed):
        self.random = random.Random(seed)
        # Each event with its time.
        self.events = []
        # Numbers of machines to which something happens, and of those whose process is stopped.
        self.busy, self.stopped, self.is_database_busy = set(), set(), False
        self.steps = [self.before_lease, self.before_sending, self.before_answer, self.before_commit]
        self.random.shuffle(self.steps)

    def note(self, text):
        self.events.append((time.time(), text))

    def begin(self):
        """The next event; None: each machine has one."""
        if self.steps and "step" not in self.busy:
            return self.step()
        free = [machine for machine in self.machines if machine.number not in self.busy]
        if self.random.random() < DATABASE_SHARE and not self.is_database_busy:
            return self.random.choice([self.fail_over, self.restart, self.end_sessions])()
        if not free:
            return None
        machine = self.random.choice(free)
        event = self.random.choice([self.kill, self.kill, self.stop, self.cut_database, self.cut_provider, self.slow])
        return self.alone(machine, event(machine))

    def alone(self, machine, event):
        self.busy.add(machine.number)
        yield from event
        self.busy.discard(machine.number)

    def kill(self, machine):
        self.counts["kills"] += 1
        self.note(f"machine {machine.number} is killed")
        self.kills.append((self.links.peer(machine.number), time.time()))
        machine.process.kill()
        yield self.random.uniform(0, 1)

    def pause(self, machine, seconds):
        self.stopped.add(machine.number)
        self.counts["stops"] += 1
        self.note(f"machine {machine.number} is stopped for {seconds:.1f} s")
        machine.process.send_signal(signal.SIGSTOP)
        yield seconds
        machine.process.send_signal(signal.SIGCONT)
        self.stopped.discard(machine.number)

    def stop(self, machine):
        yield from self.pause(machine, self.random.uniform(0.05, 3))

    def cut(self, machine, kind):
        self.counts[f"cuts from the {kind}"] += 1
        self.note(f"machine {machine.number} is cut from the {kind}")
        self.links.cut(kind, machine.number)
        yield self.random.choice([0.3, 1, 3, 6])
        self.links.heal(kind, machine.number)
        self.note(f"machine {machine.number} reaches the {kind}")

    def cut_database(self, machine):
        yield from self.cut(machine, DATABASE)
        if self.random.random() < 0.3:
            yield from self.kill(machine)

    def cut_provider(self, machine):
        yield from self.cut(machine, PROVIDER)

    def slow(self, machine):
        self.provider.delay(self.random.choice([0.05, 0.3, 1]))
        yield self.random.uniform(0.5, 2)
        self.provider.delay(0.01)

    def end_sessions(self):
        self.counts["killed backends"] += 1
        self.note("sessions are ended")
        which = self.random.choice(["true", "pid % 2 = 0"])
        try:
            self.database.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                              f"WHERE application_name = 'grantd' AND {which}")
        except RuntimeError:
            pass
        yield 0

    def restart(self):
        self.counts["restarts of the database"] += 1
        self.note("the database restarts")
        self.is_database_busy = True
        server = self.database.primary
        server.stop("immediate")
        yield self.random.choice([0, 0.5, 3])
        server.start()
        self.note("the database has started")
        yield 1
        self.is_database_busy = False

    def fail_over(self):
        self.counts["failovers"] += 1
        self.note("the standby takes over")
        self.is_database_busy = True
        self.database.fail_over()
        yield self.random.uniform(0, 2)
        self.note("it has a standby")
        self.database.add_standby()
        self.note("that is synchronous")
        self.is_database_busy = False

    # MARK: Stops beyond the lease, at each step of a refresh

    def step(self):
        self.busy.add("step")
        length = LONG_STOP if self.options.long_stops else SHORT_STOP
        while True:
            machine = self.random.choice(self.machines)
            if machine.number not in self.busy:
                break
            yield 0.1
        yield from self.alone(machine, self.steps.pop()(machine, length))
        self.busy.discard("step")

    def before_lease(self, machine, length):
        self.links.cut(DATABASE, machine.number)
        yield 1.5
        yield from self.while_stopped(machine, length, DATABASE)

    def before_sending(self, machine, length):
        """A new process has no connection to the provider yet."""
        self.links.cut(PROVIDER, machine.number)
        self.note(f"machine {machine.number} is cut from the provider, then killed, then stopped")
        yield from self.kill(machine)
        yield 4
        yield from self.while_stopped(machine, length, PROVIDER)

    def before_answer(self, machine, length):
        self.provider.delay(1)
        yield 0.8
        yield from self.while_stopped(machine, length)

    def before_commit(self, machine, length):
        self.provider.delay(0.5)
        yield 0.3
        self.links.cut(DATABASE, machine.number)
        yield 1
        yield from self.while_stopped(machine, length, DATABASE)

    def while_stopped(self, machine, length, *cut):
        """Stopped; and what was cut is healed meanwhile."""
        stop = self.pause(machine, length)
        wait = next(stop)
        yield 0.3
        for kind in cut:
            self.links.heal(kind, machine.number)
        self.provider.delay(0.01)
        yield wait
        for _ in stop:
            pass
