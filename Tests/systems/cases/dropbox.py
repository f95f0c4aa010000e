"""Dropbox: the web and the application, codes and tokens, refreshes with many waiters, the errors of the API."""

import http.client
import json
import re
import threading
import urllib.parse

from cases import case
from fakes.dropbox import ACCOUNT, CONNECT, CURRENT, DENIAL, KEY, REVOKE, TOKEN, TOKEN_REDIRECT, UID, Dropbox, failure, too_many
from fakes.server import Answer
from grantd_testing import Refused, free_ports, line, message, wait_until
from rig import Scene, must, same

WAITERS = 8


class DropboxScene(Scene):
    """Dropbox, and grantd with a section for it."""

    def prepare(self):
        self.fake = Dropbox()
        self.configure()

    def section(self):
        return {"profile": "dropbox", "client_id": KEY, "redirect_uri": self.fake.redirect,
                "authorization_endpoint": f"{self.fake.url}/oauth2/authorize", "token_endpoint": self.fake.url + TOKEN,
                "revocation_endpoint": self.fake.url + REVOKE, "api_base": f"{self.fake.url}/2"}

    def implicit(self):
        self.configure(response_type="token", allow_implicit=True, authorization_parameters={"token_access_type": ""})

    def open_app(self, login, answer="oauth_code", app="dropbox"):
        """The application's answer to the login."""
        url = self.fake.open_app(self.url(login, "native", app), answer)
        must(url.startswith(f"{CONNECT}?"), f"the application refuses: {self.fake.refusals}")
        return url

    def by_app(self, answer="oauth_code", app="dropbox"):
        login = self.start()
        return self.bring(login, self.open_app(login, answer, app))

    def current(self):
        return self.outcome("request.send", account=self.name, method="POST", url="/users/get_current_account")

    def refreshes(self):
        return [urllib.parse.parse_qs(request.body.decode())["refresh_token"][0]
                for request in self.fake.of("POST", TOKEN) if b"grant_type=refresh_token" in request.body]


@case(DropboxScene, "dropbox.web_code", "DROPBOX-05", "DROPBOX-06", "DROPBOX-08", "DROPBOX-18")
def web_code(scene):
    account = scene.sign_in()
    same(account["identity"].get("subject"), ACCOUNT, "identity.subject")
    token = scene.token()
    must(token["access_token"] in scene.fake.access, "token.get does not give the access_token of the answer")
    must(14300 < token["expires_in"] <= 14400, f"expires_in is {token['expires_in']}")
    same(token["token_type"], "Bearer", "token_type")
    same((token["extra"].get("account_id"), token["extra"].get("uid")), (ACCOUNT, UID), "extra")
    same(token["scope"], ["account_info.read", "files.metadata.read"], "scope")


@case(DropboxScene, "dropbox.destinations", "DROPBOX-01", "DROPBOX-04")
def destinations(scene):
    login = scene.start()
    same([(one["kind"], one.get("app")) for one in login["destinations"]],
         [("native", "dropbox"), ("native", "dropbox-emm"), ("browser", None), ("manual", None)], "the destinations")
    schemes = [one["url"].partition(":")[0] for one in login["destinations"] if one["kind"] == "native"]
    same(schemes, ["dbapi-2", "dbapi-8-emm"], "the schemes of the applications")
    login = scene.start(account="other", destinations=["manual", "browser"])
    same([one["kind"] for one in login["destinations"]], ["manual", "browser"], "the destinations in another order")


@case(DropboxScene, "dropbox.app_code", "DROPBOX-03", "DROPBOX-13", "DROPBOX-17")
def app_code(scene):
    done = scene.by_app()
    same(done.state, "completed", f"the login ({done})")
    must(scene.token()["access_token"] in scene.fake.access, "token.get does not give the access_token of the answer")
    same(scene.call("account.refresh", account=scene.name)["refreshed"], True, "a refresh")


@case(DropboxScene, "dropbox.app_code_old", "DROPBOX-14")
def app_code_old(scene):
    done = scene.by_app("old")
    same(done.state, "completed", f"the login ({done})")
    must(scene.token()["access_token"] in scene.fake.access, "a code is stored as a token")


@case(DropboxScene, "dropbox.app_emm", "DROPBOX-04")
def app_emm(scene):
    done = scene.by_app(app="dropbox-emm")
    same(done.state, "completed", f"the login ({done})")


@case(DropboxScene, "dropbox.app_online", "DROPBOX-03")
def app_online(scene):
    scene.configure(authorization_parameters={"token_access_type": ""})
    done = scene.by_app()
    same(done.state, "completed", f"the login ({done})")
    same(scene.fake.refresh_tokens, {}, "the refresh tokens of a login that is not offline")


@case(DropboxScene, "dropbox.app_redirect_uri", "DROPBOX-17")
def app_redirect_uri(scene):
    (port,) = free_ports()
    scene.fake.redirect = f"http://127.0.0.1:{port}/callback"
    scene.configure()
    done = scene.by_app()
    same(done.state, "completed", f"the login by the application ({done})")
    login = scene.start(account="web")
    scene.browser.open(scene.url(login, "browser"))
    same(scene.wait(login).state, "completed", "the login by the browser")


@case(DropboxScene, "dropbox.app_precedence", "DROPBOX-15")
def app_precedence(scene):
    for names in (("code", "oauth_code"), ("oauth_code", "oauth_token_secret")):
        login = scene.start()
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(scene.open_app(login)).query))
        values = {names[0]: query["oauth_code"], names[1]: scene.fake.other_code(), "state": query["state"]}
        values |= {"oauth_token": "oauth2code:"} if names[1] == "oauth_token_secret" else {}
        done = scene.bring(login, f"{CONNECT}?{urllib.parse.urlencode(values)}")
        same(done.state, "completed", f"the login with {names[0]} beside {names[1]} ({done})")
        scene.call("account.logout", account=scene.name, revoke=False)


@case(DropboxScene, "dropbox.app_secret_is_no_code", "DROPBOX-15")
def app_secret_is_no_code(scene):
    for marker in ("", "oauth2:", "oauth2code", "x"):
        login = scene.start()
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(scene.open_app(login)).query))
        values = {"oauth_token": marker, "oauth_token_secret": query["oauth_code"], "state": query["state"]}
        done = scene.bring(login, f"{CONNECT}?{urllib.parse.urlencode(values)}")
        must(done.state != "completed", f"a secret beside oauth_token={marker} completes the login: {done}")
        scene.call("login.cancel", login_id=login["login_id"])
    same(scene.fake.count("POST", TOKEN), 0, "the number of exchanges")


@case(DropboxScene, "dropbox.app_state", "DROPBOX-12")
def app_state(scene):
    login = scene.start()
    good = scene.open_app(login)
    state = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(good).query))["state"]
    other = good.replace(urllib.parse.quote_plus(state), "oauth2code%3Aother%3AS256%3Aoffline")
    for wrong in (other, good.partition("&state=")[0]):
        must(wrong != good, "the address was not changed")
        done = scene.bring(login, wrong)
        must(done.state in ("pending", "not handled"), f"a callback with another state: {done}")
    done = scene.bring(login, good)
    same(done.state, "completed", f"the login ({done})")


@case(DropboxScene, "dropbox.app_token", "DROPBOX-02", "DROPBOX-11")
def app_token(scene):
    scene.implicit()
    done = scene.by_app("token")
    same(done.state, "completed", f"the login ({done})")
    token = scene.token()
    must(token["access_token"] in scene.fake.access, "token.get does not give oauth_token_secret")
    same(scene.fake.count("POST", TOKEN), 0, "the number of exchanges")


@case(DropboxScene, "dropbox.app_token_nonce", "DROPBOX-12")
def app_token_nonce(scene):
    scene.implicit()
    login = scene.start()
    good = scene.open_app(login, "token")
    for wrong in (re.sub("state=.*", "state=oauth2%3Aother", good), re.sub("&state=.*", "", good)):
        done = scene.bring(login, wrong)
        must(done.state in ("pending", "not handled"), f"a callback with another nonce: {done}")
    done = scene.bring(login, good)
    same(done.state, "completed", f"the login ({done})")


@case(DropboxScene, "dropbox.app_cancel", "DROPBOX-16")
def app_cancel(scene):
    for end in ("cancel", "anything/else"):
        login = scene.start()
        opened = {"kind": "native", "app": "dropbox"}
        scene.call("login.wait", login_id=login["login_id"], timeout=0, opened=opened)
        done = scene.bring(login, f"db-{KEY}://1/{end}")
        same(done.reason, "login_cancelled", f"the reason after {end} ({done})")


@case(DropboxScene, "dropbox.web_token", "DROPBOX-07")
def web_token(scene):
    scene.implicit()
    done = scene.finish(scene.start())
    same(done.state, "completed", f"the login ({done})")
    token = scene.token()
    must(token["access_token"] in scene.fake.access, "token.get does not give the access_token of the fragment")
    same(done.result["account"]["identity"].get("subject"), ACCOUNT, "identity.subject")
    same(scene.fake.count("POST", TOKEN), 0, "the number of exchanges")


@case(DropboxScene, "dropbox.implicit_is_off", "DROPBOX-07")
def implicit_is_off(scene):
    status, said = scene.stage.check_configuration(scene.toml(response_type="token"))
    must(status != 0 and "allow_implicit" in said, f"grantd --check-config takes response_type token: {status} {said}")
    login = scene.start()
    url = scene.browser.open(scene.url(login))
    state = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))["state"]
    done = scene.bring(login, f"{TOKEN_REDIRECT}#access_token=forged&token_type=bearer&uid=1&account_id=a&state={state}")
    must(done.state in ("pending", "not handled"), f"a token in the fragment completes a login that asked for a code: {done}")
    same(scene.bring(login, url).state, "completed", "the login")


@case(DropboxScene, "dropbox.fragment_page", "DROPBOX-09")
def fragment_page(scene):
    (port,) = free_ports()
    scene.fake.redirect = f"http://127.0.0.1:{port}/callback"
    scene.implicit()
    login = scene.start()
    end = scene.browser.open(scene.url(login, "browser"))
    must("#access_token=" in end, f"the browser ends at {end}")
    policy, page = scene.browser.headers.get("Content-Security-Policy") or "", scene.browser.page
    must("default-src 'none'" in policy and "unsafe" not in policy, f"the policy is {policy!r}")
    script = re.search(r"<script[^>]*>(.*?)</script>", page, re.S)
    must(script, f"the page has no script: {page[:400]!r}")
    must("location.hash" in script[1] and "replaceState" in script[1], f"the script is {script[1]!r}")
    same(len(re.findall(r"\bfetch\(", script[1])), 1, "the number of requests that the script makes")
    address, _, fragment = end.partition("#")
    post(address, fragment, "https://www.example.com")
    same(scene.wait(login, 0).state, "pending", "the login after a post of another origin")
    same(post(address, fragment, f"http://127.0.0.1:{port}"), 200, "the status of the answer to the script")
    same(scene.wait(login).state, "completed", "the login")


def post(address, fragment, origin):
    """What the script of the page sends; the status."""
    parts = urllib.parse.urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
    site = "same-origin" if origin.endswith(parts.netloc) else "cross-site"
    try:
        connection.request("POST", parts.path, fragment, {
            "Content-Type": "application/x-www-form-urlencoded", "Origin": origin, "Sec-Fetch-Site": site,
            "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"})
        return connection.getresponse().status
    finally:
        connection.close()


@case(DropboxScene, "dropbox.denied", "DROPBOX-10")
def denied(scene):
    scene.fake.denies = True
    for implicit in (False, True):
        scene.implicit() if implicit else scene.configure()
        done = scene.finish(scene.start())
        oauth = done.data.get("oauth") or {}
        same((done.reason, oauth.get("error"), oauth.get("error_description")), ("login_denied", "access_denied", DENIAL),
             f"the error {'in the fragment' if implicit else 'in the query'} ({done})")


@case(DropboxScene, "dropbox.matching", "DROPBOX-19")
def matching(scene):
    login = scene.start()
    good = scene.browser.open(scene.url(login))
    for start in (f"{TOKEN_REDIRECT}X", f"{TOKEN_REDIRECT}/", f"db-{KEY}://3/token", f"db-{KEY}://2/", f"db-{KEY}x://2/token",
                  f"db-{KEY}:/2/token"):
        done = scene.bring(login, good.replace(TOKEN_REDIRECT, start))
        must(done.state in ("pending", "not handled"), f"{start} is taken as callback: {done}")
    same(scene.bring(login, good).state, "completed", "the login after the right address")


@case(DropboxScene, "dropbox.refresh", "DROPBOX-20")
def refresh(scene):
    scene.sign_in()
    (token,) = scene.fake.refresh_tokens
    for _ in range(3):
        same(scene.call("account.refresh", account=scene.name)["refreshed"], True, "a refresh")
    scene.stage.restart()
    same(scene.call("account.refresh", account=scene.name)["refreshed"], True, "a refresh after a restart")
    same(scene.refreshes(), [token] * 4, "the refresh tokens that were sent")


@case(DropboxScene, "dropbox.refresh_ends", "DROPBOX-20")
def refresh_ends(scene):
    scene.sign_in()
    scene.fake.refresh_tokens.clear()
    # The access token works; a second refusal of the refresh token ends the grant.
    same([scene.refused("account.refresh", account=scene.name, now=True).reason for _ in range(2)],
         ["temporarily_unavailable", "login_required"], "the reasons of two refreshes after the grant")


@case(DropboxScene, "dropbox.logout", "DROPBOX-21")
def logout(scene):
    scene.sign_in()
    scene.call("account.refresh", account=scene.name)
    steps = scene.call("account.logout", account=scene.name)["steps"]
    same((scene.fake.revoked, scene.fake.access, scene.fake.refresh_tokens), (1, {}, {}), f"what is left of the grant ({steps})")
    must({"done"} >= {one["result"] for one in steps} - {"unsupported", "skipped"}, f"the steps are {steps}")


@case(DropboxScene, "dropbox.api", "DROPBOX-22")
def api(scene):
    scene.sign_in()
    done = scene.current()
    same((done.result.get("status"), json.loads(done.result["body"])["account_id"]), (200, ACCOUNT), "the answer")
    for tag in ("expired_access_token", "invalid_access_token"):
        before = len(scene.refreshes())
        scene.fake.script("POST", CURRENT, failure(tag))
        done = scene.current()
        same((done.result.get("status"), len(scene.refreshes()) - before), (200, 1), f"status and refreshes after {tag} ({done})")


@case(DropboxScene, "dropbox.missing_scope", "DROPBOX-23")
def missing_scope(scene):
    scene.sign_in()
    scene.fake.script("POST", CURRENT, failure("missing_scope"))
    done = scene.current()
    same((done.reason, scene.refreshes()), ("login_required", []), f"the reason and the refreshes ({done})")


@case(DropboxScene, "dropbox.user_suspended", "DROPBOX-24")
def user_suspended(scene):
    scene.sign_in()
    scene.fake.script("POST", CURRENT, failure("user_suspended"))
    done = scene.current()
    must(done.error and done.reason != "login_required", f"a suspended user is told to sign in: {done}")
    must("suspended" in f"{done.error} {done.data}" or "blocked" in f"{done.error} {done.data}", f"the error says {done}")
    same(scene.refreshes(), [], "the refreshes")
    account = scene.account()
    same((account["state"], account["last_error"]["reason"]), ("degraded", "provider_error"), "the account's state")
    must("suspended" in account["last_error"]["message"] or "blocked" in account["last_error"]["message"],
         f"the account's error is {account['last_error']}")
    # A request that the provider takes shows that it is not suspended any more.
    same(scene.current().result.get("status"), 200, "the next request's status")
    same(scene.account()["state"], "ok", "the account's state after a request that succeeds")


@case(DropboxScene, "dropbox.too_many_requests", "DROPBOX-25")
def too_many_requests(scene):
    scene.sign_in()
    scene.fake.script("POST", CURRENT, too_many())
    done = scene.current()
    same(done.result.get("status"), 429, f"the status ({done})")
    same(json.loads(done.result["body"])["error"]["retry_after"], 7, "retry_after of the body")
    same(scene.fake.count("POST", CURRENT), 1, "the number of requests")
    same(scene.account()["state"], "ok", "the account's state")


def wait_for_refresh(scene, ends):
    """Many callers that wait for one refresh: the token before, their answers by number, and one on a shared connection."""
    scene.sign_in()
    if ends:
        scene.fake.refresh_tokens.clear()
    hold = scene.fake.hold("POST", TOKEN)
    before = scene.token()
    answers = {}

    def ask(number, client, method, **params):
        try:
            answers[number] = client.call(method, account=scene.name, **params)
        except Refused as refusal:
            answers[number] = refusal

    def begin(number, method, **params):
        threads.append(threading.Thread(target=ask, args=(number, scene.other_client(), method), kwargs=params, daemon=True))
        threads[-1].start()

    threads = []
    # Who reported a token does not get it again.
    begin("report", "token.report_rejected", generation=before["generation"])
    wait_until(scene.refreshes, 5, "a refresh begins")
    for number in range(WAITERS):
        begin(number, "token.get", min_ttl=60 + number)
    shared = scene.other_client()
    calls = [("token.get", {"account": scene.name}), ("account.get", {"account": scene.name}), ("provider.list", None)]
    shared.socket.sendall(b"".join(line(message(method, params, method)) for method, params in calls))
    early = {json.loads(shared.line())["id"] for _ in range(2)}
    same(early, {"account.get", "provider.list"}, "the calls that are answered while the refresh runs")
    same(answers, {}, "the waiters that are answered before the refresh is")
    hold.set()
    for thread in threads:
        thread.join(10)
    report = answers.pop("report", None)
    good = isinstance(report, Refused) if ends else report == {"refreshed": True, "generation": 2}
    must(good, f"the report's answer is {report}")
    same(len(answers), WAITERS, "the number of waiters that are answered")
    return before, answers, json.loads(shared.line())


@case(DropboxScene, "dropbox.waiters", "DROPBOX-26")
def waiters(scene):
    before, answers, last = wait_for_refresh(scene, ends=False)
    found = {answer["access_token"] for answer in answers.values()} | {last["result"]["access_token"]}
    same(len(found), 1, f"the number of different tokens ({answers})")
    must(found <= set(scene.fake.access) and before["access_token"] not in found, "the token is not that of the refresh")
    same({tuple(sorted(answer)) for answer in answers.values()}, {tuple(sorted(before))}, "the members of the answers")
    same(len(scene.refreshes()), 1, "the number of refreshes")


@case(DropboxScene, "dropbox.waiters_refused", "DROPBOX-26")
def waiters_refused(scene):
    _, answers, last = wait_for_refresh(scene, ends=True)
    same([getattr(answer, "reason", answer) for answer in answers.values()], ["login_required"] * WAITERS, "the answers")
    same(last["error"]["data"]["reason"], "login_required", "the answer on the shared connection")


@case(DropboxScene, "dropbox.refresh_later", "DROPBOX-20")
def refresh_later(scene):
    scene.sign_in()
    scene.fake.script("POST", TOKEN, Answer.json(429, {"error": "too_many_requests"}, [("Retry-After", "90")]))
    same(scene.refused("account.refresh", account=scene.name).reason, "temporarily_unavailable", "the reason after 429")
    same(scene.call("account.refresh", account=scene.name)["refreshed"], True, "the refresh afterwards")
