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
REJECTED_HINT = "Correct the fields named in `detail` and try again."


class ZephrScene(Scene):
    """A Zephr site, and grantd with a section for it."""

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

    def path(self, end):
        return f"{self.prefix}/{end}"


class OtherPrefix(ZephrScene):
    prefix = "/zephr"


@case(ZephrScene, "zephr.sign_in", "ZEPHR-01", "ZEPHR-02", "ZEPHR-03", "ZEPHR-05", "ZEPHR-06", "ZEPHR-07", "ZEPHR-12", "ZEPHR-22")
def sign_in(scene):
    login = scene.start()
    same([request.path for request in scene.fake.requests], ["/blaize/oauth/google"], "the requests of the start")
    done = scene.finish(login)
    same(done.state, "completed", f"the login ({done})")
    same(done.result["account"]["identity"].get("subject"), "u-17", "identity.subject")
    token = scene.token()
    (session,) = scene.fake.sessions
    same((token.get("kind"), token.get("session_id"), token.get("cookie")),
         ("session", session, f"{SESSION}={session}"), "the credential")
    same(token.get("access_token"), None, "access_token of a session")
    same(token.get("expires_at"), None, "expires_at of a session whose end is not known")
    must(scene.fake.count("GET", scene.path("profile")) > 0, "the profile did not verify the session")


@case(ZephrScene, "zephr.page_names_callback", "ZEPHR-06")
def page_names_callback(scene):
    said = (ROOT / "docs" / "providers" / "zephr.md").read_text()
    must(re.search(r"/zephr/oauth/\S+/ios/callback", said),
         "docs/providers/zephr.md does not say that SITE/zephr/oauth/<provider>/ios/callback is to be registered")


@case(OtherPrefix, "zephr.prefix", "ZEPHR-01")
def prefix(scene):
    scene.sign_in()
    scene.call("account.userinfo", account=scene.name)
    scene.call("account.logout", account=scene.name)
    same(scene.fake.logouts, ["JUST_HERE"], "the logouts")


@case(ZephrScene, "zephr.idp", "ZEPHR-02")
def idp(scene):
    login = scene.start(idp="apple")
    must(scene.url(login).startswith(f"{scene.fake.url}/idp/apple?"), f"the address is {scene.url(login)}")
    same(scene.finish(login).state, "completed", "the login")
    before = len(scene.fake.requests)
    scene.refused("login.start", provider=scene.name, idp="other")
    same(len(scene.fake.requests), before, "the number of requests for an unknown identity provider")


@case(ZephrScene, "zephr.start_fails", "ZEPHR-04")
def start_fails(scene):
    for answer in (Answer.json(200, {}), Answer(302), Answer.json(404, {}), Answer.json(500, {})):
        scene.fake.script("GET", scene.path("oauth/google"), answer)
        scene.refused("login.start", provider=scene.name)
        same(scene.call("login.list")["logins"], [], f"the logins after {answer}")


@case(ZephrScene, "zephr.partial", "ZEPHR-08", "ZEPHR-13", "ZEPHR-14", "ZEPHR-18")
def partial(scene):
    login, waiting = scene.new_person("first-name")
    same(waiting.action.get("identifier"), IDENTIFIER, "identifier")
    (key,) = scene.fake.state_keys
    shown = json.dumps([waiting.result, scene.call("login.list"), scene.wait(login, 0).result])
    must(key not in shown and "state_key" not in shown, f"state_key is given out: {shown}")
    attributes = {"first-name": "Ada", "newsletter": True, "age": 36}
    done = scene.proceed(login, attributes=attributes)
    same(done.state, "completed", f"the login ({done})")
    same(scene.fake.bodies(), [{"identifiers": {}, "validators": {"token_exchange": key}, "attributes": attributes}],
         "what was posted")
    (session,) = scene.fake.sessions
    token = scene.token()
    same(token.get("session_id"), session, "session_id")
    left = token.get("expires_in") or 0
    must(86000 < left <= 86400, f"expires_in is {left}, and the cookie's Expires says a day")


@case(ZephrScene, "zephr.partial_survives_restart", "ZEPHR-08")
def partial_survives_restart(scene):
    login, _ = scene.new_person()
    scene.stage.restart()
    waiting = scene.wait(login, 0)
    same(waiting.state, "action_required", f"the login after a restart ({waiting})")
    same(scene.proceed(login, attributes={"a": "b"}).state, "completed", "the login")


@case(ZephrScene, "zephr.cookie_in_header", "ZEPHR-14")
def cookie_in_header(scene):
    login, _ = scene.new_person(cookie_in=("header",))
    done = scene.proceed(login, attributes={"a": "b"})
    same(done.state, "completed", f"the login ({done})")
    same(scene.token().get("session_id"), *scene.fake.sessions, "session_id of Set-Cookie")


@case(ZephrScene, "zephr.cookie_in_body", "ZEPHR-14", "ZEPHR-18")
def cookie_in_body(scene):
    login, _ = scene.new_person(cookie_in=("body",))
    done = scene.proceed(login, attributes={"a": "b"})
    same(done.state, "completed", f"the login ({done})")
    same(scene.token().get("session_id"), *scene.fake.sessions, "session_id of the member cookie")
    must("expires_at" in scene.token(), "Expires of the member cookie is lost")


@case(ZephrScene, "zephr.no_attributes", "ZEPHR-13", "ZEPHR-15")
def no_attributes(scene):
    login, _ = scene.new_person("first-name")
    (key,) = scene.fake.state_keys
    answers = [scene.proceed(login), scene.proceed(login, attributes={})]
    same(scene.fake.bodies(), [{"identifiers": {}, "validators": {"token_exchange": key}, "attributes": {}}] * 2,
         f"what was posted ({'; '.join(map(str, answers))})")
    for done in answers:
        must("Required: first-name." in f"{done.error} {done.data}", f"the site's answer is not shown: {done}")
    same(scene.proceed(login, attributes={"first-name": "Ada"}).state, "completed", "the login")


@case(ZephrScene, "zephr.no_attributes_accepted", "ZEPHR-15")
def no_attributes_accepted(scene):
    login, _ = scene.new_person()
    done = scene.proceed(login)
    same(done.state, "completed", f"the login ({done})")
    same(scene.fake.registered, [{}], "the attributes")


@case(ZephrScene, "zephr.no_attributes_dialogue", "ZEPHR-15")
def no_attributes_dialogue(scene):
    scene.fake.status, scene.fake.required_attributes = "partial", {"first-name"}
    talk = scene.sign_in_at_terminal()
    talk.until(IDENTIFIER)
    talk.until(PROMPT)
    at = len(talk.said)
    talk.type("")
    talk.until(PROMPT, at)
    must("Required: first-name." in talk.said[at:], f"the site's answer is not shown: {talk.said[at:]!r}")
    talk.type("first-name=Ada")
    talk.type("")
    same(talk.wait(), 0, f"the exit status ({talk.said[-400:]!r})")
    same(scene.fake.registered, [{"first-name": "Ada"}], "the attributes")


# What grantctl says when it reads attributes.
PROMPT = "name=value"


@case(ZephrScene, "zephr.attributes_dialogue", "ZEPHR-13")
def attributes_dialogue(scene):
    scene.fake.status = "partial"
    talk = scene.sign_in_at_terminal()
    talk.until(PROMPT)
    talk.type("first-name=Ada")
    talk.type("last name=Lovelace=B")
    talk.type("")
    same(talk.wait(), 0, f"the exit status ({talk.said[-400:]!r})")
    same(scene.fake.registered, [{"first-name": "Ada", "last name": "Lovelace=B"}], "the attributes")


@case(ZephrScene, "zephr.attributes_options", "ZEPHR-13")
def attributes_options(scene):
    login, _ = scene.new_person()
    done = scene.ctl(
        "login", "continue", login["login_id"], "--attribute", "first-name=Ada", "--attribute-json", "newsletter=true")
    same(done.returncode, 0, f"the exit status ({done.stderr})")
    same(scene.fake.registered, [{"first-name": "Ada", "newsletter": True}], "the attributes")


@case(ZephrScene, "zephr.bad_request", "ZEPHR-16", "ZEPHR-17")
def bad_request(scene):
    login, _ = scene.new_person("first-name")
    (key,) = scene.fake.state_keys
    done = scene.proceed(login, attributes={"last-name": "L"})
    same((done.reason, done.data.get("detail")), ("registration_rejected", "bad_request"), f"the error ({done})")
    must("Required: first-name." in f"{done.error} {done.data}", f"the site's answer is not shown: {done}")
    same(scene.wait(login, 0).state, "action_required", "the login afterwards")
    same(scene.proceed(login, attributes={"first-name": "Ada"}).state, "completed", "the login")
    same({one["validators"]["token_exchange"] for one in scene.fake.bodies()}, {key}, "the state_keys that were sent")


@case(ZephrScene, "zephr.user_exists", "ZEPHR-16")
def user_exists(scene):
    login, _ = scene.new_person(refuses="user_exists")
    done = scene.proceed(login, attributes={"a": "b"})
    same((done.reason, done.data.get("detail")), ("registration_rejected", "user_exists"), f"the error ({done})")


@case(ZephrScene, "zephr.email_domain", "ZEPHR-16")
def email_domain(scene):
    login, _ = scene.new_person(refuses="email_domain")
    done = scene.proceed(login, attributes={"a": "b"})
    same((done.reason, done.data.get("detail")), ("registration_rejected", "email_domain_blocked"), f"the error ({done})")


@case(ZephrScene, "zephr.other_statuses", "ZEPHR-16")
def other_statuses(scene):
    scene.configure(user_exists_status=410, email_domain_status=451)
    for refuses, detail in (("user_exists", "user_exists"), ("email_domain", "email_domain_blocked")):
        login, _ = scene.new_person(refuses=refuses, user_exists_status=410, email_domain_status=451)
        done = scene.proceed(login, attributes={"a": "b"})
        same(done.data.get("detail"), detail, f"detail ({done})")
        scene.call("login.cancel", login_id=login["login_id"])


@case(ZephrScene, "zephr.failure", "ZEPHR-09")
def failure(scene):
    scene.fake.status, scene.fake.message = "failure", "Your account is blocked & closed: ask us."
    done = scene.finish(scene.start())
    same(done.reason, "login_denied", f"the reason of status=failure ({done})")
    must(scene.fake.message in str(done.error), f"the site's message is not shown: {done}")


@case(ZephrScene, "zephr.failure_hints", "ZEPHR-10")
def failure_hints(scene):
    scene.fake.status = "failure"
    found = {"status=failure": scene.finish(scene.start()).data.get("hint")}
    for refuses in ("user_exists", "email_domain"):
        login, _ = scene.new_person(refuses=refuses)
        found[refuses] = scene.proceed(login, attributes={"a": "b"}).data.get("hint")
        scene.call("login.cancel", login_id=login["login_id"])
    common = [f"{name}: {hint}" for name, hint in found.items() if hint in (None, DENIED_HINT, REJECTED_HINT)]
    must(not common, f"the hint is the common one of {'; '.join(common)}")
    same(len(set(found.values())), len(found), f"the number of different hints {found}")


@case(ZephrScene, "zephr.unknown_status", "ZEPHR-11")
def unknown_status(scene):
    login = scene.start()
    scene.fake.status = "postponed"
    done = scene.finish(login)
    same((done.reason, done.state), ("invalid_callback", "pending"), f"the error and the login ({done})")
    must("unknown auth response status" in str(done.error), f"the error does not name the status: {done}")


@case(ZephrScene, "zephr.one_login", "ZEPHR-20")
def one_login(scene):
    login = scene.start()
    same(scene.refused("login.start", provider=scene.name, account="b").reason, "login_in_progress", "the second login")
    same(scene.finish(login).state, "completed", "the first login")


@case(ZephrScene, "zephr.forged_session", "ZEPHR-21")
def forged_session(scene):
    login = scene.start()
    done = scene.bring(login, f"{scene.redirect}?action=login&status=success&tracking_id=t&session_id=forged")
    same((done.reason, done.state), ("invalid_callback", "pending"), f"the error and the login ({done})")
    same(scene.fake.count("GET", scene.path("profile")), 1, "the number of requests for the profile")
    same(scene.finish(login).state, "completed", "the login")


@case(ZephrScene, "zephr.nonce", "ZEPHR-19")
def nonce(scene):
    (port,) = free_ports()
    scene.redirect = scene.fake.redirect = f"http://127.0.0.1:{port}/news"
    scene.fake.takes_redirect = True
    scene.configure(redirect_parameter="redirect_uri", nonce_in_redirect=True)
    first, second = scene.start(account="a"), scene.start(account="b")
    told = [urllib.parse.urlsplit(dict(request.query)["redirect_uri"]) for request in scene.fake.requests]
    must(told[0].path != told[1].path and all(one.path.startswith("/news/") for one in told), f"redirect URIs: {told}")
    for login in (second, first):
        scene.browser.open(scene.url(login, "browser"))
        done = scene.wait(login)
        same(done.state, "completed", f"a login ({done})")
        same(done.result["account"]["account"], login["account"], "the account")
    third = scene.start(account="c")
    done = scene.bring(third, f"{scene.redirect}?action=login&status=success&tracking_id=t&session_id={scene.fake.new_session()}")
    must(done.state in ("pending", "not handled"), f"a callback without the nonce completes a login: {done}")


@case(ZephrScene, "zephr.session_ends", "ZEPHR-18", "ZEPHR-22")
def session_ends(scene):
    login, _ = scene.new_person(lifetime=2)
    same(scene.proceed(login, attributes={"a": "b"}).state, "completed", "the login")
    must("next_refresh_at" not in scene.account(), "a refresh is planned")
    # Expires is in whole seconds.
    wait_until(lambda: scene.outcome("token.get", account=scene.name).reason == "login_required", 5,
               "token.get asks for a login after the cookie's Expires")
    # A token is not returned in its last second.
    wait_until(lambda: scene.account()["state"] == "login_required", 2, "the account's state")


@case(ZephrScene, "zephr.no_refresh", "ZEPHR-22")
def no_refresh(scene):
    scene.sign_in()
    before = len(scene.fake.requests)
    refusal = scene.refused("account.refresh", account=scene.name)
    same(refusal.reason, "unsupported_by_provider", f"the reason of account.refresh ({refusal})")
    same(len(scene.fake.requests), before, "the number of requests")


@case(ZephrScene, "zephr.logout", "ZEPHR-23")
def logout(scene):
    for where in (None, "JUST_HERE", "THIS_DEVICE", "OTHER_DEVICES", "EVERYWHERE"):
        scene.sign_in()
        steps = scene.call("account.logout", account=scene.name, **({"where": where} if where else {}))["steps"]
        same({one["result"] for one in steps}, {"done"}, f"the results of the steps ({steps})")
    same(scene.fake.logouts, ["JUST_HERE", "JUST_HERE", "THIS_DEVICE", "OTHER_DEVICES", "EVERYWHERE"], "where")
    scene.sign_in()
    scene.ctl("logout", scene.name, "--extent", "EVERYWHERE")
    same(scene.fake.logouts[5:], ["EVERYWHERE"], "where of grantctl")
    scene.sign_in()
    scene.refused("account.logout", account=scene.name, where="NOWHERE")
    same(len(scene.fake.logouts), 6, "the number of logouts after an unknown word")


@case(ZephrScene, "zephr.logout_fails", "ZEPHR-24")
def logout_fails(scene):
    for answer in (Answer.json(500, {}), Answer.json(401, {}), DROP):
        scene.sign_in()
        scene.fake.script("POST", scene.path("logout"), *[answer] * 2)
        scene.call("account.logout", account=scene.name)
        scene.fake.scripts.clear()
        same(scene.refused("account.get", account=scene.name).reason, "unknown_account", f"the account after {answer}")


@case(ZephrScene, "zephr.profile", "ZEPHR-25")
def profile(scene):
    scene.sign_in()
    claims = scene.call("account.userinfo", account=scene.name)["claims"]
    same(claims.get("identifiers"), {"email_address": IDENTIFIER}, "identifiers of the profile")
    answer = scene.call("request.send", account=scene.name, method="GET", url="/blaize/profile")
    same(answer["status"], 200, "the status of request.send")


@case(ZephrScene, "zephr.profile_401", "ZEPHR-25")
def profile_401(scene):
    scene.sign_in()
    scene.fake.sessions.clear()
    refusal = scene.refused("account.userinfo", account=scene.name)
    same(refusal.reason, "login_required", f"the reason of account.userinfo ({refusal})")
    same(scene.account()["state"], "login_required", "the account's state")


@case(ZephrScene, "zephr.report_confirmed", "ZEPHR-25")
def report_confirmed(scene):
    scene.sign_in()
    scene.fake.sessions.clear()
    scene.outcome("token.report_rejected", account=scene.name, generation=scene.token()["generation"])
    same(scene.account()["state"], "login_required", "the account's state after a 401 of the profile")


@case(ZephrScene, "zephr.report_not_confirmed", "ZEPHR-25")
def report_not_confirmed(scene):
    scene.sign_in()
    generation = scene.token()["generation"]
    before = scene.fake.count("GET", scene.path("profile"))
    scene.outcome("token.report_rejected", account=scene.name, generation=generation)
    must(scene.fake.count("GET", scene.path("profile")) > before, "the profile is not asked for")
    same(scene.account()["state"], "ok", "the account's state after a caller's word alone")
