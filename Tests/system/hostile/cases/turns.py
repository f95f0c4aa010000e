"""A system whose logins go one at a time."""

import time

from actor import READY_SECONDS, ended
from caller import Caller, attempt
from machine import USERS
from measure import TRIES
from stage import hold

SECONDS, TURN_SECONDS = 10.0, 1.0
TRY_SECONDS, HOLD_SECONDS = 0.05, 0.4


def start_and_cancel(tell, account):
    """One login after the other; each is given up for the next one, with nothing between."""
    count, caller, current = 0, Caller(), None
    while not ended.is_set():
        if current:
            caller.attempt("login.cancel", login_id=current)
        current = caller.attempt("login.start", provider="cameras", account=account).get("login_id")
        if current:
            count += 1
            tell(count)
        ended.wait(HOLD_SECONDS if current else TRY_SECONDS)
    return count


def try_to_start(_, account, seconds):
    """When the login starts, which is cancelled then, and what is said before."""
    began, said = time.monotonic(), ""
    while time.monotonic() - began < seconds and not ended.is_set():
        answer = attempt("login.start", provider="cameras", account=account)
        if "login_id" in answer:
            took = time.monotonic() - began
            attempt("login.cancel", login_id=answer["login_id"])
            return [took, said]
        said = answer["message"]
        time.sleep(TRY_SECONDS)
    return [None, said]


def one_at_a_time(stage):
    """One user who starts and cancels does not hold a system whose logins go one at a time; who waits is told who."""
    stage.begin("main")
    attacker = stage.attack(stage.machine.user("signer"), start_and_cancel, "theirs")
    attacker.next(READY_SECONDS)
    took, said = None, ""
    # An attempt may meet a pause of the machine, or the moment between two logins of the other user.
    for number in range(TRIES):
        once, text = stage.once(stage.machine.user("owner"), try_to_start, f"ours{number}", SECONDS)
        said = said or text
        if once is None:
            took = None
            break
        took = once if took is None else min(took, once)
        if took <= TURN_SECONDS and said:
            break
        time.sleep(HOLD_SECONDS)
    count = attacker.finish()
    names = (str(USERS["signer"]), "hostile-signer")
    return hold([
        (took is not None and took <= TURN_SECONDS,
         f"{count} started by one user: the other's " + (f"starts after {took:.1f} s" if took else "never")),
        (any(name in said for name in names), f"who waits is told: {said or 'nothing'}")])


CASES = {"turns-of-logins": one_at_a_time}
