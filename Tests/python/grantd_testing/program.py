"""A program under test as a process."""

import asyncio
import contextlib
import ctypes
import os
import pathlib
import re
import resource
import signal
import subprocess
import time

STOP_SECONDS = 30
PAUSE_SECONDS = 0.003
PR_SET_PDEATHSIG = 1
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
LIBC = ctypes.CDLL(None)


def environment(folder, **more):
    """All that a program under test gets: nothing of the user's own folders."""
    own = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return own | kept | more


class Program(subprocess.Popen):
    """A process that ends with this one, known by its process id alone.

    It ends with the thread that starts it (PR_SET_PDEATHSIG(2const)), so start it in the main thread. It reads nothing.
    Its output is appended to `log`, else it goes where `options` say. `files`: the limit of its descriptors.
    """

    def __init__(self, arguments, log=None, files=None, **options):
        def prepare():
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if files:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        with open(log, "ab") if log else contextlib.nullcontext() as output:
            streams = {"stdin": subprocess.DEVNULL} | ({"stdout": output, "stderr": output} if log else {})
            super().__init__([str(argument) for argument in arguments], preexec_fn=prepare, **streams | options)

    @property
    def status(self):
        """None: it runs. Otherwise its exit status, or the negative number of the signal that ended it."""
        return self.poll()

    def kill(self):
        super().kill()
        self.wait()

    def stop(self, seconds=STOP_SECONDS):
        """SIGTERM, and SIGKILL where that does not end it."""
        self.terminate()
        try:
            self.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    async def ended(self, seconds):
        """Whether it ends within that time."""
        end = time.monotonic() + seconds
        while self.status is None:
            if time.monotonic() >= end:
                return False
            await asyncio.sleep(PAUSE_SECONDS)
        return True

    def cpu_seconds(self):
        """What it has used so far (proc_pid_stat(5))."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS

    def resident(self):
        """Bytes of memory (proc_pid_status(5))."""
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"^VmRSS:\s+(\d+) kB", status, re.M)[1]) * 1024
