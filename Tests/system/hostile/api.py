"""The provider of the cases: the independent one of Tests/reliability, with an API and a control interface."""

import asyncio
import json
import pathlib
import shutil
import tempfile
import urllib.parse

import actor
from grantd_testing import get
from provider.ledger import Ledger
from provider.realm import Family, Realm, answer_json, refusal
from provider.web import Server

HANG_SECONDS = 600
# As much as an answer may have.
BIG_BYTES = 150 << 10
START_SECONDS = 60


class API(Realm):
    """A realm with an API that hangs or refuses each token, and a VMS, whose logins go one at a time."""

    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self.gives_refresh_token, self.gives_id_token, self.has_userinfo = True, True, True
        # Refreshes are answered 503 as long as this is set.
        self.is_down, self.refused, self.asked_about = False, 0, 0
        self.all_calls, self.released = 0, asyncio.Event()

    async def answer(self, connection, request, path):
        if path.startswith("/control/"):
            return answer_json(getattr(self, "do_" + path.removeprefix("/control/"))(**request.query))
        if path == "/api/refuse":
            return refusal("invalid_token", 401)
        if path == "/api/hang":
            return await self.hang(connection)
        if path == "/api/big":
            return 200, {"Content-Type": "text/plain"}, "x" * BIG_BYTES
        if path == "/api/echo":
            return answer_json({"user": "any"})
        if path == "/api/v1/static/basic":
            return answer_json({"is_external_auth_enabled": True, "version": "1"})
        if path == "/api/v1/external/auth/url":
            return answer_json({"url": f"{self.issuer}/authorize"})
        if path in ("/userinfo", "/introspect"):
            self.asked_about += 1
        if path == "/userinfo" and not self.has_userinfo:
            return refusal("not_found", 404)
        return await super().answer(connection, request, path)

    async def hang(self, connection):
        """Until the broker closes the connection, or the case releases all that hang."""
        self.calls, self.all_calls = self.calls + 1, self.all_calls + 1
        waiting = [asyncio.ensure_future(event.wait()) for event in (connection.ended, self.released)]
        try:
            await asyncio.wait(waiting, timeout=HANG_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.calls -= 1
            for one in waiting:
                one.cancel()
        return answer_json({"user": "any"})

    def metadata(self, request):
        status, headers, body = super().metadata(request)
        members = json.loads(body)
        if not self.has_userinfo:
            del members["userinfo_endpoint"]
        return status, headers, json.dumps(members)

    async def refresh(self, connection, request):
        if self.is_down:
            self.refused += 1
            return refusal("temporarily_unavailable", 503)
        return await super().refresh(connection, request)

    def issue(self, family, number, nonce=None):
        members, refresh = super().issue(family, number, nonce)
        if not self.gives_refresh_token:
            del members["refresh_token"]
        if not self.gives_id_token and nonce is None:
            del members["id_token"]
        return members, refresh

    # What the cases ask

    def do_set(self, **flags):
        for name, value in flags.items():
            setattr(self, name, value == "1")
        return {}

    def do_release(self):
        self.released.set()
        return {}

    def do_counts(self):
        return {
            "refreshes": sum(self.asked.values()), "refused": self.refused, "asked_about": self.asked_about,
            "calls": self.calls, "all_calls": self.all_calls, "connections": len(self.server.connections),
            "revoked": [family.user for family in self.families.values() if family.revoked]}

    def do_seed(self, user):
        """A refresh token that this person got elsewhere."""
        family = Family(f"{self.name}/{len(self.families) + 1}", user, "openid email offline_access")
        self.families[family.name] = family
        return {"refresh_token": self.issue(family, self.ledger.number())[1].value}

    def do_end(self, user):
        self.end(self.family_of(user), "asked")
        return {}

    def do_person(self, token):
        """Whose access token that is."""
        known = self.access_tokens.get(token)
        return {"user": known.family.user if known else None}


def serve(tell, folder, names):
    """Runs in a process of its own, so that no attacker's work delays it."""
    async def forever():
        server, ledger = await Server.open(), Ledger(pathlib.Path(folder) / "ledger")
        tell({name: [realm.issuer, realm.secret] for name in names for realm in [API(server, name, ledger)]})
        while not actor.ended.is_set():
            await asyncio.sleep(0.1)
        return {}

    return asyncio.run(forever())


class Provider:
    """The process of the provider, by its realms."""

    def __init__(self, *names):
        self.folder = tempfile.TemporaryDirectory(prefix="hostile-provider-")
        self.process = actor.Actor(actor.Who(0), serve, self.folder.name, names)
        self.realms = self.process.next(START_SECONDS)

    def do(self, realm, what, **query):
        issuer, _ = self.realms[realm]
        return json.loads(get(f"{issuer}/control/{what}?{urllib.parse.urlencode(query)}"))

    def set(self, realm, **flags):
        self.do(realm, "set", **{name: int(value) for name, value in flags.items()})

    def counts(self, realm):
        return self.do(realm, "counts")

    def section(self, realm, **more):
        """The realm's section of grantd's configuration."""
        issuer, secret = self.realms[realm]
        file = pathlib.Path(f"/etc/grantd/{realm}.secret")
        file.write_text(secret)
        file.chmod(0o600)
        shutil.chown(file, "grantd")
        keys = {
            "kind": "oidc", "issuer": issuer, "client_id": "reliability", "client_secret_file": str(file),
            "scopes": ["openid", "email", "offline_access"], "id_token_algorithms": ["HS256"],
            "api_base": f"{issuer}/api", "narrow_tokens": "verified"}
        lines = (f"{name} = {json.dumps(value)}" for name, value in (keys | more).items())
        return f"[provider.{realm}]\n" + "\n".join(lines) + "\n"

    def system(self, realm):
        """A system at the realm's address whose logins go one at a time."""
        return (
            f'[provider.cameras]\nkind = "vms"\nbase_url = "{self.realms[realm][0]}"\n'
            'redirect_uri = "cameras://sign-in"\n')

    def close(self):
        self.process.close()
        self.folder.cleanup()
