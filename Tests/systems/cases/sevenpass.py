"""7Pass: OpenID Connect, refreshes that keep their token, logout by steps, and the bridge to another program."""

import json
import time
import urllib.parse

from cases import case
from fakes import rsa
from fakes.server import DROP, Answer
from fakes.sevenpass import APP_CODE, APP_SCHEME, CLIENT, SECRET, SERVICE, SevenPass
from grantd_testing import wait_until
from rig import Scene, must, same

DISCOVERY = "/.well-known/openid-configuration"
NINETY_DAYS = 90 * 86400
LEEWAY_SECONDS = 5


class Pass(Scene):
    def prepare(self):
        self.scheme = f"de.{self.name}"
        self.fake = SevenPass(f"{self.scheme}:/cb/authz")
        self.configure()

    def section(self):
        return {"profile": "7pass", "issuer": self.fake.url, "client_id": CLIENT, "redirect_uri": self.fake.redirect,
                "trusted_audiences": [SERVICE]}

    def asked(self):
        """The parameters of the last authorization request."""
        return dict(self.fake.of("GET", "/authorize")[-1].query)

    def refresh(self):
        return self.outcome("account.refresh", account=self.name)

    def refreshes(self):
        return sum(b"grant_type=refresh_token" in request.body for request in self.fake.of("POST", "/token"))


@case(Pass, "7pass.sign_in", "7PASS-02", "7PASS-03", "7PASS-05", "7PASS-06", "7PASS-08", "7PASS-09")
def sign_in(room):
    account = room.sign_in()
    same(account["identity"].get("subject"), "sub-17", "identity.subject")
    same(account["identity"].get("email"), "ada@example.com", "identity.email")
    same(room.asked().get("prompt"), "consent", "prompt")
    token = room.token()
    must(token["access_token"] in room.fake.access, "token.get does not give the access_token of the answer")
    must(7100 < token["expires_in"] <= 7200, f"expires_in is {token['expires_in']}")
    same(token["token_type"], "Bearer", "token_type")


@case(Pass, "7pass.discovery", "7PASS-01")
def discovery(room):
    room.sign_in()
    room.sign_in("second")
    same(room.fake.count("GET", DISCOVERY), 1, "the number of requests for the metadata of two logins")
    room.call("provider.check", provider=room.name)
    same(room.fake.count("GET", DISCOVERY), 2, "the number after a check, which asks anew")


@case(Pass, "7pass.key_rotation", "7PASS-01")
def key_rotation(room):
    room.sign_in()
    room.fake.key = rsa.key(8)
    room.sign_in("second")


@case(Pass, "7pass.parameters", "7PASS-04")
def parameters(room):
    room.configure(authorization_parameters={"utm_source": "my program", "fbapp_pres": "0"})
    login = room.start(params={"adid": "a/b", "utm_campaign": "x&y"})
    same(room.finish(login).state, "completed", "the login")
    found = {name: value for name, value in room.asked().items() if name.startswith(("utm_", "adid", "fbapp"))}
    same(found, {"utm_source": "my program", "fbapp_pres": "0", "adid": "a/b", "utm_campaign": "x&y"}, "the parameters")


@case(Pass, "7pass.consent_warning", "7PASS-07")
def consent_warning(room):
    same(room.start()["warnings"], [], "the warnings of a login with prompt=consent")
    login = room.start(account="other", prompt="login")
    must(any("consent" in warning for warning in login["warnings"]), f"nothing warns: {login['warnings']}")


@case(Pass, "7pass.redirect_uri", "7PASS-05")
def redirect_uri(room):
    login = room.start()
    good = room.person.open(room.url(login))
    must(good.startswith(f"{room.scheme}:/cb/authz?"), f"the browser ends at {good}")
    query = good.partition("?")[2]
    for form in ("://cb/authz", ":/cb/authz/", ":/cb/authzX", ":/cb", ":///cb/authz", "://host/cb/authz"):
        done = room.outcome("login.handle_callback", url=f"{room.scheme}{form}?{query}")
        must(done.reason == "invalid_callback" or done.result == {"handled": False}, f"{form} is taken as callback: {done}")
    same(room.wait(login, 0).state, "pending", "the login")
    same(room.bring(login, good).state, "completed", "the login after the right address")


@case(Pass, "7pass.denied", "7PASS-13")
def denied(room):
    room.fake.denies = "access_denied"
    done = room.finish(room.start())
    same((done.reason, (done.data.get("oauth") or {}).get("error")), ("login_denied", "access_denied"), f"the error ({done})")


@case(Pass, "7pass.json_and_basic", "7PASS-10")
def json_and_basic(room):
    secret = room.stage.folder / "7pass.secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    room.fake.body = "json"
    room.configure(
        client_secret_file=str(secret), token_endpoint_auth_method="client_secret_basic", body_format="json")
    room.sign_in()
    same(room.refresh().result.get("refreshed"), True, "a refresh as JSON")


@case(Pass, "7pass.id_token", "7PASS-08", "7PASS-09")
def id_token(room):
    taken = []
    for what, claims, other in (
            ("azp is absent", {"azp": None}, None), ("azp is another", {"azp": "another"}, None),
            ("an audience is not trusted", {"aud": ["other-service", CLIENT]}, None),
            ("the client is no audience", {"aud": [SERVICE]}, None), ("at_hash is wrong", {"at_hash": "AAAA"}, None),
            ("nonce is wrong", {"nonce": "another"}, None), ("iss is wrong", {"iss": "https://op.example.com"}, None),
            ("exp is past", {"exp": 1}, None), ("another key signed it", {}, rsa.key(8))):
        room.fake.claims, room.fake.signs_with = claims, other
        done = room.finish(room.start())
        if not done.error:
            taken.append(what)
            room.call("account.logout", account=room.name, revoke=False)
    must(not taken, f"an ID token is taken where {', '.join(taken)}")


@case(Pass, "7pass.refresh_same_token", "7PASS-11")
def refresh_same_token(room):
    room.sign_in()
    (token,) = room.fake.refresh_tokens
    before = room.account()
    expires = before["refresh_expires_at"]
    must(abs(expires - time.time() - NINETY_DAYS) < LEEWAY_SECONDS, f"the refresh token ends in {expires - time.time():.0f} s")
    wait_until(lambda: time.time() > before["logged_in_at"] + 2, 4, "two seconds after the login")
    for generation in (2, 3):
        done = room.refresh()
        same(done.result, {"refreshed": True, "generation": generation}, f"a refresh that returns the same token ({done})")
    must(room.account()["refresh_expires_at"] > expires, "the use of the refresh token does not prolong it")
    same(set(room.fake.refresh_tokens), {token}, "the refresh tokens")


@case(Pass, "7pass.refresh_new_token", "7PASS-11")
def refresh_new_token(room):
    room.fake.rotates = True
    room.sign_in()
    for _ in range(3):
        same(room.refresh().result.get("refreshed"), True, "a refresh with a new refresh token")
    sent = {urllib.parse.parse_qs(request.body.decode()).get("refresh_token", [""])[0]
            for request in room.fake.of("POST", "/token")} - {""}
    same(len(sent), 3, "the number of refresh tokens that were sent")


@case(Pass, "7pass.oauth_error", "7PASS-12")
def oauth_error(room):
    room.sign_in()
    room.fake.refresh_tokens.clear()
    same(room.refresh().reason, "login_required", "the reason of a refresh that is refused")
    account = room.account()
    same(account["state"], "login_required", "the account's state")
    same((account["last_error"].get("oauth") or {}).get("error"), "invalid_grant", "the provider's word in last_error")
    room.stage.restart()
    same(room.account()["state"], "login_required", "the account's state after a restart")
    room.sign_in()
    same(room.account()["state"], "ok", "the account's state after a new login")


@case(Pass, "7pass.transport_error", "7PASS-12")
def transport_error(room):
    room.sign_in()
    for answer in (Answer.json(503, {}), Answer(502, b"<html>", content_type="text/html"), DROP):
        room.fake.script("POST", "/token", *[answer] * 2)
        same(room.refresh().reason, "temporarily_unavailable", f"the reason of a refresh after {answer}")
        room.fake.scripts.clear()
        must(room.account()["state"] != "login_required", f"{answer} ends the grant")
    done = room.refresh()
    same(done.result.get("refreshed"), True, f"the refresh afterwards ({done})")
    same(room.account()["state"], "ok", "the account's state")


@case(Pass, "7pass.request", "7PASS-14")
def request(room):
    room.sign_in()
    answer = room.call("request.send", account=room.name, method="GET", url="/me")
    same((answer["status"], json.loads(answer["body"])), (200, {"id": 17}), "the answer")
    room.fake.access.clear()
    answer = room.call("request.send", account=room.name, method="GET", url="/me")
    same((answer["status"], room.refreshes(), room.fake.count("GET", "/me")), (200, 1, 3),
         "status, refreshes and requests after a 401")


@case(Pass, "7pass.request_refreshes_first", "7PASS-14")
def request_refreshes_first(room):
    room.fake.lifetime = 3
    room.sign_in()
    (first,) = room.fake.access
    wait_until(lambda: room.fake.holder(first) is None, 5, "the end of the first token")
    answer = room.call("request.send", account=room.name, method="GET", url="/me")
    same((answer["status"], room.fake.count("GET", "/me")), (200, 1), "status and requests after the token's end")
    must(room.refreshes() > 0, "nothing was refreshed")


@case(Pass, "7pass.request_always_401", "7PASS-14")
def request_always_401(room):
    room.sign_in()
    room.fake.script("GET", "/me", *[Answer.json(401, {"error": "invalid_token"})] * 4)
    done = room.outcome("request.send", account=room.name, method="GET", url="/me")
    same((room.refreshes(), room.fake.count("GET", "/me")), (1, 2), f"refreshes and requests ({done})")


@case(Pass, "7pass.profile", "7PASS-15")
def profile(room):
    room.sign_in()
    claims = room.call("account.userinfo", account=room.name)["claims"]
    same((claims.get("sub"), claims.get("email")), ("sub-17", "ada@example.com"), "the claims")
    done = room.ctl("userinfo", room.name, "--json")
    must("ada@example.com" in done.stdout, f"grantctl userinfo: {done.stdout} {done.stderr}")


LOGOUT = {"post_logout_redirect_uri": "http://127.0.0.1/signed-out"}


def with_revocation(room):
    room.configure(revocation_endpoint=f"{room.fake.url}/revoke", **LOGOUT)
    room.sign_in()


def results(steps):
    return {one["step"]: one["result"] for one in steps}


@case(Pass, "7pass.logout", "7PASS-16", "7PASS-17")
def logout(room):
    with_revocation(room)
    steps = room.call("account.logout", account=room.name)["steps"]
    same(room.fake.revoked, ["refresh_token", "access_token"], "what was revoked, in order")
    same([(one["step"], one["result"]) for one in steps],
         [("revoke_refresh_token", "done"), ("revoke_access_token", "done"), ("forget", "done")], "the steps")


@case(Pass, "7pass.logout_fails", "7PASS-17")
def logout_fails(room):
    for answer in (Answer.json(503, {}), Answer.json(400, {"error": "unsupported_token_type"}), DROP):
        with_revocation(room)
        room.fake.script("POST", "/revoke", *[answer] * 4)
        steps = room.call("account.logout", account=room.name)["steps"]
        room.fake.scripts.clear()
        must("done" not in (results(steps).get("revoke_refresh_token"),), f"the steps after {answer}: {steps}")
        same(results(steps).get("forget"), "done", f"forget after {answer}")
        same(room.refused("account.get", account=room.name).reason, "unknown_account", f"the account after {answer}")


@case(Pass, "7pass.no_revocation_endpoint", "7PASS-01", "7PASS-17")
def no_revocation_endpoint(room):
    room.sign_in()
    steps = results(room.call("account.logout", account=room.name)["steps"])
    same(steps, {"revoke_refresh_token": "unsupported", "revoke_access_token": "unsupported", "forget": "done"}, "the steps")


@case(Pass, "7pass.end_session", "7PASS-18", "7PASS-19")
def end_session(room):
    with_revocation(room)
    answer = room.call("account.logout", account=room.name, end_session=True)
    room.person.open(answer["end_session_url"])
    same((len(room.fake.ended), room.person.status), (1, 200), f"the sessions that ended, and the last page ({answer})")
    must("/signed-out" in room.person.visited[-1], f"the browser ends at {room.person.visited[-1]}")
    found = results(answer["steps"]).get("end_session")
    must(found in ("opened", "returned"), f"the result of end_session is {found!r}, not opened or returned")


@case(Pass, "7pass.end_session_opened", "7PASS-19")
def end_session_opened(room):
    with_revocation(room)
    done = room.ctl("logout", room.name, "--end-session", "--open", "--json", BROWSER="/bin/true")
    same(done.returncode, 0, f"the exit status ({done.stderr})")
    found = results(json.loads(done.stdout)["steps"]).get("end_session")
    must(found in ("opened", "returned"), f"the result of end_session is {found!r}, not opened or returned")


FORWARD = "/external/callback"


def bridged(room, kind):
    """A login up to the other program's answer; the login and that answer."""
    room.fake.bridge = kind
    room.configure(
        authorization_parameters={"fbapp_pres": "1"},
        bridge=[{"scheme": APP_SCHEME, "forward": room.fake.url + FORWARD, "in_query": {"fbapp_type": "web"},
                 "in_fragment": {"fbapp_type": "native"}}])
    login = room.start()
    url = room.person.open(room.url(login))
    must(url.startswith(f"{APP_SCHEME}://"), f"the browser ends at {url}")
    return login, url


def through(room, kind):
    login, url = bridged(room, kind)
    answer = room.call("login.handle_callback", url=url)
    same(answer.get("handled"), True, f"the answer to the other program's address ({answer})")
    must("next_url" in answer, f"there is no next_url: {answer}")
    parts = urllib.parse.urlsplit(answer["next_url"])
    same(f"{parts.scheme}://{parts.netloc}{parts.path}", room.fake.url + FORWARD, "where next_url leads")
    found = urllib.parse.parse_qsl(parts.query, strict_parsing=True)
    same([(name, dict(found)[name]) for name in ("code", "fbapp_type")], [("code", APP_CODE), ("fbapp_type", kind)],
         "code and fbapp_type of next_url")
    same(room.wait(login, 0).state, "pending", "the login after the other program's answer")
    done = room.bring(login, room.person.open(answer["next_url"]))
    same(done.state, "completed", f"the login ({done})")


@case(Pass, "7pass.bridge_web", "7PASS-20", "7PASS-22", "7PASS-23")
def bridge_web(room):
    through(room, "web")


@case(Pass, "7pass.bridge_native", "7PASS-21", "7PASS-22", "7PASS-23")
def bridge_native(room):
    through(room, "native")


@case(Pass, "7pass.bridge_by_grantctl", "7PASS-22")
def bridge_by_grantctl(room):
    login, url = bridged(room, "native")
    opened, browser = room.stage.folder / "opened", room.stage.folder / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s" "$1" >{opened}\n')
    browser.chmod(0o700)
    done = room.ctl("handle-url", url, BROWSER=str(browser))
    same(done.returncode, 0, f"the exit status of grantctl handle-url ({done.stderr})")
    next_url = wait_until(lambda: opened.exists() and opened.read_text(), 5, "grantctl opens the next address")
    same(room.bring(login, room.person.open(next_url)).state, "completed", "the login")


@case(Pass, "7pass.bridge_unreadable", "7PASS-23")
def bridge_unreadable(room):
    login, url = bridged(room, "web")
    for wrong in (f"{APP_SCHEME}://authorize", f"{APP_SCHEME}://authorize?code=c", f"{APP_SCHEME}://authorize#code=c"):
        done = room.outcome("login.handle_callback", url=wrong)
        must(not (done.result or {}).get("next_url"), f"{wrong} leads to {done}")
    same(room.wait(login, 0).state, "pending", "the login after answers without state")
    answer = room.call("login.handle_callback", url=url)
    same(room.bring(login, room.person.open(answer["next_url"])).state, "completed", "the login")
