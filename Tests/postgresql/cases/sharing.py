"""Several machines use one account."""

import concurrent.futures
import signal
import time

from machines import eventually

CALLERS = 200
# For brokers that have connected again to read the log.
READ_SECONDS = 1
SESSIONS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'grantd'"


def seen_everywhere(world):
    """A new account and a renewed token are at all machines at once, without another request."""
    one, two, three = (world.machine(name) for name in ("one", "two", "three"))
    one.adopt("a")
    token = one.get("a")
    assert token == "a-a2", token
    for other in (two, three):
        assert eventually("the account is known", lambda: other.get("a")) == token
    generation = int(world.value("SELECT generation FROM grantd.grants"))
    two.call("token.report_rejected", account="a", generation=generation)
    for machine in (one, two, three):
        eventually("the new token is known", lambda: machine.get("a") == "a-a3")
    assert world.provider.refreshes() == 2, world.provider.ledger
    three.call("account.logout", account="a")
    for machine in (one, two):
        eventually("the account ended", lambda: machine.refused("token.get", account="a") == "unknown_account")


def one_refresh(world):
    """Callers at each of three machines report the same token: one refresh."""
    machines = [world.machine(name) for name in ("one", "two", "three")]
    machines[0].adopt("a")
    for machine in machines:
        eventually("the account is known", lambda: machine.get("a") == "a-a2")
    world.provider.delay(0.3)
    generation = int(world.value("SELECT generation FROM grantd.grants"))

    def call(machine):
        machine.call("token.report_rejected", account="a", generation=generation)
        return machine.get("a")

    with concurrent.futures.ThreadPoolExecutor(3 * CALLERS) as pool:
        tokens = list(pool.map(call, [machine for machine in machines for _ in range(CALLERS)]))
    assert set(tokens) == {"a-a3"}, set(tokens)
    ledger = world.provider.ledger
    assert ledger["refreshes"] == 2 and not ledger["revoked"], ledger


def own_data(world):
    """Declared accounts and small values stay at the machine; a restart keeps all."""
    secret = world.case / "secret"
    secret.write_text("secret")
    secret.chmod(0o600)
    section = (
        world.provider.sections("robots") + f'client_secret_file = "{secret}"\n'
        '[account.robot]\nprovider = "robots"\ngrant = "client_credentials"\n')
    one = world.machine("one", sections=section)
    two = world.machine("two")
    one.adopt("a")
    robot = one.get("robot")
    assert two.refused("token.get", account="robot") == "unknown_account"
    assert world.value("SELECT count(*) FROM grantd.grants") == "1"
    node = world.value("SELECT id FROM grantd.node WHERE ended_at IS NULL ORDER BY started_at LIMIT 1")
    assert one.end(signal.SIGTERM) == 0
    assert world.value(f"SELECT ended_at IS NOT NULL FROM grantd.node WHERE id = '{node}'") == "t"
    one.launch_and_wait()
    assert one.get("robot") == robot and one.get("a") == "a-a2"
    assert world.value(f"SELECT ended_at IS NULL FROM grantd.node WHERE id = '{node}'") == "t"
    assert world.value("SELECT count(*) FROM grantd.node") == "2"


def moves_in(world):
    """The accounts of a machine that used SQLite move to the database."""
    one = world.machine("one", start=False)
    text = one.config.read_text()
    one.config.write_text(text.replace('kind = "postgresql"', 'kind = "sqlite"'))
    one.launch_and_wait()
    one.adopt("a")
    assert one.end(signal.SIGTERM) == 0
    one.config.write_text(text)
    one.launch_and_wait()
    assert one.get("a") == "a-a2"
    assert world.value("SELECT account FROM grantd.grants") == "a"
    two = world.machine("two")
    assert two.get("a") == "a-a2" and world.provider.refreshes() == 1


def same_first_start(world):
    """Machines that start at the same time on an empty database create one schema."""
    machines = [world.machine(name, start=False) for name in ("one", "two", "three")]
    for machine in machines:
        machine.launch()
    for machine in machines:
        eventually("it serves", machine.serves)
        machine.ended()
    assert world.value("SELECT count(*) FROM grantd.node WHERE ended_at IS NULL") == "3"


def sessions(world):
    return {pid for pid, in world.sql(SESSIONS)}


def slow_commit(world):
    """A commit that takes longer than a later one is found in the change log, also if its notification is lost."""
    one, two = world.machine("one"), world.machine("two")
    for account in ("a", "b"):
        one.adopt(account)
        eventually("the account is known", lambda: two.get(account) == f"{account}-a2")
    session = world.hold(
        "DELETE FROM grantd.grants WHERE account = 'b'; INSERT INTO grantd.change (xact, kind, name, commit, node) "
        "VALUES (pg_current_xact_id(), 'account', 'b', '12345678', 'other')")
    try:
        one.call("token.report_rejected", account="a", generation=1)
        eventually("the later commit is known", lambda: two.get("a") == "a-a3")
        # The brokers connect again, and read the log.
        for committed in (False, True):
            if committed:
                session.stdin.write("COMMIT; SELECT 'done';\n")
                session.stdin.flush()
                while session.stdout.readline().strip() != "done":
                    pass
            old = sessions(world)
            world.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'grantd'")
            eventually("the brokers connect again", lambda: not sessions(world) & old and len(sessions(world)) >= len(old))
            time.sleep(READ_SECONDS)
        for machine in (one, two):
            eventually("the slow commit is known", lambda: machine.refused("token.get", account="b") == "unknown_account")
    finally:
        session.kill()


CASES = {
    "seen-everywhere": seen_everywhere, "one-refresh": one_refresh, "own-data": own_data, "moves-in": moves_in,
    "same-first-start": same_first_start, "slow-commit": slow_commit}
