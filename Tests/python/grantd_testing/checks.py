"""What the suites that work as a person does have: grantd and grantctl, and a list of checks."""

import json
import subprocess
import time

from .daemon import DaemonProcess
from .waiting import wait_until

COMMAND_SECONDS = 60
START_SECONDS = 60
PAUSE_SECONDS = 0.2


class CommandedDaemon(DaemonProcess):
    """grantd, asked by grantctl."""

    def __init__(self, products, folder, port, sections):
        super().__init__(products, folder)
        # The access tokens that were handed out: none may be in the log.
        self.tokens = set()
        self.config.write_text(f"[callback]\nport = {port}\n\n" + sections)

    def start(self):
        self.launch()
        wait_until(lambda: self.ctl("status").returncode == 0 or self.ended(), START_SECONDS, "grantd answers", PAUSE_SECONDS)

    def ended(self):
        if self.process.status is not None:
            raise RuntimeError(f"grantd ended with {self.process.status}:\n{self.log_text()[-2000:]}")

    def end(self, number):
        self.process.send_signal(number)
        return self.process.wait(COMMAND_SECONDS)

    def ctl(self, *arguments):
        return subprocess.run(
            [self.products / "grantctl", "--socket", self.socket, *arguments], capture_output=True, text=True,
            timeout=COMMAND_SECONDS)

    def token(self, name, *options):
        answer = self.ctl("token", name, *options)
        assert answer.returncode == 0, answer.stderr
        token = answer.stdout.removesuffix("\n")
        self.tokens.add(token)
        return token

    def json(self, *arguments, status=0):
        answer = self.ctl(*arguments, "--json")
        assert answer.returncode == status, (answer.returncode, answer.stderr)
        return json.loads(answer.stdout)

    def log_text(self):
        return self.log.read_text(errors="replace")

    def close(self):
        if self.process:
            self.process.kill()


class Checks:
    """Counts checks, and says of each how it went."""

    passed = failed = 0

    def check(self, name, action):
        begun = time.monotonic()
        try:
            action()
        except Exception as error:  # each check says by itself what went wrong
            self.failed += 1
            print(f"not ok - {name}: {type(error).__name__}: {error}", flush=True)
        else:
            self.passed += 1
            print(f"ok - {name} ({time.monotonic() - begun:.1f} s)", flush=True)
