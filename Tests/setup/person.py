"""A user at a terminal, with a home of its own: runs grantctl in a pty and reads what it shows."""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import urllib.error
import urllib.request

from grantd_testing import Wrong, environment, wait_until

COMMAND_SECONDS = 120
PROMPT_SECONDS = 90
END_SECONDS = 60
ROWS = 24
# What may be wider than the terminal: it is copied as a whole.
WHOLE = re.compile(r"https?://|^\s{2}|^\s*grantctl |^# ")


class Skip(Exception):
    """The machine cannot run a case."""


class Shown:
    """A command that runs in a pty."""

    def __init__(self, command, env, columns):
        self.columns, self.output, self.status = columns, b"", None
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            # The size is set before the program can ask for it.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
            os.execvpe(command[0], command, env)

    @property
    def text(self):
        return self.output.decode(errors="replace").replace("\r", "")

    def read(self, seconds):
        """False: the terminal has no other end any more."""
        if select.select([self.master], [], [], seconds)[0]:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return False
            self.output += data
            return bool(data)
        return True

    def until(self, pattern, seconds=PROMPT_SECONDS):
        """The match, once it is shown."""
        end, found = time.monotonic() + seconds, None
        while not (found := re.search(pattern, self.text)):
            if time.monotonic() > end or not self.read(0.1):
                raise Wrong(f"{pattern} is not shown: {self.text[-900:]}")
        return found

    def answer(self, prompt, line):
        self.until(prompt + r"[^\n]*$")
        os.write(self.master, line.encode() + b"\n")

    def end(self, seconds=END_SECONDS):
        """The exit status."""
        end = time.monotonic() + seconds
        while self.read(0.1):
            if time.monotonic() > end:
                self.kill()
                raise Wrong(f"it does not end: {self.text[-900:]}")
        return self.reap()

    def reap(self):
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            os.close(self.master)
        return self.status

    def hang_up(self):
        """The window is closed."""
        os.close(self.master)
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self):
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.reap()

    def too_wide(self):
        """Lines that a terminal of this width would break."""
        # A line of progress is erased before the next one is written in its place.
        lines = [line.rpartition("\x1b[K")[2] for line in self.text.split("\n")]
        return [line for line in lines if len(line) > self.columns and not WHOLE.search(line)]


class Person:
    def __init__(self, products, folder):
        self.products, self.home, self.shown = products, folder, []
        folder.mkdir(mode=0o700)
        self.env = environment(folder, TERM="xterm")

    def setup(self, *words, columns=80, command="setup", **more):
        shown = Shown([str(self.products / "grantctl"), command, *map(str, words)], self.env | more, columns)
        self.shown.append(shown)
        return shown

    def run(self, *words, text=None, **more):
        """Without a terminal."""
        return subprocess.run(
            [self.products / "grantctl", *map(str, words)], env=self.env | more, input=text or "", capture_output=True,
            text=True, timeout=COMMAND_SECONDS)

    def json(self, *words):
        answer = self.run(*words, "--json")
        if answer.returncode:
            raise Wrong(f"{' '.join(map(str, words))}: {answer.returncode}, {answer.stderr}")
        return json.loads(answer.stdout)

    def token(self, account):
        answer = self.run("token", account)
        if answer.returncode or len(answer.stdout.strip()) < 10:
            raise Wrong(f"no token: {answer.returncode}, {answer.stderr}")
        return answer.stdout.strip()

    def files(self):
        """Those of the configuration."""
        folder = self.home / ".config"
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())

    def close(self):
        for shown in self.shown:
            if shown.status is None:
                shown.kill()
        status = self.run("status", "--json")
        if status.returncode == 0:
            pid = json.loads(status.stdout)["pid"]
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda: not os.path.exists(f"/proc/{pid}"), END_SECONDS, "the broker ends")


def visit(url):
    """A browser without cookies, at a provider that signs in without a page: follows to the callback."""
    try:
        with urllib.request.urlopen(url, timeout=COMMAND_SECONDS) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
