"""A system whose logins go one at a time."""

import contextlib
import time

from actor import ended
from grantd_testing import BlockingClient, Refused
from machine import SOCKET, USERS
from stage import attempt, hold

SECONDS, TURN_SECONDS = 3.0, 2.0
TRY_SECONDS, HOLD_SECONDS = 0.05, 0.4


def start_and_cancel(tell, account):
    """One login after the other; each is given up for the next one, with nothing between."""
    count, current = 0, None
    with contextlib.closing(BlockingClient(SOCKET)) as client:
        while not ended.is_set():
            if current:
                client.call("login.cancel", login_id=current)
            try:
                current = client.call("login.start", provider="cameras", account=account)["login_id"]
                count += 1
                tell(count)
                ended.wait(HOLD_SECONDS)
            except Refused:
                current = None
                time.sleep(TRY_SECONDS)
    return count


def try_to_start(_, account, seconds):
    """When the login starts, and what is said before."""
    began, said = time.monotonic(), ""
    while time.monotonic() - began < seconds and not ended.is_set():
        answer = attempt("login.start", provider="cameras", account=account)
        if "login_id" in answer:
            return [time.monotonic() - began, said]
        said = answer["message"]
        time.sleep(TRY_SECONDS)
    return [None, said]


def one_at_a_time(stage):
    """One user who starts and cancels does not hold a system whose logins go one at a time; who waits is told who."""
    stage.begin("main")
    attacker = stage.attack(stage.machine.user("signer"), start_and_cancel, "theirs")
    attacker.next(10)
    took, said = stage.once(stage.machine.user("owner"), try_to_start, "ours", SECONDS)
    count = attacker.finish()
    names = (str(USERS["signer"]), "hostile-signer")
    return hold([
        (took is not None and took <= TURN_SECONDS,
         f"{count} started by one user: the other's " + (f"starts after {took:.1f} s" if took else "never")),
        (any(name in said for name in names), f"who waits is told: {said or 'nothing'}")])


CASES = {"turns-of-logins": one_at_a_time}
