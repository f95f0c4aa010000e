"""Requests that wait at a provider: they count for the user who sent them, until they are over."""

import itertools
import os
import time

import flood
import measure
from actor import READY_SECONDS
from caller import attempt
from grantd_testing import wait_until
from machine import GROWTH_BYTES, MEGABYTE
from stage import ask_apart, best, hold

# On each connection; grantd reads no more of one.
EACH = 64
CONNECTIONS, BIG_CONNECTIONS, GONE_CONNECTIONS = 140, 32, 4
BODY_BYTES = 128 << 10
BODY = "x" * BODY_BYTES
SECONDS, GROWTH_SECONDS, STEADY_SECONDS = 2.0, 4.5, 3.0
# Long enough that a request is under way, on a busy machine too.
BRIEF_SECONDS = 0.5
# Of a provider that answers at once; a second is what a person notices.
PROMPT_SECONDS = 1.0
SMALL = {"account": "mine", "method": "GET", "url": "/hang", "timeout": 60}


def begin(stage):
    stage.begin("main", "second")
    stage.sign_in("main", "mine", "mallory")
    stage.sign_in("main", "shared", "ada")
    stage.sign_in("second", "elsewhere", "ada")


def send(stage, connections, params, each=EACH):
    actor = stage.attack(stage.machine.user("owner"), flood.requests, connections, each, "request.send", params)
    actor.next(READY_SECONDS)
    return actor


def ask_twice(_, account):
    """A token from memory and one through the broker."""
    return [attempt("token.get", account=account, **more).get("reason") for more in ({}, {"scopes": measure.ALL})]


def overload(stage):
    """Requests of one user that hang make no other user's `token.get` and refresh overloaded, at any provider."""
    begin(stage)
    victim = stage.act(stage.machine.unit(), measure.sample, "elsewhere")
    victim.next(READY_SECONDS)
    attacker = send(stage, CONNECTIONS, SMALL)
    time.sleep(SECONDS)
    as_root = [attempt("account.refresh", account=name, timeout=20).get("reason", "refreshed")
               for name in ("elsewhere", "shared")]
    counts, figures = attacker.finish(), victim.finish()
    return hold([
        (measure.refused(figures)[0] == 0, f"{CONNECTIONS * EACH} requests hang: the unit: {measure.told(figures)}"),
        (as_root == ["refreshed", "refreshed"], f"root's refreshes: {', '.join(as_root)}"),
        (True, f"uncached p99 {measure.milliseconds(figures['uncached']['p99'])}"),
        (True, f"attacker told: {measure.sum_of([counts])}")])


def memory(stage):
    """Bodies of requests that hang count until these are over: the broker does not grow by them."""
    begin(stage)
    idle = stage.machine.resident()
    attacker = send(stage, BIG_CONNECTIONS, SMALL | {"method": "POST", "body": BODY})
    growth = stage.machine.growth(idle, GROWTH_SECONDS)
    counts = attacker.finish()
    return hold([
        (growth <= GROWTH_BYTES, f"{BIG_CONNECTIONS * EACH} bodies of 128 KiB: {growth // MEGABYTE} MB above idle"),
        (True, f"attacker told: {measure.sum_of([counts])}")])


def abandoned(stage):
    """Requests whose callers were told `timed_out` still count for their user while they are not over."""
    begin(stage)
    idle = stage.machine.resident()
    params = SMALL | {"method": "POST", "body": BODY[:BODY_BYTES // 4], "timeout": BRIEF_SECONDS}
    attacker = send(stage, BIG_CONNECTIONS, params, each=2 * EACH)
    growth = stage.machine.growth(idle, GROWTH_SECONDS)
    victim = stage.once(stage.machine.unit(), ask_twice, "elsewhere")
    counts = attacker.finish()
    return hold([
        (growth <= GROWTH_BYTES,
         f"{2 * BIG_CONNECTIONS * EACH} that wait half a second: {growth // MEGABYTE} MB above idle"),
        (victim == [None, None], f"the unit's token.get: {served(victim)}"),
        (True, f"attacker told: {measure.sum_of([counts])}")])


def served(reasons):
    return ", ".join(reason or "served" for reason in reasons)


def places(stage):
    """Requests of one user that hang leave others places at the same provider: a request, a refresh, a login."""
    begin(stage)
    attacker = send(stage, 1, SMALL)
    wait_until(lambda: stage.provider.counts("main")["calls"] > 0, 60, "requests hang")
    rounds = itertools.count()
    conditions = best(lambda: others(stage, next(rounds)))
    attacker.finish()
    return hold(conditions)


def others(stage, number):
    """A request, a refresh and a login of others, while requests hang: the conditions, and those on speed."""
    began = time.monotonic()
    params = SMALL | {"account": "shared", "url": "/echo", "timeout": 20}
    request = stage.once(stage.machine.unit(), ask_apart, "request.send", params)
    took = time.monotonic() - began
    refresh = attempt("account.refresh", account="shared", timeout=20).get("reason", "refreshed")
    began = time.monotonic()
    stage.sign_in("main", f"new{number}", "ada")
    login = time.monotonic() - began
    calls = stage.provider.counts("main")["calls"]
    return [
        ("status" in request, f"{calls} hang: the unit's request {request.get('reason', 'served')}"),
        (refresh == "refreshed", f"a refresh: {refresh}"),
    ], [
        (took <= PROMPT_SECONDS, f"the request took {took:.1f} s"),
        (login <= 2 * PROMPT_SECONDS, f"a login took {login:.1f} s")]


def steady(count):
    """The count when it has not changed for some seconds."""
    found, since = count(), time.monotonic()
    while time.monotonic() - since < STEADY_SECONDS:
        time.sleep(0.1)
        if (now := count()) != found:
            found, since = now, time.monotonic()
    return found


def descriptors(stage):
    return len(os.listdir(f"/proc/{stage.machine.pid()}/fd"))


def gone(stage):
    """What a caller that has gone asked for, and was not sent yet, is not sent."""
    begin(stage)
    attacker = send(stage, GONE_CONNECTIONS, SMALL)
    wait_until(lambda: stage.provider.counts("main")["calls"] > 0, 60, "requests hang")
    sent = steady(lambda: stage.provider.counts("main")["all_calls"])
    open_ones = descriptors(stage)
    attacker.finish()
    wait_until(lambda: descriptors(stage) <= open_ones - GONE_CONNECTIONS, 60, "the broker closed the connections")
    time.sleep(0.5)
    stage.provider.do("main", "release")
    time.sleep(1)
    more = stage.provider.counts("main")["all_calls"] - sent
    return hold([(more <= 2, f"{sent} of {GONE_CONNECTIONS * EACH} sent; {more} more after the caller had gone")])


CASES = {
    "waits-overload": overload, "waits-memory": memory, "waits-abandoned": abandoned, "waits-places": places,
    "waits-gone": gone}
