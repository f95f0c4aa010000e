"""Dropbox: the web sign-in, and an application on this machine that signs people in with addresses of its own."""

import secrets
import urllib.parse

from .oauth import CHALLENGE, Code, OAuthFake
from .server import Answer, Refusal, pairs

KEY = "abcdefghijklmno"
TOKEN_REDIRECT, CONNECT = f"db-{KEY}://2/token", f"db-{KEY}://1/connect"
APP_SCHEMES = ("dbapi-2", "dbapi-8-emm")
UID, ACCOUNT = "12345", "dbid:AAH4f99T0taONIb-OurWxbNQ6ywGRopQngc"
LIFETIME = 14400
DENIAL = "The user chose not to give your app access."
TOKEN, REVOKE, CURRENT = "/oauth2/token", "/2/auth/token/revoke", "/2/users/get_current_account"


class Dropbox(OAuthFake):
    """The provider, and its application (`open_app`)."""

    client_id = KEY
    routes = {
        ("GET", "/oauth2/authorize"): "authorize",
        ("POST", TOKEN): "token",
        ("POST", REVOKE): "revoke",
        ("POST", CURRENT): "current_account",
    }

    def __init__(self, redirect=TOKEN_REDIRECT):
        super().__init__()
        # The redirect URI of the web sign-in.
        self.redirect = redirect
        self.denies = False
        self.lifetime = LIFETIME
        self.revoked = 0

    # The web.

    def authorize(self, request):
        values = dict(request.query)
        required = ("client_id", "redirect_uri", "response_type", "disable_signup", "state")
        if values.get("response_type") == "code":
            values = self.parameters(
                request.query, (*required, "code_challenge", "code_challenge_method"), ("token_access_type",))
        else:
            values = self.parameters(request.query, required)
        for name, wanted in (("client_id", KEY), ("redirect_uri", self.redirect), ("disable_signup", "true")):
            if values[name] != wanted:
                self.refuse(f"{name} is {values[name]!r}, not {wanted!r}")
        if values["response_type"] not in ("code", "token"):
            self.refuse(f"response_type is {values['response_type']!r}")
        place = "?" if values["response_type"] == "code" else "#"
        return Answer.redirect(self.redirect + place + urllib.parse.urlencode(self.web_answer(values)))

    def web_answer(self, values):
        state = {"state": values["state"]}
        if self.denies:
            return {"error_description": DENIAL, "error": "access_denied"} | state
        if values["response_type"] == "token":
            token = self.new_access(Code(KEY, self.redirect), self.lifetime)
            return {"access_token": token, "token_type": "bearer", "uid": UID, "account_id": ACCOUNT} | state
        offline = self.offline(values.get("token_access_type"))
        return {"code": self.new_code(Code(KEY, self.redirect, self.challenge(values), offline=offline))} | state

    def offline(self, word):
        if word not in (None, "offline"):
            self.refuse(f"token_access_type is {word!r}")
        return word == "offline"

    # The application.

    def open_app(self, url, answer="oauth_code"):
        """The address that the application calls back: with `oauth_code`, in the `old` form, or `token`."""
        try:
            return self.app_answer(url, answer)
        except Refusal as refusal:
            self.refusals.append(f"{url}: {refusal.reason}")
            return f"db-{KEY}://1/cancel"

    def app_answer(self, url, answer):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in APP_SCHEMES or (parts.netloc, parts.path) != ("1", "/connect"):
            self.refuse(f"the application does not take {parts.scheme}://{parts.netloc}{parts.path}")
        found = pairs(parts.query)
        names = ["k", "s", "state"] + (["extra_query_params"] if answer != "token" else [])
        if [name for name, _ in found] != names:
            self.refuse(f"the parameters are {[name for name, _ in found]}, not {names}")
        values = dict(found)
        if (values["k"], values["s"]) != (KEY, ""):
            self.refuse(f"k and s are {values['k']!r} and {values['s']!r}")
        if answer == "token":
            kind, _, nonce = values["state"].partition(":")
            if kind != "oauth2" or not nonce:
                self.refuse(f"state is {values['state']!r}, not oauth2:<nonce>")
            token = self.new_access(Code(KEY, TOKEN_REDIRECT), self.lifetime)
            return self.connect(oauth_token="", oauth_token_secret=token, uid=UID, state=values["state"])
        code = self.app_code(values)
        if answer == "old":
            return self.connect(oauth_token="oauth2code:", oauth_token_secret=code, state=values["state"])
        return self.connect(oauth_code=code, state=values["state"])

    def app_code(self, values):
        """A code, where `state` and `extra_query_params` say the same."""
        extra = pairs(values["extra_query_params"])
        names = ["code_challenge", "code_challenge_method", "response_type"]
        if [name for name, _ in extra] not in (names, [*names, "token_access_type"]):
            self.refuse(f"extra_query_params has {[name for name, _ in extra]}")
        more = dict(extra)
        if more["response_type"] != "code" or more["code_challenge_method"] != "S256":
            self.refuse(f"extra_query_params is {more}")
        offline = more.get("token_access_type", "")
        wanted = f"oauth2code:{more['code_challenge']}:S256:{offline}"
        if values["state"] != wanted or not CHALLENGE.fullmatch(more["code_challenge"]):
            self.refuse(f"state is {values['state']!r}, not {wanted!r}")
        # The redirect URI of the application's codes is this one, whatever that of the web is.
        return self.new_code(Code(KEY, TOKEN_REDIRECT, more["code_challenge"], offline=self.offline(offline or None)))

    def connect(self, **values):
        return f"{CONNECT}?{urllib.parse.urlencode(values)}"

    # Tokens.

    def token(self, request):
        if "Authorization" in request.headers:
            self.refuse("a client without a secret sends Authorization")
        if b"grant_type=refresh_token" in request.body:
            grant = self.renew(self.form(request, ("grant_type", "refresh_token", "client_id")))
            return Answer.json(200, self.bare(grant))
        values = self.form(request, ("grant_type", "code", "redirect_uri", "client_id", "code_verifier"))
        if values["grant_type"] != "authorization_code":
            self.refuse(f"grant_type is {values['grant_type']!r}", "unsupported_grant_type")
        grant = self.redeem(values)
        body = self.bare(grant) | {"uid": UID, "account_id": ACCOUNT, "scope": "account_info.read files.metadata.read"}
        return Answer.json(200, body | ({"refresh_token": self.new_refresh(grant)} if grant.offline else {}))

    def bare(self, grant):
        """What a refresh is answered: no refresh token."""
        return {"access_token": self.new_access(grant, self.lifetime), "token_type": "bearer", "expires_in": self.lifetime}

    def authorized(self, request):
        """The grant of the request's token."""
        self.empty_query(request)
        grant = self.holder(request.bearer)
        if grant is None:
            if request.bearer is None:
                self.refuse("it has no Authorization: Bearer", status=401)
            raise Refusal("the access token is unknown", failure("invalid_access_token"))
        return grant

    def revoke(self, request):
        self.empty_body(request)
        grant = self.authorized(request)
        # The whole grant ends.
        self.access = {token: one for token, one in self.access.items() if one is not grant}
        self.refresh_tokens = {token: one for token, one in self.refresh_tokens.items() if one is not grant}
        self.revoked += 1
        return Answer.json(200, None)

    def current_account(self, request):
        self.authorized(request)
        return Answer.json(200, {"account_id": ACCOUNT, "email": "ada@example.com"})

    def other_code(self):
        """A code that belongs to no login."""
        return secrets.token_urlsafe(12)


def failure(tag):
    """An answer of the API that refuses a token."""
    return Answer.json(401, {"error_summary": f"{tag}/..", "error": {".tag": tag}})


def too_many():
    return Answer.json(429, {
        "error_summary": "too_many_requests/..", "error": {"reason": {".tag": "too_many_requests"}, "retry_after": 7}},
        [("Retry-After", "7")])
