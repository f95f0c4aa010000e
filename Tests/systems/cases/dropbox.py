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


class Box(Scene):
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


@case(Box, "dropbox.web_code", "DROPBOX-05", "DROPBOX-06", "DROPBOX-08", "DROPBOX-18")
def web_code(box):
    account = box.sign_in()
    same(account["identity"].get("subject"), ACCOUNT, "identity.subject")
    token = box.token()
    must(token["access_token"] in box.fake.access, "token.get does not give the access_token of the answer")
    must(14300 < token["expires_in"] <= 14400, f"expires_in is {token['expires_in']}")
    same(token["token_type"], "Bearer", "token_type")
    same((token["extra"].get("account_id"), token["extra"].get("uid")), (ACCOUNT, UID), "extra")
    same(token["scope"], ["account_info.read", "files.metadata.read"], "scope")


@case(Box, "dropbox.destinations", "DROPBOX-01", "DROPBOX-04")
def destinations(box):
    login = box.start()
    same([(one["kind"], one.get("app")) for one in login["destinations"]],
         [("native", "dropbox"), ("native", "dropbox-emm"), ("browser", None), ("manual", None)], "the destinations")
    schemes = [one["url"].partition(":")[0] for one in login["destinations"] if one["kind"] == "native"]
    same(schemes, ["dbapi-2", "dbapi-8-emm"], "the schemes of the applications")
    login = box.start(account="other", destinations=["manual", "browser"])
    same([one["kind"] for one in login["destinations"]], ["manual", "browser"], "the destinations in another order")


@case(Box, "dropbox.app_code", "DROPBOX-03", "DROPBOX-13", "DROPBOX-17")
def app_code(box):
    done = box.by_app()
    same(done.state, "completed", f"the login ({done})")
    must(box.token()["access_token"] in box.fake.access, "token.get does not give the access_token of the answer")
    same(box.call("account.refresh", account=box.name)["refreshed"], True, "a refresh")


@case(Box, "dropbox.app_code_old", "DROPBOX-14")
def app_code_old(box):
    done = box.by_app("old")
    same(done.state, "completed", f"the login ({done})")
    must(box.token()["access_token"] in box.fake.access, "a code is stored as a token")


@case(Box, "dropbox.app_emm", "DROPBOX-04")
def app_emm(box):
    done = box.by_app(app="dropbox-emm")
    same(done.state, "completed", f"the login ({done})")


@case(Box, "dropbox.app_online", "DROPBOX-03")
def app_online(box):
    box.configure(authorization_parameters={"token_access_type": ""})
    done = box.by_app()
    same(done.state, "completed", f"the login ({done})")
    same(box.fake.refresh_tokens, {}, "the refresh tokens of a login that is not offline")


@case(Box, "dropbox.app_redirect_uri", "DROPBOX-17")
def app_redirect_uri(box):
    (port,) = free_ports()
    box.fake.redirect = f"http://127.0.0.1:{port}/callback"
    box.configure()
    done = box.by_app()
    same(done.state, "completed", f"the login by the application ({done})")
    login = box.start(account="web")
    box.person.open(box.url(login, "browser"))
    same(box.wait(login).state, "completed", "the login by the browser")


@case(Box, "dropbox.app_precedence", "DROPBOX-15")
def app_precedence(box):
    for names in (("code", "oauth_code"), ("oauth_code", "oauth_token_secret")):
        login = box.start()
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(box.open_app(login)).query))
        values = {names[0]: query["oauth_code"], names[1]: box.fake.other_code(), "state": query["state"]}
        values |= {"oauth_token": "oauth2code:"} if names[1] == "oauth_token_secret" else {}
        done = box.bring(login, f"{CONNECT}?{urllib.parse.urlencode(values)}")
        same(done.state, "completed", f"the login with {names[0]} beside {names[1]} ({done})")
        box.call("account.logout", account=box.name, revoke=False)


@case(Box, "dropbox.app_secret_is_no_code", "DROPBOX-15")
def app_secret_is_no_code(box):
    for marker in ("", "oauth2:", "oauth2code", "x"):
        login = box.start()
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(box.open_app(login)).query))
        values = {"oauth_token": marker, "oauth_token_secret": query["oauth_code"], "state": query["state"]}
        done = box.bring(login, f"{CONNECT}?{urllib.parse.urlencode(values)}")
        must(done.state != "completed", f"a secret beside oauth_token={marker} completes the login: {done}")
        box.call("login.cancel", login_id=login["login_id"])
    same(box.fake.count("POST", TOKEN), 0, "the number of exchanges")


@case(Box, "dropbox.app_state", "DROPBOX-12")
def app_state(box):
    login = box.start()
    good = box.open_app(login)
    state = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(good).query))["state"]
    other = good.replace(urllib.parse.quote_plus(state), "oauth2code%3Aother%3AS256%3Aoffline")
    for wrong in (other, good.partition("&state=")[0]):
        must(wrong != good, "the address was not changed")
        done = box.bring(login, wrong)
        must(done.state in ("pending", "not handled"), f"a callback with another state: {done}")
    done = box.bring(login, good)
    same(done.state, "completed", f"the login ({done})")


@case(Box, "dropbox.app_token", "DROPBOX-02", "DROPBOX-11")
def app_token(box):
    box.implicit()
    done = box.by_app("token")
    same(done.state, "completed", f"the login ({done})")
    token = box.token()
    must(token["access_token"] in box.fake.access, "token.get does not give oauth_token_secret")
    same(box.fake.count("POST", TOKEN), 0, "the number of exchanges")


@case(Box, "dropbox.app_token_nonce", "DROPBOX-12")
def app_token_nonce(box):
    box.implicit()
    login = box.start()
    good = box.open_app(login, "token")
    for wrong in (re.sub("state=.*", "state=oauth2%3Aother", good), re.sub("&state=.*", "", good)):
        done = box.bring(login, wrong)
        must(done.state in ("pending", "not handled"), f"a callback with another nonce: {done}")
    done = box.bring(login, good)
    same(done.state, "completed", f"the login ({done})")


@case(Box, "dropbox.app_cancel", "DROPBOX-16")
def app_cancel(box):
    for end in ("cancel", "anything/else"):
        login = box.start()
        opened = {"kind": "native", "app": "dropbox"}
        box.call("login.wait", login_id=login["login_id"], timeout=0, opened=opened)
        done = box.bring(login, f"db-{KEY}://1/{end}")
        same(done.reason, "login_cancelled", f"the reason after {end} ({done})")


@case(Box, "dropbox.web_token", "DROPBOX-07")
def web_token(box):
    box.implicit()
    done = box.finish(box.start())
    same(done.state, "completed", f"the login ({done})")
    token = box.token()
    must(token["access_token"] in box.fake.access, "token.get does not give the access_token of the fragment")
    same(done.result["account"]["identity"].get("subject"), ACCOUNT, "identity.subject")
    same(box.fake.count("POST", TOKEN), 0, "the number of exchanges")


@case(Box, "dropbox.implicit_is_off", "DROPBOX-07")
def implicit_is_off(box):
    status, said = box.stage.check_configuration(box.toml(response_type="token"))
    must(status != 0 and "allow_implicit" in said, f"grantd --check-config takes response_type token: {status} {said}")
    login = box.start()
    url = box.person.open(box.url(login))
    state = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))["state"]
    done = box.bring(login, f"{TOKEN_REDIRECT}#access_token=forged&token_type=bearer&uid=1&account_id=a&state={state}")
    must(done.state in ("pending", "not handled"), f"a token in the fragment completes a login that asked for a code: {done}")
    same(box.bring(login, url).state, "completed", "the login")


@case(Box, "dropbox.fragment_page", "DROPBOX-09")
def fragment_page(box):
    (port,) = free_ports()
    box.fake.redirect = f"http://127.0.0.1:{port}/callback"
    box.implicit()
    login = box.start()
    end = box.person.open(box.url(login, "browser"))
    must("#access_token=" in end, f"the browser ends at {end}")
    policy, page = box.person.headers.get("Content-Security-Policy") or "", box.person.page
    must("default-src 'none'" in policy and "unsafe" not in policy, f"the policy is {policy!r}")
    script = re.search(r"<script[^>]*>(.*?)</script>", page, re.S)
    must(script, f"the page has no script: {page[:400]!r}")
    must("location.hash" in script[1] and "replaceState" in script[1], f"the script is {script[1]!r}")
    same(len(re.findall(r"\bfetch\(", script[1])), 1, "the number of requests that the script makes")
    address, _, fragment = end.partition("#")
    post(address, fragment, "https://www.example.com")
    same(box.wait(login, 0).state, "pending", "the login after a post of another origin")
    same(post(address, fragment, f"http://127.0.0.1:{port}"), 200, "the status of the answer to the script")
    same(box.wait(login).state, "completed", "the login")


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


@case(Box, "dropbox.denied", "DROPBOX-10")
def denied(box):
    box.fake.denies = True
    for implicit in (False, True):
        box.implicit() if implicit else box.configure()
        done = box.finish(box.start())
        oauth = done.data.get("oauth") or {}
        same((done.reason, oauth.get("error"), oauth.get("error_description")), ("login_denied", "access_denied", DENIAL),
             f"the error {'in the fragment' if implicit else 'in the query'} ({done})")


@case(Box, "dropbox.matching", "DROPBOX-19")
def matching(box):
    login = box.start()
    good = box.person.open(box.url(login))
    for start in (f"{TOKEN_REDIRECT}X", f"{TOKEN_REDIRECT}/", f"db-{KEY}://3/token", f"db-{KEY}://2/", f"db-{KEY}x://2/token",
                  f"db-{KEY}:/2/token"):
        done = box.bring(login, good.replace(TOKEN_REDIRECT, start))
        must(done.state in ("pending", "not handled"), f"{start} is taken as callback: {done}")
    same(box.bring(login, good).state, "completed", "the login after the right address")


@case(Box, "dropbox.refresh", "DROPBOX-20")
def refresh(box):
    box.sign_in()
    (token,) = box.fake.refresh_tokens
    for _ in range(3):
        same(box.call("account.refresh", account=box.name)["refreshed"], True, "a refresh")
    box.stage.restart()
    same(box.call("account.refresh", account=box.name)["refreshed"], True, "a refresh after a restart")
    same(box.refreshes(), [token] * 4, "the refresh tokens that were sent")


@case(Box, "dropbox.refresh_ends", "DROPBOX-20")
def refresh_ends(box):
    box.sign_in()
    box.fake.refresh_tokens.clear()
    same(box.refused("account.refresh", account=box.name).reason, "login_required", "the reason of a refresh after the grant")


@case(Box, "dropbox.logout", "DROPBOX-21")
def logout(box):
    box.sign_in()
    box.call("account.refresh", account=box.name)
    steps = box.call("account.logout", account=box.name)["steps"]
    same((box.fake.revoked, box.fake.access, box.fake.refresh_tokens), (1, {}, {}), f"what is left of the grant ({steps})")
    must({"done"} >= {one["result"] for one in steps} - {"unsupported", "skipped"}, f"the steps are {steps}")


@case(Box, "dropbox.api", "DROPBOX-22")
def api(box):
    box.sign_in()
    done = box.current()
    same((done.result.get("status"), json.loads(done.result["body"])["account_id"]), (200, ACCOUNT), "the answer")
    for tag in ("expired_access_token", "invalid_access_token"):
        before = len(box.refreshes())
        box.fake.script("POST", CURRENT, failure(tag))
        done = box.current()
        same((done.result.get("status"), len(box.refreshes()) - before), (200, 1), f"status and refreshes after {tag} ({done})")


@case(Box, "dropbox.missing_scope", "DROPBOX-23")
def missing_scope(box):
    box.sign_in()
    box.fake.script("POST", CURRENT, failure("missing_scope"))
    done = box.current()
    same((done.reason, box.refreshes()), ("login_required", []), f"the reason and the refreshes ({done})")


@case(Box, "dropbox.user_suspended", "DROPBOX-24")
def user_suspended(box):
    box.sign_in()
    box.fake.script("POST", CURRENT, failure("user_suspended"))
    done = box.current()
    must(done.error and done.reason != "login_required", f"a suspended user is told to sign in: {done}")
    must("suspended" in f"{done.error} {done.data}" or "blocked" in f"{done.error} {done.data}", f"the error says {done}")
    same(box.refreshes(), [], "the refreshes")


@case(Box, "dropbox.too_many_requests", "DROPBOX-25")
def too_many_requests(box):
    box.sign_in()
    box.fake.script("POST", CURRENT, too_many())
    done = box.current()
    same(done.result.get("status"), 429, f"the status ({done})")
    same(json.loads(done.result["body"])["error"]["retry_after"], 7, "retry_after of the body")
    same(box.fake.count("POST", CURRENT), 1, "the number of requests")
    same(box.account()["state"], "ok", "the account's state")


def wait_for_refresh(box, ends):
    """Many callers that wait for one refresh: the token before, their answers by number, and one on a shared connection."""
    box.sign_in()
    if ends:
        box.fake.refresh_tokens.clear()
    hold = box.fake.hold("POST", TOKEN)
    before = box.token()
    answers = {}

    def ask(number, client, method, **params):
        try:
            answers[number] = client.call(method, account=box.name, **params)
        except Refused as refusal:
            answers[number] = refusal

    def begin(number, method, **params):
        threads.append(threading.Thread(target=ask, args=(number, box.other_client(), method), kwargs=params, daemon=True))
        threads[-1].start()

    threads = []
    # Who reported a token does not get it again.
    begin("report", "token.report_rejected", generation=before["generation"])
    wait_until(box.refreshes, 5, "a refresh begins")
    for number in range(WAITERS):
        begin(number, "token.get", min_ttl=60 + number)
    shared = box.other_client()
    calls = [("token.get", {"account": box.name}), ("account.get", {"account": box.name}), ("provider.list", None)]
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


@case(Box, "dropbox.waiters", "DROPBOX-26")
def waiters(box):
    before, answers, last = wait_for_refresh(box, ends=False)
    found = {answer["access_token"] for answer in answers.values()} | {last["result"]["access_token"]}
    same(len(found), 1, f"the number of different tokens ({answers})")
    must(found <= set(box.fake.access) and before["access_token"] not in found, "the token is not that of the refresh")
    same({tuple(sorted(answer)) for answer in answers.values()}, {tuple(sorted(before))}, "the members of the answers")
    same(len(box.refreshes()), 1, "the number of refreshes")


@case(Box, "dropbox.waiters_refused", "DROPBOX-26")
def waiters_refused(box):
    _, answers, last = wait_for_refresh(box, ends=True)
    same([getattr(answer, "reason", answer) for answer in answers.values()], ["login_required"] * WAITERS, "the answers")
    same(last["error"]["data"]["reason"], "login_required", "the answer on the shared connection")


@case(Box, "dropbox.refresh_later", "DROPBOX-20")
def refresh_later(box):
    box.sign_in()
    box.fake.script("POST", TOKEN, Answer.json(429, {"error": "too_many_requests"}, [("Retry-After", "1")]))
    same(box.refused("account.refresh", account=box.name).reason, "temporarily_unavailable", "the reason after 429")
    same(box.call("account.refresh", account=box.name)["refreshed"], True, "the refresh afterwards")
