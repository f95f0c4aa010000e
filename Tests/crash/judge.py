"""What must hold after a kill: first of what is on disk, then of the daemon that is started on it."""

import asyncio
import shutil
import sqlite3
import time

from grantd_testing import Refused, Wrong, temporary_folder

# How long an account may take to give a token after the daemon has started again.
PROOF_SECONDS = 90
# What passes by itself. On a machine that is busy enough a token of some seconds is over as it comes: provider_error.
TRANSIENT = ("temporarily_unavailable", "timed_out", "provider_error")


class Disk:
    """What a crash left, read from a copy: reading a log left behind would change it."""

    def __init__(self, state):
        self.grants, self.intents, self.revocations, self.logins = {}, {}, {}, []
        # Held against the files as they are: the daemon that wrote them is dead, and no other runs.
        with temporary_folder("grantd-crash-") as copy:
            for name in ("grantd.db", "grantd.db-wal"):
                if (state / name).exists():
                    shutil.copy(state / name, copy)
            database = copy / "grantd.db"
            if not database.exists() or not database.stat().st_size:
                return
            connection = sqlite3.connect(database)
            try:
                self.read(connection)
            except sqlite3.DatabaseError as error:
                raise Wrong(f"the database is damaged: {error}") from error
            finally:
                connection.close()

    def read(self, connection):
        connection.row_factory = sqlite3.Row
        for problem in connection.execute("PRAGMA integrity_check").fetchall():
            if problem[0] != "ok":
                raise Wrong(f"the database is damaged: {problem[0]}")
        if not connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'grants'").fetchone()[0]:
            return
        if problem := connection.execute("PRAGMA foreign_key_check").fetchone():
            raise Wrong(f"the database refers to what is not there: {tuple(problem)}")
        self.grants = {
            row["account"]: dict(row) for row in connection.execute(
                "SELECT account, provider, generation, standing, standing_detail, logged_in_at FROM grants")}
        self.intents = {
            row["account"]: row["refresh_token_hash"] for row in connection.execute("SELECT * FROM refresh_intents")}
        self.logins = [row["id"] for row in connection.execute("SELECT id FROM logins")]
        for row in connection.execute("SELECT provider FROM revocations"):
            self.revocations[row["provider"]] = self.revocations.get(row["provider"], 0) + 1
        for row in connection.execute("SELECT account, generation FROM tokens WHERE scope = '' AND resource = ''"):
            if row["generation"] != self.grants[row["account"]]["generation"]:
                raise Wrong(f"{row['account']}: grant and token on disk are of different generations")


class Account:
    """What the test knows of one account."""

    def __init__(self, name, provider, user):
        self.name, self.provider, self.user = name, provider, user
        # in: must be there; out: must not; unknown: the kill came before the answer. New accounts are out.
        self.presence = "out"
        # The newest generation that a client was given: it must be on disk.
        self.seen = 0
        self.logged_in_at = 0
        # Hashes of refresh tokens whose requests had no answer on disk at a kill, since it was last proven.
        self.unanswered = []
        # Whether the provider, by its ledger, acted on the request that the disk says was not answered.
        self.was_acted_on = False
        # The provider's number of the grant, where it is known.
        self.grant = None


async def check_disk(world, disk):
    """Every answer that was given before the kill is on disk; nothing else is."""
    for account in world.accounts.values():
        row = disk.grants.get(account.name)
        if account.presence == "in" and row is None:
            raise Wrong(f"{account.name} was signed in, as was answered, and is not on disk")
        if account.presence == "out" and row is not None:
            raise Wrong(f"{account.name} is on disk, and was logged out, as was answered, or never signed in")
        account.presence = "in" if row else "out"
        account.was_acted_on = False
        if row is None:
            account.unanswered = []
            continue
        if row["generation"] < account.seen:
            raise Wrong(f"{account.name}: a client has generation {account.seen}, on disk is {row['generation']}")
        if row["logged_in_at"] < account.logged_in_at:
            raise Wrong(f"{account.name}: a login that was answered is not on disk")
        if row["logged_in_at"] > account.logged_in_at:
            account.unanswered = []
        account.logged_in_at = row["logged_in_at"]
        if sha256 := disk.intents.get(account.name):
            account.unanswered.append(sha256)
            account.was_acted_on = is_last_rotation(account, await account.provider.facts_of_hash(sha256))
    if strangers := set(disk.grants) - set(world.accounts):
        raise Wrong(f"accounts on disk that nobody made: {', '.join(sorted(strangers))}")


def is_last_rotation(account, facts):
    """Whether the provider gave this refresh token's successor, the newest of the grant, to somebody."""
    return facts.get("user") == account.user and facts.get("rotated_last", False)


async def prove(world, client, account):
    """A token that the provider takes, after a refresh of now; or a loss that the provider's ledger justifies.

    True: it works. False: it was lost, justly.
    """
    end = time.monotonic() + PROOF_SECONDS
    # None of what is there will do: only a refresh shows that the refresh token is good.
    before = (await client.call("account.get", account=account.name))["generation"]
    if before < account.seen:
        raise Wrong(f"{account.name}: generation {before} after the start, a client has {account.seen}")
    while True:
        try:
            await client.call("token.report_rejected", account=account.name, generation=before, timeout=10)
            token = await client.call("token.get", account=account.name, timeout=10)
            if token["generation"] <= before:
                raise Wrong(f"{account.name}: the refused generation {before} is handed out again")
            facts = await account.provider.facts(token["access_token"])
            if facts.get("user") != account.user:
                raise Wrong(f"{account.name}: a token of {facts.get('user')}, not of {account.user}: {facts}")
            if account.was_acted_on and account.provider.rotation == "strict":
                raise Wrong(f"{account.name} works, and its intent on disk was of a refresh token that is used up")
            if facts["live"] and facts["current"]:
                account.seen, account.unanswered, account.grant = token["generation"], [], facts["grant"]
                return True
            problem = f"its token is {facts}"
        except Refused as refusal:
            if refusal.reason == "login_required":
                await justify(world, account, refusal)
                return False
            if refusal.reason not in TRANSIENT:
                raise Wrong(f"{account.name}: {refusal}") from refusal
            problem = str(refusal)
        if time.monotonic() > end:
            raise Wrong(f"{account.name} gives no token after {PROOF_SECONDS} s: {problem}")
        await asyncio.sleep(0.1)


async def justify(world, account, refusal):
    """A grant may be lost in one way alone: the provider rotated strictly, and the answer never reached the disk."""
    if account.provider.rotation != "strict":
        raise Wrong(f"{account.name} is lost at a provider that still takes the old refresh token: {refusal}")
    if refusal.detail != "lost_rotation":
        raise Wrong(f"{account.name} is lost, and says {refusal.detail} instead of lost_rotation: {refusal}")
    for sha256 in account.unanswered:
        if is_last_rotation(account, await account.provider.facts_of_hash(sha256)):
            world.tally["lost rotations, justified by the ledger"] += 1
            return
    # An answer that the provider itself dropped, while the daemon ran.
    if world.dropped_answers > 0:
        world.dropped_answers -= 1
        world.tally["lost rotations, the provider dropped the answer"] += 1
        return
    raise Wrong(
        f"{account.name} is lost, but by the provider's ledger no rotation was without a committed answer: {refusal}")
