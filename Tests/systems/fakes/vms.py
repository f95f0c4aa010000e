"""A video management system whose users sign in elsewhere.

The server builds the sign-in address itself, and returns a code at a callback address of which the client knows the
scheme alone. The number of sessions is limited: HTTP 419 lists them, and one of them has to be replaced.
"""

import json
import secrets
import uuid

from .server import Answer, Fake, Refusal

BASE = "/api/v1/"
BASIC, SIGN_IN_URL, CALLBACK = f"{BASE}static/basic", f"{BASE}external/auth/url", f"{BASE}external/auth/callback"
SESSIONS, LOGOUT, SELF = f"{BASE}sessions", f"{BASE}logout", f"{BASE}users/self"
# Before a login there is no token.
ANONYMOUS = {BASIC, SIGN_IN_URL, CALLBACK}
ABSENT = object()


class Vms(Fake):
    """The server. `redirect` is the callback address of the operator's choice, up to its query."""

    routes = {
        ("GET", BASIC): "basic",
        ("GET", SIGN_IN_URL): "sign_in_url",
        ("GET", "/sign-in"): "sign_in",
        ("POST", CALLBACK): "callback",
        ("POST", LOGOUT): "logout",
        ("GET", SESSIONS): "list_sessions",
        ("POST", f"{SESSIONS}/"): "delete_session",
        ("GET", SELF): "myself",
    }

    def __init__(self, redirect):
        super().__init__()
        # The callback address of the operator's choice, up to its query.
        self.redirect = redirect
        # Settings: what the page leaves open, or what a server may do.
        self.available = True
        self.client, self.version, self.language = None, None, None
        self.limit = None
        self.limit_shape = "object"
        self.sends_key = True
        self.user = {
            "id": 17, "name": "Ada Lovelace", "login": "ada", "email": "ada@example.com", "phone": "+4930123456",
            "token": "user-token", "access_token_id": 5, "permissions": ["live", "archive"], "can_update_password": True}
        # Codes that may be used, logins that wait for a session to be replaced, tokens that are good.
        self.codes, self.keys, self.tokens = set(), set(), {}
        self.sessions = []
        # Sessions that were ended, in order.
        self.ended = []

    # The rules of every call.

    def check(self, request):
        if not request.path.startswith(BASE):
            return
        for name in ("Accept", "Content-Type"):
            if request.headers.get(name) != "application/json":
                self.refuse(f"{name} is {request.headers.get(name)!r}, not application/json")
        for name, wanted in (("X-Client", self.client), ("X-Version", self.version), ("hl", self.language)):
            value = request.headers.get(name)
            if not value or wanted and value != wanted:
                self.refuse(f"{name} is {value!r}, not {wanted or 'there'}")
        try:
            uuid.UUID(request.headers.get("X-UUID") or "")
        except ValueError:
            self.refuse(f"X-UUID is {request.headers.get('X-UUID')!r}, not the UUID of a device")
        if request.path in ANONYMOUS:
            if "Authorization" in request.headers:
                self.refuse("it has Authorization before the login")
        elif request.bearer is None:
            raise Refusal("it has no Authorization: Bearer", Answer.json(401, {"message": "no token"}))
        elif self.tokens.get(request.bearer) != request.headers["X-UUID"]:
            if request.bearer in self.tokens:
                self.refuse("X-UUID is not that of the login")
            # A token that the server ended is no mistake of the client.
            raise Ended()

    def respond(self, request):
        try:
            return super().respond(request)
        except Ended:
            return Answer.json(401, {"message": "unauthorized"})

    # The calls.

    def basic(self, request):
        self.empty_query(request)
        self.empty_body(request)
        values = {
            "is_captcha_available": False, "is_external_auth_enabled": self.available, "available_locales": ["en", "de"],
            "version": "24.3.0"}
        return Answer.json(200, {name: value for name, value in values.items() if value is not ABSENT})

    def sign_in_url(self, request):
        # The client gives no redirect_uri, no state and no code challenge.
        self.empty_query(request)
        self.empty_body(request)
        return Answer.json(200, {"url": f"{self.url}/sign-in"})

    def sign_in(self, request):
        """The page of the identity provider, where the person agrees at once."""
        self.empty_query(request)
        return Answer.redirect(f"{self.redirect}?code={self.new_code()}")

    def new_code(self):
        code = secrets.token_urlsafe(12)
        self.codes.add(code)
        return code

    def callback(self, request):
        body = json.loads(request.body or b"{}") if request.content_type == "application/json" else {}
        by = "key" if isinstance(body, dict) and "key" in body else "code"
        replaces = isinstance(body, dict) and "session_id" in body
        names = {by: str} | ({"session_id": (str, int)} if replaces else {})
        # A limit without sessions has nothing to replace: the key alone goes on.
        if by == "key" and not replaces and self.sessions:
            self.refuse("it has a key and no session_id")
        body = self.json_object(request, **names)
        known = self.keys if by == "key" else self.codes
        if body[by] not in known:
            raise Refusal(f"the {by} is unknown or was used", Answer.json(422, {
                "message": "The given data was invalid.", "errors": {by: [f"The {by} is invalid."]}}))
        if by == "code" and replaces and self.sends_key and self.limit_shape == "object":
            self.refuse("it repeats the code although a key came")
        if replaces:
            found = [one for one in self.sessions if str(one["id"]) == str(body["session_id"])]
            if not found:
                self.refuse(f"there is no session {body['session_id']!r}")
            self.end(found[0])
        is_full = self.limit is not None and len(self.sessions) >= self.limit
        if is_full and (by == "code" or replaces):
            return self.too_many(by, body[by])
        known.discard(body[by])
        return self.admit(request)

    def end(self, session):
        self.sessions.remove(session)
        self.ended.append(session["id"])

    def too_many(self, by, value):
        if self.limit_shape == "array":
            return Answer.json(419, self.sessions)
        body = {"sessions_limit": self.limit, "sessions": self.sessions, "captcha_will_required_in": 3}
        if self.sends_key:
            # A key is for one attempt: the next answer has another one.
            (self.keys if by == "key" else self.codes).discard(value)
            body["key"] = secrets.token_urlsafe(12)
            self.keys.add(body["key"])
        return Answer.json(419, body)

    def admit(self, request):
        token = secrets.token_urlsafe(16)
        self.tokens[token] = request.headers["X-UUID"]
        return Answer.json(200, {"user": self.user, "access_token": token})

    def logout(self, request):
        self.empty_query(request)
        body = self.json_object(request, uuid=str)
        if body["uuid"] != request.headers["X-UUID"]:
            self.refuse("uuid is not X-UUID")
        del self.tokens[request.bearer]
        return Answer.json(200, {})

    def list_sessions(self, request):
        self.empty_query(request)
        self.empty_body(request)
        return Answer.json(200, self.sessions)

    def delete_session(self, request):
        self.empty_query(request)
        if request.body not in (b"", b"{}"):
            self.refuse(f"the body is {request.body[:80]!r}")
        identifier = request.path.removeprefix(f"{SESSIONS}/")
        found = [one for one in self.sessions if str(one["id"]) == identifier]
        if not found:
            return Answer.json(404, {"message": "no such session"})
        self.end(found[0])
        return Answer.json(200, {})

    def myself(self, request):
        self.empty_query(request)
        return Answer.json(200, self.user)


class Ended(Exception):
    """The token was good once."""


def session(identifier, online=False, last=None, **more):
    """One session as the server lists it; absent members are left out."""
    made = {"id": identifier, "user_agent": "Firefox", "online": online, "client": "web", "ip": "192.0.2.7",
            "is_current": False}
    return made | ({} if last is None else {"last": last}) | more
