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


class Ride(Scene):
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


@case(Ride, "uber.sign_in", "UBER-01", "UBER-02", "UBER-03", "UBER-14")
def sign_in(ride):
    ride.sign_in()
    same(ride.fake.signed_in_at, ["universal"], "the page")
    token = ride.token()
    must(token["access_token"] in ride.fake.access, "token.get does not give the access_token of the answer")
    same((token["token_type"], token["scope"]), ("Bearer", ["profile"]), "token_type and scope")
    must(LIFETIME - 100 < token["expires_in"] <= LIFETIME, f"expires_in is {token['expires_in']}")


@case(Ride, "uber.product", "UBER-01")
def product(ride):
    for word in ("universal", "riders", "eats", "drivers"):
        ride.configure(authorization_endpoint=None, product=word)
        login = ride.start()
        must(ride.url(login).startswith(f"https://auth.uber.com/oauth/v2/{word}/authorize?"), f"the address is {ride.url(login)}")
        ride.call("login.cancel", login_id=login["login_id"])


@case(Ride, "uber.apps", "UBER-04")
def apps(ride):
    for chosen in (None, ["eats"], ["driver", "rides"], ["eats", "driver", "rides"]):
        login = ride.start(**({"apps": chosen} if chosen else {}))
        wanted = [("native", name, ride.fake.url + page(APPS[name])) for name in chosen or APPS]
        wanted += [(kind, None, ride.fake.url + page("universal")) for kind in ("browser", "manual")]
        found = [(one["kind"], one.get("app"), one["url"].partition("?")[0]) for one in login["destinations"]]
        same(found, wanted, f"the destinations of {chosen}")
        for name in chosen or APPS:
            again = ride.bring(login, ride.person.open(ride.url(login, "native", name)))
            same(again.state, "completed", f"the login by {name} ({again})")
            login = ride.start(**({"apps": chosen} if chosen else {}))
        ride.call("login.cancel", login_id=login["login_id"])
    must(ride.refused("login.start", provider=ride.name, apps=["bicycle"]), "an unknown application is taken")


@case(Ride, "uber.fell_back", "UBER-05", "UBER-26")
def fell_back(ride):
    for opened, fell in (({"kind": "native", "app": "rides"}, False), ({"kind": "browser"}, True)):
        login = ride.start()
        ride.call("login.wait", login_id=login["login_id"], timeout=0, opened=opened)
        done = ride.bring(login, ride.person.open(ride.url(login, **opened)))
        same((done.result.get("destination_used"), done.result.get("fell_back")), (opened, fell), f"the place ({done})")


@case(Ride, "uber.prompt", "UBER-06", "UBER-07")
def prompt(ride):
    for word, native in (("login", None), ("consent", "consent"), ("login consent", "consent"), (None, None)):
        login = ride.start(**({"prompt": word} if word else {}))
        found = {name: query.get("prompt") for name, query in ride.queries(login).items()}
        same(found, {name: native for name in APPS} | {"browser": word, "manual": word}, f"prompt of {word}")
        warned = any("login" in warning for warning in login["warnings"])
        same(warned, word is not None and "login" in word, f"whether something warns of prompt {word}: {login['warnings']}")
        same(ride.finish(login).state, "completed", f"the login with {word}")


@case(Ride, "uber.prompt_refused", "UBER-06")
def prompt_refused(ride):
    for word in ("none", "select_account", "login none"):
        refusal = ride.refused("login.start", provider=ride.name, prompt=word)
        must(word.split()[-1] in str(refusal) or "prompt" in str(refusal), f"the error does not name the prompt: {refusal}")
    same(ride.fake.requests, [], "the requests")


@case(Ride, "uber.code_only", "UBER-08")
def code_only(ride):
    ride.fake.exchanges = False
    for params in ({"exchange": False}, {}):
        if not params:
            ride.configure(exchange_code=False)
        done = ride.finish(ride.start(**params))
        same(done.state, "completed", f"the login ({done})")
        (code,) = ride.fake.codes
        same(done.result.get("authorization_code"), code, "authorization_code")
        ride.fake.codes.clear()
        same(ride.call("account.list")["accounts"], [], "the accounts")
    same(ride.fake.count("POST", TOKEN), 0, "the number of exchanges")


@case(Ride, "uber.code_only_by_grantctl", "UBER-08")
def code_only_by_grantctl(ride):
    ride.fake.exchanges = False
    talk = ride.sign_in_at_terminal("--code-only", "--app", "eats")
    same(talk.wait(), 0, f"the exit status ({talk.said[-300:]!r})")
    (code,) = ride.fake.codes
    must(code in talk.said, f"the code is not printed: {talk.said[-300:]!r}")


@case(Ride, "uber.new_verifier", "UBER-09")
def new_verifier(ride):
    ride.sign_in("a")
    ride.sign_in("b")
    same(len(set(ride.fake.challenges)), 2, "the number of challenges")


WHOLE = {"email": "ann@example.com", "phone": "+4930123456", "first_name": "Änn", "last_name": "O'Neil"}


@case(Ride, "uber.prefill", "UBER-10", "UBER-12", "UBER-13")
def prefill(ride):
    for status, told in ((201, WHOLE), (200, {"email": "ann@example.com"})):
        ride.fake.par_status = status
        ride.fake.pushed.clear()
        login = ride.start(prefill=told)
        same(list(ride.fake.pushed.values()), [told], "login_hint")
        same(login["warnings"], [], "the warnings")
        found = ride.queries(login)
        (uri,) = ride.fake.pushed
        same((found["browser"].get("request_uri"), found["manual"].get("request_uri")), (uri, uri), "request_uri of the browser")
        same({query.get("request_uri", uri) for query in found.values()}, {uri}, "request_uri of all places")
        must({"redirect_uri", "scope", "code_challenge", "state"} <= set(found["browser"]), f"the front channel has {found}")
        same(ride.finish(login).state, "completed", "the login")


@case(Ride, "uber.prefill_nulls", "UBER-10")
def prefill_nulls(ride):
    login = ride.start(prefill={"first_name": "Ann"})
    same(list(ride.fake.pushed.values()), [{"first_name": "Ann"}], "login_hint without what is not known")
    same(ride.finish(login).state, "completed", "the login")
    ride.start()
    same(len(ride.fake.pushed), 1, "the number of pushed requests after a login without prefill")


@case(Ride, "uber.prefill_dropped", "UBER-11")
def prefill_dropped(ride):
    for answer in (Answer.json(400, {"error": "invalid_request"}), Answer.json(500, {}), Answer.json(201, {}), DROP,
                   Answer(200, b"<html>", content_type="text/html")):
        ride.fake.script("POST", PAR, *[answer] * 2)
        login = ride.start(prefill=WHOLE)
        ride.fake.scripts.clear()
        must(any("prefill_dropped" in warning for warning in login["warnings"]), f"nothing warns after {answer}: {login}")
        must(all("request_uri" not in query for query in ride.queries(login).values()), f"there is a request_uri after {answer}")
        same(ride.finish(login).state, "completed", f"the login after {answer}")


@case(Ride, "uber.prefill_strict", "UBER-11")
def prefill_strict(ride):
    ride.configure(prefill="strict")
    ride.fake.script("POST", PAR, Answer.json(400, {"error": "invalid_request"}))
    ride.refused("login.start", provider=ride.name, prefill=WHOLE)
    same(ride.call("login.list")["logins"], [], "the logins")
    same(ride.finish(ride.start(prefill=WHOLE)).state, "completed", "a login whose prefill is taken")


@case(Ride, "uber.no_token_type", "UBER-15")
def no_token_type(ride):
    for word in (None, ABSENT):
        ride.fake.token_type = word
        ride.sign_in()
        same(ride.token()["token_type"], "Bearer", f"token_type, {'null' if word is None else 'absent'}")
    same(ride.token()["token_type"], "Bearer", "token_type")
    same(ride.call("account.refresh", account=ride.name)["refreshed"], True, "a refresh")
    same(ride.token()["token_type"], "Bearer", "token_type after a refresh")
    answer = ride.call("request.send", account=ride.name, method="GET", url=ME)
    same(answer["status"], 200, "the status of a request with that token")


@case(Ride, "uber.no_token_type_by_setting", "UBER-15")
def no_token_type_by_setting(ride):
    ride.fake.token_type = ABSENT
    ride.configure(profile=None, kind="oauth2", assumed_token_type="Bearer", native_apps=None, scopes=["profile"])
    ride.sign_in()
    header = ride.ctl("token", ride.name, "--header").stdout
    must(header.startswith("Authorization: Bearer "), f"the header field is {header!r}")


@case(Ride, "uber.shapes", "UBER-16")
def shapes(ride):
    for array in (True, False):
        for text in (True, False):
            ride.fake.scope_as_array, ride.fake.lifetime_as_text = array, text
            ride.sign_in(scopes=["profile", "history"])
            for _ in range(2):
                token = ride.token()
                same(token["scope"], ["profile", "history"], f"scope, array {array}")
                must(LIFETIME - 100 < token["expires_in"] <= LIFETIME, f"expires_in is {token['expires_in']}, text {text}")
                ride.call("account.refresh", account=ride.name)


@case(Ride, "uber.handle_callback", "UBER-17")
def handle_callback(ride):
    login = ride.start()
    good = ride.person.open(ride.url(login))
    for start in (f"x-{ride.name}://other/consumer", f"x-{ride.name}2://oauth/consumer", f"x-{ride.name}://oauth/consumer/x",
                  f"x-{ride.name}://oauth"):
        done = ride.bring(login, good.replace(ride.fake.redirect, start))
        must(done.state in ("pending", "not handled"), f"{start} is taken as callback: {done}")
    same(ride.call("login.handle_callback", url="https://www.example.com/?code=1"), {"handled": False}, "another address")
    same(ride.bring(login, good).state, "completed", "the login")


@case(Ride, "uber.code_over_error", "UBER-18")
def code_over_error(ride):
    ride.fake.errs_beside_code = {"error": "access_denied"}
    done = ride.finish(ride.start())
    same(done.state, "completed", f"a login with code and error ({done})")


@case(Ride, "uber.cold_start", "UBER-19")
def cold_start(ride):
    login = ride.start(account="work")
    url = ride.person.open(ride.url(login))
    ride.stage.restart()
    done = ride.bring(login, url)
    same(done.state, "completed", f"the login after a restart ({done})")
    same(done.result["account"]["account"], "work", "the account")


@case(Ride, "uber.login_button", "UBER-20")
def login_button(ride):
    watcher = ride.other_client()
    watcher.call("events.subscribe", events=["login.started", "login.completed", "account.removed"])
    ride.sign_in()
    same(ride.account()["state"], "ok", "the account's state while signed in")
    ride.call("account.logout", account=ride.name)
    found = [json.loads(watcher.line())["params"] for _ in range(3)]
    same([(one["type"], one["account"]) for one in found],
         [(kind, ride.name) for kind in ("login.started", "login.completed", "account.removed")], "the events")
    same(ride.refused("account.get", account=ride.name).reason, "unknown_account", "the account while signed out")


@case(Ride, "uber.refresh", "UBER-21")
def refresh(ride):
    ride.sign_in()
    for generation in (2, 3):
        same(ride.call("account.refresh", account=ride.name), {"refreshed": True, "generation": generation}, "a refresh")
    ride.fake.refresh_tokens.clear()
    same(ride.refused("account.refresh", account=ride.name).reason, "login_required", "the reason after invalid_grant")


@case(Ride, "uber.token_errors", "UBER-22")
def token_errors(ride):
    for code in ("invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type",
                 "invalid_scope"):
        ride.fake.script("POST", TOKEN, Answer.json(401 if code == "invalid_client" else 400, {"error": code} | ERROR))
        done = ride.finish(ride.start())
        same(done.data.get("oauth"), {"error": code} | ERROR, f"the provider's words ({done})")


@case(Ride, "uber.authorization_errors", "UBER-23")
def authorization_errors(ride):
    for code in ("access_denied", "invalid_request", "unauthorized_client", "unsupported_response_type", "invalid_scope"):
        ride.fake.denies = {"error": code} | ERROR
        done = ride.finish(ride.start())
        same(done.data.get("oauth"), {"error": code} | ERROR, f"the provider's words ({done})")
        must(done.error, f"the login goes on after {code}: {done}")


@case(Ride, "uber.server_error", "UBER-24")
def server_error(ride):
    denials = []
    for code in ("server_error", "temporarily_unavailable"):
        ride.fake.denies = {"error": code} | ERROR
        done = ride.finish(ride.start())
        same((done.data.get("oauth") or {}).get("error"), code, f"the provider's word ({done})")
        denials += [code] if done.reason == "login_denied" else []
        must(done.reason in ("login_denied", "temporarily_unavailable", "provider_error"), f"the reason of {code} is {done}")
    ride.fake.denies = None
    for status in (400, 500):
        ride.fake.script("POST", TOKEN, Answer.json(status, {"error": "server_error"} | ERROR))
        done = ride.finish(ride.start())
        denials += [f"server_error with HTTP {status}"] if done.reason == "login_denied" else []
        must(done.error, f"the login goes on: {done}")
    must(not denials, f"{', '.join(denials)} is login_denied")


@case(Ride, "uber.server_error_in_browser", "UBER-24")
def server_error_in_browser(ride):
    (port,) = free_ports()
    ride.fake.redirect = f"http://127.0.0.1:{port}/callback"
    ride.configure()
    ride.fake.denies = {"error": "server_error"} | ERROR
    login = ride.start()
    ride.person.open(ride.url(login, "browser"))
    done = ride.wait(login)
    must(done.error and done.reason != "login_denied", f"server_error is a denial: {done}")
    for word in ("denied", "refused"):
        must(word not in ride.person.page.lower(), f"the page says {word} after server_error: {text_of(ride.person.page)}")


def text_of(page):
    """The words of a page, for people."""
    return " ".join(re.sub(r"<(style|script).*?</\1>|<[^>]+>", " ", page, flags=re.S).split())


@case(Ride, "uber.cancelled", "UBER-25")
def cancelled(ride):
    login = ride.start()
    same(ride.call("login.cancel", login_id=login["login_id"]), {"cancelled": True}, "the answer")
    same(ride.wait(login, 0).reason, "login_cancelled", "the login")


@case(Ride, "uber.existing_session", "UBER-27")
def existing_session(ride):
    login = ride.start()
    refusal = ride.refused("login.start", provider=ride.name, account="other")
    same(refusal.reason, "login_in_progress", f"the second login ({refusal})")
    must(login["login_id"] in json.dumps(refusal.detail), f"detail does not name the first login: {refusal.data}")


@case(Ride, "uber.invalid_callback", "UBER-28")
def invalid_callback(ride):
    login = ride.start()
    state = ride.queries(login)["manual"]["state"]
    for query in (f"state={state}", f"code=&state={state}", "code=x", "code=x&state=other", f"code=x&code=y&state={state}"):
        done = ride.bring(login, f"{ride.fake.redirect}?{query}")
        same((done.reason, done.state), ("invalid_callback", "pending"), f"the error after {query.replace(state, 'S')} ({done})")
    done = ride.outcome("login.handle_callback", url="not an address")
    must(done.error or done.result == {"handled": False}, f"the answer to no address is {done}")
    same(ride.finish(login).state, "completed", "the login")


@case(Ride, "uber.invalid_request", "UBER-29")
def invalid_request(ride):
    for keys in ({"redirect_uri": "not an address"}, {"redirect_uri": ""}, {"authorization_endpoint": "auth.uber.com"},
                 {"token_endpoint": "not an address"}):
        status, said = ride.stage.check_configuration(ride.toml(**keys))
        must(status != 0 and next(iter(keys)) in said, f"grantd --check-config takes {keys}: {status} {said}")


@case(Ride, "uber.service_error", "UBER-30")
def service_error(ride):
    for answer in (Answer(200, b"<html>", content_type="text/html"), Answer(200, b"{", content_type="application/json")):
        ride.fake.script("POST", TOKEN, answer)
        done = ride.finish(ride.start())
        must(done.reason in ("provider_error", "temporarily_unavailable"), f"the reason of an unreadable answer: {done}")
    ride.fake.script("POST", TOKEN, DROP)
    done = ride.finish(ride.start())
    same(done.reason, "temporarily_unavailable", f"the reason of no answer ({done})")
