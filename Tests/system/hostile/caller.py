"""Clients that outlive what the broker does to their connections."""

import contextlib
import time

from grantd_testing import BlockingClient, Gone, Refused
from machine import SOCKET

# Longer waits count as refused. The cases bound the 99th percentile.
PATIENCE = 30
PAUSE_SECONDS = 0.002


def connect(seconds=PATIENCE):
    """A socket with a time-out is told EAGAIN where one without waits, as long as the listen queue is full."""
    end = time.monotonic() + seconds
    while True:
        try:
            return BlockingClient(SOCKET, seconds)
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(PAUSE_SECONDS)


class Caller:
    """One connection, and a new one after an error of it."""

    def __init__(self, seconds=PATIENCE):
        self.seconds, self.client = seconds, None

    def attempt(self, method, /, **params):
        """The result; where there is none, why under "reason", and what was said under "message"."""
        try:
            self.client = self.client or connect(self.seconds)
            return self.client.call(method, **params)
        except Refused as refusal:
            return {"reason": refusal.reason or "error", "message": str(refusal)}
        except (Gone, OSError, ValueError) as error:
            self.close()
            return {"reason": type(error).__name__, "message": str(error)}

    def close(self):
        if self.client:
            self.client.close()
            self.client = None


def attempt(method, /, **params):
    """The same on a connection of its own."""
    with contextlib.closing(Caller()) as caller:
        return caller.attempt(method, **params)
