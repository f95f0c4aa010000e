"""Zephr: an identity provider signs people in, new ones register first, and a session stands in place of a token."""

import json
import secrets
import time
import urllib.parse
import uuid

from .server import Answer, Fake, Refusal

WHERE = ("JUST_HERE", "THIS_DEVICE", "OTHER_DEVICES", "EVERYWHERE")
TRACKING, SESSION = "blaize_tracking_id", "blaize_session"
IDENTIFIER = "ada@example.com"


class Zephr(Fake):
    """The site and its identity providers. `redirect` is where a sign-in ends."""

    def __init__(self, redirect, prefix="/blaize"):
        self.prefix, self.redirect = prefix, redirect
        self.routes = {
            ("GET", f"{prefix}/oauth/"): "begin",
            ("GET", "/idp/"): "identity_provider",
            # This address is registered at the identity provider, whatever the prefix of the site is.
            ("GET", "/zephr/oauth/"): "come_back" if prefix != "/zephr" else "begin_or_come_back",
            ("POST", f"{prefix}/register"): "register",
            ("GET", f"{prefix}/profile"): "profile",
            ("POST", f"{prefix}/logout"): "logout",
        }
        super().__init__()
        # Settings: how a sign-in ends, and what the page leaves open.
        self.status = "success"
        self.message = "The account is blocked."
        self.identity_providers = {"google", "apple"}
        self.takes_redirect = False
        self.required_attributes = set()
        self.user_exists_status, self.email_domain_status = 409, 403
        self.refuses = None
        self.cookie_in = ("header", "body")
        self.lifetime = 86400
        # Devices that were told by cookie, sign-ins under way, registrations that wait, sessions that are good.
        self.devices, self.states, self.state_keys = set(), {}, set()
        self.sessions, self.ends = {}, {}
        self.registered = []
        self.logouts = []

    def callback_url(self, idp):
        return f"{self.url}/zephr/oauth/{idp}/ios/callback"

    def begin(self, request):
        idp = request.path.removeprefix(f"{self.prefix}/oauth/")
        if idp not in self.identity_providers:
            raise Refusal(f"there is no identity provider {idp}", Answer.json(404, {"message": "unknown provider"}))
        values = self.parameters(request.query, ("client_type",), ("redirect_uri",) if self.takes_redirect else ())
        if values["client_type"] != "ios":
            self.refuse(f"client_type is {values['client_type']!r}")
        redirect = values.get("redirect_uri", self.redirect)
        if not redirect.startswith(self.redirect):
            self.refuse(f"the redirect URI is {redirect!r}")
        state, device = secrets.token_urlsafe(12), secrets.token_urlsafe(12)
        self.states[state] = redirect
        self.devices.add(device)
        query = urllib.parse.urlencode({"redirect_uri": self.callback_url(idp), "state": state})
        return Answer.redirect(f"{self.url}/idp/{idp}?{query}", [("Set-Cookie", f"{TRACKING}={device}; Path=/; HttpOnly")])

    def identity_provider(self, request):
        """The person agrees at once."""
        idp, values = request.path.removeprefix("/idp/"), dict(request.query)
        if values.get("redirect_uri") != self.callback_url(idp):
            self.refuse(f"the redirect URI is not registered: {values.get('redirect_uri')}")
        return Answer.redirect(f"{values['redirect_uri']}?code=1&state={values['state']}")

    def begin_or_come_back(self, request):
        return self.come_back(request) if request.path.endswith("/ios/callback") else self.begin(request)

    def come_back(self, request):
        values = self.parameters(request.query, ("code", "state"))
        redirect = self.states.pop(values["state"], None)
        if redirect is None:
            self.refuse("no sign-in has this state")
        return Answer.redirect(f"{redirect}?{urllib.parse.urlencode(self.result())}")

    def result(self):
        """What the application is told in the query."""
        if self.status == "success":
            return {"action": "login", "status": "success", "tracking_id": secrets.token_urlsafe(6),
                    "session_id": self.new_session()}
        if self.status == "partial":
            key = secrets.token_urlsafe(12)
            self.state_keys.add(key)
            return {"action": "register", "status": "partial", "state_key": key, "identifier": IDENTIFIER}
        if self.status == "failure":
            return {"action": "login", "status": "failure", "message": self.message}
        return {"action": "login", "status": self.status}

    def new_session(self):
        session = str(uuid.uuid4())
        self.ends[session] = time.time() + self.lifetime
        self.sessions[session] = {"user_id": "u-17", "identifiers": {"email_address": IDENTIFIER}}
        return session

    def device(self, request):
        if request.cookies.get(TRACKING) not in self.devices:
            self.refuse(f"it does not send back the cookie {TRACKING} of the start: {sorted(request.cookies)}")

    def register(self, request):
        self.empty_query(request)
        self.device(request)
        body = self.json_object(request, identifiers=dict, validators=dict, attributes=dict)
        if body["identifiers"] != {}:
            self.refuse(f"identifiers is {body['identifiers']!r}, not {{}}")
        if set(body["validators"]) != {"token_exchange"}:
            self.refuse(f"validators is {body['validators']!r}")
        key = body["validators"]["token_exchange"]
        if key not in self.state_keys:
            self.refuse(f"token_exchange is no state_key: {key!r}")
        if self.refuses == "user_exists":
            return Answer.json(self.user_exists_status, {"message": "The user exists."})
        if self.refuses == "email_domain":
            return Answer.json(self.email_domain_status, {"message": "The domain example.com is blocked."})
        if missing := self.required_attributes - set(body["attributes"]):
            return Answer.json(400, {"message": f"Required: {', '.join(sorted(missing))}."})
        self.state_keys.discard(key)
        self.registered.append(body["attributes"])
        ends = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + self.lifetime))
        cookie = f"{SESSION}={self.new_session()}; Expires={ends}; Path=/;"
        answer = {"message": "registered", "tracking_id": secrets.token_urlsafe(6)}
        answer |= {"cookie": cookie} if "body" in self.cookie_in else {}
        return Answer.json(200, answer, [("Set-Cookie", cookie)] if "header" in self.cookie_in else [])

    def signed_in(self, request):
        """The session of the request."""
        self.device(request)
        session = request.cookies.get(SESSION)
        if not session:
            self.refuse(f"it has no cookie {SESSION}")
        return session

    def profile(self, request):
        self.empty_query(request)
        self.empty_body(request)
        session = self.signed_in(request)
        if self.ends.get(session, 0) < time.time() or session not in self.sessions:
            return Answer.json(401, {"message": "unauthorized"})
        return Answer.json(200, self.sessions[session])

    def logout(self, request):
        self.empty_query(request)
        session = self.signed_in(request)
        body = self.json_object(request, where=str)
        if body["where"] not in WHERE:
            self.refuse(f"where is {body['where']!r}")
        self.logouts.append(body["where"])
        if body["where"] == "EVERYWHERE":
            self.sessions.clear()
        elif body["where"] != "OTHER_DEVICES":
            self.sessions.pop(session, None)
        return Answer.json(200, {"message": "done"})

    def bodies(self):
        """What was posted to register."""
        return [json.loads(request.body) for request in self.of("POST", f"{self.prefix}/register")]
