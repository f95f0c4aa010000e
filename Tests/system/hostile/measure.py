"""What a victim meets: how many of its requests are served, how long they take."""

import collections
import contextlib
import time

from actor import ended
from caller import PATIENCE, Caller, connect

# The bounds of others' 99th percentile. Bench has tighter ones: here the attackers share two cores with the victims.
CACHED_SECONDS, UNCACHED_SECONDS = 0.1, 0.25
# Of a measurement of the speed of others, whose requests may have met a pause of the machine.
TRIES = 3
# What all accounts are granted.
ALL = ["openid", "email", "offline_access"]


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else 0.0


def summary(times, refusals):
    return {
        "served": len(times), "refused": dict(refusals), "median": percentile(times, 0.5),
        "p99": percentile(times, 0.99), "longest": max(times, default=0.0)}


def sample(tell, account, pause=0.02):
    """Asks for a token every `pause` seconds until it is ended, by turns from memory and through the broker.

    Each kind on a connection of its own, as a program that has one.
    """
    kinds = {"cached": {"account": account}, "uncached": {"account": account, "scopes": ALL, "min_ttl": 0.5}}
    times, refusals = {kind: [] for kind in kinds}, {kind: collections.Counter() for kind in kinds}
    callers = {kind: Caller() for kind in kinds}
    tell("ready")
    while not ended.is_set():
        for kind, params in kinds.items():
            began = time.monotonic()
            answer = callers[kind].attempt("token.get", **params)
            if "access_token" in answer:
                times[kind].append(time.monotonic() - began)
            else:
                refusals[kind][answer["reason"]] += 1
        ended.wait(pause)
    return {kind: summary(times[kind], refusals[kind]) for kind in kinds}


def answered_after(method, seconds=PATIENCE, bound=UNCACHED_SECONDS):
    """How long root waits for an answer, at best of some that take longer than `bound`; `seconds` where there is none."""
    took = seconds
    for _ in range(TRIES):
        took = min(took, answered_once(method, seconds))
        if took <= bound:
            break
    return took


def answered_once(method, seconds):
    began = time.monotonic()
    with contextlib.suppress(OSError), contextlib.closing(connect(seconds)) as client:
        client.call(method)
        return time.monotonic() - began
    return seconds


def refused(figures):
    """How many of both kinds were refused, and the reasons."""
    counts = collections.Counter()
    for kind in ("cached", "uncached"):
        counts.update(figures[kind]["refused"])
    return sum(counts.values()), ", ".join(f"{count} {reason}" for reason, count in counts.most_common())


def told(figures):
    """Served and refused in words."""
    served = figures["cached"]["served"] + figures["uncached"]["served"]
    count, reasons = refused(figures)
    return f"{served} of {served + count} served" + (f" ({reasons})" if count else "")


def milliseconds(seconds):
    return f"{seconds * 1000:.1f} ms"


def sum_of(counts):
    """What several attackers were told, in words."""
    total = collections.Counter()
    for one in counts:
        total.update(one)
    return ", ".join(f"{count} {what}" for what, count in total.most_common()) or "nothing"
