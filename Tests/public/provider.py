"""An authorization server, written from the RFCs: it judges each request, and a row can replace each answer.

Sources: RFC 6749 (codes, refresh tokens, errors), RFC 7636 (PKCE), RFC 8414 (metadata), RFC 8628 (device grant),
RFC 7591 (registration), RFC 9207 (`iss` in the callback), OpenID Connect Core and Discovery.
"""

import base64
import collections
import dataclasses
import hashlib
import secrets
import threading
import time
import urllib.parse

from keys import base64url, key
from server import Answer, Server

CLIENT = "grantd-test"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
WELL_KNOWN = "/.well-known/openid-configuration"
# The names by which a row replaces answers and counts requests: of a path, and of a POST to /token by its grant_type.
ROUTES = {
    WELL_KNOWN: "metadata", "/.well-known/oauth-authorization-server": "oauth-metadata", "/jwks": "jwks",
    "/authorize": "authorize", "/device": "device", "/userinfo": "userinfo", "/register": "register"}
GRANTS = {"authorization_code": "code", "refresh_token": "refresh", DEVICE_GRANT: "poll"}


@dataclasses.dataclass
class Grant:
    """What a user allowed, and how the login asked for it."""

    subject: str
    scope: str
    client: str = CLIENT
    redirect_uri: str = None
    challenge: str = None
    nonce: str = None


class Wrong(Exception):
    """A request against an RFC; `answer` is the server's answer to it."""

    def __init__(self, reason, error="invalid_request", status=400):
        super().__init__(reason)
        self.answer = Answer.error(error, status, reason)


class Provider:
    def __init__(self, path="", context=None, host="127.0.0.1", **options):
        self.lock = threading.RLock()
        self.requests, self.wrong = [], []
        self.scripts, self.rules = collections.defaultdict(collections.deque), {}
        self.codes, self.spent, self.grants, self.tokens, self.devices = {}, set(), {}, {}, {}
        # Client identifiers and their secrets; "" is a public client.
        self.clients = {CLIENT: ""}
        # Settings that a row changes: JWTs as access tokens, their lifetime, one use for each refresh token, `iss`.
        self.jwt, self.lifetime, self.rotates, self.iss, self.interval = False, 3600, True, None, 1
        self.seed, self.kid, self.extra = "one", "k1", {}
        vars(self).update(options)
        self.server = Server(self.respond, context)
        self.origin = f"{'https' if context else 'http'}://{host}:{self.server.port}"
        self.issuer, self.path = self.origin + path, path

    def close(self):
        self.server.close()

    # Answers.

    def name(self, request):
        path = request.path.removeprefix(self.path)
        if path == "/token" and request.method == "POST":
            return GRANTS.get(request.form.get("grant_type"), "token")
        return ROUTES.get(path, path)

    def respond(self, request):
        name = self.name(request)
        with self.lock:
            self.requests.append((name, request))
            script = self.scripts[name].popleft() if self.scripts[name] else self.rules.get(name)

        def usual():
            with self.lock:
                try:
                    made = getattr(self, f"answer_{name.replace('-', '_')}", None)
                    return made(request) if made else Answer.text("no such path", 404)
                except (Wrong, KeyError) as error:
                    self.wrong.append(f"{request.method} {request.path}: {error!r}")
                    return error.answer if isinstance(error, Wrong) else Answer.error("invalid_request")

        return script(request, usual) if callable(script) else script or usual()

    def script(self, name, *answers):
        """The next answers: each an Answer, a function of the request and of the usual answer, or None for the usual."""
        with self.lock:
            self.scripts[name].extend(answer or (lambda _, usual: usual()) for answer in answers)

    def always(self, name, answer):
        """The answer from now on, in the same forms."""
        with self.lock:
            self.rules[name] = answer

    def of(self, name):
        with self.lock:
            return [request for found, request in self.requests if found == name]

    def count(self, name):
        return len(self.of(name))

    # Endpoints.

    def answer_metadata(self, _):
        ends = {"token": "token", "authorization": "authorize", "userinfo": "userinfo", "device_authorization": "device"}
        return Answer.json({"issuer": self.issuer, "jwks_uri": f"{self.issuer}/jwks"} | {
            f"{name}_endpoint": f"{self.issuer}/{path}" for name, path in ends.items()} | {
            "response_types_supported": ["code"], "grant_types_supported": list(GRANTS),
            "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["RS256"],
            "code_challenge_methods_supported": ["S256"], "scopes_supported": ["openid", "offline_access", "a", "b"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"]} | self.extra)

    def answer_jwks(self, _):
        return Answer.json({"keys": [key(self.seed).jwk(self.kid)]})

    def answer_authorize(self, request):
        found = request.query
        for name, wanted in (("response_type", "code"), ("code_challenge_method", "S256")):
            if found.get(name) != wanted:
                raise Wrong(f"{name} is {found.get(name)!r}")
        if found["client_id"] not in self.clients:
            raise Wrong(f"client_id is {found['client_id']!r}", "unauthorized_client")
        grant = Grant(found.get("login_hint", "ada"), found.get("scope", ""), found["client_id"], found["redirect_uri"],
                      found["code_challenge"], found.get("nonce"))
        return Answer.redirect(self.callback(found, code=self.new_code(grant)))

    def callback(self, asked, **members):
        """The redirect URI of an authorization request with these parameters and the request's state."""
        members |= {"state": asked["state"]} | ({"iss": self.iss} if self.iss else {})
        return f"{asked['redirect_uri']}?{urllib.parse.urlencode(members)}"

    def new_code(self, grant):
        code = secrets.token_urlsafe(16)
        self.codes[code] = grant
        return code

    def client(self, request):
        """The client of a request to the token endpoint, by its secret (RFC 6749 §2.3.1)."""
        scheme, _, given = request.fields.get("authorization", "").partition(" ")
        if scheme.lower() == "basic":
            name, _, secret = map(urllib.parse.unquote_plus, base64.b64decode(given).decode().partition(":"))
        else:
            name, secret = request.form.get("client_id"), request.form.get("client_secret", "")
        if self.clients.get(name) != secret:
            raise Wrong(f"the client {name!r} has another secret", "invalid_client", 401)
        return name

    def answer_code(self, request):
        form, client = request.form, self.client(request)
        if form["code"] in self.spent:
            raise Wrong("the code is sent twice", "invalid_grant")
        grant = self.codes.pop(form["code"], None)
        if not grant or grant.client != client or grant.redirect_uri != form.get("redirect_uri"):
            raise Wrong("no such code of this client and redirect URI", "invalid_grant")
        self.spent.add(form["code"])
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if base64url(digest) != grant.challenge:
            raise Wrong("code_verifier does not match", "invalid_grant")
        return self.issue(grant)

    def answer_refresh(self, request):
        form, client = request.form, self.client(request)
        grant = self.grants.get(form["refresh_token"])
        if not grant or grant.client != client:
            raise Wrong("the refresh token is unknown or was used before", "invalid_grant")
        if not set(form.get("scope", "").split()) <= set(grant.scope.split()):
            raise Wrong("more scopes than were granted", "invalid_scope")
        if self.rotates:
            del self.grants[form["refresh_token"]]
        return self.issue(grant, self.rotates, form.get("scope"))

    def answer_poll(self, request):
        self.client(request)
        return self.issue(self.devices[request.form["device_code"]])

    def issue(self, grant, refresh=True, scope=None):
        """The token answer (RFC 6749 §5.1)."""
        made = {"access_token": self.new_access(grant), "token_type": "Bearer", "expires_in": self.lifetime,
                "scope": scope or grant.scope}
        if refresh:
            made["refresh_token"] = secrets.token_urlsafe(16)
            self.grants[made["refresh_token"]] = grant
        if "openid" in grant.scope.split():
            made["id_token"] = self.id_token(grant)
        return Answer.json(made, fields=[("Cache-Control", "no-store")])

    def new_access(self, grant, ends_in=None):
        now, token = int(time.time()), secrets.token_urlsafe(16)
        if self.jwt:
            token = key(self.seed).jwt({"iss": self.issuer, "sub": grant.subject, "jti": token, "iat": now,
                                        "exp": now + (self.lifetime if ends_in is None else ends_in)}, self.kid)
        self.tokens[token] = grant
        return token

    def id_token(self, grant, **claims):
        now = int(time.time())
        made = {"iss": self.issuer, "sub": grant.subject, "aud": grant.client, "iat": now, "exp": now + 600}
        return key(self.seed).jwt(made | ({"nonce": grant.nonce} if grant.nonce else {}) | claims, self.kid)

    def answer_device(self, request):
        self.client(request)
        code = secrets.token_urlsafe(16)
        self.devices[code] = Grant("ada", request.form.get("scope", ""))
        return Answer.json({"device_code": code, "user_code": "WDJB-MJHT", "verification_uri": f"{self.origin}/activate",
                            "expires_in": 600, "interval": self.interval})

    def answer_userinfo(self, request):
        grant = self.tokens.get(request.bearer)
        if not grant:
            raise Wrong("no such access token", "invalid_token", 401)
        return Answer.json({"sub": grant.subject})

    def answer_register(self, request):
        secret = "" if request.json.get("token_endpoint_auth_method") == "none" else secrets.token_urlsafe(16)
        name = secrets.token_urlsafe(8)
        self.clients[name] = secret
        return Answer.json(request.json | {"client_id": name} | ({"client_secret": secret} if secret else {}), 201)
