"""`grantctl login --json`, while a user signs in."""

import json
import queue
import re
import subprocess
import threading
import time

from grantd_testing import Program

OUTPUT_SECONDS = 90
END_SECONDS = 60
LOGIN_DENIED = 8
# A denial has reached the broker by then, or its device poll has: the rest is an answer on a socket.
DENIAL_SECONDS = 30


class Login:
    """The process ends with the block."""

    def __init__(self, command):
        self.process = Program(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.coming, self.text = queue.Queue(), ""
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.coming.put(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()

    def find(self, pattern):
        """The first match in a line of its output that has not been read."""
        end = time.monotonic() + OUTPUT_SECONDS
        while time.monotonic() < end and (self.reader.is_alive() or not self.coming.empty()):
            try:
                line = self.coming.get(timeout=0.1)
            except queue.Empty:
                continue
            self.text += line
            if found := re.search(pattern, line):
                return found[0]
        raise AssertionError(f"grantctl login printed no {pattern}: {self.text}")

    @property
    def url(self):
        return self.find(r"http://\S+")

    def end(self, seconds=END_SECONDS):
        """Its exit status; then `text` is complete."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"grantctl login still waits after {seconds} s: {self.text}") from None
        self.reader.join(OUTPUT_SECONDS)
        while not self.coming.empty():
            self.text += self.coming.get()
        return status

    def succeeds(self, page):
        """`page`: the last one that the user saw."""
        status = self.end()
        assert status == 0, f"grantctl login: {status} {self.text} {page.status} {page.url}"

    def is_denied(self):
        """It ends at once, and with the right reason."""
        status = self.end(DENIAL_SECONDS)
        errors = [json.loads(line)["error"] for line in self.text.splitlines() if line.startswith('{"error"')]
        assert status == LOGIN_DENIED and [error["data"]["reason"] for error in errors] == ["login_denied"], (status, self.text)
