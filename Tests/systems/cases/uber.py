"""Uber: the choice of the application, prompts, values pushed ahead, bare codes, and the errors of its SDK."""

import json
import re
import urllib.parse

from cases import case
from fakes.server import DROP, Answer
from fakes.uber import ABSENT, CLIENT, LIFETIME, ME, PAR, TOKEN, Uber, page
from grantd_testing import free_ports
from rig import Scene, must, same

APPS = {"rides": "riders", "eats": "eats", "driver": "drivers"}
ERROR = {"error_description": "It is so, & no other way.", "error_uri": "https://developer.uber.com/errors"}


class UberScene(Scene):
    """Uber, and grantd with a section for it."""

    def prepare(self):
        self.fake = Uber(f"x-{self.name}://oauth/consumer")
        self.configure()

    def section(self):
        apps = [{"app": name, "url": self.fake.url + page(path)} for name, path in APPS.items()]
        return {"profile": "uber", "client_id": CLIENT, "redirect_uri": self.fake.redirect,
                "authorization_endpoint": self.fake.url + page("universal"), "token_endpoint": self.fake.url + TOKEN,
                "pushed_authorization_request_endpoint": self.fake.url + PAR, "api_base": self.fake.url, "native_apps": apps}

    def queries(self, login):
        """The parameters of each address, by application or kind."""
        return {one.get("app") or one["kind"]: dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(one["url"]).query))
                for one in login["destinations"]}


@case(UberScene, "uber.sign_in", "UBER-01", "UBER-02", "UBER-03", "UBER-14")
def sign_in(scene):
    scene.sign_in()
    same(scene.fake.signed_in_at, ["universal"], "the page")
    token = scene.token()
    must(token["access_token"] in scene.fake.access, "token.get does not give the access_token of the answer")
    same((token["token_type"], token["scope"]), ("Bearer", ["profile"]), "token_type and scope")
    must(LIFETIME - 100 < token["expires_in"] <= LIFETIME, f"expires_in is {token['expires_in']}")


@case(UberScene, "uber.product", "UBER-01")
def product(scene):
    for word in ("universal", "riders", "eats", "drivers"):
        scene.configure(authorization_endpoint=None, product=word)
        login = scene.start()
        url = scene.url(login)
        must(url.startswith(f"https://auth.uber.com/oauth/v2/{word}/authorize?"), f"the address is {url}")
        scene.call("login.cancel", login_id=login["login_id"])


@case(UberScene, "uber.apps", "UBER-04")
def apps(scene):
    for chosen in (None, ["eats"], ["driver", "rides"], ["eats", "driver", "rides"]):
        login = scene.start(**({"apps": chosen} if chosen else {}))
        wanted = [("native", name, scene.fake.url + page(APPS[name])) for name in chosen or APPS]
        wanted += [(kind, None, scene.fake.url + page("universal")) for kind in ("browser", "manual")]
        found = [(one["kind"], one.get("app"), one["url"].partition("?")[0]) for one in login["destinations"]]
        same(found, wanted, f"the destinations of {chosen}")
        for name in chosen or APPS:
            again = scene.bring(login, scene.browser.open(scene.url(login, "native", name)))
            same(again.state, "completed", f"the login by {name} ({again})")
            login = scene.start(**({"apps": chosen} if chosen else {}))
        scene.call("login.cancel", login_id=login["login_id"])
    must(scene.refused("login.start", provider=scene.name, apps=["bicycle"]), "an unknown application is taken")


@case(UberScene, "uber.fell_back", "UBER-05", "UBER-26")
def fell_back(scene):
    for opened, fell in (({"kind": "native", "app": "rides"}, False), ({"kind": "browser"}, True)):
        login = scene.start()
        scene.call("login.wait", login_id=login["login_id"], timeout=0, opened=opened)
        done = scene.bring(login, scene.browser.open(scene.url(login, **opened)))
        same((done.result.get("destination_used"), done.result.get("fell_back")), (opened, fell), f"the place ({done})")


@case(UberScene, "uber.prompt", "UBER-06", "UBER-07")
def prompt(scene):
    for word, native in (("login", None), ("consent", "consent"), ("login consent", "consent"), (None, None)):
        login = scene.start(**({"prompt": word} if word else {}))
        found = {name: query.get("prompt") for name, query in scene.queries(login).items()}
        same(found, {name: native for name in APPS} | {"browser": word, "manual": word}, f"prompt of {word}")
        warned = any("login" in warning for warning in login["warnings"])
        same(warned, word is not None and "login" in word, f"whether something warns of prompt {word}: {login['warnings']}")
        same(scene.finish(login).state, "completed", f"the login with {word}")


@case(UberScene, "uber.prompt_refused", "UBER-06")
def prompt_refused(scene):
    for word in ("none", "select_account", "login none"):
        refusal = scene.refused("login.start", provider=scene.name, prompt=word)
        must(word.split()[-1] in str(refusal) or "prompt" in str(refusal), f"the error does not name the prompt: {refusal}")
    same(scene.fake.requests, [], "the requests")


@case(UberScene, "uber.code_only", "UBER-08")
def code_only(scene):
    scene.fake.exchanges = False
    for params in ({"exchange": False}, {}):
        if not params:
            scene.configure(exchange_code=False)
        done = scene.finish(scene.start(**params))
        same(done.state, "completed", f"the login ({done})")
        (code,) = scene.fake.codes
        same(done.result.get("authorization_code"), code, "authorization_code")
        scene.fake.codes.clear()
        same(scene.call("account.list")["accounts"], [], "the accounts")
    same(scene.fake.count("POST", TOKEN), 0, "the number of exchanges")


@case(UberScene, "uber.code_only_by_grantctl", "UBER-08")
def code_only_by_grantctl(scene):
    scene.fake.exchanges = False
    talk = scene.sign_in_at_terminal("--code-only", "--app", "eats")
    same(talk.wait(), 0, f"the exit status ({talk.said[-300:]!r})")
    (code,) = scene.fake.codes
    must(code in talk.said, f"the code is not printed: {talk.said[-300:]!r}")


@case(UberScene, "uber.new_verifier", "UBER-09")
def new_verifier(scene):
    scene.sign_in("a")
    scene.sign_in("b")
    same(len(set(scene.fake.challenges)), 2, "the number of challenges")


WHOLE = {"email": "ann@example.com", "phone": "+4930123456", "first_name": "Änn", "last_name": "O'Neil"}


@case(UberScene, "uber.prefill", "UBER-10", "UBER-12", "UBER-13")
def prefill(scene):
    for status, told in ((201, WHOLE), (200, {"email": "ann@example.com"})):
        scene.fake.par_status = status
        scene.fake.pushed.clear()
        login = scene.start(prefill=told)
        same(list(scene.fake.pushed.values()), [told], "login_hint")
        same(login["warnings"], [], "the warnings")
        found = scene.queries(login)
        (uri,) = scene.fake.pushed
        same((found["browser"].get("request_uri"), found["manual"].get("request_uri")), (uri, uri), "request_uri of the browser")
        same({query.get("request_uri", uri) for query in found.values()}, {uri}, "request_uri of all places")
        must({"redirect_uri", "scope", "code_challenge", "state"} <= set(found["browser"]), f"the front channel has {found}")
        same(scene.finish(login).state, "completed", "the login")


@case(UberScene, "uber.prefill_nulls", "UBER-10")
def prefill_nulls(scene):
    login = scene.start(prefill={"first_name": "Ann"})
    same(list(scene.fake.pushed.values()), [{"first_name": "Ann"}], "login_hint without what is not known")
    same(scene.finish(login).state, "completed", "the login")
    scene.start()
    same(len(scene.fake.pushed), 1, "the number of pushed requests after a login without prefill")


@case(UberScene, "uber.prefill_dropped", "UBER-11")
def prefill_dropped(scene):
    for answer in (Answer.json(400, {"error": "invalid_request"}), Answer.json(500, {}), Answer.json(201, {}), DROP,
                   Answer(200, b"<html>", content_type="text/html")):
        scene.fake.script("POST", PAR, *[answer] * 2)
        login = scene.start(prefill=WHOLE)
        scene.fake.scripts.clear()
        must(any("prefill_dropped" in warning for warning in login["warnings"]), f"nothing warns after {answer}: {login}")
        must(all("request_uri" not in query for query in scene.queries(login).values()), f"there is a request_uri after {answer}")
        same(scene.finish(login).state, "completed", f"the login after {answer}")


@case(UberScene, "uber.prefill_strict", "UBER-11")
def prefill_strict(scene):
    scene.configure(prefill="strict")
    scene.fake.script("POST", PAR, Answer.json(400, {"error": "invalid_request"}))
    scene.refused("login.start", provider=scene.name, prefill=WHOLE)
    same(scene.call("login.list")["logins"], [], "the logins")
    same(scene.finish(scene.start(prefill=WHOLE)).state, "completed", "a login whose prefill is taken")


@case(UberScene, "uber.no_token_type", "UBER-15")
def no_token_type(scene):
    for word in (None, ABSENT):
        scene.fake.token_type = word
        scene.sign_in()
        same(scene.token()["token_type"], "Bearer", f"token_type, {'null' if word is None else 'absent'}")
    same(scene.token()["token_type"], "Bearer", "token_type")
    same(scene.call("account.refresh", account=scene.name)["refreshed"], True, "a refresh")
    same(scene.token()["token_type"], "Bearer", "token_type after a refresh")
    answer = scene.call("request.send", account=scene.name, method="GET", url=ME)
    same(answer["status"], 200, "the status of a request with that token")


@case(UberScene, "uber.no_token_type_by_setting", "UBER-15")
def no_token_type_by_setting(scene):
    scene.fake.token_type = ABSENT
    scene.configure(profile=None, kind="oauth2", assumed_token_type="Bearer", native_apps=None, scopes=["profile"])
    scene.sign_in()
    header = scene.ctl("token", scene.name, "--as-header").stdout
    must(header.startswith("Authorization: Bearer "), f"the header field is {header!r}")


@case(UberScene, "uber.shapes", "UBER-16")
def shapes(scene):
    for array in (True, False):
        for text in (True, False):
            scene.fake.scope_as_array, scene.fake.lifetime_as_text = array, text
            scene.sign_in(scopes=["profile", "history"])
            for _ in range(2):
                token = scene.token()
                same(token["scope"], ["profile", "history"], f"scope, array {array}")
                must(LIFETIME - 100 < token["expires_in"] <= LIFETIME, f"expires_in is {token['expires_in']}, text {text}")
                scene.call("account.refresh", account=scene.name)


@case(UberScene, "uber.handle_callback", "UBER-17")
def handle_callback(scene):
    login = scene.start()
    good = scene.browser.open(scene.url(login))
    for start in (f"x-{scene.name}://other/consumer", f"x-{scene.name}2://oauth/consumer", f"x-{scene.name}://oauth/consumer/x",
                  f"x-{scene.name}://oauth"):
        done = scene.bring(login, good.replace(scene.fake.redirect, start))
        must(done.state in ("pending", "not handled"), f"{start} is taken as callback: {done}")
    same(scene.call("login.handle_callback", url="https://www.example.com/?code=1"), {"handled": False}, "another address")
    same(scene.bring(login, good).state, "completed", "the login")


@case(UberScene, "uber.code_over_error", "UBER-18")
def code_over_error(scene):
    scene.fake.errs_beside_code = {"error": "access_denied"}
    done = scene.finish(scene.start())
    same(done.state, "completed", f"a login with code and error ({done})")


@case(UberScene, "uber.cold_start", "UBER-19")
def cold_start(scene):
    login = scene.start(account="work")
    url = scene.browser.open(scene.url(login))
    scene.stage.restart()
    done = scene.bring(login, url)
    same(done.state, "completed", f"the login after a restart ({done})")
    same(done.result["account"]["account"], "work", "the account")


@case(UberScene, "uber.login_button", "UBER-20")
def login_button(scene):
    watcher = scene.other_client()
    watcher.call("events.subscribe", events=["login.started", "login.completed", "account.removed"])
    scene.sign_in()
    same(scene.account()["state"], "ok", "the account's state while signed in")
    scene.call("account.logout", account=scene.name)
    found = [json.loads(watcher.line())["params"] for _ in range(3)]
    same([(one["type"], one["account"]) for one in found],
         [(kind, scene.name) for kind in ("login.started", "login.completed", "account.removed")], "the events")
    same(scene.refused("account.get", account=scene.name).reason, "unknown_account", "the account while signed out")


@case(UberScene, "uber.refresh", "UBER-21")
def refresh(scene):
    scene.sign_in()
    for generation in (2, 3):
        same(scene.call("account.refresh", account=scene.name), {"refreshed": True, "generation": generation}, "a refresh")
    scene.fake.refresh_tokens.clear()
    same([scene.refused("account.refresh", account=scene.name, now=True).reason for _ in range(2)],
         ["temporarily_unavailable", "login_required"], "the reasons after invalid_grant")


@case(UberScene, "uber.token_errors", "UBER-22")
def token_errors(scene):
    for code in ("invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type",
                 "invalid_scope"):
        scene.fake.script("POST", TOKEN, Answer.json(401 if code == "invalid_client" else 400, {"error": code} | ERROR))
        done = scene.finish(scene.start())
        same(done.data.get("oauth"), {"error": code} | ERROR, f"the provider's words ({done})")


@case(UberScene, "uber.authorization_errors", "UBER-23")
def authorization_errors(scene):
    for code in ("access_denied", "invalid_request", "unauthorized_client", "unsupported_response_type", "invalid_scope"):
        scene.fake.denies = {"error": code} | ERROR
        done = scene.finish(scene.start())
        same(done.data.get("oauth"), {"error": code} | ERROR, f"the provider's words ({done})")
        must(done.error, f"the login goes on after {code}: {done}")


@case(UberScene, "uber.server_error", "UBER-24")
def server_error(scene):
    denials = []
    for code in ("server_error", "temporarily_unavailable"):
        scene.fake.denies = {"error": code} | ERROR
        done = scene.finish(scene.start())
        same((done.data.get("oauth") or {}).get("error"), code, f"the provider's word ({done})")
        denials += [code] if done.reason == "login_denied" else []
        must(done.reason in ("login_denied", "temporarily_unavailable", "provider_error"), f"the reason of {code} is {done}")
    scene.fake.denies = None
    for status in (400, 500):
        scene.fake.script("POST", TOKEN, Answer.json(status, {"error": "server_error"} | ERROR))
        done = scene.finish(scene.start())
        denials += [f"server_error with HTTP {status}"] if done.reason == "login_denied" else []
        must(done.error, f"the login goes on: {done}")
    must(not denials, f"{', '.join(denials)} is login_denied")


@case(UberScene, "uber.server_error_in_browser", "UBER-24")
def server_error_in_browser(scene):
    (port,) = free_ports()
    scene.fake.redirect = f"http://127.0.0.1:{port}/callback"
    scene.configure()
    scene.fake.denies = {"error": "server_error"} | ERROR
    login = scene.start()
    scene.browser.open(scene.url(login, "browser"))
    done = scene.wait(login)
    must(done.error and done.reason != "login_denied", f"server_error is a denial: {done}")
    for word in ("denied", "refused"):
        must(word not in scene.browser.page.lower(), f"the page says {word} after server_error: {text_of(scene.browser.page)}")


def text_of(page):
    """The words of a page, for people."""
    return " ".join(re.sub(r"<(style|script).*?</\1>|<[^>]+>", " ", page, flags=re.S).split())


@case(UberScene, "uber.cancelled", "UBER-25")
def cancelled(scene):
    login = scene.start()
    same(scene.call("login.cancel", login_id=login["login_id"]), {"cancelled": True}, "the answer")
    same(scene.wait(login, 0).reason, "login_cancelled", "the login")


@case(UberScene, "uber.existing_session", "UBER-27")
def existing_session(scene):
    login = scene.start()
    refusal = scene.refused("login.start", provider=scene.name, account="other")
    same(refusal.reason, "login_in_progress", f"the second login ({refusal})")
    must(login["login_id"] in json.dumps(refusal.detail), f"detail does not name the first login: {refusal.data}")


@case(UberScene, "uber.invalid_callback", "UBER-28")
def invalid_callback(scene):
    login = scene.start()
    state = scene.queries(login)["manual"]["state"]
    for query in (f"state={state}", f"code=&state={state}", "code=x", "code=x&state=other", f"code=x&code=y&state={state}"):
        done = scene.bring(login, f"{scene.fake.redirect}?{query}")
        same((done.reason, done.state), ("invalid_callback", "pending"), f"the error after {query.replace(state, 'S')} ({done})")
    done = scene.outcome("login.handle_callback", url="not an address")
    must(done.error or done.result == {"handled": False}, f"the answer to no address is {done}")
    same(scene.finish(login).state, "completed", "the login")


@case(UberScene, "uber.invalid_request", "UBER-29")
def invalid_request(scene):
    for keys in ({"redirect_uri": "not an address"}, {"redirect_uri": ""}, {"authorization_endpoint": "auth.uber.com"},
                 {"token_endpoint": "not an address"}):
        status, said = scene.stage.check_configuration(scene.toml(**keys))
        must(status != 0 and next(iter(keys)) in said, f"grantd --check-config takes {keys}: {status} {said}")


@case(UberScene, "uber.service_error", "UBER-30")
def service_error(scene):
    for answer in (Answer(200, b"<html>", content_type="text/html"), Answer(200, b"{", content_type="application/json")):
        scene.fake.script("POST", TOKEN, answer)
        done = scene.finish(scene.start())
        must(done.reason in ("provider_error", "temporarily_unavailable"), f"the reason of an unreadable answer: {done}")
    scene.fake.script("POST", TOKEN, DROP)
    done = scene.finish(scene.start())
    same(done.reason, "temporarily_unavailable", f"the reason of no answer ({done})")
