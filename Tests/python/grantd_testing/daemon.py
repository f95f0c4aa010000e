"""The real grantd as a process."""

import asyncio
import contextlib
import signal
import time

from .client import Client
from .errors import Gone, Wrong
from .program import Program, environment

START_SECONDS = 60
CONNECT_SECONDS = 60
STOP_SECONDS = 60
PAUSE_SECONDS = 0.005
CRASH_LINES = 80


class DaemonProcess:
    """grantd on one state folder, which outlives its processes."""

    instance, options, start_limit = "user", ("--log-level", "debug"), START_SECONDS
    # A program that runs it, such as nsenter.
    prefix = ()

    def __init__(self, products, folder, state=None):
        self.products, self.folder, self.process, self.starts = products, folder, None, 0
        self.config, self.log = folder / "grantd.toml", folder / "grantd.log"
        self.socket, self.state = folder / "grantd.sock", state or folder / "state"

    @property
    def environment(self):
        return environment(self.folder)

    def launch(self, files=None, **more):
        """`more` goes into its environment."""
        self.starts += 1
        with open(self.log, "a") as log:
            log.write(" ".join([f"---- start {self.starts}", *(f"{name}={value}" for name, value in more.items())]) + "\n")
        self.process = Program(
            [*self.prefix, self.products / "grantd", f"--{self.instance}", "--config", self.config, "--state", self.state,
             "--socket", self.socket, *self.options], self.log, files, env=self.environment | more)

    def lines(self, *words):
        """Those of the log in which all the words are."""
        text = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return [line for line in text if all(word in line for word in words)]

    def last_lines(self, count):
        return " | ".join(self.lines()[-count:])

    def crash_lines(self):
        """The backtrace of a process that crashed; empty without one."""
        lines = self.lines()
        start = next((i for i, line in enumerate(lines) if "crashed" in line or "Fatal error" in line), len(lines))
        end = next((i for i in range(start, len(lines)) if lines[i].startswith(("Registers", "Images"))), len(lines))
        return lines[start:end][:CRASH_LINES]


class Daemon(DaemonProcess):
    """The same in an event loop."""

    def tell(self, what):
        """Called with what is done to the daemon, for a suite that notes it."""

    def launch(self, files=None, **more):
        super().launch(files, **more)
        self.tell("start")

    async def connect(self, within=CONNECT_SECONDS):
        async with asyncio.timeout(within):
            return await Client.connect(self.socket)

    async def ready(self):
        """A client of the daemon that was just launched."""
        end = time.monotonic() + self.start_limit
        while self.process.status is None:
            with contextlib.suppress(Gone):
                return await self.connect()
            if time.monotonic() > end:
                raise Wrong(f"the daemon does not listen after {self.start_limit} s")
            await asyncio.sleep(PAUSE_SECONDS)
        raise Wrong(f"the daemon does not start: it ended with status {self.process.status}: {self.last_lines(3)}")

    async def start(self, files=None):
        self.launch(files)
        return await self.ready()

    def kill(self):
        if self.process and self.process.status is None:
            self.tell("kill")
            self.process.kill()

    async def stop(self, seconds=STOP_SECONDS):
        """In order; the exit status."""
        self.tell("term")
        self.process.send_signal(signal.SIGTERM)
        if not await self.process.ended(seconds):
            raise Wrong(f"the daemon has not ended {seconds:g} s after SIGTERM")
        self.tell("exited")
        return self.process.status
