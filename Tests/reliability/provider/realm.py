#!/usr/bin/env python3
"""An authorization server made from the RFCs alone, which keeps a ledger of what it gave to whom.

RFC 6749, 6750, 7009, 7636, 7662, 8414, 9207, OpenID Connect Core and Discovery. Refresh tokens rotate strictly: each
is good once, and a second use ends its family. It shares no code with the project.

    Tests/reliability/provider/realm.py [--access-seconds 3600] [--ledger FILE]     by hand: prints its issuer
"""

import argparse
import asyncio
import base64
import collections
import contextlib
import dataclasses
import hashlib
import hmac
import html
import json
import pathlib
import secrets
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
sys.dont_write_bytecode = True

from provider.faults import Fault, odd_body
from provider.ledger import Ledger
from provider.web import Server

CLIENT = "reliability"
ID_TOKEN_SECONDS = 3600


def base64url(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def answer_json(members, status=200, **headers):
    return status, {"Content-Type": "application/json", "Cache-Control": "no-store", **headers}, json.dumps(members)


def refusal(error, status=400, description=None):
    return answer_json({"error": error} | ({"error_description": description} if description else {}), status)


@dataclasses.dataclass
class Family:
    """What came of one sign-in (RFC 9700 §4.14.2)."""

    name: str
    user: str
    scope: str
    nonce: str | None = None
    revoked: str | None = None
    newest: object = None
    access: object = None
    count: int = 0


@dataclasses.dataclass
class RefreshToken:
    value: str
    label: str
    family: Family
    # The exchange that used it up, and when.
    spent_by: int | None = None
    spent_at: float = 0


@dataclasses.dataclass
class AccessToken:
    label: str
    family: Family
    ends: float
    # The exchange whose answer carried it.
    exchange: int = 0
    # Since when it is no good though it has not expired, and the exchange of the one that took its place.
    dead_at: float | None = None
    replaced_by: int | None = None


class Realm:
    """One issuer of a server, with one confidential client."""

    def __init__(self, server, name, ledger, access_seconds=3600, grace=0, old_access_seconds=None):
        self.server, self.name, self.ledger = server, name, ledger
        self.access_seconds, self.grace, self.old_access_seconds = access_seconds, grace, old_access_seconds
        self.issuer = f"{server.origin}/{name}"
        self.secret = secrets.token_urlsafe(32)
        self.pages, self.codes, self.refresh_tokens, self.access_tokens = {}, {}, {}, {}
        self.families = {}
        # What goes wrong: for the next refreshes of a user, for the next of anybody, else by the chooser.
        self.scripted, self.script, self.choose = collections.defaultdict(collections.deque), collections.deque(), None
        # Requests under way at the token endpoint, the most of them, calls of the API under way, refreshes by user.
        self.in_flight, self.peak, self.calls, self.asked = 0, 0, 0, collections.Counter()
        # Called once, before the next code is exchanged.
        self.before_exchange = None
        server.realms[name] = self

    def section(self, folder, **more):
        """The provider's section of grantd's configuration."""
        file = folder / f"{self.name}.secret"
        file.write_text(self.secret)
        file.chmod(0o600)
        keys = {
            "kind": "oidc", "issuer": self.issuer, "client_id": CLIENT, "client_secret_file": str(file),
            "scopes": ["openid", "email", "offline_access"], "id_token_algorithms": ["HS256"], "rotation": "strict"}
        lines = (f"{name} = {json.dumps(value)}" for name, value in (keys | more).items())
        return f"[provider.{self.name}]\n" + "\n".join(lines) + "\n"

    # Routes

    async def answer(self, connection, request, path):
        if path == "/token" and request.method == "POST":
            return await self.token(connection, request)
        routes = {
            "/.well-known/openid-configuration": self.metadata, "/keys": self.keys, "/authorize": self.authorize,
            "/consent": self.consent, "/userinfo": self.userinfo, "/introspect": self.introspect,
            "/revoke": self.revoke}
        if path in routes:
            return routes[path](request)
        if path == "/api/slow":
            token = self.bearer(request)
            if token is None:
                return refusal("invalid_token", 401)
            self.calls += 1
            await connection.closed_within(float(request.query.get("seconds", "0")))
            self.calls -= 1
            return answer_json({"user": token.family.user})
        return refusal("not_found", 404)

    def metadata(self, _):
        paths = {
            "authorization_endpoint": "/authorize", "token_endpoint": "/token", "jwks_uri": "/keys",
            "userinfo_endpoint": "/userinfo", "revocation_endpoint": "/revoke", "introspection_endpoint": "/introspect"}
        return answer_json({
            "issuer": self.issuer, **{name: self.issuer + path for name, path in paths.items()},
            "response_types_supported": ["code"], "subject_types_supported": ["public"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "id_token_signing_alg_values_supported": ["HS256"], "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            "scopes_supported": ["openid", "email", "offline_access"],
            "authorization_response_iss_parameter_supported": True})

    def keys(self, _):
        return answer_json({"keys": []})

    # Signing in

    def authorize(self, request):
        """A page with a form for a person, or a script, to send (RFC 6749 §4.1.1)."""
        query = request.query
        redirect = urllib.parse.urlsplit(query.get("redirect_uri", ""))
        if query.get("client_id") != CLIENT or redirect.hostname not in ("127.0.0.1", "::1"):
            return 400, {"Content-Type": "text/html"}, "<p>unknown client or redirect URI"
        if query.get("response_type") != "code" or query.get("code_challenge_method") != "S256":
            return 400, {"Content-Type": "text/html"}, "<p>only codes, and with S256"
        page = secrets.token_urlsafe(16)
        self.pages[page] = query
        user = html.escape(query.get("login_hint", ""), quote=True)
        return 200, {"Content-Type": "text/html"}, (
            f'<form method="post" action="{self.issuer}/consent"><input name="page" type="hidden" value="{page}">'
            f'<input name="user" value="{user}"><button>Allow</button></form>')

    def consent(self, request):
        query = self.pages.pop(request.form.get("page"), None)
        if query is None:
            return 400, {"Content-Type": "text/html"}, "<p>this page was sent before"
        code = secrets.token_urlsafe(24)
        self.codes[code] = query | {"user": request.form.get("user") or "nobody"}
        back = {"code": code, "state": query.get("state", ""), "iss": self.issuer}
        join = "&" if "?" in query["redirect_uri"] else "?"
        return 303, {"Location": query["redirect_uri"] + join + urllib.parse.urlencode(back)}, ""

    # The token endpoint

    def is_client(self, request):
        """RFC 6749 §2.3.1."""
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        with contextlib.suppress(ValueError):
            name, _, secret = base64.b64decode(value, validate=True).decode().partition(":")
            pair = urllib.parse.unquote_plus(name), urllib.parse.unquote_plus(secret)
            return scheme.lower() == "basic" and pair == (CLIENT, self.secret)
        return False

    async def token(self, connection, request):
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            if not self.is_client(request):
                return refusal("invalid_client", 401)
            if request.form.get("grant_type") == "refresh_token":
                return await self.refresh(connection, request)
            if request.form.get("grant_type") != "authorization_code":
                return refusal("unsupported_grant_type")
            return self.exchange(request)
        finally:
            self.in_flight -= 1

    def exchange(self, request):
        """RFC 6749 §4.1.3, RFC 7636 §4.6."""
        if before := self.before_exchange:
            self.before_exchange = None
            before()
        query = self.codes.pop(request.form.get("code"), None)
        digest = hashlib.sha256(request.form.get("code_verifier", "").encode()).digest()
        if query is None or query["redirect_uri"] != request.form.get("redirect_uri"):
            return refusal("invalid_grant")
        if not hmac.compare_digest(base64url(digest), query.get("code_challenge", "")):
            return refusal("invalid_grant", description="the verifier is another's")
        count = len(self.families) + 1
        family = Family(f"{self.name}/{count}", query["user"], query.get("scope", ""), query.get("nonce"))
        self.families[family.name] = family
        number = self.ledger.number()
        self.ledger.write(
            "sign-in", x=number, realm=self.name, family=family.name, user=family.user)
        members, _ = self.issue(family, number, nonce=family.nonce)
        return answer_json(members)

    def issue(self, family, number, nonce=None):
        """The members of a token response (RFC 6749 §5.1), and the refresh token among them."""
        label = f"{family.user}:{family.name}:{family.count}"
        family.count += 1
        refresh = RefreshToken(f"rt-{secrets.token_urlsafe(24)}", label, family)
        value = f"at-{secrets.token_urlsafe(24)}"
        if family.access and self.old_access_seconds is not None:
            family.access.dead_at, family.access.replaced_by = time.monotonic() + self.old_access_seconds, number
        self.refresh_tokens[refresh.value], family.newest = refresh, refresh
        ends = time.monotonic() + self.access_seconds
        self.access_tokens[value] = family.access = AccessToken(label, family, ends, number)
        self.ledger.write("issue", x=number, family=family.name, user=family.user, rt=label)
        members = {
            "access_token": value, "token_type": "Bearer", "expires_in": self.access_seconds,
            "refresh_token": refresh.value, "scope": family.scope, "id_token": self.id_token(family, nonce)}
        return members, refresh

    def id_token(self, family, nonce):
        """OpenID Connect Core §2, signed with the client's secret (§10.1)."""
        now = int(time.time())
        claims = {
            "iss": self.issuer, "sub": family.user, "aud": CLIENT, "iat": now, "exp": now + ID_TOKEN_SECONDS,
            "email": f"{family.user}@example.com"} | ({"nonce": nonce} if nonce else {})
        parts = [base64url(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, claims)]
        signature = hmac.digest(self.secret.encode(), ".".join(parts).encode(), "sha256")
        return ".".join([*parts, base64url(signature)])

    def next_fault(self, user):
        if self.scripted[user]:
            return self.scripted[user].popleft()
        if self.script:
            return self.script.popleft()
        if self.choose:
            return self.choose(self.name, user, self.asked[user]) or Fault()
        return Fault()

    async def refresh(self, connection, request):
        """RFC 6749 §6. What is answered, and what of it left this process, is in the ledger."""
        number, token = self.ledger.number(), self.refresh_tokens.get(request.form.get("refresh_token"))
        if token is None:
            self.ledger.write("unknown", x=number, realm=self.name)
            return refusal("invalid_grant", description="no token of this server")
        family = token.family
        self.asked[family.user] += 1
        fault = self.next_fault(family.user)
        self.ledger.write(
            "request", x=number, family=family.name, user=family.user, rt=token.label, fault=str(fault),
            connection=connection.number)
        if fault.is_before:
            return await fault.carry_out(connection, self.ledger, number)
        # Used once: again within the grace alone, where there is any.
        if token.spent_by is not None and time.monotonic() - token.spent_at > self.grace:
            self.ledger.write("reuse", x=number, family=family.name, user=family.user, rt=token.label,
                              first=token.spent_by)
            self.end(family, "reuse")
        if family.revoked:
            self.ledger.write("refused", x=number, family=family.name, user=family.user, why=family.revoked)
            return refusal("invalid_grant", description=f"the family has ended: {family.revoked}")
        first = token.spent_by is None
        if first:
            token.spent_by, token.spent_at = number, time.monotonic()
        members, successor = self.issue(family, number)
        self.ledger.write(
            "spent", x=number, family=family.name, user=family.user, rt=token.label, new=successor.label,
            again=not first)
        status, body = odd_body(fault.odd, members)
        return await fault.carry_out(connection, self.ledger, number, status, body, successor.label)

    # What else a client asks

    def end(self, family, why):
        if family.revoked is None:
            family.revoked = why
            self.ledger.write("revoked", family=family.name, user=family.user, why=why)

    def bearer(self, request):
        """RFC 6750 §2.1."""
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        token = self.access_tokens.get(value) if scheme.lower() == "bearer" else None
        return token if token and self.is_active(token) else None

    def is_active(self, token):
        now = time.monotonic()
        return not token.family.revoked and now < token.ends and not (token.dead_at and now >= token.dead_at)

    def userinfo(self, request):
        token = self.bearer(request)
        if token is None:
            return answer_json({"error": "invalid_token"}, 401, **{"WWW-Authenticate": 'Bearer error="invalid_token"'})
        return answer_json({"sub": token.family.user, "email": f"{token.family.user}@example.com"})

    def introspect(self, request):
        """RFC 7662."""
        if not self.is_client(request):
            return refusal("invalid_client", 401)
        token = self.access_tokens.get(request.form.get("token"))
        if token is None or not self.is_active(token):
            return answer_json({"active": False})
        return answer_json({"active": True, "sub": token.family.user, "scope": token.family.scope})

    def revoke(self, request):
        """RFC 7009."""
        if not self.is_client(request):
            return refusal("invalid_client", 401)
        value = request.form.get("token")
        if value in self.refresh_tokens:
            self.end(self.refresh_tokens[value].family, "asked")
        elif value in self.access_tokens:
            self.access_tokens[value].dead_at = time.monotonic()
        return 200, {}, ""

    def family_of(self, user):
        """The latest of a user."""
        return next((family for family in reversed(self.families.values()) if family.user == user), None)


async def by_hand(arguments):
    with tempfile.TemporaryDirectory(prefix="grantd-provider-") as folder:
        server = await Server.open()
        ledger = Ledger(arguments.ledger or pathlib.Path(folder) / "ledger")
        realm = Realm(server, "main", ledger, access_seconds=arguments.access_seconds)
        print(realm.section(pathlib.Path(folder)), flush=True)
        print(f"# the ledger: {ledger.path}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--access-seconds", type=int, default=3600)
    parser.add_argument("--ledger", type=pathlib.Path)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(by_hand(parser.parse_args()))
