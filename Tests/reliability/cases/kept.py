"""Rows that cannot be read, over a change of the key and in a database that is written again from memory."""

import asyncio

from cases.rows import VICTIM, change, refused, set_aside, signed_in
from grantd_testing import Wrong

LOGIN = ("INSERT INTO logins (id, provider, account, redirect_uri, scopes, uid, started_at, expires_at, state) "
         "VALUES ('one', 'main', 'new', 'x', '', 0, 1, 1, x'00')")


async def damaged(stage):
    """The daemon, with an account that can be repaired, and a login that cannot be read."""
    _, daemon, names = await signed_in(stage)
    change(daemon.state, "UPDATE grants SET standing = 'gone' WHERE account = :account", account=VICTIM)
    change(daemon.state, LOGIN)
    client = await daemon.start()
    await refused(client, VICTIM)
    rows = await set_aside(client)
    if sorted(rows) != [VICTIM, "logins#1"]:
        raise Wrong(f"set aside are {list(rows)}")
    return daemon, client, names, rows


async def still(stage, daemon, client, names, rows):
    """After another start the rows are as before, and the account is repaired."""
    await stage.prove(client, [name for name in names if name != VICTIM])
    client.close()
    client = await stage.restart(daemon)
    await refused(client, VICTIM)
    if set(found := await set_aside(client)) != set(rows):
        raise Wrong(f"set aside were {list(rows)}, and are {list(found)}")
    status, output = await daemon.grantctl("repair", VICTIM)
    if status:
        raise Wrong(f"the repair fails: {output}")
    await stage.prove(client, names)


async def rotated(stage):
    daemon, client, names, rows = await damaged(stage)
    status, output = await daemon.grantctl("key", "rotate")
    text = " ".join(output.split())
    if status or "2 rows that cannot be read were kept" not in text or "grantctl repair" not in text:
        raise Wrong(f"the rotation has status {status}: {output}")
    await still(stage, daemon, client, names, rows)
    return "2 rows are kept and named, and one is repaired under the new key"


async def rebuilt(stage):
    daemon, client, names, rows = await damaged(stage)
    (daemon.state / "grantd.db").unlink()
    async with asyncio.timeout(120):
        while not daemon.lines("was written again from memory"):
            await asyncio.sleep(0.1)
    await still(stage, daemon, client, names, rows)
    return "2 rows are in the new database, and one is repaired"


CASES = {"kept-rotate": rotated, "kept-rebuild": rebuilt}
