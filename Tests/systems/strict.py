"""Checks the fakes themselves: each of these requests is wrong, and its fake has to refuse it with a reason."""

import base64
import email.message
import json
import urllib.parse
import uuid

from fakes import dropbox, sevenpass, uber, vms, zephr
from fakes.oauth import s256
from fakes.server import Request

VERIFIER = "v" * 43
CHALLENGE = {"code_challenge": s256(VERIFIER), "code_challenge_method": "S256"}


def send(fake, method, path, headers=(), body=b"", query=None, form=None, value=None):
    """The answer to one request, without a network."""
    fields = email.message.Message()
    if form is not None:
        body = urllib.parse.urlencode(form).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded"} | dict(headers)
    if value is not None:
        body, headers = json.dumps(value).encode(), {"Content-Type": "application/json"} | dict(headers)
    for name, text in dict(headers).items():
        fields[name] = text
    return fake.respond(Request(method, path + (f"?{urllib.parse.urlencode(query)}" if query else ""), fields, body))


def without(values, *names, **more):
    return {name: value for name, value in values.items() if name not in names} | more


def of_vms(fake):
    good = {"Accept": "application/json", "Content-Type": "application/json", "X-UUID": str(uuid.uuid4()), "X-Client": "ios",
            "hl": "en", "X-Version": "24.03.0.0"}
    token = json.loads(send(fake, "POST", vms.CALLBACK, good, value={"code": fake.new_code()}).body)["access_token"]
    signed_in = good | {"Authorization": f"Bearer {token}"}
    yield None, "the right request", lambda: send(fake, "GET", vms.BASIC, good)
    for name in good:
        yield name, f"without {name}", lambda name=name: send(fake, "GET", vms.BASIC, without(good, name))
    yield "X-UUID", "a UUID that is none", lambda: send(fake, "GET", vms.BASIC, good | {"X-UUID": "device"})
    yield "Authorization", "a token before the login", lambda: send(fake, "GET", vms.BASIC, signed_in)
    yield "Authorization", "no token after the login", lambda: send(fake, "GET", vms.SESSIONS, good)
    yield "that of the login", "another device", lambda: send(
        fake, "GET", vms.SESSIONS, signed_in | {"X-UUID": str(uuid.uuid4())})
    yield "query", "a redirect URI", lambda: send(fake, "GET", vms.SIGN_IN_URL, good, query={"redirect_uri": "x:y"})
    yield "method", "a POST", lambda: send(fake, "POST", vms.SIGN_IN_URL, good)
    yield "not an object of", "more than the code", lambda: send(
        fake, "POST", vms.CALLBACK, good, value={"code": fake.new_code(), "state": "s"})
    yield "unknown or was used", "a code that is none", lambda: send(fake, "POST", vms.CALLBACK, good, value={"code": "c"})
    yield "uuid", "the UUID of another device", lambda: send(fake, "POST", vms.LOGOUT, signed_in, value={"uuid": "other"})
    yield "no such path", "another path", lambda: send(fake, "GET", f"{vms.BASE}user", signed_in)


def of_zephr(fake):
    start, register, profile = "/blaize/oauth/google", "/blaize/register", "/blaize/profile"
    cookie = dict(send(fake, "GET", start, query={"client_type": "ios"}).headers)["Set-Cookie"].split(";")[0]
    session = f"{cookie}; {zephr.SESSION}={fake.new_session()}"
    fake.state_keys.add("key")
    good = {"identifiers": {}, "validators": {"token_exchange": "key"}, "attributes": {}}
    yield None, "the right request", lambda: send(fake, "GET", profile, {"Cookie": session})
    yield "client_type", "no client_type", lambda: send(fake, "GET", start)
    yield "has state", "a state", lambda: send(fake, "GET", start, query={"client_type": "ios", "state": "s"})
    yield zephr.TRACKING, "no cookie of the start", lambda: send(fake, "POST", register, value=good)
    for name, value in (("identifiers", {"email": "a"}), ("validators", {}), ("attributes", []), ("more", 1)):
        yield name, f"{name} differs", lambda name=name, value=value: send(
            fake, "POST", register, {"Cookie": cookie}, value=good | {name: value})
    yield "token_exchange", "another state_key", lambda: send(
        fake, "POST", register, {"Cookie": cookie}, value=good | {"validators": {"token_exchange": "k"}})
    yield zephr.SESSION, "no session", lambda: send(fake, "GET", profile, {"Cookie": cookie})
    yield "where", "another word", lambda: send(fake, "POST", "/blaize/logout", {"Cookie": session}, value={"where": "HERE"})


def exchanges(fake, path, make, client):
    """The wrong exchanges of a code that every OAuth system refuses."""
    def values(**more):
        code = fake.new_code(make(CHALLENGE["code_challenge"]))
        return {"grant_type": "authorization_code", "code": code, "redirect_uri": fake.redirect, "client_id": client,
                "code_verifier": VERIFIER} | more

    once = values()
    yield None, "the right exchange", lambda: send(fake, "POST", path, form=once)
    yield "sent twice", "a code again", lambda: send(fake, "POST", path, form=once)
    yield "verifier", "another verifier", lambda: send(fake, "POST", path, form=values(code_verifier="w" * 43))
    yield "code_verifier", "no verifier", lambda: send(fake, "POST", path, form=without(values(), "code_verifier"))
    yield "redirect_uri", "another redirect URI", lambda: send(fake, "POST", path, form=values(redirect_uri="x://y"))
    yield "client_id", "another client", lambda: send(fake, "POST", path, form=values(client_id="other"))
    yield "client_secret", "a secret", lambda: send(fake, "POST", path, form=values(client_secret="s"))
    yield "Authorization", "Basic", lambda: send(fake, "POST", path, {"Authorization": "Basic YQ=="}, form=values())
    yield "content type", "JSON", lambda: send(fake, "POST", path, value=values())


def of_sevenpass(fake):
    good = {"response_type": "code", "client_id": sevenpass.CLIENT, "redirect_uri": fake.redirect, "state": "s", "nonce": "n",
            "scope": "openid offline_access profile email", "prompt": "consent"} | CHALLENGE

    def authorize(**more):
        return send(fake, "GET", "/authorize", query=good | more)

    yield None, "the right request", authorize
    for name in without(good, "prompt"):
        yield name.removeprefix("code_"), f"without {name}", lambda name=name: send(
            fake, "GET", "/authorize", query=without(good, name))
    yield "used before", "the same challenge", authorize
    yield "redirect_uri", "two slashes", lambda: authorize(redirect_uri=fake.redirect.replace(":/", "://"))
    yield "scope", "a scope less", lambda: authorize(scope="openid profile email")
    yield "challenge", "a plain challenge", lambda: authorize(code_challenge_method="plain")
    yield "display", "a parameter that is not free", lambda: authorize(display="page")
    yield "fbapp_pres", "fbapp_pres 2", lambda: authorize(fbapp_pres="2")
    yield from exchanges(fake, "/token", lambda one: sevenpass.Code(sevenpass.CLIENT, fake.redirect, one, nonce="n"),
                         sevenpass.CLIENT)
    fake.bridge = "web"
    answer = {"code": sevenpass.APP_CODE, "state": "s", "fbapp_type": "web"}
    for word, what, query in (
            ("the parameters are", "another order", dict(reversed(answer.items()))),
            ("fbapp_type", "another place", answer | {"fbapp_type": "native"}),
            ("code", "a code that was not encoded", answer | {"code": sevenpass.APP_CODE.replace("+", " ")}),
            ("state", "a state of nobody", answer)):
        yield word, what, lambda query=query: send(fake, "GET", "/external/callback", query=query)


def of_dropbox(fake):
    good = {"client_id": dropbox.KEY, "redirect_uri": fake.redirect, "response_type": "code", "disable_signup": "true",
            "state": "s", "token_access_type": "offline"} | CHALLENGE
    yield None, "the right request", lambda: send(fake, "GET", "/oauth2/authorize", query=good)
    for name in without(good, "token_access_type"):
        yield name.removeprefix("code_"), f"without {name}", lambda name=name: send(
            fake, "GET", "/oauth2/authorize", query=without(good, name))
    yield "token_access_type", "online", lambda: send(
        fake, "GET", "/oauth2/authorize", query=without(good, code_challenge=s256("w"), token_access_type="online"))
    yield from exchanges(fake, dropbox.TOKEN, lambda one: dropbox.Code(dropbox.KEY, fake.redirect, one), dropbox.KEY)
    state = f"oauth2code:{CHALLENGE['code_challenge']}:S256:offline"
    extra = urllib.parse.urlencode(CHALLENGE | {"response_type": "code", "token_access_type": "offline"})
    app = {"k": dropbox.KEY, "s": "", "state": state, "extra_query_params": extra}

    def open_app(scheme="dbapi-2", place="1/connect", query=app, answer="oauth_code"):
        return fake.open_app(f"{scheme}://{place}?{urllib.parse.urlencode(query)}", answer)

    yield None, "the right address", open_app
    yield "does not take", "another scheme", lambda: open_app(scheme="dbapi-1")
    yield "does not take", "another path", lambda: open_app(place="1/connectX")
    yield "the parameters are", "another order", lambda: open_app(query=dict(reversed(app.items())))
    yield "k and s", "another key", lambda: open_app(query=app | {"k": "other"})
    yield "state is", "no offline in state", lambda: open_app(query=app | {"state": state.removesuffix("offline")})
    yield "extra_query_params", "no method", lambda: open_app(
        query=app | {"extra_query_params": extra.replace("code_challenge_method=S256&", "")})
    yield "oauth2:", "a state of a code", lambda: open_app(query=without(app, "extra_query_params"), answer="token")
    token = fake.new_access(dropbox.Code(dropbox.KEY, fake.redirect), 60)
    yield "body", "a body", lambda: send(fake, "POST", dropbox.REVOKE, {"Authorization": f"Bearer {token}"}, b"null")
    yield "Authorization", "no token", lambda: send(fake, "POST", dropbox.REVOKE)


def of_uber(fake):
    good = {"response_type": "code", "client_id": uber.CLIENT, "redirect_uri": fake.redirect, "scope": "profile",
            "state": "s"} | CHALLENGE

    def authorize(product="riders", **more):
        return send(fake, "GET", uber.page(product), query=good | more)

    def push(hint, **more):
        text = base64.b64encode(hint if isinstance(hint, bytes) else json.dumps(hint).encode()).decode()
        return send(fake, "POST", uber.PAR, form={"client_id": uber.CLIENT, "response_type": "code", "login_hint": text} | more)

    yield None, "the right request", authorize
    for name in good:
        yield name.removeprefix("code_"), f"without {name}", lambda name=name: send(
            fake, "GET", uber.page("eats"), query=without(good, name))
    yield "used before", "the same challenge", lambda: authorize("eats")
    yield "no such path", "another product", lambda: authorize("scooters")
    yield "prompt", "an empty prompt", lambda: authorize(prompt="")
    yield "prompt", "another prompt", lambda: authorize(prompt="none")
    yield "request_uri", "a request that was not pushed", lambda: authorize(request_uri="urn:x")
    yield None, "the right push", lambda: push({"email": "a@example.com"})
    yield "scope", "a scope beside the hint", lambda: push({"email": "a@example.com"}, scope="profile")
    yield "no text", "a null", lambda: push({"email": None})
    yield "login_hint", "another member", lambda: push({"name": "Ann"})
    yield "login_hint", "no JSON", lambda: push(b"ann")
    yield from exchanges(fake, uber.TOKEN, lambda one: uber.Code(uber.CLIENT, fake.redirect, one, "profile"), uber.CLIENT)


SYSTEMS = {
    "vms": (lambda: vms.Vms("x-app://sign-in"), of_vms),
    "zephr": (lambda: zephr.Zephr("x-app://auth"), of_zephr),
    "7pass": (lambda: sevenpass.SevenPass("x-app:/cb"), of_sevenpass),
    "dropbox": (dropbox.Dropbox, of_dropbox),
    "uber": (lambda: uber.Uber("x-app://oauth"), of_uber),
}


def mistaken():
    """The requests that a fake judges wrongly, a line each."""
    found = []
    for name, (make, requests) in SYSTEMS.items():
        fake = make()
        try:
            for word, what, act in requests(fake):
                before = len(fake.refusals)
                act()
                refused = fake.refusals[before:]
                if word is None and refused:
                    found.append(f"{name} refuses {what}: {refused[0]}")
                if word is not None and not any(word in reason for reason in refused):
                    found.append(f"{name} does not refuse {what} for {word}: {refused}")
        finally:
            fake.close()
    return found
