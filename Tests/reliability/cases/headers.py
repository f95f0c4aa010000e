"""Damaged numbers in the head of a database, and repairs of damage in status, doctor and the log."""

import contextlib
import sqlite3

from cases.rows import named, reported, signed_in
from grantd_testing import Wrong

# Bytes of the head (SQLite's file format, 1.3).
USER_VERSION, APPLICATION = 60, 68


def overwrite(path, at, value):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(value.to_bytes(4))


def damaged_number(at, value, words):
    async def case(stage):
        _, daemon, names = await signed_in(stage)
        overwrite(daemon.state / "grantd.db", at, value)
        client = await daemon.start()
        await stage.prove(client, names)
        await reported(daemon, client, "header", words)
        client.close()
        client = await stage.restart(daemon)
        if (await client.call("broker.status"))["store"]["state"] != "ok":
            raise Wrong("after another start the repair is still reported")
        await stage.prove(client, names)
        return "all of 4 accounts work; the header is written again"

    return case


async def newer(stage):
    """A database of a newer version is not taken for a damaged one."""
    _, daemon, _ = await signed_in(stage)
    with contextlib.closing(sqlite3.connect(daemon.state / "grantd.db")) as database:
        database.executescript("PRAGMA user_version = 99; CREATE TABLE later (x)")
    before = (daemon.state / "grantd.db").read_bytes()
    with contextlib.suppress(Wrong):
        await daemon.start()
        raise AssertionError("it starts")
    if daemon.process.status != 65 or (daemon.state / "grantd.db").read_bytes() != before:
        raise Wrong(f"status {daemon.process.status}, or the database was changed")
    named(daemon, "newer grantd")
    return "it does not start, and changes nothing"


async def damaged_trail(stage):
    """Only the audit trail is put aside."""
    _, daemon, names = await signed_in(stage)
    overwrite(daemon.state / "audit.db", USER_VERSION, 99)
    client = await daemon.start()
    await stage.prove(client, names)
    named(daemon, "audit.db", "put aside")
    if not (daemon.state / "audit.db.damaged").exists():
        raise Wrong("the damaged trail is not kept")
    if not (await client.call("audit.list"))["records"]:
        raise Wrong("the new trail has no records")
    return "all of 4 accounts work; the trail begins again"


CASES = {
    "header-schema": damaged_number(USER_VERSION, 7 | 1 << 10, "schema 1031 instead of 7"),
    "header-older": damaged_number(USER_VERSION, 3, "schema 3 instead of 7"),
    "header-application": damaged_number(APPLICATION, 5, "application 5 instead of"),
    "header-newer": newer, "header-trail": damaged_trail,
}
