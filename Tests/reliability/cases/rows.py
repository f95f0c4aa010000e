"""Rows of the database that cannot be read: each affects only its account, stays on disk, and is repaired or removed."""

import contextlib
import shutil
import sqlite3

from grantd_testing import Refused, Wrong

VICTIM = "account-1"
# What is changed, and whether the refresh token of the account can still be read.
GRANTS = {
    "standing": ("UPDATE grants SET standing = 'gone' WHERE account = :account", True),
    "identity": ("UPDATE grants SET identity = '{' WHERE account = :account", True),
    "kind": ("UPDATE grants SET kind = 'none' WHERE account = :account", True),
    "detail": ("UPDATE grants SET standing = 'failing', standing_detail = '{' WHERE account = :account", True),
    "provider": ("UPDATE grants SET provider = 'no name' WHERE account = :account", False),
    "secret": ("UPDATE grants SET refresh_token = zeroblob(40) WHERE account = :account", False),
}
# Values that are valid, and not those that were written.
CHANGED = {
    "created": ("UPDATE grants SET created_at = created_at + 86400000 WHERE account = :account", True),
    "scopes": ("UPDATE grants SET granted_scopes = 'openid admin' WHERE account = :account", True),
    "subject": ("UPDATE grants SET identity = replace(identity, 'account', 'bccount') WHERE account = :account", True),
    "generation": ("UPDATE grants SET generation = generation + 64 WHERE account = :account", True),
    "end": ("UPDATE grants SET refresh_token_expires_at = 9999999999999 WHERE account = :account", True),
}
PARTS = {
    "expiry": "UPDATE tokens SET expires_at = expires_at + 4294967296 WHERE account = :account",
    "type": "UPDATE tokens SET type = 'DPoP' WHERE account = :account",
    "token-scopes": "UPDATE tokens SET scopes = 'openid admin' WHERE account = :account",
    "token-generation": "UPDATE tokens SET generation = generation + 64 WHERE account = :account",
    "token": "UPDATE tokens SET access_token = zeroblob(40) WHERE account = :account",
    "reports": "UPDATE tokens SET reports = '{' WHERE account = :account",
    "intent": "INSERT INTO refresh_intents VALUES (:account, 'x', 1, 1, x'00')",
}


def change(state, sql, **values):
    with contextlib.closing(sqlite3.connect(state / "grantd.db")) as database:
        database.execute("PRAGMA foreign_keys = OFF")
        database.execute(sql, values)
        database.commit()


def rows(state, sql, **values):
    with contextlib.closing(sqlite3.connect(f"file:{state}/grantd.db?mode=ro", uri=True)) as database:
        return database.execute(sql, values).fetchall()


async def signed_in(stage):
    realm = stage.realm()
    daemon = stage.daemon()
    client = await daemon.start()
    names = await stage.sign_in(daemon, client, realm, 4)
    client.close()
    await daemon.stop()
    return realm, daemon, names


async def set_aside(client):
    return {row["row"]: row for row in (await client.call("broker.status")).get("set_aside", [])}


async def refused(client, name):
    try:
        await client.call("token.get", account=name)
    except Refused as refusal:
        return refusal
    raise Wrong(f"account {name} gives a token")


def named(daemon, *words):
    if not daemon.lines(*words):
        raise Wrong(f"no line of the log has {' and '.join(words)}")


async def reported(daemon, client, *words):
    """Status, doctor and the log name the repair."""
    store = (await client.call("broker.status"))["store"]
    if store["state"] != "repaired" or any(word not in store["message"] for word in words):
        raise Wrong(f"the store is {store}")
    named(daemon, "error", *words)
    for command in ("status", "doctor"):
        _, output = await daemon.grantctl(command)
        text = " ".join(output.split())
        if "repaired" not in text or any(word not in text for word in words):
            raise Wrong(f"{command} does not name the repair: {output}")


def damaged_grant(sql, is_repairable):
    async def case(stage):
        realm, daemon, names = await signed_in(stage)
        change(daemon.state, sql, account=VICTIM)
        client = await daemon.start()
        await stage.prove(client, [name for name in names if name != VICTIM])
        # Damage to a secret shows only when the account is used.
        refusal = await refused(client, VICTIM)
        listed = {account["account"]: account["state"] for account in (await client.call("account.list"))["accounts"]}
        if listed.get(VICTIM) != "login_required" or len(listed) != len(names):
            raise Wrong(f"the accounts are {listed}")
        row = (await set_aside(client)).get(VICTIM)
        if refusal.reason != "login_required" or not row or f"grantctl repair {VICTIM}" not in row["hint"]:
            raise Wrong(f"the answer is {refusal.reason}, and status has {row}")
        named(daemon, VICTIM, "cannot be read")
        records = (await client.call("audit.list", account=VICTIM))["records"]
        if not any(record["method"] == "store.set_aside" for record in records):
            raise Wrong("the audit trail does not name the row")
        _, output = await daemon.grantctl("status")
        _, doctor = await daemon.grantctl("doctor")
        if f"grantctl repair {VICTIM}" not in " ".join(output.split()) or VICTIM not in doctor:
            raise Wrong(f"status and doctor do not name the row: {output}")
        # It stays on disk, over a refresh of the others and another start.
        client.close()
        client = await stage.restart(daemon)
        await refused(client, VICTIM)
        if VICTIM not in await set_aside(client):
            raise Wrong("after another start the row is not named")
        status, output = await daemon.grantctl("repair", VICTIM)
        if is_repairable:
            if status:
                raise Wrong(f"the repair fails: {output}")
            await stage.prove(client, names)
        else:
            if not status or "grantctl login" not in output:
                raise Wrong(f"the repair has status {status}: {output}")
            await daemon.login(client, realm, VICTIM)
            await stage.prove(client, names)
        if await set_aside(client):
            raise Wrong("the row is still named after its repair")
        client.close()
        client = await stage.restart(daemon)
        await stage.prove(client, names)
        # Another one is removed.
        client.close()
        await daemon.stop()
        change(daemon.state, sql, account=VICTIM)
        client = await daemon.start()
        status, output = await daemon.grantctl("logout", VICTIM)
        if status or rows(daemon.state, "SELECT 1 FROM grants WHERE account = :account", account=VICTIM):
            raise Wrong(f"logout has status {status}: {output}")
        await stage.prove(client, [name for name in names if name != VICTIM])
        return f"3 of 4 accounts work; the fourth is {'repaired' if is_repairable else 'signed in again'}, and removed"

    return case


def damaged_part(sql):
    async def case(stage):
        _, daemon, names = await signed_in(stage)
        change(daemon.state, sql, account=VICTIM)
        client = await daemon.start()
        await stage.prove(client, names)
        named(daemon, VICTIM, "left out")
        if await set_aside(client):
            raise Wrong("a row that a refresh replaces is set aside")
        return "all of 4 accounts work"

    return case


async def damaged_rest(stage):
    """Logins, registrations, revocations and settings."""
    _, daemon, names = await signed_in(stage)
    for sql in (
            "INSERT INTO logins (id, provider, account, redirect_uri, scopes, uid, started_at, expires_at, state) "
            "VALUES ('one', 'main', 'new', 'x', '', 0, 1, 1, x'00')",
            "INSERT INTO registrations (provider, issuer, client_id, created_at, detail) "
            "VALUES ('own', 'https://own.example', 'client', 1, x'00')",
            "INSERT INTO revocations (id, provider, hint, attempts, retry_at, expires_at, token) "
            "VALUES ('one', 'main', 'refresh_token', 0, 1, 1, x'00')",
            "INSERT INTO grants SELECT 'no name', provider, identity, requested_scopes, granted_scopes, resource, generation, "
            "standing, standing_detail, created_at, logged_in_at, refresh_token_expires_at, refresh_token, "
            "previous_refresh_token, id_token, extra, refresh_token_issued_at, expiry_announced_at, kind, dpop_key, "
            "source_fingerprint, code FROM grants WHERE account = 'account-0'"):
        change(daemon.state, sql)
    client = await daemon.start()
    await stage.prove(client, names)
    found = await set_aside(client)
    tables = sorted(name.split("#")[0] for name in found)
    if tables != ["grants", "logins", "registrations", "revocations"]:
        raise Wrong(f"set aside are {list(found)}")
    for name in found:
        if f"grantctl repair {name} --remove" not in found[name]["hint"]:
            raise Wrong(f"the hint is {found[name]['hint']}")
        status, output = await daemon.grantctl("repair", name, "--remove")
        if status:
            raise Wrong(f"{name} is not removed: {output}")
    if await set_aside(client):
        raise Wrong("removed rows are still named")
    status, _ = await daemon.grantctl("repair", "logins#1", "--remove")
    if not status:
        raise Wrong("a row that is not there is removed")
    client.close()
    client = await stage.restart(daemon)
    if await set_aside(client):
        raise Wrong("removed rows come back")
    await stage.prove(client, names)
    return "all of 4 accounts work; 4 rows are named, and removed"


async def damaged_structure(stage):
    """A page of the accounts' table is overwritten: those on other pages are served."""
    realm = stage.realm()
    daemon = stage.daemon()
    client = await daemon.start()
    names = await stage.sign_in(daemon, client, realm, 24)
    client.close()
    await daemon.stop()
    with contextlib.closing(sqlite3.connect(f"file:{daemon.state}/grantd.db?mode=ro", uri=True)) as database:
        ((page,),) = database.execute(
            "SELECT pageno FROM dbstat WHERE name = 'grants' AND pagetype = 'leaf' ORDER BY pageno LIMIT 1")
    with open(daemon.state / "grantd.db", "r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xa5" * 4096)
    client = await daemon.start()
    found = set(await set_aside(client))
    listed = {account["account"] for account in (await client.call("account.list"))["accounts"]}
    if not found or listed != set(names):
        raise Wrong(f"set aside are {found}; listed are {len(listed)} of {len(names)}")
    await stage.prove(client, [name for name in names if name not in found])
    await reported(daemon, client, "was damaged", "put aside")
    name = sorted(found)[0]
    await daemon.login(client, realm, name)
    await stage.prove(client, [name])
    return f"{len(names) - len(found)} of {len(names)} accounts work, the others are named"


async def damaged_note(stage):
    """The note of the key cannot be read: the key opens the accounts, and so it is the right one."""
    _, daemon, names = await signed_in(stage)
    change(daemon.state, "UPDATE meta SET value = zeroblob(20)")
    client = await daemon.start()
    await stage.prove(client, names)
    await reported(daemon, client, "note of the key")
    client.close()
    client = await stage.restart(daemon)
    if len(daemon.lines("note of the key")) != 1:
        raise Wrong("the note was not written again")
    return "all of 4 accounts work"


def older_copy(damage, is_all=False):
    """The newest commits are lost while the daemon does not run: it says how many, and who needs a login says why."""
    async def case(stage):
        realm = stage.realm(old_access_seconds=0)
        daemon = stage.daemon()
        client = await daemon.start()
        names = await stage.sign_in(daemon, client, realm, 4)
        client.close()
        await daemon.stop()
        copy = stage.folder / "copy"
        shutil.copytree(daemon.state, copy)
        client = await daemon.start()
        if (await client.call("broker.status"))["store"]["state"] != "ok":
            raise Wrong("a sound database is reported as an older one")
        for name in names:
            await stage.refresh(client, name)
        client.close()
        # A log that holds the newest commits is left only by a kill.
        daemon.kill()
        damage(daemon.state, copy)
        client = await daemon.start()
        store = (await client.call("broker.status"))["store"]
        if store["state"] != "older" or "missing" not in store["message"]:
            raise Wrong(f"the store is {store}")
        named(daemon, "older than the last one")
        records = (await client.call("audit.list"))["records"]
        if not any(record["method"] == "store.older" for record in records):
            raise Wrong("the audit trail does not name the older copy")
        _, output = await daemon.grantctl("doctor")
        if "older" not in output:
            raise Wrong("doctor does not name the older copy")
        if is_all:
            if (await client.call("account.list"))["accounts"]:
                raise Wrong("there are accounts without a database")
            return store["message"]
        # Its refresh token was spent by the run whose commits are lost.
        with contextlib.suppress(Refused):
            await stage.refresh(client, VICTIM)
        refusal = await refused(client, VICTIM)
        if "older copy" not in str(refusal):
            raise Wrong(f"the answer is {refusal}")
        await daemon.login(client, realm, VICTIM)
        client.close()
        client = await stage.restart(daemon)
        if (await client.call("broker.status"))["store"]["state"] != "ok":
            raise Wrong("the older copy is reported for ever")
        return store["message"]

    return case


def flip_log(state, _):
    # The first frame: SQLite drops it, and all that follow.
    with open(state / "grantd.db-wal", "r+b") as file:
        file.seek(32 + 24 + 100)
        byte = file.read(1)[0]
        file.seek(32 + 24 + 100)
        file.write(bytes([byte ^ 4]))


def remove_database(state, _):
    for path in state.glob("grantd.db*"):
        path.unlink()


def put_back_all(state, copy):
    """With its own count of commits."""
    shutil.rmtree(state)
    shutil.copytree(copy, state)
    state.chmod(0o700)


def put_back(state, copy):
    remove_database(state, copy)
    shutil.copy2(copy / "grantd.db", state)


CASES = (
    {f"row-{name}": damaged_grant(*what) for name, what in (GRANTS | CHANGED).items()}
    | {f"row-{name}": damaged_part(sql) for name, sql in PARTS.items()}
    | {"rows-of-the-rest": damaged_rest, "row-structure": damaged_structure, "row-note": damaged_note}
    | {"older-log": older_copy(flip_log), "older-database": older_copy(put_back),
       "older-folder": older_copy(put_back_all),
       "older-none": older_copy(remove_database, True)})
