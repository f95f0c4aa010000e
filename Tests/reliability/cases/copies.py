"""Older copies that come back on purpose: a backup whose refresh tokens were replaced since."""

from grantd_testing import Wrong

KEPT, REFRESHED, NEW = "account-0", "account-1", "account-2"


async def restore_older(stage):
    """`restore --replace` names accounts whose refresh token here is newer, and replaces them only with --older."""
    realm = stage.realm()
    daemon = stage.daemon()
    client = await daemon.start()
    names = await stage.sign_in(daemon, client, realm, 3)
    passphrase = stage.folder / "passphrase"
    passphrase.write_text("correct horse battery staple\n")
    passphrase.chmod(0o600)
    backup = stage.folder / "backup"
    secret = ("--passphrase-file", str(passphrase))
    status, output = await daemon.grantctl("backup", str(backup), *secret)
    if status:
        raise Wrong(f"the backup has status {status}: {output}")
    await stage.refresh(client, REFRESHED)
    await client.call("account.logout", account=NEW)
    restore = ("restore", str(backup), *secret, "--moved", "--replace")
    before = len(stage.ledger.records)
    status, output = await daemon.grantctl(*restore)
    if status != 64 or REFRESHED not in output or KEPT in output or "--older" not in output:
        raise Wrong(f"without --older the status is {status}: {output}")
    if len((await client.call("account.list"))["accounts"]) != 2:
        raise Wrong("accounts were restored all the same")
    # A program that does not ask leaves it out.
    if stage.requests(REFRESHED, before):
        raise Wrong("the provider was asked")
    await stage.prove(client, [KEPT, REFRESHED])
    status, output = await daemon.grantctl(*restore, "--older")
    if status or REFRESHED not in output:
        raise Wrong(f"with --older the status is {status}: {output}")
    listed = {account["account"] for account in (await client.call("account.list"))["accounts"]}
    if listed != set(names):
        raise Wrong(f"with --older the accounts are {sorted(listed)}")
    return "the account is named, kept without --older, and replaced with it"


CASES = {"restore-older": restore_older}
