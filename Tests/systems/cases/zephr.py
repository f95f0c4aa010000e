"""Zephr: a start at an identity provider, a registration of new people, a session in place of a token."""

import json
import re
import urllib.parse

from cases import case
from fakes.server import DROP, Answer
from fakes.zephr import IDENTIFIER, SESSION, Zephr
from grantd_testing import free_ports, wait_until
from grantd_testing.places import ROOT
from rig import Scene, must, same

# The hints of docs/errors.md, which fit no failure in particular.
DENIED_HINT = "Start again with `grantctl login` and allow the access asked for."
REJECTED_HINT = "Mend the fields named in `detail` and try again."


class News(Scene):
    prefix = "/blaize"

    def prepare(self):
        self.redirect = f"x-{self.name}://auth"
        self.fake = Zephr(self.redirect, self.prefix)
        self.configure()

    def section(self):
        return {"kind": "zephr", "base_url": self.fake.url, "redirect_uri": self.redirect, "path_prefix": self.prefix,
                "identity_providers": ["google", "apple"], "default_identity_provider": "google"}

    def new_person(self, *required, **settings):
        """A login that waits for the registration."""
        self.fake.status, self.fake.required_attributes = "partial", set(required)
        for name, value in settings.items():
            setattr(self.fake, name, value)
        login = self.start()
        done = self.finish(login)
        same(done.state, "action_required", f"the login of a new person ({done})")
        same(done.action.get("kind"), "registration", "the action")
        return login, done

    def register(self, login, **params):
        answer = self.outcome("login.continue", login_id=login["login_id"], **params)
        return answer if answer.error or answer.state != "pending" else self.wait(login)

    def path(self, end):
        return f"{self.prefix}/{end}"


class OtherPrefix(News):
    prefix = "/zephr"


@case(News, "zephr.sign_in", "ZEPHR-01", "ZEPHR-02", "ZEPHR-03", "ZEPHR-05", "ZEPHR-06", "ZEPHR-07", "ZEPHR-12", "ZEPHR-22")
def sign_in(news):
    login = news.start()
    same([request.path for request in news.fake.requests], ["/blaize/oauth/google"], "the requests of the start")
    done = news.finish(login)
    same(done.state, "completed", f"the login ({done})")
    same(done.result["account"]["identity"].get("subject"), "u-17", "identity.subject")
    token = news.token()
    (session,) = news.fake.sessions
    same((token.get("kind"), token.get("session_id"), token.get("cookie")),
         ("session", session, f"{SESSION}={session}"), "the credential")
    same(token.get("access_token"), None, "access_token of a session")
    same(token.get("expires_at"), None, "expires_at of a session whose end is not known")
    must(news.fake.count("GET", news.path("profile")) > 0, "the profile did not verify the session")


@case(News, "zephr.page_names_callback", "ZEPHR-06")
def page_names_callback(news):
    said = (ROOT / "docs" / "providers" / "zephr.md").read_text()
    must(re.search(r"/zephr/oauth/\S+/ios/callback", said),
         "docs/providers/zephr.md does not say that SITE/zephr/oauth/<provider>/ios/callback is to be registered")


@case(OtherPrefix, "zephr.prefix", "ZEPHR-01")
def prefix(news):
    news.sign_in()
    news.call("account.userinfo", account=news.name)
    news.call("account.logout", account=news.name)
    same(news.fake.logouts, ["JUST_HERE"], "the logouts")


@case(News, "zephr.idp", "ZEPHR-02")
def idp(news):
    login = news.start(idp="apple")
    must(news.url(login).startswith(f"{news.fake.url}/idp/apple?"), f"the address is {news.url(login)}")
    same(news.finish(login).state, "completed", "the login")
    before = len(news.fake.requests)
    news.refused("login.start", provider=news.name, idp="other")
    same(len(news.fake.requests), before, "the number of requests for an unknown identity provider")


@case(News, "zephr.start_fails", "ZEPHR-04")
def start_fails(news):
    for answer in (Answer.json(200, {}), Answer(302), Answer.json(404, {}), Answer.json(500, {})):
        news.fake.script("GET", news.path("oauth/google"), answer)
        news.refused("login.start", provider=news.name)
        same(news.call("login.list")["logins"], [], f"the logins after {answer}")


@case(News, "zephr.partial", "ZEPHR-08", "ZEPHR-13", "ZEPHR-14", "ZEPHR-18")
def partial(news):
    login, waiting = news.new_person("first-name")
    same(waiting.action.get("identifier"), IDENTIFIER, "identifier")
    (key,) = news.fake.state_keys
    shown = json.dumps([waiting.result, news.call("login.list"), news.wait(login, 0).result])
    must(key not in shown and "state_key" not in shown, f"state_key is given out: {shown}")
    attributes = {"first-name": "Ada", "newsletter": True, "age": 36}
    done = news.register(login, attributes=attributes)
    same(done.state, "completed", f"the login ({done})")
    same(news.fake.bodies(), [{"identifiers": {}, "validators": {"token_exchange": key}, "attributes": attributes}],
         "what was posted")
    (session,) = news.fake.sessions
    token = news.token()
    same(token.get("session_id"), session, "session_id")
    left = token.get("expires_in") or 0
    must(86000 < left <= 86400, f"expires_in is {left}, and the cookie's Expires says a day")


@case(News, "zephr.partial_survives_restart", "ZEPHR-08")
def partial_survives_restart(news):
    login, _ = news.new_person()
    news.stage.restart()
    waiting = news.wait(login, 0)
    same(waiting.state, "action_required", f"the login after a restart ({waiting})")
    same(news.register(login, attributes={"a": "b"}).state, "completed", "the login")


@case(News, "zephr.cookie_in_header", "ZEPHR-14")
def cookie_in_header(news):
    login, _ = news.new_person(cookie_in=("header",))
    done = news.register(login, attributes={"a": "b"})
    same(done.state, "completed", f"the login ({done})")
    same(news.token().get("session_id"), *news.fake.sessions, "session_id of Set-Cookie")


@case(News, "zephr.cookie_in_body", "ZEPHR-14", "ZEPHR-18")
def cookie_in_body(news):
    login, _ = news.new_person(cookie_in=("body",))
    done = news.register(login, attributes={"a": "b"})
    same(done.state, "completed", f"the login ({done})")
    same(news.token().get("session_id"), *news.fake.sessions, "session_id of the member cookie")
    must("expires_at" in news.token(), "Expires of the member cookie is lost")


@case(News, "zephr.no_attributes", "ZEPHR-13", "ZEPHR-15")
def no_attributes(news):
    login, _ = news.new_person("first-name")
    (key,) = news.fake.state_keys
    answers = [news.register(login), news.register(login, attributes={})]
    same(news.fake.bodies(), [{"identifiers": {}, "validators": {"token_exchange": key}, "attributes": {}}] * 2,
         f"what was posted ({'; '.join(map(str, answers))})")
    for done in answers:
        must("Required: first-name." in f"{done.error} {done.data}", f"the site's answer is not shown: {done}")
    same(news.register(login, attributes={"first-name": "Ada"}).state, "completed", "the login")


@case(News, "zephr.no_attributes_accepted", "ZEPHR-15")
def no_attributes_accepted(news):
    login, _ = news.new_person()
    done = news.register(login)
    same(done.state, "completed", f"the login ({done})")
    same(news.fake.registered, [{}], "the attributes")


@case(News, "zephr.no_attributes_dialogue", "ZEPHR-15")
def no_attributes_dialogue(news):
    news.fake.status, news.fake.required_attributes = "partial", {"first-name"}
    talk = news.sign_in_at_terminal()
    talk.until(IDENTIFIER)
    talk.until(PROMPT)
    at = len(talk.said)
    talk.type("")
    talk.until(PROMPT, at)
    must("Required: first-name." in talk.said[at:], f"the site's answer is not shown: {talk.said[at:]!r}")
    talk.type("first-name=Ada")
    talk.type("")
    same(talk.wait(), 0, f"the exit status ({talk.said[-400:]!r})")
    same(news.fake.registered, [{"first-name": "Ada"}], "the attributes")


# What grantctl says when it reads attributes.
PROMPT = "name=value"


@case(News, "zephr.attributes_dialogue", "ZEPHR-13")
def attributes_dialogue(news):
    news.fake.status = "partial"
    talk = news.sign_in_at_terminal()
    talk.until(PROMPT)
    talk.type("first-name=Ada")
    talk.type("last name=Lovelace=B")
    talk.type("")
    same(talk.wait(), 0, f"the exit status ({talk.said[-400:]!r})")
    same(news.fake.registered, [{"first-name": "Ada", "last name": "Lovelace=B"}], "the attributes")


@case(News, "zephr.attributes_options", "ZEPHR-13")
def attributes_options(news):
    login, _ = news.new_person()
    done = news.ctl("login", "--continue", login["login_id"], "--attribute", "first-name=Ada", "--attribute-json",
                    "newsletter=true")
    same(done.returncode, 0, f"the exit status ({done.stderr})")
    same(news.fake.registered, [{"first-name": "Ada", "newsletter": True}], "the attributes")


@case(News, "zephr.bad_request", "ZEPHR-16", "ZEPHR-17")
def bad_request(news):
    login, _ = news.new_person("first-name")
    (key,) = news.fake.state_keys
    done = news.register(login, attributes={"last-name": "L"})
    same((done.reason, done.data.get("detail")), ("registration_rejected", "bad_request"), f"the error ({done})")
    must("Required: first-name." in f"{done.error} {done.data}", f"the site's answer is not shown: {done}")
    same(news.wait(login, 0).state, "action_required", "the login afterwards")
    same(news.register(login, attributes={"first-name": "Ada"}).state, "completed", "the login")
    same({one["validators"]["token_exchange"] for one in news.fake.bodies()}, {key}, "the state_keys that were sent")


@case(News, "zephr.user_exists", "ZEPHR-16")
def user_exists(news):
    login, _ = news.new_person(refuses="user_exists")
    done = news.register(login, attributes={"a": "b"})
    same((done.reason, done.data.get("detail")), ("registration_rejected", "user_exists"), f"the error ({done})")


@case(News, "zephr.email_domain", "ZEPHR-16")
def email_domain(news):
    login, _ = news.new_person(refuses="email_domain")
    done = news.register(login, attributes={"a": "b"})
    same((done.reason, done.data.get("detail")), ("registration_rejected", "email_domain_blocked"), f"the error ({done})")


@case(News, "zephr.other_statuses", "ZEPHR-16")
def other_statuses(news):
    news.configure(user_exists_status=410, email_domain_status=451)
    for refuses, detail in (("user_exists", "user_exists"), ("email_domain", "email_domain_blocked")):
        login, _ = news.new_person(refuses=refuses, user_exists_status=410, email_domain_status=451)
        done = news.register(login, attributes={"a": "b"})
        same(done.data.get("detail"), detail, f"detail ({done})")
        news.call("login.cancel", login_id=login["login_id"])


@case(News, "zephr.failure", "ZEPHR-09")
def failure(news):
    news.fake.status, news.fake.message = "failure", "Your account is blocked & closed: ask us."
    done = news.finish(news.start())
    same(done.reason, "login_denied", f"the reason of status=failure ({done})")
    must(news.fake.message in str(done.error), f"the site's message is not shown: {done}")


@case(News, "zephr.failure_hints", "ZEPHR-10")
def failure_hints(news):
    news.fake.status = "failure"
    found = {"status=failure": news.finish(news.start()).data.get("hint")}
    for refuses in ("user_exists", "email_domain"):
        login, _ = news.new_person(refuses=refuses)
        found[refuses] = news.register(login, attributes={"a": "b"}).data.get("hint")
        news.call("login.cancel", login_id=login["login_id"])
    common = [f"{name}: {hint}" for name, hint in found.items() if hint in (None, DENIED_HINT, REJECTED_HINT)]
    must(not common, f"the hint is the common one of {'; '.join(common)}")
    same(len(set(found.values())), len(found), f"the number of different hints {found}")


@case(News, "zephr.unknown_status", "ZEPHR-11")
def unknown_status(news):
    login = news.start()
    news.fake.status = "postponed"
    done = news.finish(login)
    same((done.reason, done.state), ("invalid_callback", "pending"), f"the error and the login ({done})")
    must("unknown auth response status" in str(done.error), f"the error does not name the status: {done}")


@case(News, "zephr.one_login", "ZEPHR-20")
def one_login(news):
    login = news.start()
    same(news.refused("login.start", provider=news.name, account="b").reason, "login_in_progress", "the second login")
    same(news.finish(login).state, "completed", "the first login")


@case(News, "zephr.forged_session", "ZEPHR-21")
def forged_session(news):
    login = news.start()
    done = news.bring(login, f"{news.redirect}?action=login&status=success&tracking_id=t&session_id=forged")
    same((done.reason, done.state), ("invalid_callback", "pending"), f"the error and the login ({done})")
    same(news.fake.count("GET", news.path("profile")), 1, "the number of requests for the profile")
    same(news.finish(login).state, "completed", "the login")


@case(News, "zephr.nonce", "ZEPHR-19")
def nonce(news):
    (port,) = free_ports()
    news.redirect = news.fake.redirect = f"http://127.0.0.1:{port}/news"
    news.fake.takes_redirect = True
    news.configure(redirect_parameter="redirect_uri", nonce_in_redirect=True)
    first, second = news.start(account="a"), news.start(account="b")
    told = [urllib.parse.urlsplit(dict(request.query)["redirect_uri"]) for request in news.fake.requests]
    must(told[0].path != told[1].path and all(one.path.startswith("/news/") for one in told), f"redirect URIs: {told}")
    for login in (second, first):
        news.person.open(news.url(login, "browser"))
        done = news.wait(login)
        same(done.state, "completed", f"a login ({done})")
        same(done.result["account"]["account"], login["account"], "the account")
    third = news.start(account="c")
    done = news.bring(third, f"{news.redirect}?action=login&status=success&tracking_id=t&session_id={news.fake.new_session()}")
    must(done.state in ("pending", "not handled"), f"a callback without the nonce completes a login: {done}")


@case(News, "zephr.session_ends", "ZEPHR-18", "ZEPHR-22")
def session_ends(news):
    login, _ = news.new_person(lifetime=2)
    same(news.register(login, attributes={"a": "b"}).state, "completed", "the login")
    must("next_refresh_at" not in news.account(), "a refresh is planned")
    # Expires is in whole seconds.
    wait_until(lambda: news.outcome("token.get", account=news.name).reason == "login_required", 5,
               "token.get asks for a login after the cookie's Expires")
    same(news.account()["state"], "login_required", "the account's state")


@case(News, "zephr.no_refresh", "ZEPHR-22")
def no_refresh(news):
    news.sign_in()
    before = len(news.fake.requests)
    refusal = news.refused("account.refresh", account=news.name)
    same(refusal.reason, "unsupported_by_provider", f"the reason of account.refresh ({refusal})")
    same(len(news.fake.requests), before, "the number of requests")


@case(News, "zephr.logout", "ZEPHR-23")
def logout(news):
    for where in (None, "JUST_HERE", "THIS_DEVICE", "OTHER_DEVICES", "EVERYWHERE"):
        news.sign_in()
        steps = news.call("account.logout", account=news.name, **({"where": where} if where else {}))["steps"]
        same({one["result"] for one in steps}, {"done"}, f"the results of the steps ({steps})")
    same(news.fake.logouts, ["JUST_HERE", "JUST_HERE", "THIS_DEVICE", "OTHER_DEVICES", "EVERYWHERE"], "where")
    news.sign_in()
    news.ctl("logout", news.name, "--where", "EVERYWHERE")
    same(news.fake.logouts[5:], ["EVERYWHERE"], "where of grantctl")
    news.sign_in()
    news.refused("account.logout", account=news.name, where="NOWHERE")
    same(len(news.fake.logouts), 6, "the number of logouts after an unknown word")


@case(News, "zephr.logout_fails", "ZEPHR-24")
def logout_fails(news):
    for answer in (Answer.json(500, {}), Answer.json(401, {}), DROP):
        news.sign_in()
        news.fake.script("POST", news.path("logout"), *[answer] * 2)
        news.call("account.logout", account=news.name)
        news.fake.scripts.clear()
        same(news.refused("account.get", account=news.name).reason, "unknown_account", f"the account after {answer}")


@case(News, "zephr.profile", "ZEPHR-25")
def profile(news):
    news.sign_in()
    claims = news.call("account.userinfo", account=news.name)["claims"]
    same(claims.get("identifiers"), {"email_address": IDENTIFIER}, "identifiers of the profile")
    answer = news.call("request.send", account=news.name, method="GET", url="/blaize/profile")
    same(answer["status"], 200, "the status of request.send")


@case(News, "zephr.profile_401", "ZEPHR-25")
def profile_401(news):
    news.sign_in()
    news.fake.sessions.clear()
    refusal = news.refused("account.userinfo", account=news.name)
    same(refusal.reason, "login_required", f"the reason of account.userinfo ({refusal})")
    same(news.account()["state"], "login_required", "the account's state")


@case(News, "zephr.report_confirmed", "ZEPHR-25")
def report_confirmed(news):
    news.sign_in()
    news.fake.sessions.clear()
    news.outcome("token.report_rejected", account=news.name, generation=news.token()["generation"])
    same(news.account()["state"], "login_required", "the account's state after a 401 of the profile")


@case(News, "zephr.report_not_confirmed", "ZEPHR-25")
def report_not_confirmed(news):
    news.sign_in()
    generation = news.token()["generation"]
    before = news.fake.count("GET", news.path("profile"))
    news.outcome("token.report_rejected", account=news.name, generation=generation)
    must(news.fake.count("GET", news.path("profile")) > before, "the profile is not asked for")
    same(news.account()["state"], "ok", "the account's state after a caller's word alone")
