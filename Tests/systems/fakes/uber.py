"""Uber: a sign-in page for each product, values that are pushed ahead, and token answers in more than one form."""

import base64
import json
import secrets
import urllib.parse

from .oauth import Code, OAuthFake
from .server import Answer

CLIENT = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"
PRODUCTS = ("universal", "riders", "eats", "drivers")
PREFILL = ("email", "phone", "first_name", "last_name")
PAR, TOKEN, ME = "/oauth/v2/par", "/oauth/v2/token", "/v1.2/me"
LIFETIME, PUSHED_LIFETIME = 2592000, 600
# In place of a member's value: the answer does not have it.
ABSENT = object()


def page(product):
    return f"/oauth/v2/{product}/authorize"


class Uber(OAuthFake):
    """The provider. `redirect` is the registered redirect URI."""

    client_id = CLIENT
    routes = {("GET", page(product)): "authorize" for product in PRODUCTS} | {
        ("POST", PAR): "push", ("POST", TOKEN): "token", ("GET", ME): "me"}

    def __init__(self, redirect):
        super().__init__()
        self.redirect = redirect
        # Settings: whether the client exchanges codes itself, and what the page says may differ.
        self.exchanges = True
        self.par_status = 201
        self.token_type = "Bearer"
        self.scope_as_array, self.lifetime_as_text = False, False
        # Members of the callback in place of a code, or beside one.
        self.denies, self.errs_beside_code = None, None
        # What was pushed, by request_uri.
        self.pushed = {}
        self.signed_in_at = []

    def authorize(self, request):
        pkce = ("code_challenge", "code_challenge_method") if self.exchanges else ()
        values = self.parameters(
            request.query, ("response_type", "client_id", "redirect_uri", "scope", "state", *pkce), ("prompt", "request_uri"))
        for name, wanted in (("response_type", "code"), ("client_id", CLIENT), ("redirect_uri", self.redirect)):
            if values[name] != wanted:
                self.refuse(f"{name} is {values[name]!r}, not {wanted!r}")
        if "prompt" in values and (not values["prompt"] or set(values["prompt"].split(" ")) - {"login", "consent"}):
            self.refuse(f"prompt is {values['prompt']!r}")
        if values.get("request_uri", "") not in ("", *self.pushed) or values.get("request_uri") == "":
            self.refuse(f"request_uri is {values['request_uri']!r}, which was not pushed")
        self.signed_in_at.append(request.path.split("/")[3])
        if self.denies:
            return self.back(self.denies | {"state": values["state"]})
        challenge = self.challenge(values) if self.exchanges else None
        code = self.new_code(Code(CLIENT, self.redirect, challenge, values["scope"]))
        return self.back({"code": code, "state": values["state"]} | (self.errs_beside_code or {}))

    def back(self, values):
        return Answer.redirect(f"{self.redirect}?{urllib.parse.urlencode(values)}")

    def push(self, request):
        if "Authorization" in request.headers:
            self.refuse("a client without a secret sends Authorization")
        values = self.form(request, ("client_id", "response_type", "login_hint"))
        if (values["client_id"], values["response_type"]) != (CLIENT, "code"):
            self.refuse(f"client_id and response_type are {values['client_id']!r} and {values['response_type']!r}")
        try:
            hint = json.loads(base64.b64decode(values["login_hint"], validate=True))
        except ValueError:
            self.refuse(f"login_hint is no JSON in base64: {values['login_hint']!r}")
        if not isinstance(hint, dict) or not hint or set(hint) - set(PREFILL):
            self.refuse(f"login_hint is {hint!r}")
        if wrong := [name for name, value in hint.items() if not isinstance(value, str)]:
            self.refuse(f"login_hint has {', '.join(wrong)} that is no text: a null is dropped")
        uri = f"urn:ietf:params:oauth:request_uri:{secrets.token_urlsafe(8)}"
        self.pushed[uri] = hint
        return Answer.json(self.par_status, {"request_uri": uri, "expires_in": PUSHED_LIFETIME})

    def token(self, request):
        if "Authorization" in request.headers:
            self.refuse("a client without a secret sends Authorization")
        if b"grant_type=refresh_token" in request.body:
            values = self.form(request, ("grant_type", "refresh_token", "client_id"))
            grant = self.renew(values)
            return self.answer(grant, values["refresh_token"])
        values = self.form(request, ("grant_type", "code", "redirect_uri", "client_id", "code_verifier"))
        if values["grant_type"] != "authorization_code":
            self.refuse(f"grant_type is {values['grant_type']!r}", "unsupported_grant_type")
        grant = self.redeem(values)
        return self.answer(grant, self.new_refresh(grant))

    def answer(self, grant, refresh):
        scope = grant.scope.split(" ")
        body = {"access_token": self.new_access(grant, LIFETIME), "refresh_token": refresh,
                "expires_in": str(LIFETIME) if self.lifetime_as_text else LIFETIME,
                "scope": scope if self.scope_as_array else " ".join(scope)}
        return Answer.json(200, body | ({} if self.token_type is ABSENT else {"token_type": self.token_type}))

    def me(self, request):
        if request.bearer is None:
            self.refuse("it has no Authorization: Bearer", status=401)
        if not self.holder(request.bearer):
            return Answer.json(401, {"code": "unauthorized"})
        return Answer.json(200, {"first_name": "Ada"})
