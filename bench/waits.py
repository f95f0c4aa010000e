"""How long others wait while the broker does something: two clients that ask 1,000 times a second each, meanwhile."""

import base64
import json
import os
import signal
import statistics
import subprocess
import time

from grantd_testing import Program

ROUNDS = 5
# No noise of the machine is that long: one round is enough.
HOPELESS_MS = 1_000
RELOAD_SECONDS = 60
# Larger ones are refused (256 MiB).
MOST_BACKED_UP = 100_000
METHODS = ("account.list", "broker.status", "broker.metrics")


def result(process):
    """What udsbench found. A request that failed ends the run."""
    found = json.loads(process.communicate()[0])
    if found["errors"] or found["io_errors"] or found["connect_errors"]:
        raise RuntimeError(f"requests failed: {found}")
    return found


def longest(udsbench, state, action, uncached):
    """How long others wait at most while this is done, and how long it takes, both in ms: the medians of some rounds, since
    what the machine does beside it is not in each of them. One asks for a cached token, one calls the method `uncached`."""
    rounds = []
    for _ in range(ROUNDS):
        methods = ["token.get", uncached] if state.accounts else [uncached]
        askers = [ask(udsbench, state, method) for method in methods]
        try:
            # Until they have begun to measure.
            time.sleep(0.3)
            begun = time.monotonic()
            action()
            took = (time.monotonic() - begun) * 1000
            time.sleep(0.1)
        finally:
            for asker in askers:
                asker.send_signal(signal.SIGTERM)
        found = [result(asker) for asker in askers]
        rounds.append([took, *(max(one["max_us"], one["oldest_unanswered_us"]) / 1000 for one in found)])
        if max(rounds[-1][1:]) > HOPELESS_MS:
            break
    took, *waits = [statistics.median(column) for column in zip(*rounds)]
    return max(waits), took


def ask(udsbench, state, method):
    params = "{}" if method == "broker.status" else '{"account":"user0000001"}'
    return Program(
        [udsbench, "--socket", state.broker.socket, "--connections", "4", "--depth", "16", "--rate", "1000",
         "--duration", "600", "--warmup", "0.1", "--request",
         f'{{"jsonrpc":"2.0","id":{{{{id}}}},"method":"{method}","params":{params}}}'], stdout=subprocess.PIPE, text=True)


def actions(state):
    """What may keep others waiting."""
    found = {"nothing": nothing}
    for method in METHODS:
        found[method] = lambda method=method: call(state, method)
    found["SIGHUP"] = lambda: reload(state)
    if state.accounts <= MOST_BACKED_UP:
        found["store.backup"] = lambda: backup(state)
    return found


def nothing():
    time.sleep(0.3)


def call(state, method):
    client = state.client()
    try:
        client.send(method)
        line = client.line()
        if b'"error"' in line[:200]:
            raise RuntimeError(f"{method}: {line[:300]!r}")
    except TimeoutError:
        print(f"{method} has no answer yet", flush=True)
    finally:
        client.close()


def backup(state):
    """Made, and fetched to its end."""
    client = state.client(seconds=120)
    try:
        made, offset = client.call("store.backup", passphrase="correct horse battery staple"), 0
        while offset < made["size"]:
            offset += len(base64.b64decode(client.call("store.backup_part", backup_id=made["backup_id"], offset=offset)["data"]))
    finally:
        client.close()


def reload(state):
    """SIGHUP; the log tells its end."""
    begun, text = time.monotonic(), b""
    with open(state.broker.log, "rb") as log:
        log.seek(0, os.SEEK_END)
        state.broker.process.send_signal(signal.SIGHUP)
        while b"reloaded the configuration" not in text:
            if time.monotonic() - begun > RELOAD_SECONDS:
                raise RuntimeError(f"SIGHUP did nothing: {text[-1000:]!r}")
            time.sleep(0.005)
            text += log.read()
