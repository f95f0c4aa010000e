"""Waiting for a condition, with a limit."""

import asyncio
import time

from .errors import Wrong

PAUSE_SECONDS = 0.05


async def until(condition, seconds, what, pause=PAUSE_SECONDS):
    """The first true value of `condition`, which may be a coroutine function; Wrong after so many seconds."""
    end = time.monotonic() + seconds
    while True:
        answer = condition()
        if asyncio.iscoroutine(answer):
            answer = await answer
        if answer:
            return answer
        if time.monotonic() > end:
            raise Wrong(f"not within {seconds:g} s: {what}")
        await asyncio.sleep(pause)


def wait_until(condition, seconds, what, pause=PAUSE_SECONDS):
    """The same without an event loop."""
    end = time.monotonic() + seconds
    while not (answer := condition()):
        if time.monotonic() > end:
            raise Wrong(f"not within {seconds:g} s: {what}")
        time.sleep(pause)
    return answer
