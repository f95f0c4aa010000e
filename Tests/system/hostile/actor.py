"""Processes of other users in other control groups: what attackers and victims run in."""

import ctypes
import dataclasses
# Loaded by the first look-up of a host, when an actor may no longer read the files of this Python.
import encodings.idna  # noqa: F401
import json
import os
import resource
import select
import signal
import threading
import time
import traceback

from grantd_testing import Wrong

END_SECONDS = 120
# Of an actor that tells that it is ready.
READY_SECONDS = 120
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)

# In an actor's process: set by SIGTERM. Loops of attacks look at it.
ended = threading.Event()


@dataclasses.dataclass(frozen=True)
class Who:
    """What the kernel says of a process: its user, and its control group below /sys/fs/cgroup."""

    uid: int
    group: str = ""

    def become(self):
        if self.group:
            enter(self.group)
        os.setgroups([])
        os.setresgid(self.uid, self.uid, self.uid)
        os.setresuid(self.uid, self.uid, self.uid)


def enter(group):
    with open(f"/sys/fs/cgroup{group}/cgroup.procs", "w") as processes:
        processes.write(str(os.getpid()))


def await_end():
    """A thread's work. A signal's handler runs where the main thread may hold the lock of `ended`, and waits for ever."""
    signal.sigwait([signal.SIGTERM])
    ended.set()


class Actor:
    """Runs `work(tell, *arguments)` as `who`; what it tells and returns is JSON. Known by its process id alone."""

    def __init__(self, who, work, *arguments, niceness=0):
        self.name, self.buffer = work.__name__, b""
        self.pipe, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.pipe)
            self.live(who, work, arguments, write, niceness)
        os.close(write)

    def live(self, who, work, arguments, pipe, niceness):
        status = 1
        try:
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            os.nice(niceness)
            who.become()
            # A change of the user clears it (PR_SET_PDEATHSIG(2const)).
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            threading.Thread(target=await_end, daemon=True).start()

            def write(kind, value):
                with open(pipe, "wb", closefd=False) as file:
                    file.write(json.dumps([kind, value]).encode() + b"\n")

            write("returned", work(lambda value: write("told", value), *arguments))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def next(self, seconds):
        """The next value that it tells, or returns."""
        return self.read(seconds)[1]

    def read(self, seconds):
        end = time.monotonic() + seconds
        while b"\n" not in self.buffer:
            if not select.select([self.pipe], [], [], max(0, end - time.monotonic()))[0]:
                raise Wrong(f"{self.name} says nothing within {seconds:g} s")
            data = os.read(self.pipe, 1 << 20)
            if not data:
                raise Wrong(f"{self.name} broke off")
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)

    def finish(self, seconds=END_SECONDS):
        """Has it end; what it returns."""
        os.kill(self.pid, signal.SIGTERM)
        end = time.monotonic() + seconds
        try:
            while (read := self.read(max(0, end - time.monotonic())))[0] != "returned":
                pass
            return read[1]
        finally:
            self.close()

    def close(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            os.close(self.pipe)
            self.pid = 0
