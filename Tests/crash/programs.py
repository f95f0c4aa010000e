"""What this suite adds to the programs under test: a provider of each rotation, and a daemon that is killed."""

import signal
import time

import grantd_testing
from grantd_testing import Gone, Wrong


class Provider(grantd_testing.Demo):
    def __init__(self, products, folder, rotation, access_ttl):
        self.rotation = rotation
        super().__init__(
            products, folder, "--rotation", rotation, "--grace", 30, "--access-ttl", access_ttl, name=rotation)

    @property
    def section(self):
        rotation = {"grace": "grace 30s"}.get(self.rotation, self.rotation)
        return (
            f'[provider.{self.name}]\nkind = "oidc"\nissuer = "{self.issuer}"\nclient_id = "demo"\n'
            f'scopes = ["openid", "profile", "email"]\nrotation = "{rotation}"\n')

    async def facts(self, token):
        return await self.control("token", token=token)

    async def facts_of_hash(self, sha256):
        return await self.control("token", refresh_token_sha256=sha256)


class Daemon(grantd_testing.Daemon):
    # How long a start takes, as it was lately.
    start_seconds = 0.3

    def configure(self, providers):
        refresh = '[refresh]\nshare = 0.5\nmargin = "0s"\njitter = 0.2\nretry_delays = ["1s"]\n'
        self.config.write_text(refresh + "".join(provider.section for provider in providers))

    def launch(self, crash_at=None):
        super().launch(**({"GRANTD_CRASH_AT": crash_at} if crash_at else {}))

    async def ready(self):
        """A client of the daemon just launched; Gone where it was killed before."""
        began = time.monotonic()
        try:
            client = await super().ready()
        except Wrong as wrong:
            if self.process.status == -signal.SIGKILL:
                raise Gone() from wrong
            raise
        self.start_seconds = 0.8 * self.start_seconds + 0.2 * (time.monotonic() - began)
        return client
