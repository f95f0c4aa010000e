"""7Pass: OpenID Connect with a redirect URI of an application's scheme, two audiences, and a bridge to another program."""

import base64
import hashlib
import json
import re
import secrets
import time
import urllib.parse

from . import rsa
from .oauth import Code, OAuthFake
from .server import Answer

CLIENT, SERVICE = "0123456789abcdef01234567", "fedcba9876543210fedcba98"
SECRET = "s3cret of an older client"
SCOPES = {"openid", "offline_access", "profile", "email"}
LIFETIME = 7200
CODE_FORM = ("grant_type", "code", "redirect_uri", "code_verifier")
EXTRA = re.compile(r"utm_[a-z]+|adid|fbapp_pres")
# The other program: its scheme, and a code with every kind of character in it.
APP_SCHEME, APP_CODE = "fb1234567890", "a b+c/d=&e%\u00fc"
BROWSER = "op_browser"


class SevenPass(OAuthFake):
    """The provider. `redirect` is the registered redirect URI."""

    client_id = CLIENT
    routes = {
        ("GET", "/.well-known/openid-configuration"): "discovery",
        ("GET", "/keys"): "keys",
        ("GET", "/authorize"): "authorize",
        ("GET", "/external/callback"): "external_callback",
        ("POST", "/token"): "token",
        ("POST", "/revoke"): "revoke",
        ("GET", "/userinfo"): "userinfo",
        ("GET", "/me"): "me",
        ("GET", "/session/end"): "end_session",
    }

    def __init__(self, redirect):
        super().__init__()
        self.redirect = redirect
        self.key = rsa.key(7)
        # Settings.
        self.body = "form"
        self.rotates = False
        self.lifetime = LIFETIME
        self.denies = None
        # How the other program answers: `web` in the query, `native` in the fragment.
        self.bridge = None
        self.post_logout = None
        # Members that an ID token has differently; None removes one.
        self.claims = {}
        self.signs_with = None
        # Sign-ins at the other program, by its state: whose browser, and the address to return to.
        self.bridged = {}
        # What was revoked, in order, and what ended in the browser.
        self.revoked, self.ended = [], []
        self.id_tokens = set()

    def discovery(self, request):
        self.empty_query(request)
        kinds = ["code", "token", "id_token", "code token", "code id_token", "token id_token", "code token id_token"]
        return Answer.json(200, {
            "issuer": self.url, "authorization_endpoint": f"{self.url}/authorize", "token_endpoint": f"{self.url}/token",
            "userinfo_endpoint": f"{self.url}/userinfo", "jwks_uri": f"{self.url}/keys",
            "end_session_endpoint": f"{self.url}/session/end", "response_types_supported": kinds,
            "grant_types_supported": ["authorization_code", "refresh_token"], "subject_types_supported": ["public"],
            "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
            "id_token_signing_alg_values_supported": ["RS256"], "scopes_supported": sorted(SCOPES)})

    def keys(self, request):
        return Answer.json(200, {"keys": [self.key.jwk()]})

    # The sign-in.

    def authorize(self, request):
        extra = [name for name, _ in request.query if EXTRA.fullmatch(name)]
        values = self.parameters(
            request.query, ("response_type", "client_id", "redirect_uri", "scope", "state", "nonce", "code_challenge",
                            "code_challenge_method"), ("prompt", *extra))
        for name, wanted in (("response_type", "code"), ("client_id", CLIENT), ("redirect_uri", self.redirect)):
            if values[name] != wanted:
                self.refuse(f"{name} is {values[name]!r}, not {wanted!r}")
        if set(values["scope"].split(" ")) != SCOPES:
            self.refuse(f"scope is {values['scope']!r}")
        if values.get("fbapp_pres") not in (None, "0", "1"):
            self.refuse(f"fbapp_pres is {values['fbapp_pres']!r}")
        if self.denies:
            query = {"error": self.denies, "error_description": "no", "state": values["state"]}
            return Answer.redirect(f"{self.redirect}?{urllib.parse.urlencode(query)}")
        offline = values.get("prompt") == "consent"
        code = self.new_code(Code(CLIENT, self.redirect, self.challenge(values), values["scope"], values["nonce"], offline))
        back = f"{self.redirect}?{urllib.parse.urlencode({'code': code, 'state': values['state']})}"
        if self.bridge and values.get("fbapp_pres") == "1":
            return self.other_program(back)
        return Answer.redirect(back)

    def other_program(self, back):
        """The sign-in goes on in another program, which answers at a scheme of its own."""
        state, browser = f"{secrets.token_urlsafe(8)}+/ =", secrets.token_urlsafe(8)
        self.bridged[state] = browser, back
        answer = urllib.parse.urlencode({"code": APP_CODE, "state": state})
        place = f"?{answer}" if self.bridge == "web" else f"?code=decoy#{answer}"
        return Answer.redirect(f"{APP_SCHEME}://authorize{place}", [("Set-Cookie", f"{BROWSER}={browser}; Path=/")])

    def external_callback(self, request):
        names = [name for name, _ in request.query]
        if names != ["code", "state", "fbapp_type"]:
            self.refuse(f"the parameters are {names}, not code, state, fbapp_type")
        values = dict(request.query)
        if values["code"] != APP_CODE:
            self.refuse(f"the other program's code is {values['code']!r}")
        if values["fbapp_type"] != self.bridge:
            self.refuse(f"fbapp_type is {values['fbapp_type']!r}, not {self.bridge}")
        browser, back = self.bridged.pop(values["state"], (None, None))
        if browser is None:
            self.refuse(f"no sign-in has the state {values['state']!r}")
        if request.cookies.get(BROWSER) != browser:
            self.refuse("it is not the browser of the sign-in")
        return Answer.redirect(back)

    # Tokens.

    def token(self, request):
        values = self.token_json(request) if self.body == "json" else self.token_form(request)
        if values["grant_type"] == "authorization_code":
            return self.answer(self.redeem(values))
        grant = self.renew(values)
        old = values["refresh_token"]
        if self.rotates:
            del self.refresh_tokens[old]
        return self.answer(grant, None if self.rotates else old, is_refresh=True)

    def token_form(self, request):
        if "Authorization" in request.headers:
            self.refuse("a client without a secret sends Authorization")
        if b"grant_type=refresh_token" in request.body:
            return self.form(request, ("grant_type", "refresh_token", "client_id"), ("scope",))
        return self.form(request, (*CODE_FORM, "client_id"))

    def token_json(self, request):
        scheme, _, text = (request.headers.get("Authorization") or "").partition(" ")
        if scheme != "Basic" or base64.b64decode(text).decode() != f"{CLIENT}:{urllib.parse.quote_plus(SECRET)}":
            self.refuse("it has no Basic with the client and its secret", "invalid_client", 401)
        if request.content_type != "application/json":
            self.refuse(f"the content type is {request.content_type}")
        values = json.loads(request.body)
        names = CODE_FORM if values.get("grant_type") == "authorization_code" else ("grant_type", "refresh_token")
        return {"client_id": CLIENT} | self.parameters(list(values.items()), names, ("client_id", "scope"), "body")

    def answer(self, grant, refresh=None, is_refresh=False):
        access = self.new_access(grant, self.lifetime)
        body = {"access_token": access, "token_type": "Bearer", "expires_in": self.lifetime,
                "id_token": self.id_token(grant, access, is_refresh)}
        if grant.offline:
            body["refresh_token"] = refresh or self.new_refresh(grant)
        return Answer.json(200, body)

    def id_token(self, grant, access, is_refresh):
        now, half = int(time.time()), hashlib.sha256(access.encode()).digest()[:16]
        claims = {"iss": self.url, "sub": "sub-17", "aud": [SERVICE, CLIENT], "azp": CLIENT, "iat": now, "exp": now + LIFETIME,
                  "auth_time": now, "at_hash": rsa.encode(half), "email": "ada@example.com", "name": "Ada Lovelace"}
        claims |= {} if is_refresh else {"nonce": grant.nonce}
        claims = {name: value for name, value in (claims | self.claims).items() if value is not None}
        head = {"alg": "RS256", "typ": "JWT", "kid": self.key.kid}
        text = ".".join(rsa.encode(json.dumps(part).encode()) for part in (head, claims))
        made = f"{text}.{rsa.encode((self.signs_with or self.key).sign(text.encode()))}"
        self.id_tokens.add(made)
        return made

    def revoke(self, request):
        values = self.form(request, ("token", "client_id"), ("token_type_hint",))
        if values["client_id"] != CLIENT:
            self.refuse(f"client_id is {values['client_id']!r}")
        for kind, tokens in (("access_token", self.access), ("refresh_token", self.refresh_tokens)):
            if tokens.pop(values["token"], None):
                if values.get("token_type_hint") not in (None, kind):
                    self.refuse(f"token_type_hint of {kind} is {values['token_type_hint']!r}")
                self.revoked.append(kind)
        return Answer(200)

    def userinfo(self, request):
        return self.protected(request, {"sub": "sub-17", "email": "ada@example.com", "name": "Ada Lovelace"})

    def me(self, request):
        return self.protected(request, {"id": 17})

    def protected(self, request, body):
        if request.bearer is None:
            self.refuse("it has no Authorization: Bearer", status=401)
        if not self.holder(request.bearer):
            return Answer.json(401, {"error": "invalid_token"}, [("WWW-Authenticate", 'Bearer error="invalid_token"')])
        return Answer.json(200, body)

    def end_session(self, request):
        """The page that ends the browser's session."""
        values = self.parameters(request.query, ("id_token_hint", "post_logout_redirect_uri"), ("state", "client_id"))
        if values["id_token_hint"] not in self.id_tokens:
            self.refuse("id_token_hint is no ID token of this server")
        if urllib.parse.urlsplit(values["post_logout_redirect_uri"]).path != "/signed-out":
            self.refuse(f"post_logout_redirect_uri is {values['post_logout_redirect_uri']!r}")
        self.ended.append(values["id_token_hint"])
        state = f"?state={urllib.parse.quote(values['state'])}" if "state" in values else ""
        return Answer.redirect(values["post_logout_redirect_uri"] + state)
