"""Lines that are large and parse as nothing, from users without a rule: memory, and the time of all others."""

import time

import flood
import measure
from actor import READY_SECONDS, Who
from machine import GROWTH_BYTES, MEGABYTE, USERS, grantctl
from measure import CACHED_SECONDS, UNCACHED_SECONDS
from stage import best, hold

LINE_BYTES = 256 << 10
CONNECTIONS, FEW_CONNECTIONS = 256, 64
# As fast as they are taken.
TINY_CONNECTIONS, TINY_LINES, TINY_BYTES, TINY_PAUSE = 32, 1000, 16, 0.01
FIRST_UID, ATTACKERS = 62001, 8
SECONDS, ROOT_SECONDS, NAMED_SECONDS = 2.5, 10.0, 30.0
# What of that may be left some time after the attackers have gone.
REST_SECONDS, REST_BYTES = 30.0, 100 * MEGABYTE


def attack(stage, who, connections=FEW_CONNECTIONS, each=4, size=LINE_BYTES, pause=0.0):
    return stage.attack(who, flood.lines, connections, each, "1", size, pause)


def under(stage, attackers):
    """Growth, and what the owner meets, while those attack; then what is left when they have gone."""
    stage.begin("main")
    stage.sign_in("main", "shared")
    return hold(best(lambda: attacked(stage, attackers)))


def attacked(stage, attackers):
    """The conditions, and those on speed."""
    idle = stage.machine.resident()
    victim = stage.act(stage.machine.user("owner"), measure.sample, "shared")
    victim.next(READY_SECONDS)
    attacking = [attack(stage, *one) for one in attackers]
    growth = stage.machine.growth(idle, SECONDS)
    is_in = measure.answered_after("broker.status", ROOT_SECONDS)
    told = [one.finish() for one in attacking]
    figures = victim.finish()
    rest = rest_of_growth(stage, idle)
    return [
        (growth <= GROWTH_BYTES, f"{growth // MEGABYTE} MB above idle"),
        (rest <= REST_BYTES, f"{rest // MEGABYTE} MB {REST_SECONDS:g} s after"),
        (measure.refused(figures)[0] == 0, f"the owner: {measure.told(figures)}"),
        (True, f"attackers told {measure.sum_of(told)}"),
    ], [
        (figures["uncached"]["p99"] <= UNCACHED_SECONDS,
         f"uncached p99 {measure.milliseconds(figures['uncached']['p99'])}"),
        (figures["cached"]["p99"] <= CACHED_SECONDS, f"cached p99 {measure.milliseconds(figures['cached']['p99'])}"),
        (is_in <= UNCACHED_SECONDS, f"root got in after {measure.milliseconds(is_in)}")]


def rest_of_growth(stage, idle):
    end = time.monotonic() + REST_SECONDS
    while (rest := stage.machine.resident() - idle) > REST_BYTES and time.monotonic() < end:
        time.sleep(0.2)
    return rest


def one(stage):
    """One user without a rule sends lines of 256 KiB on many connections."""
    return under(stage, [(stage.machine.user("ruleless"), CONNECTIONS if stage.is_long else FEW_CONNECTIONS)])


def eight(stage):
    """Eight such users."""
    return under(stage, [(Who(FIRST_UID + number), FEW_CONNECTIONS // 4) for number in range(ATTACKERS)])


def tiny(stage):
    """One user without a rule sends tiny lines that are no request, without a pause."""
    return under(stage, [(stage.machine.user("ruleless"), TINY_CONNECTIONS, TINY_LINES, TINY_BYTES, TINY_PAUSE)])


def told(stage):
    """Who is held back is told so and stands in `status`; the unit has a `MemoryHigh=`."""
    stage.begin("main")
    attacker = attack(stage, stage.machine.user("ruleless"))
    time.sleep(SECONDS / 2)
    names, end = (str(USERS["ruleless"]), "hostile-ruleless"), time.monotonic() + NAMED_SECONDS
    while not any(name in (text := grantctl("status").stdout) for name in names) and time.monotonic() < end:
        time.sleep(0.2)
    counts = attacker.finish()
    high = stage.machine.shows("MemoryHigh")
    reasons = {"overloaded", "rate_limited"} & set(counts)
    return hold([
        (bool(reasons), f"the attacker is told: {measure.sum_of([counts])}"),
        (any(name in text for name in names), "status names who is held back"
         if any(name in text for name in names) else "status does not name who is held back"),
        (high.isdigit(), f"MemoryHigh is {high}")])


CASES = {"memory-one": one, "memory-eight": eight, "memory-tiny": tiny, "memory-told": told}
