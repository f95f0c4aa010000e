"""What an administrator can do wrong: refused or reported with the next step; nothing is overwritten."""

import pathlib
import shutil

from cluster import Cluster
from grantd_testing import free_ports
from machines import eventually, new_key
from proxy import Proxy


def refusal(world, name, **options):
    """The error of a grantd that does not start."""
    machine = world.machine(name, start=False, **options)
    machine.launch()
    status = machine.process.wait(60)
    assert status not in (0, None), status
    return machine.log_text()


def expect(text, *parts):
    for part in parts:
        assert part in text, f"no {part!r} in {text[-600:]}"


def connections(world):
    """Connection strings that cannot be used."""
    expect(refusal(world, "typo", connection="host=x dbnam=y"), "dbnam", "[store]")
    expect(refusal(world, "service", connection="service=nowhere"), "nowhere", "[store]")
    expect(refusal(world, "absent", connection="host=/nonexistent dbname=grantd"), "cannot be reached", "Start the database")
    expect(refusal(world, "weak", connection="host=db.invalid dbname=grantd sslmode=require"), "verify-full")
    expect(refusal(world, "name", connection="host=db.invalid dbname=grantd"), "cannot be reached")
    expect(refusal(world, "database", connection=f"host={world.cluster.folder} user=grantd dbname=missing"),
           "does not exist", "Correct the role")
    text = refusal(world, "password", connection="host=/tmp password=hunter2")
    expect(text, "must not contain a password", "password_file")
    assert "hunter2" not in text


def rights(world):
    """A role without rights."""
    world.sql("DROP ROLE IF EXISTS weak; CREATE ROLE weak LOGIN")
    text = refusal(world, "weak", connection=f"host={world.cluster.folder} user=weak dbname={world.database}")
    expect(text, "permission denied", "it must own the database")
    assert world.value("SELECT count(*) FROM pg_namespace WHERE nspname = 'grantd'") == "0"


def another_key(world):
    """A machine with another key writes nothing; the others go on."""
    one = world.machine("one")
    one.adopt("a")
    text = refusal(world, "two", key=new_key(world.case / "other"))
    expect(text, "sealed under another key", "key of the others")
    assert world.value("SELECT count(*) FROM grantd.node") == "1"
    one.call("token.report_rejected", account="a", generation=1)
    assert one.get("a") == "a-a3"


def schemas(world):
    """A schema of another program, and of a newer version."""
    world.sql("CREATE SCHEMA grantd; CREATE TABLE grantd.users (id int)")
    expect(refusal(world, "foreign"), "a schema that is not grantd's", "nothing was changed")
    assert world.value("SELECT count(*) FROM pg_tables WHERE schemaname = 'grantd'") == "1"
    world.sql("DROP SCHEMA grantd CASCADE")
    one = world.machine("one")
    one.adopt("a")
    # As the first version left it.
    world.sql("DROP INDEX grantd.change_by_commit; UPDATE grantd.meta SET value = '1' WHERE name = 'version';"
              "ALTER TABLE grantd.refresh DROP COLUMN renewed_at, DROP COLUMN first_sent_at, DROP COLUMN before_node, "
              "DROP COLUMN before_run, DROP COLUMN before_until")
    two = world.machine("two")
    assert two.get("a") == "a-a2" and world.value("SELECT count(renewed_at) FROM grantd.refresh") == "0"
    assert world.value("SELECT convert_from(value, 'UTF8') FROM grantd.meta WHERE name = 'version'") == "3"
    two.call("token.report_rejected", account="a", generation=1)
    for machine in (one, two):
        eventually("the new token is everywhere", lambda: machine.get("a") == "a-a3")
    world.sql("UPDATE grantd.meta SET value = '99' WHERE name = 'version'")
    expect(refusal(world, "newer"), "a newer grantd (schema 99", "Install the newer grantd")
    assert one.get("a") == "a-a3"


def read_only(world):
    """A server or database that takes no writes."""
    one = world.machine("one")
    one.adopt("a")
    world.sql(f"ALTER DATABASE {world.database} SET default_transaction_read_only = on")
    expect(refusal(world, "two"), "is read-only", "primary server")
    world.cluster.sql(f"ALTER DATABASE {world.database} RESET default_transaction_read_only", database="postgres")
    assert one.get("a") == "a-a2"


def fill_disk(world):
    world.sql("CREATE FUNCTION public.full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
              "RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;"
              "CREATE TRIGGER full_disk BEFORE UPDATE ON grantd.refresh FOR EACH ROW EXECUTE FUNCTION public.full()")


def full_disk(world):
    """The server's disk is full: reported with the next step, nothing is sent, and it works when there is space."""
    one = world.machine("one")
    one.adopt("a")
    fill_disk(world)
    one.attempt("token.report_rejected", account="a", generation=1, timeout=2)
    store = eventually("the failure is reported", lambda: one.status()["store"]["state"] != "ok" and one.status()["store"])
    assert "disk of the database server is full" in store["message"] and "Free space" in store["hint"], store
    assert world.provider.refreshes() == 1
    world.sql("DROP TRIGGER full_disk ON grantd.refresh")
    eventually("a new token", lambda: one.get("a") == "a-a3")


def edited_row(world):
    """A row that was edited by hand is reported; other accounts are unharmed, at all machines."""
    one = world.machine("one")
    one.adopt("a")
    one.adopt("b")
    world.sql("UPDATE grantd.grants SET granted_scopes = 'admin' WHERE account = 'a'")
    two = world.machine("two")
    assert two.get("b") == "b-a2"
    assert two.refused("token.get", account="a") in ("login_required", "store_failure")
    assert world.value("SELECT granted_scopes FROM grantd.grants WHERE account = 'a'") == "admin"
    assert one.get("b") == "b-a2"


def damaged_while_known(world):
    """A row that another hand wrote over while both machines know the account: a logout removes it."""
    one, two = world.machine("one"), world.machine("two")
    for account in ("a", "b"):
        one.adopt(account)
        eventually("the account is known", lambda: two.get(account) == f"{account}-a2")
    world.sql("UPDATE grantd.grants SET granted_scopes = 'admin', revision = '\\x0102030405060708' WHERE account = 'a'")
    # The refresh token in memory may be spent: no machine sends it.
    before = world.provider.refreshes()
    for machine in (one, two):
        assert machine.refused("account.refresh", account="a") == "temporarily_unavailable", machine.last_lines(5)
    assert world.provider.refreshes() == before
    one.call("account.logout", account="a")
    assert world.value("SELECT count(*) FROM grantd.grants WHERE account = 'a'") == "0"
    eventually("the account is gone", lambda: two.refused("token.get", account="a") == "unknown_account")
    assert one.get("b") == two.get("b") == "b-a2"


def copied_folder(world):
    """A copied state folder: the second machine gets an id of its own."""
    one = world.machine("one")
    one.adopt("a")
    two = world.machine("two", start=False)
    shutil.copytree(one.state, two.state, ignore=shutil.ignore_patterns("*lock*", "*.sock"))
    two.launch_and_wait()
    eventually("two nodes", lambda: world.value("SELECT count(*) FROM grantd.node WHERE ended_at IS NULL") == "2")
    assert two.lines("copying a state folder"), two.last_lines(5)
    assert two.get("a") == "a-a2"
    one.call("token.report_rejected", account="a", generation=1)
    for machine in (one, two):
        eventually("the new token is everywhere", lambda: machine.get("a") == "a-a3")


def pooler(world):
    """A pooler, whose server processes change, is refused."""
    proxy = Proxy(world.case / "proxy", world.cluster.folder)
    proxy.is_pooler = True
    try:
        connection = f"host={proxy.folder} user=grantd dbname={world.database}"
        expect(refusal(world, "one", connection=connection), "behind a connection pooler", "directly")
    finally:
        proxy.close()


def transport(world):
    """Over TCP: TLS with a verified certificate and a password from a file; the wrong ones are refused."""
    folder = world.case / "server"
    port = free_ports()[0]
    server = Cluster(
        folder, f"listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = ''\n", certificate=world.case)
    try:
        (world.case / "password").write_text("secret\n")
        (world.case / "password").chmod(0o600)
        (world.case / "mistake").write_text("hunter2\n")
        (world.case / "mistake").chmod(0o600)
        target = f"host=localhost hostaddr=127.0.0.1 port={port} user=grantd dbname=postgres"
        trusted = f"{target} sslrootcert={world.case}/authority.pem"
        options = f'password_file = "{world.case}/password"'
        world.machine("one", connection=trusted, options=options)
        text = refusal(world, "wrong", connection=trusted, options=f'password_file = "{world.case}/mistake"')
        expect(text, "authentication failed", "its password")
        assert "hunter2" not in text
        expect(refusal(world, "untrusted", connection=target, options=options), "certificate verify failed")
        expect(refusal(world, "other-name", connection=trusted.replace("localhost", "db.example.com"), options=options),
               "does not match host name")
    finally:
        server.close()


def lock_held(world):
    """Another session holds a lock: reported by itself, nothing is sent, and it works afterwards."""
    one = world.machine("one")
    one.adopt("a")
    session = world.hold("LOCK TABLE grantd.refresh IN ACCESS EXCLUSIVE MODE")
    try:
        one.attempt("token.report_rejected", account="a", generation=1, timeout=6)
        store = eventually("the failure is reported", lambda: one.status()["store"]["state"] != "ok" and one.status()["store"])
        assert "holds a lock" in store["message"] and "pg_stat_activity" in store["hint"], store
        assert world.provider.refreshes() == 1
    finally:
        session.kill()
    eventually("a new token", lambda: one.get("a") == "a-a3")


def status(world):
    """`status` and `doctor` name the machines, and settings that break a promise."""
    one, two = world.machine("one"), world.machine("two")

    def both_run():
        machines = one.status()["sharing"]["machines"]
        assert sorted(machine["state"] for machine in machines) == ["running", "self"], machines
        # A pause of this machine during a measurement is an offset until the next one.
        assert all(abs(machine["clock_offset_seconds"]) < 1 for machine in machines), machines
        return True

    eventually("both machines run", both_run)
    text = one.ctl("status").stdout
    assert text.count("  machine") == 2, text
    report = one.ctl("doctor").stdout
    assert "2 running" in report and "schema 3" in report, report
    two.process.kill()
    two.process.wait(60)
    eventually(
        "the other is silent",
        lambda: "silent" in [machine["state"] for machine in one.status()["sharing"]["machines"]])
    assert "silent for" in one.ctl("doctor").stdout


def without(world):
    """A machine without the setting loads no library of PostgreSQL."""
    one = world.machine("one", start=False)
    one.config.write_text(one.config.read_text().replace('kind = "postgresql"', 'kind = "sqlite"'))
    one.launch_and_wait()
    assert "libpq" not in pathlib.Path(f"/proc/{one.process.pid}/maps").read_text()
    assert "sharing" not in one.status()
    two = world.machine("two")
    assert "libpq" in pathlib.Path(f"/proc/{two.process.pid}/maps").read_text()


CASES = {
    "connections": connections, "rights": rights, "another-key": another_key, "schemas": schemas, "read-only": read_only,
    "full-disk": full_disk, "edited-row": edited_row, "damaged-while-known": damaged_while_known,
    "copied-folder": copied_folder, "pooler": pooler,
    "transport": transport, "lock-held": lock_held, "status": status, "without": without}
