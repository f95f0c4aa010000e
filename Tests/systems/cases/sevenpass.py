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


class SevenPassScene(Scene):
    """7Pass, and grantd with a section for it."""

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

    def refresh(self, **more):
        return self.outcome("account.refresh", account=self.name, **more)

    def refreshes(self):
        return sum(b"grant_type=refresh_token" in request.body for request in self.fake.of("POST", "/token"))


@case(SevenPassScene, "7pass.sign_in", "7PASS-02", "7PASS-03", "7PASS-05", "7PASS-06", "7PASS-08", "7PASS-09")
def sign_in(scene):
    account = scene.sign_in()
    same(account["identity"].get("subject"), "sub-17", "identity.subject")
    same(account["identity"].get("email"), "ada@example.com", "identity.email")
    same(scene.asked().get("prompt"), "consent", "prompt")
    token = scene.token()
    must(token["access_token"] in scene.fake.access, "token.get does not give the access_token of the answer")
    must(7100 < token["expires_in"] <= 7200, f"expires_in is {token['expires_in']}")
    same(token["token_type"], "Bearer", "token_type")


@case(SevenPassScene, "7pass.discovery", "7PASS-01")
def discovery(scene):
    scene.sign_in()
    scene.sign_in("second")
    same(scene.fake.count("GET", DISCOVERY), 1, "the number of requests for the metadata of two logins")
    scene.call("provider.check", provider=scene.name)
    same(scene.fake.count("GET", DISCOVERY), 2, "the number after a check, which asks anew")


@case(SevenPassScene, "7pass.key_rotation", "7PASS-01")
def key_rotation(scene):
    scene.sign_in()
    scene.fake.key = rsa.key(8)
    scene.sign_in("second")


@case(SevenPassScene, "7pass.parameters", "7PASS-04")
def parameters(scene):
    scene.configure(authorization_parameters={"utm_source": "my program", "fbapp_pres": "0"})
    login = scene.start(params={"adid": "a/b", "utm_campaign": "x&y"})
    same(scene.finish(login).state, "completed", "the login")
    found = {name: value for name, value in scene.asked().items() if name.startswith(("utm_", "adid", "fbapp"))}
    same(found, {"utm_source": "my program", "fbapp_pres": "0", "adid": "a/b", "utm_campaign": "x&y"}, "the parameters")


@case(SevenPassScene, "7pass.consent_warning", "7PASS-07")
def consent_warning(scene):
    same(scene.start()["warnings"], [], "the warnings of a login with prompt=consent")
    login = scene.start(account="other", prompt="login")
    must(any("consent" in warning for warning in login["warnings"]), f"nothing warns: {login['warnings']}")


@case(SevenPassScene, "7pass.redirect_uri", "7PASS-05")
def redirect_uri(scene):
    login = scene.start()
    good = scene.browser.open(scene.url(login))
    must(good.startswith(f"{scene.scheme}:/cb/authz?"), f"the browser ends at {good}")
    query = good.partition("?")[2]
    for form in ("://cb/authz", ":/cb/authz/", ":/cb/authzX", ":/cb", ":///cb/authz", "://host/cb/authz"):
        done = scene.outcome("login.handle_callback", url=f"{scene.scheme}{form}?{query}")
        must(done.reason == "invalid_callback" or done.result == {"handled": False}, f"{form} is taken as callback: {done}")
    same(scene.wait(login, 0).state, "pending", "the login")
    same(scene.bring(login, good).state, "completed", "the login after the right address")


@case(SevenPassScene, "7pass.denied", "7PASS-13")
def denied(scene):
    scene.fake.denies = "access_denied"
    done = scene.finish(scene.start())
    same((done.reason, (done.data.get("oauth") or {}).get("error")), ("login_denied", "access_denied"), f"the error ({done})")


@case(SevenPassScene, "7pass.json_and_basic", "7PASS-10")
def json_and_basic(scene):
    secret = scene.stage.folder / "7pass.secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    scene.fake.body = "json"
    scene.configure(
        client_secret_file=str(secret), token_endpoint_auth_method="client_secret_basic", body_format="json")
    scene.sign_in()
    same(scene.refresh().result.get("refreshed"), True, "a refresh as JSON")


@case(SevenPassScene, "7pass.id_token", "7PASS-08", "7PASS-09")
def id_token(scene):
    taken = []
    for what, claims, other in (
            ("azp is absent", {"azp": None}, None), ("azp is another", {"azp": "another"}, None),
            ("an audience is not trusted", {"aud": ["other-service", CLIENT]}, None),
            ("the client is no audience", {"aud": [SERVICE]}, None), ("at_hash is wrong", {"at_hash": "AAAA"}, None),
            ("nonce is wrong", {"nonce": "another"}, None), ("iss is wrong", {"iss": "https://op.example.com"}, None),
            ("exp is past", {"exp": 1}, None), ("another key signed it", {}, rsa.key(8))):
        scene.fake.claims, scene.fake.signs_with = claims, other
        done = scene.finish(scene.start())
        if not done.error:
            taken.append(what)
            scene.call("account.logout", account=scene.name, revoke=False)
    must(not taken, f"an ID token is taken where {', '.join(taken)}")


@case(SevenPassScene, "7pass.refresh_same_token", "7PASS-11")
def refresh_same_token(scene):
    scene.sign_in()
    (token,) = scene.fake.refresh_tokens
    before = scene.account()
    expires = before["refresh_expires_at"]
    must(abs(expires - time.time() - NINETY_DAYS) < LEEWAY_SECONDS, f"the refresh token ends in {expires - time.time():.0f} s")
    wait_until(lambda: time.time() > before["logged_in_at"] + 2, 4, "two seconds after the login")
    for generation in (2, 3):
        done = scene.refresh()
        same(done.result, {"refreshed": True, "generation": generation}, f"a refresh that returns the same token ({done})")
    must(scene.account()["refresh_expires_at"] > expires, "the use of the refresh token does not prolong it")
    same(set(scene.fake.refresh_tokens), {token}, "the refresh tokens")


@case(SevenPassScene, "7pass.refresh_new_token", "7PASS-11")
def refresh_new_token(scene):
    scene.fake.rotates = True
    scene.sign_in()
    for _ in range(3):
        same(scene.refresh().result.get("refreshed"), True, "a refresh with a new refresh token")
    sent = {urllib.parse.parse_qs(request.body.decode()).get("refresh_token", [""])[0]
            for request in scene.fake.of("POST", "/token")} - {""}
    same(len(sent), 3, "the number of refresh tokens that were sent")


@case(SevenPassScene, "7pass.oauth_error", "7PASS-12")
def oauth_error(scene):
    scene.sign_in()
    scene.fake.refresh_tokens.clear()
    # The access token works; a second refusal of the refresh token ends the grant.
    same(scene.refresh().reason, "temporarily_unavailable", "the reason of a refresh that is refused once")
    same(scene.account()["state"], "degraded", "the account's state after one refusal")
    same(scene.refresh(now=True).reason, "login_required", "the reason of a refresh that is refused twice")
    account = scene.account()
    same(account["state"], "login_required", "the account's state")
    same((account["last_error"].get("oauth") or {}).get("error"), "invalid_grant", "the provider's word in last_error")
    scene.stage.restart()
    same(scene.account()["state"], "login_required", "the account's state after a restart")
    scene.sign_in()
    same(scene.account()["state"], "ok", "the account's state after a new login")


@case(SevenPassScene, "7pass.transport_error", "7PASS-12")
def transport_error(scene):
    scene.sign_in()
    for answer in (Answer.json(503, {}), Answer(502, b"<html>", content_type="text/html"), DROP):
        scene.fake.script("POST", "/token", *[answer] * 2)
        same(scene.refresh().reason, "temporarily_unavailable", f"the reason of a refresh after {answer}")
        scene.fake.scripts.clear()
        must(scene.account()["state"] != "login_required", f"{answer} ends the grant")
    done = scene.refresh()
    same(done.result.get("refreshed"), True, f"the refresh afterwards ({done})")
    same(scene.account()["state"], "ok", "the account's state")


@case(SevenPassScene, "7pass.request", "7PASS-14")
def request(scene):
    scene.sign_in()
    answer = scene.call("request.send", account=scene.name, method="GET", url="/me")
    same((answer["status"], json.loads(answer["body"])), (200, {"id": 17}), "the answer")
    scene.fake.access.clear()
    answer = scene.call("request.send", account=scene.name, method="GET", url="/me")
    same((answer["status"], scene.refreshes(), scene.fake.count("GET", "/me")), (200, 1, 3),
         "status, refreshes and requests after a 401")


@case(SevenPassScene, "7pass.request_refreshes_first", "7PASS-14")
def request_refreshes_first(scene):
    scene.fake.lifetime = 3
    scene.sign_in()
    (first,) = scene.fake.access
    wait_until(lambda: scene.fake.holder(first) is None, 5, "the end of the first token")
    answer = scene.call("request.send", account=scene.name, method="GET", url="/me")
    same((answer["status"], scene.fake.count("GET", "/me")), (200, 1), "status and requests after the token's end")
    must(scene.refreshes() > 0, "nothing was refreshed")


@case(SevenPassScene, "7pass.request_always_401", "7PASS-14")
def request_always_401(scene):
    scene.sign_in()
    scene.fake.script("GET", "/me", *[Answer.json(401, {"error": "invalid_token"})] * 4)
    done = scene.outcome("request.send", account=scene.name, method="GET", url="/me")
    same((scene.refreshes(), scene.fake.count("GET", "/me")), (1, 2), f"refreshes and requests ({done})")


@case(SevenPassScene, "7pass.profile", "7PASS-15")
def profile(scene):
    scene.sign_in()
    claims = scene.call("account.userinfo", account=scene.name)["claims"]
    same((claims.get("sub"), claims.get("email")), ("sub-17", "ada@example.com"), "the claims")
    done = scene.ctl("userinfo", scene.name, "--json")
    must("ada@example.com" in done.stdout, f"grantctl userinfo: {done.stdout} {done.stderr}")


LOGOUT = {"post_logout_redirect_uri": "http://127.0.0.1/signed-out"}


def with_revocation(scene):
    scene.configure(revocation_endpoint=f"{scene.fake.url}/revoke", **LOGOUT)
    scene.sign_in()


def results(steps):
    return {one["step"]: one["result"] for one in steps}


@case(SevenPassScene, "7pass.logout", "7PASS-16", "7PASS-17")
def logout(scene):
    with_revocation(scene)
    steps = scene.call("account.logout", account=scene.name)["steps"]
    same(scene.fake.revoked, ["refresh_token", "access_token"], "what was revoked, in order")
    same([(one["step"], one["result"]) for one in steps],
         [("revoke_refresh_token", "done"), ("revoke_access_token", "done"), ("forget", "done")], "the steps")


@case(SevenPassScene, "7pass.logout_fails", "7PASS-17")
def logout_fails(scene):
    for answer in (Answer.json(503, {}), Answer.json(400, {"error": "unsupported_token_type"}), DROP):
        with_revocation(scene)
        scene.fake.script("POST", "/revoke", *[answer] * 4)
        steps = scene.call("account.logout", account=scene.name)["steps"]
        scene.fake.scripts.clear()
        must("done" not in (results(steps).get("revoke_refresh_token"),), f"the steps after {answer}: {steps}")
        same(results(steps).get("forget"), "done", f"forget after {answer}")
        same(scene.refused("account.get", account=scene.name).reason, "unknown_account", f"the account after {answer}")


@case(SevenPassScene, "7pass.no_revocation_endpoint", "7PASS-01", "7PASS-17")
def no_revocation_endpoint(scene):
    scene.sign_in()
    steps = results(scene.call("account.logout", account=scene.name)["steps"])
    same(steps, {"revoke_refresh_token": "unsupported", "revoke_access_token": "unsupported", "forget": "done"}, "the steps")


@case(SevenPassScene, "7pass.end_session", "7PASS-18", "7PASS-19")
def end_session(scene):
    with_revocation(scene)
    answer = scene.call("account.logout", account=scene.name, end_session=True)
    scene.browser.open(answer["end_session_url"])
    same((len(scene.fake.ended), scene.browser.status), (1, 200), f"the sessions that ended, and the last page ({answer})")
    must("/signed-out" in scene.browser.visited[-1], f"the browser ends at {scene.browser.visited[-1]}")
    found = results(answer["steps"]).get("end_session")
    must(found in ("opened", "returned"), f"the result of end_session is {found!r}, not opened or returned")


@case(SevenPassScene, "7pass.end_session_opened", "7PASS-19")
def end_session_opened(scene):
    with_revocation(scene)
    done = scene.ctl("logout", scene.name, "--end-session", "--open", "--json", BROWSER="/bin/true")
    same(done.returncode, 0, f"the exit status ({done.stderr})")
    found = results(json.loads(done.stdout)["steps"]).get("end_session")
    must(found in ("opened", "returned"), f"the result of end_session is {found!r}, not opened or returned")


FORWARD = "/external/callback"


def bridged(scene, kind):
    """A login up to the other program's answer; the login and that answer."""
    scene.fake.bridge = kind
    scene.configure(
        authorization_parameters={"fbapp_pres": "1"},
        bridge=[{"scheme": APP_SCHEME, "forward": scene.fake.url + FORWARD, "in_query": {"fbapp_type": "web"},
                 "in_fragment": {"fbapp_type": "native"}}])
    login = scene.start()
    url = scene.browser.open(scene.url(login))
    must(url.startswith(f"{APP_SCHEME}://"), f"the browser ends at {url}")
    return login, url


def through(scene, kind):
    login, url = bridged(scene, kind)
    answer = scene.call("login.handle_callback", url=url)
    same(answer.get("handled"), True, f"the answer to the other program's address ({answer})")
    must("next_url" in answer, f"there is no next_url: {answer}")
    parts = urllib.parse.urlsplit(answer["next_url"])
    same(f"{parts.scheme}://{parts.netloc}{parts.path}", scene.fake.url + FORWARD, "where next_url leads")
    found = urllib.parse.parse_qsl(parts.query, strict_parsing=True)
    same([(name, dict(found)[name]) for name in ("code", "fbapp_type")], [("code", APP_CODE), ("fbapp_type", kind)],
         "code and fbapp_type of next_url")
    same(scene.wait(login, 0).state, "pending", "the login after the other program's answer")
    done = scene.bring(login, scene.browser.open(answer["next_url"]))
    same(done.state, "completed", f"the login ({done})")


@case(SevenPassScene, "7pass.bridge_web", "7PASS-20", "7PASS-22", "7PASS-23")
def bridge_web(scene):
    through(scene, "web")


@case(SevenPassScene, "7pass.bridge_native", "7PASS-21", "7PASS-22", "7PASS-23")
def bridge_native(scene):
    through(scene, "native")


@case(SevenPassScene, "7pass.bridge_by_grantctl", "7PASS-22")
def bridge_by_grantctl(scene):
    login, url = bridged(scene, "native")
    opened, browser = scene.stage.folder / "opened", scene.stage.folder / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s" "$1" >{opened}\n')
    browser.chmod(0o700)
    done = scene.ctl("handle-url", url, BROWSER=str(browser))
    same(done.returncode, 0, f"the exit status of grantctl handle-url ({done.stderr})")
    next_url = wait_until(lambda: opened.exists() and opened.read_text(), 5, "grantctl opens the next address")
    same(scene.bring(login, scene.browser.open(next_url)).state, "completed", "the login")


@case(SevenPassScene, "7pass.bridge_unreadable", "7PASS-23")
def bridge_unreadable(scene):
    login, url = bridged(scene, "web")
    for wrong in (f"{APP_SCHEME}://authorize", f"{APP_SCHEME}://authorize?code=c", f"{APP_SCHEME}://authorize#code=c"):
        done = scene.outcome("login.handle_callback", url=wrong)
        must(not (done.result or {}).get("next_url"), f"{wrong} leads to {done}")
    same(scene.wait(login, 0).state, "pending", "the login after answers without state")
    answer = scene.call("login.handle_callback", url=url)
    same(scene.bring(login, scene.browser.open(answer["next_url"])).state, "completed", "the login")
