"""Killed brokers, a database that restarts, is away, or is an older copy."""

import random
import time

from cases.input import fill_disk
from cases.leases import HELD, under_way
from grantd_testing import Gone, Refused
from machines import eventually
from proxy import Proxy

KILLS = 25
ACCOUNTS = ("a", "b", "c", "d")
# The request of a killed broker may reach the provider so much later.
LATE_SECONDS = 5


def own_node(machine):
    return next((one["node"] for one in machine.status()["sharing"]["machines"] if one["state"] == "self"), None)


def kills(world):
    """Brokers are killed while tokens are renewed: a grant ends only if a killed run alone had the answer."""
    randomness = random.Random(53)
    machines = [world.machine(name) for name in ("one", "two", "three")]
    for account in ACCOUNTS:
        machines[0].adopt(account)
    world.provider.lifetime(1)
    world.provider.delay(0.02)
    for account in ACCOUNTS:
        machines[1].attempt("token.report_rejected", account=account, generation=1, timeout=2)
    nodes = {machine: eventually("it has its node", lambda: own_node(machine)) for machine in machines}
    # Each with its moment and the accounts of its leases.
    killed = []
    for _ in range(KILLS):
        end = time.monotonic() + randomness.uniform(0.05, 0.4)
        while time.monotonic() < end:
            try:
                machine = randomness.choice(machines)
                machine.call("token.get", 5, account=randomness.choice(ACCOUNTS), timeout=0.3)
            except (Refused, Gone, OSError):
                pass
        victim = randomness.choice(machines)
        victim.process.kill()
        victim.process.wait(60)
        held = world.sql(f"SELECT account FROM grantd.refresh WHERE node = '{nodes[victim]}'")
        killed.append((time.time(), [account for account, in held]))
        victim.launch_and_wait()
    world.provider.lifetime(3600)
    ledger = world.provider.ledger
    for account in ACCOUNTS:
        if account in ledger["revoked"]:
            issued = ledger["issues"][account]
            # An answer that is saved ends its lease.
            assert any(account in held and moment >= issued - LATE_SECONDS for moment, held in killed), (
                account, issued, killed, ledger)
            continue
        newest = f"{account}-a"
        tokens = [eventually(f"{account} is served", lambda: machine.get(account)) for machine in machines]
        assert all(token.startswith(newest) for token in tokens)
    ledger = world.provider.ledger
    for account in set(ACCOUNTS) - set(ledger["revoked"]):
        current = f"{account}-a{ledger['current'][account]}"
        for machine in machines:
            eventually(f"{current} is everywhere", lambda: machine.get(account) == current)
    assert sum(ledger["current"].values()) > len(ACCOUNTS) * 5, ledger


def restart(world):
    """The database restarts at once, also during a refresh: writes resume, and nothing is lost."""
    one, two = world.machine("one"), world.machine("two")
    one.adopt("a")
    eventually("the account is known", lambda: two.get("a") == "a-a2")
    for mode in ("immediate", "fast"):
        before = world.provider.refreshes()
        world.provider.delay(HELD)
        one.attempt("token.report_rejected", account="a", generation=before, timeout=0.8)
        eventually("the request is sent", lambda: world.provider.refreshes() == before + 1)
        world.cluster.stop(mode)
        world.provider.release()
        world.cluster.start()
        token = f"a-a{before + 2}"
        for machine in (one, two):
            eventually(f"{token} is served after {mode}", lambda: machine.get("a") == token)
    assert not world.provider.ledger["revoked"]
    for machine in (one, two):
        assert not machine.lines("node id"), machine.lines("node id")


def away(world):
    """While the database is away tokens in memory are served, and no refresh is sent."""
    one = world.machine("one")
    one.adopt("a")
    world.cluster.stop("immediate")
    try:
        assert one.get("a") == "a-a2"
        one.attempt("token.report_rejected", account="a", generation=1, timeout=0.3)
        eventually("the failure is reported", lambda: one.status()["store"]["state"] == "failing")
        store = one.status()["store"]
        assert "cannot be reached" in store["message"] and "Start the database" in store["hint"], store
        time.sleep(1)
        assert world.provider.refreshes() == 1
    finally:
        world.cluster.start()
    eventually("a new token is served", lambda: one.get("a") == "a-a3")
    eventually("the store works", lambda: one.status()["store"]["state"] == "ok")


def old_copy(world):
    """An old dump is restored next to brokers that run: no spent token is sent."""
    one, two = world.machine("one"), world.machine("two")
    one.adopt("a")
    eventually("the account is known", lambda: two.get("a") == "a-a2")
    world.sql("CREATE SCHEMA copy; CREATE TABLE copy.grants AS TABLE grantd.grants;"
              "CREATE TABLE copy.tokens AS TABLE grantd.tokens")
    one.call("token.report_rejected", account="a", generation=1)
    for machine in (one, two):
        eventually("the new token is everywhere", lambda: machine.get("a") == "a-a3")
    world.sql("BEGIN; DELETE FROM grantd.tokens; DELETE FROM grantd.grants;"
              "INSERT INTO grantd.grants TABLE copy.grants; INSERT INTO grantd.tokens TABLE copy.tokens; COMMIT")

    def newest():
        # While a machine has the copy's token, this report is about a token that it does not know.
        two.attempt("token.report_rejected", account="a", generation=2, timeout=2)
        return two.get("a") == "a-a4"
    eventually("the newest token is served", newest)
    eventually("it is served everywhere", lambda: one.get("a") == "a-a4")
    ledger = world.provider.ledger
    assert not ledger["revoked"] and not ledger["reused"], ledger


def killed_sessions(world):
    """The server ends all sessions: the brokers connect again, and hear of changes."""
    one, two = world.machine("one"), world.machine("two")
    one.adopt("a")
    eventually("the account is known", lambda: two.get("a") == "a-a2")
    world.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'grantd'")
    one.call("token.report_rejected", account="a", generation=1)
    eventually("the new token is heard of", lambda: two.get("a") == "a-a3")


def take_lock(world):
    """A session that has the machine's lock, and keeps it; the machine's own ended."""
    session = world.cluster.session(world.database)
    session.stdin.write("SELECT pg_advisory_lock(x'67726e74'::int, hashtext((SELECT id FROM grantd.node)));\n")
    session.stdin.flush()
    eventually("the session waits", lambda: world.value("SELECT count(*) FROM pg_locks WHERE NOT granted") == "1")
    assert has_lock(world, "grantd")
    world.sql("SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database d ON d.oid = database "
              "WHERE datname = current_database() AND locktype = 'advisory' AND granted")
    eventually("it has the lock", lambda: has_lock(world, "psql"))
    return session


def has_lock(world, program):
    return world.value(
        "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND granted "
        f"AND datname = current_database() AND application_name = '{program}'") == "1"


def kept_lock(world):
    """The server takes an earlier session of the machine for a living one, which has the node's lock: writes resume after a
    failure, and the lock is taken as soon as it is free."""
    one = world.machine("one")
    one.adopt("a")
    old = take_lock(world)
    fill_disk(world)
    one.attempt("token.report_rejected", account="a", generation=1, timeout=1)
    eventually("the failure is reported", lambda: one.status()["store"]["state"] != "ok")
    world.sql("DROP TRIGGER full_disk ON grantd.refresh")
    eventually("a new token", lambda: one.get("a") == "a-a3")
    assert not one.lines("node id"), one.lines("node id")
    old.kill()
    eventually("the machine has the lock", lambda: has_lock(world, "grantd"), 20)


def other_run(world):
    """Another process registered the node, and has its lock: writes are refused, and the reason is named."""
    one = world.machine("one")
    one.adopt("a")
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'grantd'"
    before = world.value(sessions)
    old = take_lock(world)
    eventually("it has connected again, without the lock", lambda: world.value(sessions) == before)
    world.sql("UPDATE grantd.node SET run = 'other', seen_at = clock_timestamp() + interval '1 hour';"
              "UPDATE grantd.writer SET last = 'other'")
    one.attempt("token.report_rejected", account="a", generation=1, timeout=1)
    store = eventually("it is reported", lambda: "node id" in one.status()["store"].get("message", "") and one.status()["store"])
    assert "Stop the other grantd" in store["hint"], store
    assert world.provider.refreshes() == 1
    world.sql("UPDATE grantd.node SET seen_at = clock_timestamp() - interval '1 min'")
    eventually("a new token", lambda: one.get("a") == "a-a3")
    old.kill()


def lost_answers(world):
    """The answer to a COMMIT is lost, at each step of a refresh: the broker finds out whether it was done."""
    proxy = Proxy(world.case / "proxy", world.cluster.folder)
    try:
        one = world.machine("one", connection=f"host={proxy.folder} user=grantd dbname={world.database}")
        two = world.machine("two")
        # Each account is reported once: reports have a budget.
        for account, after in zip(("a", "b", "c", "d", "e"), (0, 1, 2, 0, 1)):
            one.adopt(account)
            proxy.lose_answer(after)
            one.attempt("token.report_rejected", account=account, generation=1, timeout=4)
            for machine in (one, two):
                eventually("the new token is everywhere", lambda: machine.get(account) == f"{account}-a3")
        assert proxy.lost >= 3, proxy.lost
        ledger = world.provider.ledger
        assert not ledger["revoked"] and ledger["refreshes"] == 10, ledger
    finally:
        proxy.close()


def unknown_commit(world):
    """The answer to a COMMIT is lost, and the database away: later the broker finds the commit by its id."""
    proxy = Proxy(world.case / "proxy", world.cluster.folder)
    try:
        one = world.machine("one", connection=f"host={proxy.folder} user=grantd dbname={world.database}")
        two = world.machine("two")
        one.adopt("a")
        under_way(world, one)
        proxy.goes_away = True
        proxy.lose_answer()
        world.provider.release()
        eventually("the answer is lost", lambda: proxy.lost == 1)
        assert world.value("SELECT generation FROM grantd.grants") == "2", "the lost commit was not the refresh's"
        revision = world.value("SELECT encode(revision, 'hex') FROM grantd.grants")
        world.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'grantd'")
        time.sleep(1)
        proxy.is_away = False
        for machine in (one, two):
            eventually("the new token is everywhere", lambda: machine.get("a") == "a-a3")
        assert world.value("SELECT encode(revision, 'hex') FROM grantd.grants") == revision, "it was written again"
        ledger = world.provider.ledger
        assert not ledger["revoked"] and ledger["refreshes"] == 2, ledger
    finally:
        proxy.close()


def unknown_in_copy(world):
    """The answer to a COMMIT is lost, and the database that comes back is another copy: it is compared."""
    proxy = Proxy(world.case / "proxy", world.cluster.folder)
    try:
        one = world.machine("one", connection=f"host={proxy.folder} user=grantd dbname={world.database}")
        one.adopt("a")
        under_way(world, one)
        proxy.at_loss = lambda: world.sql("UPDATE grantd.writer SET last = 'other'")
        proxy.lose_answer()
        world.provider.release()
        eventually("the answer is lost", lambda: proxy.lost == 1)
        eventually("the other copy is noticed", lambda: "latest write is missing" in one.log_text())
        eventually("the new token is served", lambda: one.get("a") == "a-a3")
        ledger = world.provider.ledger
        assert not ledger["revoked"] and not ledger["reused"], ledger
    finally:
        proxy.close()


CASES = {
    "kills": kills, "restart": restart, "away": away, "old-copy": old_copy, "killed-sessions": killed_sessions,
    "kept-lock": kept_lock, "other-run": other_run, "lost-answers": lost_answers, "unknown-commit": unknown_commit,
    "unknown-in-copy": unknown_in_copy}
