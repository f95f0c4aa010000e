"""A synchronous standby that stops, and a restored dump."""

import os
import signal
import time

from cases.leases import generation
from machines import eventually
from standby import Pair


def standby_stops(world):
    """The standby stops during the COMMIT of a lease: nothing is sent, also if the wait for it is cancelled."""
    pair = Pair(world.case / "pair")
    try:
        machines = [
            world.machine(name, connection=f"host={pair.primary.folder} user=grantd dbname=grantd") for name in ("one", "two")]
        one, two = machines
        one.adopt("a")
        eventually("the account is known", lambda: two.get("a") == "a-a2")
        receiver = int(pair.standby.sql("SELECT pid FROM pg_stat_wal_receiver")[0][0])
        os.kill(receiver, signal.SIGSTOP)
        try:
            for machine in machines:
                machine.attempt("token.report_rejected", account="a", generation=1, timeout=1)
            cancelled, end = 0, time.monotonic() + 15
            while time.monotonic() < end:
                cancelled += len(pair.sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"))
                assert world.provider.refreshes() == 1, "a refresh token was sent under a lease that the standby does not have"
                time.sleep(1)
            assert cancelled, "no COMMIT waited for the standby"
            eventually("the store's state is not ok", lambda: one.status()["store"]["state"] != "ok")
        finally:
            os.kill(receiver, signal.SIGCONT)
        for machine in machines:
            eventually("a new token is everywhere", lambda: machine.get("a") == "a-a3")
        ledger = world.provider.ledger
        assert ledger["refreshes"] == 2 and not ledger["reused"], ledger
    finally:
        pair.close()


def old_dump(world):
    """An old dump is restored with pg_restore while the brokers run: no spent token is sent."""
    one, two = world.machine("one"), world.machine("two")
    for account in ("a", "b"):
        one.adopt(account)
        eventually("the account is known", lambda: two.get(account) == f"{account}-a2")
    server, file = world.cluster, world.cluster.folder / "dump"
    place = ("-h", server.folder, "-U", "grantd")
    # The dump has leases that are given back later.
    world.sql("UPDATE grantd.refresh SET node = id, run = node.run, until = clock_timestamp() + interval '1 min' "
              "FROM grantd.node WHERE id = (SELECT id FROM grantd.node ORDER BY started_at LIMIT 1)")
    server.command("pg_dump", *place, "-Fc", "-f", file, world.database)
    world.sql("UPDATE grantd.refresh SET node = NULL, run = NULL, until = NULL")
    one.adopt("later")
    eventually("the later account is known", lambda: two.get("later") == "later-a2")
    for account in ("a", "b"):
        one.call("token.report_rejected", account=account, generation=1)
        for machine in (one, two):
            eventually("the new token is everywhere", lambda: machine.get(account) == f"{account}-a3")
    server.command("pg_restore", *place, "--clean", "--if-exists", "--single-transaction", "-d", world.database, file)
    for account, machine in (("b", one), ("a", two)):
        # The first write after the restore is refused.
        eventually("the report is accepted", lambda: report(machine, account))
    for account in ("a", "b"):
        eventually("the newest token is served", lambda: is_renewed(world, account))
    # The dump lacks this account: the machines that have it write it back.
    stored = "SELECT count(*) FROM grantd.grants WHERE account = 'later'"
    eventually("the later account is stored", lambda: world.value(stored) == "1")
    one.call("token.report_rejected", account="later", generation=1)
    for machine in (one, two):
        eventually("a new token of the later account is everywhere", lambda: machine.get("later") == "later-a3")
    ledger = world.provider.ledger
    assert not ledger["revoked"] and not ledger["reused"], ledger
    assert generation(world) >= 3, generation(world)


def is_renewed(world, account):
    """All machines have the newest token, which is newer than the dump's successor."""
    tokens = {machine.get(account) for machine in world.machines}
    if tokens == {f"{account}-a3"}:
        # The report came as memory and the dump were compared.
        world.machines[0].attempt("account.refresh", account=account)
    return tokens == {f"{account}-a{world.provider.ledger['current'][account]}"} and tokens != {f"{account}-a3"}


def report(machine, account):
    machine.call("token.report_rejected", account=account, generation=2, timeout=2)
    return True


CASES = {"standby-stops": standby_stops, "old-dump": old_dump}
