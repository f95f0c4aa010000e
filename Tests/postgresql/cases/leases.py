"""Leases, fences and expectations: another broker is played by statements in the database."""

import base64
import concurrent.futures
import hashlib
import signal
import socket
import time

from grantd_testing import Refused
from machines import PATIENCE, eventually

# How long after the end of a run its request may wait in the provider's queue.
PAUSE = 2
# A delay that ends only when the test releases the answer; a request that it waits for has as much time.
HELD, CALL_SECONDS = 250, 200
# After the renewal of a lease, another machine takes it over.
TAKEOVER = 600
# For an answer that came to be written, which it may not be.
QUIET_SECONDS = 2
ENDED = "until = clock_timestamp() - interval '1 s'"
OTHER = "node = 'other', run = 'other'"


def generation(world):
    return int(world.value("SELECT generation FROM grantd.grants WHERE account = 'a'"))


def later(machine, method, **params):
    """A call under way."""
    pool = concurrent.futures.ThreadPoolExecutor(1)
    return pool.submit(machine.call, method, CALL_SECONDS + PATIENCE, **params)


def under_way(world, machine, delay=HELD):
    """A refresh at this machine whose answer takes `delay` seconds, or until the provider releases it; the provider has
    acted already."""
    world.provider.delay(delay)
    before = world.provider.refreshes()
    call = later(machine, "token.report_rejected", account="a", generation=generation(world), timeout=CALL_SECONDS)
    eventually("the provider has the request", lambda: world.provider.refreshes() == before + 1)
    return call


def other_run(world, is_alive=True):
    world.sql(
        "INSERT INTO grantd.node (id, run, name, version, schema_known, ended_at) VALUES ('other', 'other', 'other', '0', 1, "
        + ("NULL" if is_alive else "clock_timestamp()") + ") ON CONFLICT (id) DO UPDATE SET ended_at = excluded.ended_at")


def held_elsewhere(world):
    """No machine sends while another has the lease, and not at once after its end: its request may still be answered."""
    one = world.machine("one")
    one.adopt("a")
    other_run(world)
    for until in ("until = clock_timestamp() + interval '2 min'", ENDED):
        world.sql(
            f"UPDATE grantd.refresh SET fence = nextval('grantd.fence'), {OTHER}, {until}, refresh_token_hash = 'x', "
            "sent_at = 1, attempts = 1")
        one.attempt("token.report_rejected", account="a", generation=generation(world), timeout=0.5)
        time.sleep(0.5)
        assert world.provider.refreshes() == 1, until


def seconds_since(world, moment):
    """From a moment of the database to the provider's latest request. Both have the same clock."""
    return world.provider.ledger["requests"][-1]["at"] - float(world.value(f"SELECT extract(epoch FROM ({moment}))"))


def ended_run(world):
    """A run that ended sends nothing more: its lease is free when the provider had time for its last request."""
    one = world.machine("one")
    one.adopt("a")
    other_run(world, is_alive=False)
    world.sql(
        f"UPDATE grantd.refresh SET fence = nextval('grantd.fence'), {OTHER}, until = clock_timestamp() + interval '2 min', "
        "refresh_token_hash = 'x', sent_at = 1, attempts = 1")
    one.attempt("token.report_rejected", account="a", generation=generation(world))
    eventually("the lease is taken", lambda: one.get("a") == "a-a3")
    assert seconds_since(world, "SELECT ended_at FROM grantd.node WHERE id = 'other'") >= PAUSE


def takeover(world):
    """Strict rotation: an unanswered request is taken over ten minutes after its lease was renewed, and not before."""
    one = world.machine("one")
    one.adopt("a")
    other_run(world)
    world.sql(
        f"UPDATE grantd.refresh SET fence = nextval('grantd.fence'), {OTHER}, {ENDED}, refresh_token_hash = 'x', "
        "sent_at = 1, attempts = 1, renewed_at = clock_timestamp() - interval '590 s'")
    renewed = world.value("SELECT extract(epoch FROM renewed_at) FROM grantd.refresh")
    one.attempt("token.report_rejected", account="a", generation=generation(world), timeout=0.5)
    eventually("the lease is taken over", lambda: one.get("a") == "a-a3")
    requests = world.provider.ledger["requests"]
    assert len(requests) == 2 and requests[-1]["at"] - float(renewed) >= TAKEOVER, (renewed, requests)


def killed_holder(world):
    """The request of a killed machine is not repeated at the lease's end, and is soon after its next run begins."""
    one, two, three = (world.machine(name) for name in ("one", "two", "three"))
    one.adopt("a")
    for machine in (two, three):
        eventually("the account is known", lambda: machine.get("a") == "a-a2")
    under_way(world, one)
    one.process.kill()
    one.process.wait(60)
    world.provider.delay(0)
    world.sql(f"UPDATE grantd.refresh SET {ENDED}")
    two.attempt("token.report_rejected", account="a", generation=generation(world), timeout=1)
    time.sleep(2)
    assert world.provider.refreshes() == 2
    one.launch_and_wait()
    # Each machine takes one report of a token.
    three.attempt("token.report_rejected", account="a", generation=generation(world), timeout=10)
    eventually("the request is repeated", lambda: world.provider.refreshes() == 3)
    assert seconds_since(world, "SELECT max(started_at) FROM grantd.node WHERE name = (SELECT name FROM grantd.node n, "
                         "grantd.refresh r WHERE n.id = r.before_node)") >= PAUSE


def given_back(world):
    """A machine that took a lease over within a grace, and could not send, leaves the wait for the first request."""
    with socket.socket() as server:
        # No program listens yet.
        server.bind(("127.0.0.1", 0))
        origin = f"http://127.0.0.1:{server.getsockname()[1]}"
        one = world.machine("one", sections=(
            f'[provider.lenient]\nkind = "oauth2"\nclient_id = "client"\nallow_insecure_http = true\n'
            f'rotation = "grace 300s"\nauthorization_endpoint = "{origin}/authorize"\ntoken_endpoint = "{origin}/token"\n'))
        one.attempt("account.import", account="x", provider="lenient", refresh_token="x-r1")
        other_run(world)
        fingerprint = base64.urlsafe_b64encode(hashlib.sha256(b"x-r1").digest()).decode().rstrip("=")
        world.sql(
            f"INSERT INTO grantd.refresh (account) VALUES ('x') ON CONFLICT DO NOTHING; UPDATE grantd.refresh SET "
            f"fence = nextval('grantd.fence'), {OTHER}, {ENDED}, refresh_token_hash = '{fingerprint}', sent_at = 1, "
            "attempts = 1, code = NULL, renewed_at = clock_timestamp(), first_sent_at = clock_timestamp()")

        def attempt():
            try:
                one.call("account.refresh", account="x", timeout=1)
            except Refused as refusal:
                return str(refusal)
            raise AssertionError("it was refreshed")

        released = "node IS NULL AND before_node = 'other' AND before_until > now() + interval '9 min'"
        eventually("the lease was taken over", lambda: attempt() and world.value(
            f"SELECT {released} FROM grantd.refresh") == "t")
        world.sql("UPDATE grantd.refresh SET first_sent_at = clock_timestamp() - interval '5 min'")
        server.listen()
        eventually("the wait is for the other machine", lambda: "other" in attempt())
        server.settimeout(0)
        try:
            server.accept()
            raise AssertionError("a second request was sent after the grace")
        except BlockingIOError:
            pass
        world.sql("UPDATE grantd.refresh SET before_until = clock_timestamp()")
        one.process.kill()
        one.launch_and_wait()
        later(one, "account.refresh", account="x")
        server.settimeout(PATIENCE)
        server.accept()[0].close()


def killed_sender(world):
    """The kernel discards the request of a killed machine, and does not deliver it later: its next run frees the lease."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        origin = f"http://127.0.0.1:{server.getsockname()[1]}"
        one = world.machine("one", sections=(
            f'[provider.silent]\nkind = "oauth2"\nclient_id = "client"\nallow_insecure_http = true\n'
            f'authorization_endpoint = "{origin}/authorize"\ntoken_endpoint = "{origin}/token"\n'))
        later(one, "account.import", account="x", provider="silent", refresh_token="x-r1")
        connection, _ = server.accept()
        with connection:
            connection.settimeout(PATIENCE)
            request = b""
            while b"x-r1" not in request:
                request += connection.recv(4096)
            one.process.kill()
            try:
                rest = connection.recv(4096)
            except ConnectionResetError:
                return
            raise AssertionError(f"the connection ended like that of a living process: {rest}")


def stale_fence(world):
    """An answer under a lease that another broker has taken is not written over its account."""
    one = world.machine("one")
    one.adopt("a")
    other_run(world)
    call = under_way(world, one)
    before = world.value("SELECT encode(revision, 'hex') FROM grantd.grants")
    world.sql(
        f"UPDATE grantd.refresh SET fence = nextval('grantd.fence'), {OTHER}, until = clock_timestamp() + interval '2 min'")
    world.provider.release()
    time.sleep(QUIET_SECONDS)
    assert world.value("SELECT encode(revision, 'hex') FROM grantd.grants") == before, "a stale fence was written"
    assert generation(world) == 1
    # The other gives it back without an answer: this one is all that remains of the grant.
    world.sql("UPDATE grantd.refresh SET node = NULL, run = NULL, until = NULL")
    call.result()
    assert eventually("the answer is saved", lambda: one.get("a") == "a-a3")
    assert generation(world) == 2 and not world.provider.ledger["revoked"]


def changed_grant(world):
    """An answer is not written over a grant of another login, even if its row cannot be read."""
    one = world.machine("one")
    one.adopt("a")
    under_way(world, one)
    world.sql("UPDATE grantd.grants SET generation = 7, logged_in_at = logged_in_at + 1000, "
              "revision = decode('0000000000000007', 'hex'), refresh_token = 'x'")
    before = world.value("SELECT encode(revision, 'hex') FROM grantd.grants")
    world.provider.release()
    time.sleep(QUIET_SECONDS)
    assert generation(world) == 7
    assert world.value("SELECT encode(revision, 'hex') FROM grantd.grants") == before


def damaged_grant(world):
    """An answer is written over a row that cannot be read and that has the refresh token that was sent."""
    one = world.machine("one")
    one.adopt("a")
    under_way(world, one)
    world.sql("UPDATE grantd.grants SET generation = 7, revision = decode('0000000000000007', 'hex')")
    world.provider.release()
    eventually("the answer is written", lambda: generation(world) == 2)
    eventually("the token is returned", lambda: one.get("a") == "a-a3")
    assert not world.provider.ledger["reused"] and not world.provider.ledger["revoked"]


def taken_login(world):
    """A login that another broker took never comes back."""
    one = world.machine("one")
    started = one.call("login.start", account="b", provider="strict")
    assert world.value("SELECT count(*) FROM grantd.logins") == "1"
    other = world.machine("two")
    assert other.refused("login.cancel", login_id=started["login_id"])
    world.sql("DELETE FROM grantd.logins")
    time.sleep(0.5)
    one.call("login.cancel", login_id=started["login_id"])
    assert world.value("SELECT count(*) FROM grantd.logins") == "0"


def stopped(world):
    """A broker that is stopped with a refresh under way: no other one sends before its answer is in."""
    one, two = world.machine("one"), world.machine("two")
    one.adopt("a")
    eventually("the account is known", lambda: two.get("a") == "a-a2")
    call = under_way(world, one)
    one.process.send_signal(signal.SIGSTOP)
    world.sql(f"UPDATE grantd.refresh SET {ENDED}")
    two.attempt("token.report_rejected", account="a", generation=generation(world), timeout=1)
    time.sleep(1)
    assert world.provider.refreshes() == 2
    # The answer comes while the process is stopped.
    world.provider.release()
    one.process.send_signal(signal.SIGCONT)
    call.result()
    for machine in (one, two):
        eventually("the answer is everywhere", lambda: machine.get("a") == "a-a3")
    ledger = world.provider.ledger
    assert ledger["refreshes"] == 2 and not ledger["revoked"], ledger


def restarted(world):
    """A broker that was killed with a lease has it back after its restart, at once."""
    one = world.machine("one")
    one.adopt("a")
    world.provider.lifetime(3600)
    under_way(world, one, 0.2)
    one.process.kill()
    one.launch_and_wait()
    assert world.value("SELECT node IS NULL OR run = (SELECT run FROM grantd.node n WHERE n.id = r.node) "
                       "FROM grantd.refresh r") == "t"


CASES = {
    "held-elsewhere": held_elsewhere, "ended-run": ended_run, "takeover": takeover, "killed-holder": killed_holder,
    "killed-sender": killed_sender, "given-back": given_back, "stale-fence": stale_fence, "changed-grant": changed_grant,
    "damaged-grant": damaged_grant,
    "taken-login": taken_login, "stopped": stopped, "restarted": restarted}
