"""VMS: an external login, a limited number of sessions, a token without an end."""

import json
import uuid

from cases import case
from fakes.server import DROP, Answer
from fakes.vms import ABSENT, BASE, BASIC, CALLBACK, LOGOUT, SELF, SESSIONS, SIGN_IN_URL, Vms, session
from grantd_testing import free_ports
from rig import Scene, must, same

DISABLED = "external login is disabled"
QUESTION = "Replace which session?"
OLD, NEW = "2026-01-01T10:00:00Z", "2026-01-20T10:00:00Z"


class VmsScene(Scene):
    """A VMS server, and grantd with a section for it."""

    def prepare(self):
        self.scheme = f"x-{self.name}"
        self.fake = Vms(f"{self.scheme}://sign-in")
        self.configure()

    def section(self):
        return {"kind": "vms", "base_url": self.fake.url, "redirect_uri": f"{self.scheme}://sign-in"}

    def fill(self, *sessions, **settings):
        """As many sessions are open as the server allows."""
        self.fake.sessions = list(sessions)
        self.fake.limit = settings.pop("limit", len(sessions))
        for name, value in settings.items():
            setattr(self.fake, name, value)

    def limited(self):
        """A login that waits for a session to be replaced, and how it waits."""
        login = self.start()
        done = self.finish(login)
        same(done.state, "action_required", f"the state after 419 ({done})")
        same(done.action.get("kind"), "session_limit", "the action after 419")
        return login, done

    def callbacks(self):
        return [json.loads(request.body) for request in self.fake.of("POST", CALLBACK)]

    def fails(self, answer):
        """The login's error where the exchange of the code is answered so."""
        self.fake.script("POST", CALLBACK, answer)
        login = self.start()
        done = self.finish(login)
        must(done.error, f"the login goes on: {done}")
        return done


@case(VmsScene, "vms.sign_in", "VMS-01", "VMS-02", "VMS-09", "VMS-11", "VMS-14")
def sign_in(scene):
    login = scene.start()
    same(scene.url(login), f"{scene.fake.url}/sign-in", "the address to open")
    done = scene.finish(login)
    same(done.state, "completed", f"the login ({done})")
    identity = done.result["account"].get("identity") or {}
    same(identity.get("subject"), "17", "identity.subject")
    same(identity.get("email"), "ada@example.com", "identity.email")
    same(identity.get("name"), "Ada Lovelace", "identity.name")
    token = scene.token()
    must(token["access_token"] in scene.fake.tokens, "token.get does not give the access_token of the answer")
    same(token.get("expires_at"), None, "expires_at of a token without an end")
    same(token.get("token_type"), "Bearer", "token_type")
    # The user's own token is a secret; the page does not say that a caller gets it.
    public = {name: value for name, value in scene.fake.user.items() if name != "token"}
    same({**token["extra"]["user"], "token": None}, {**public, "token": None}, "extra.user")
    same([request.path for request in scene.fake.requests[:2]], [BASIC, SIGN_IN_URL], "the first requests")


@case(VmsScene, "vms.client_headers", "VMS-03")
def client_headers(scene):
    scene.fake.client, scene.fake.version, scene.fake.language = "ios", "24.03.0.0", "de"
    scene.configure(client_name="ios", client_version="24.03.0.0", language="de")
    scene.sign_in()
    scene.call("account.sessions", account=scene.name)


@case(VmsScene, "vms.device_uuid", "VMS-04")
def device_uuid(scene):
    def used():
        found = {request.headers["X-UUID"] for request in scene.fake.requests if request.path.startswith(BASE)}
        scene.fake.requests.clear()
        return found

    scene.sign_in("first")
    scene.call("account.sessions", account="first")
    first = used()
    same(len(first), 1, "the number of UUIDs of one account")
    uuid.UUID(*first)
    scene.stage.restart()
    scene.sign_in("first")
    same(used(), first, "the UUID of the account after a second login")
    scene.sign_in("second")
    must(not used() & first, "two accounts have the same UUID")


@case(VmsScene, "vms.availability", "VMS-05", "VMS-06")
def availability(scene):
    scene.fake.available = True
    login = scene.start()
    scene.call("login.cancel", login_id=login["login_id"])
    taken = []
    for value in (False, None, ABSENT, 0, 1, "true"):
        scene.fake.available = value
        asked = scene.fake.count("GET", SIGN_IN_URL)
        done = scene.outcome("login.start", provider=scene.name)
        if not done.error:
            taken.append("absent" if value is ABSENT else json.dumps(value))
            scene.call("login.cancel", login_id=done.result["login_id"])
            continue
        must(DISABLED in str(done.error), f"the error does not say that {DISABLED}: {done}")
        same(scene.fake.count("GET", SIGN_IN_URL), asked, "the number of requests for the address")
    must(not taken, f"a login starts where is_external_auth_enabled is {', '.join(taken)}")


@case(VmsScene, "vms.callback_scheme", "VMS-07")
def callback_scheme(scene):
    forms = ("{}://sign-in?code={}", "{}://sign-in/?code={}", "{}:sign-in?code={}", "{}:/sign-in?code={}",
             "{}:///other/path?code={}", "{}://?code={}", "{}:?code={}")
    refused = []
    for form in forms:
        login = scene.start()
        done = scene.bring(login, form.format(scene.scheme, scene.fake.new_code()))
        if done.state != "completed":
            refused.append(f"{form.format('SCHEME', 'C')} ({done.reason or done.state})")
            scene.call("login.cancel", login_id=login["login_id"])
    must(not refused, f"not taken as callback: {', '.join(refused)}")


@case(VmsScene, "vms.loopback", "VMS-09")
def loopback(scene):
    (port,) = free_ports()
    scene.fake.redirect = f"http://127.0.0.1:{port}/cameras"
    scene.configure(redirect_uri=scene.fake.redirect)
    login = scene.start()
    scene.browser.open(scene.url(login, "browser"))
    same(scene.browser.status, 200, f"the status of the last page, {scene.browser.visited[-1]}")
    same(scene.wait(login).state, "completed", "the login")


@case(VmsScene, "vms.callback_other_scheme", "VMS-07")
def callback_other_scheme(scene):
    login = scene.start()
    done = scene.bring(login, f"x-other://sign-in?code={scene.fake.new_code()}")
    same(done.state, "not handled", f"a callback of another scheme ({done})")
    same(scene.wait(login, 0).state, "pending", "the login after a callback of another scheme")
    same(scene.callbacks(), [], "what was posted")


@case(VmsScene, "vms.one_login", "VMS-08")
def one_login(scene):
    login = scene.start()
    refusal = scene.refused("login.start", provider=scene.name, account="second")
    same(refusal.reason, "login_in_progress", f"the reason of the second login ({refusal})")
    same(scene.finish(login).state, "completed", "the first login")


@case(VmsScene, "vms.absent_members", "VMS-10")
def absent_members(scene):
    scene.fake.user = {
        "id": 17, "name": "Ada", "login": "ada", "email": "ada@example.com", "phone": "", "permissions": [],
        "can_update_password": False}
    scene.sign_in()
    user = scene.token()["extra"]["user"]
    same(user, scene.fake.user, "extra.user without token and access_token_id")


@case(VmsScene, "vms.session_limit", "VMS-15", "VMS-16", "VMS-20")
def session_limit(scene):
    scene.fill(
        {"id": 4711, "user_agent": "Chrome", "online": True, "client": "Android", "ip": "192.0.2.17", "is_current": False,
         "last": OLD}, session(4712))
    scene.configure()
    login, waiting = scene.limited()
    same(waiting.action.get("sessions_limit"), 2, "sessions_limit")
    same(waiting.action.get("sessions"), [
        {"session_id": "4711", "user_agent": "Chrome", "online": True, "client": "Android", "ip": "192.0.2.17",
         "current": False, "last": OLD},
        {"session_id": "4712", "user_agent": "Firefox", "online": False, "client": "web", "ip": "192.0.2.7",
         "current": False}], "the sessions")
    same(scene.fake.ended, [], "the sessions that were ended without a word of the person")
    (key,) = scene.fake.keys
    must(key not in json.dumps(waiting.result), "the server's key is given out")
    done = scene.proceed(login, session_id="4712")
    same(done.state, "completed", f"the login ({done})")
    same(scene.fake.ended, [4712], "the sessions that were ended")
    first, second = scene.callbacks()
    same(set(first), {"code"}, "the members of the first POST")
    same(set(second), {"key", "session_id"}, "the members of the POST that replaces")
    same(second["key"], key, "key")


@case(VmsScene, "vms.limit_without_key", "VMS-17", "VMS-21")
def limit_without_key(scene):
    scene.fill(session("a"), session("b"), sends_key=False)
    login, _ = scene.limited()
    done = scene.proceed(login, session_id="b")
    same(done.state, "completed", f"the login ({done})")
    first, second = scene.callbacks()
    same(second, {"code": first["code"], "session_id": "b"}, "the POST that replaces")


@case(VmsScene, "vms.limit_as_array", "VMS-18")
def limit_as_array(scene):
    scene.fill(session("a"), session("b"), limit_shape="array")
    login, waiting = scene.limited()
    same([one["session_id"] for one in waiting.action["sessions"]], ["a", "b"], "the sessions of a bare array")
    same(waiting.action.get("sessions_limit"), None, "sessions_limit where the answer has none")
    same(scene.proceed(login, session_id="a").state, "completed", "the login")
    same(scene.fake.ended, ["a"], "the sessions that were ended")


@case(VmsScene, "vms.limit_again", "VMS-22")
def limit_again(scene):
    scene.fill(session("a"), session("b"), session("c"), limit=2)
    login, _ = scene.limited()
    again = scene.proceed(login, session_id="a")
    same(again.state, "action_required", f"the state after a second 419 ({again})")
    same([one["session_id"] for one in again.action["sessions"]], ["b", "c"], "the sessions of the second 419")
    same(scene.proceed(login, session_id="b").state, "completed", "the login")
    same(scene.fake.ended, ["a", "b"], "the sessions that were ended")


@case(VmsScene, "vms.limit_without_sessions", "VMS-19")
def limit_without_sessions(scene):
    scene.fill(limit=0)
    login, waiting = scene.limited()
    same(waiting.action.get("sessions") or [], [], "the sessions")
    same(scene.wait(login, 0).state, "action_required", "the login while nobody has answered")
    same(len(scene.callbacks()), 1, "the number of POSTs before the person answered")
    # Whether the login can go on without a session to replace is up to the broker; it must not end by itself.
    done = scene.proceed(login)
    must(done.state == "completed" or scene.wait(login, 0).state == "action_required", f"the login afterwards: {done}")


@case(VmsScene, "vms.limit_survives_restart", "VMS-15")
def limit_survives_restart(scene):
    scene.fill(session("a"), session("b"))
    login, _ = scene.limited()
    scene.stage.restart()
    waiting = scene.wait(login, 0)
    same(waiting.state, "action_required", f"the login after a restart ({waiting})")
    same(scene.proceed(login, session_id="a").state, "completed", "the login")


@case(VmsScene, "vms.nothing_to_send", "VMS-23")
def nothing_to_send(scene):
    login = scene.start()
    error = scene.refused("login.continue", login_id=login["login_id"], session_id="a")
    same(scene.callbacks(), [], f"the POSTs without key and code ({error})")
    scene.fill(session("a"), session("b"))
    same(scene.finish(login).state, "action_required", "the login after 419")
    refusal = scene.refused("login.continue", login_id=login["login_id"])
    must("-32602" in str(refusal), f"login.continue without session_id is no invalid params: {refusal}")
    same(len(scene.callbacks()), 1, "the number of POSTs")
    same(scene.fake.ended, [], "the sessions that were ended")


def configured(word, ended, *sessions):
    @case(VmsScene, f"vms.replace_{word}_configured", "VMS-24")
    def replace(scene):
        scene.fill(*sessions)
        scene.configure(replace_session=word)
        done = scene.finish(scene.start())
        same(done.state, "completed", f"the login ({done})")
        same(scene.fake.ended, [ended], "the sessions that were ended")


configured("oldest", "old", session("new", last=NEW), session("old", last=OLD),
           session("newest", last="2026-01-21T10:00:00Z"))
configured("offline", "off", session("on", online=True), session("off"))


@case(VmsScene, "vms.replace_without_data", "VMS-25")
def replace_without_data(scene):
    scene.fill(session("a"), session("b"))
    scene.configure(replace_session="oldest")
    scene.limited()
    same(scene.fake.ended, [], "the sessions that were ended without times")
    scene.call("login.cancel", login_id=scene.call("login.list")["logins"][0]["login_id"])
    scene.fill(session("a", online=True), session("b", online=True))
    scene.configure(replace_session="offline")
    scene.limited()
    same(scene.fake.ended, [], "the sessions that were ended while all are online")


def option(scene, word, *sessions):
    """`grantctl login continue --replace-session WORD` of a login that waits."""
    scene.fill(*sessions)
    login, _ = scene.limited()
    return login, scene.ctl("login", "continue", login["login_id"], "--replace-session", word)


@case(VmsScene, "vms.replace_option_oldest", "VMS-26")
def replace_option_oldest(scene):
    _, done = option(scene, "oldest", session("new", last=NEW), session("old", last=OLD))
    same(done.returncode, 0, f"the exit status ({done.stderr})")
    same(scene.fake.ended, ["old"], "the sessions that were ended")


@case(VmsScene, "vms.replace_option_offline", "VMS-26")
def replace_option_offline(scene):
    _, done = option(scene, "offline", session("on", online=True), session("off"))
    same(done.returncode, 0, f"the exit status ({done.stderr})")
    same(scene.fake.ended, ["off"], "the sessions that were ended")


@case(VmsScene, "vms.replace_option_id", "VMS-26")
def replace_option_id(scene):
    _, done = option(scene, "4712", session(4711), session(4712))
    same(done.returncode, 0, f"the exit status ({done.stderr})")
    same(scene.fake.ended, [4712], "the sessions that were ended")


@case(VmsScene, "vms.replace_option_without_times", "VMS-27")
def replace_option_without_times(scene):
    login, done = option(scene, "oldest", session("a"), session("b"))
    same(scene.fake.ended, [], "the sessions that were ended although no time is known")
    must(done.returncode != 0, "oldest is taken although no time is known")
    same(scene.wait(login, 0).state, "action_required", "the login afterwards")


def talk_to(scene, *sessions):
    """`grantctl login` at a terminal, up to the question which session to replace."""
    scene.fill(*sessions)
    talk = scene.sign_in_at_terminal()
    talk.until(QUESTION)
    return talk


@case(VmsScene, "vms.replace_dialogue_oldest", "VMS-26")
def replace_dialogue_oldest(scene):
    talk = talk_to(scene, session("new", last=NEW), session("old", last=OLD))
    same(talk.answer("oldest", QUESTION), 0, "the exit status")
    same(scene.fake.ended, ["old"], "the sessions that were ended")


@case(VmsScene, "vms.replace_dialogue_offline", "VMS-26")
def replace_dialogue_offline(scene):
    talk = talk_to(scene, session("on", online=True), session("off"))
    same(talk.answer("offline", QUESTION), 0, "the exit status")
    same(scene.fake.ended, ["off"], "the sessions that were ended")


@case(VmsScene, "vms.replace_dialogue_without_times", "VMS-27")
def replace_dialogue_without_times(scene):
    talk = talk_to(scene, session("a"), session("b"))
    at = len(talk.said)
    talk.type("oldest")
    talk.until(QUESTION, at)
    same(scene.fake.ended, [], "the sessions that were ended although no time is known")
    same(talk.answer("2", QUESTION), 0, "the exit status")
    same(scene.fake.ended, ["b"], "the sessions that were ended")


@case(VmsScene, "vms.replace_dialogue_id", "VMS-26")
def replace_dialogue_id(scene):
    talk = talk_to(scene, session("a"), session("b"))
    same(talk.answer("b", QUESTION), 0, "the exit status")
    same(scene.fake.ended, ["b"], "the sessions that were ended")


def denied(status):
    def check(scene):
        done = scene.fails(Answer.json(status, {"message": "no"}))
        must(done.reason in ("login_denied", "login_required"), f"the reason of {status} is {done.reason}: {done}")
    return check


for number in (401, 403):
    case(VmsScene, f"vms.login_{number}", "VMS-28")(denied(number))


@case(VmsScene, "vms.login_404", "VMS-29")
def login_404(scene):
    done = scene.fails(Answer.json(404, {"message": "not found"}))
    must(done.reason in ("provider_misconfigured", "provider_error", "login_denied"), f"the reason of 404 is {done.reason}")


@case(VmsScene, "vms.client_too_old", "VMS-30")
def client_too_old(scene):
    done = scene.fails(Answer.json(409, {"message": "update"}))
    same(done.reason, "provider_misconfigured", f"the reason of 409 ({done})")
    must("409" in str(done.error) or "client" in str(done.error), f"the error does not say that the client is refused: {done}")
    scene.fake.script("GET", BASIC, Answer.json(409, {"message": "update"}))
    same(scene.refused("login.start", provider=scene.name).reason, "provider_misconfigured", "the reason of 409 at the start")


@case(VmsScene, "vms.fields", "VMS-31")
def fields(scene):
    for status in (400, 422):
        done = scene.fails(Answer.json(status, {"message": "The given data was invalid.", "errors": {
            "code": ["The code is invalid.", "The code is old."]}}))
        same(done.reason, "registration_rejected", f"the reason of {status} ({done})")
        detail = json.dumps(done.data)
        for word in ('"code"', "The code is invalid.", "The code is old."):
            must(word in detail, f"the error has no {word}: {done}")


@case(VmsScene, "vms.fields_as_text", "VMS-32")
def fields_as_text(scene):
    done = scene.fails(Answer.json(422, {"message": "The given data was invalid.", "errors": "code has ended"}))
    must(done.reason in ("registration_rejected", "login_denied"), f"the reason of 422 is {done.reason}: {done}")
    must("code has ended" in f"{done.error}{done.data}", f"the text of errors is lost: {done}")


@case(VmsScene, "vms.try_later", "VMS-33")
def try_later(scene):
    for status in (429, 503, 500, 502):
        done = scene.fails(Answer.json(status, {"message": "later"}))
        same(done.reason, "temporarily_unavailable", f"the reason of {status} ({done})")
    for status in (429, 503, 500):
        scene.fake.script("GET", BASIC, Answer.json(status, {"message": "later"}))
        refusal = scene.refused("login.start", provider=scene.name)
        same(refusal.reason, "temporarily_unavailable", f"the reason of {status} at the start ({refusal})")


@case(VmsScene, "vms.every_call_ends", "VMS-34")
def every_call_ends(scene):
    for answer in (DROP, Answer(200, b"<html>", content_type="text/html"), Answer.json(200, {}), Answer.json(419, {}),
                   Answer.json(204, None), Answer.json(302, {})):
        scene.fake.script("POST", CALLBACK, *([answer] * 3 if answer is DROP else [answer]))
        login = scene.start()
        done = scene.finish(login)
        must(done.error or done.state == "action_required", f"the login goes on after {answer}: {done}")
        scene.call("login.cancel", login_id=login["login_id"])
        scene.fake.scripts.clear()
    scene.sign_in()
    for status in (403, 404, 409, 419, 422, 429, 500, 503, 401):
        asked = scene.fake.count("GET", SESSIONS)
        scene.fake.script("GET", SESSIONS, Answer.json(status, {"message": "no"}))
        refusal = scene.refused("account.sessions", account=scene.name)
        must(scene.fake.count("GET", SESSIONS) > asked, f"the server was not asked before {refusal}")
        same(refusal.reason == "login_required", status == 401, f"whether {status} asks for a login ({refusal})")
        scene.fake.scripts.clear()


@case(VmsScene, "vms.code_once", "VMS-12")
def code_once(scene):
    login = scene.start()
    url = scene.browser.open(scene.url(login))
    same(scene.bring(login, url).state, "completed", "the login")
    again = scene.start()
    asked = len(scene.fake.requests)
    # It is the first login's, and the second one still waits.
    same(scene.call("login.handle_callback", url=url)["login_id"], login["login_id"], "the login of the code")
    same(len(scene.fake.requests), asked, "the number of requests")
    same(scene.outcome("login.wait", login_id=again["login_id"], timeout=0).state, "pending", "the second login")
    same(scene.finish(again).state, "completed", "the second login with its own code")


@case(VmsScene, "vms.no_refresh", "VMS-13")
def no_refresh(scene):
    scene.sign_in()
    must("next_refresh_at" not in scene.account(), "a refresh is planned")
    before = len(scene.fake.requests)
    refusal = scene.refused("account.refresh", account=scene.name)
    same(refusal.reason, "unsupported_by_provider", f"the reason of account.refresh ({refusal})")
    same(len(scene.fake.requests), before, "the number of requests")


@case(VmsScene, "vms.report_not_confirmed", "VMS-35")
def report_not_confirmed(scene):
    scene.sign_in()
    token = scene.token()
    before = len(scene.fake.requests)
    scene.outcome("token.report_rejected", account=scene.name, generation=token["generation"])
    must(len(scene.fake.requests) > before, "the server is not asked whether the token is good")
    same(scene.account()["state"], "ok", "the account's state after a caller's word alone")


@case(VmsScene, "vms.report_confirmed", "VMS-36")
def report_confirmed(scene):
    scene.sign_in()
    token = scene.token()
    scene.fake.tokens.clear()
    refusal = scene.refused("token.report_rejected", account=scene.name, generation=token["generation"])
    same(refusal.reason, "login_required", f"the reason of the report ({refusal})")
    same(scene.account()["state"], "login_required", "the account's state")
    same(scene.refused("token.get", account=scene.name).reason, "login_required", "the reason of token.get")


@case(VmsScene, "vms.request_refused", "VMS-36")
def request_refused(scene):
    scene.sign_in()
    scene.fake.tokens.clear()
    scene.outcome("request.send", account=scene.name, method="GET", url="/users/self")
    same(scene.account()["state"], "login_required", "the account's state after the provider's own 401")


@case(VmsScene, "vms.logout", "VMS-37")
def logout(scene):
    scene.sign_in()
    steps = scene.call("account.logout", account=scene.name)["steps"]
    same(scene.fake.count("POST", LOGOUT), 1, "the number of logouts at the server")
    same(scene.fake.tokens, {}, "the tokens that are good afterwards")
    same([one["result"] for one in steps], ["done", "done"], f"the results of the steps ({steps})")
    same(steps[-1]["step"], "forget", "the last step")


@case(VmsScene, "vms.logout_fails", "VMS-38")
def logout_fails(scene):
    for answer in (Answer.json(500, {}), Answer.json(401, {}), Answer.json(404, {}), DROP):
        scene.sign_in()
        scene.fake.script("POST", LOGOUT, *[answer] * 2)
        scene.call("account.logout", account=scene.name)
        scene.fake.scripts.clear()
        same(scene.refused("account.get", account=scene.name).reason, "unknown_account", "the account after logout")


@case(VmsScene, "vms.sessions", "VMS-39")
def sessions(scene):
    scene.sign_in()
    scene.fake.sessions = [session(4711, online=True, last=OLD), session(4712, is_current=True)]
    found = scene.call("account.sessions", account=scene.name)["sessions"]
    same([(one["session_id"], one["online"], one["current"], one.get("last")) for one in found],
         [("4711", True, False, OLD), ("4712", False, True, None)], "the sessions")
    same(scene.call("account.end_session", account=scene.name, session_id="4711"), {"ended": True}, "the answer")
    same(scene.fake.ended, [4711], "the sessions that were ended")
    same(scene.call("account.end_session", account=scene.name, session_id="9"), {"ended": False}, "the answer of no session")
    scene.fake.sessions = [session(4713)]
    done = scene.ctl("sessions", scene.name, "--end", "4713")
    same((done.returncode, scene.fake.ended), (0, [4711, 4713]), f"grantctl sessions --end ({done.stderr})")


@case(VmsScene, "vms.profile", "VMS-40")
def profile(scene):
    scene.sign_in()
    answer = scene.outcome("account.userinfo", account=scene.name)
    asked = [request.path for request in scene.fake.requests if request.path.startswith(BASE)]
    same(asked[-1], SELF, f"the address of the profile ({answer})")
    must(not answer.error, f"account.userinfo fails: {answer}")
    claims = answer.result["claims"]
    same({name: claims.get(name) for name in ("id", "login", "email")},
         {"id": 17, "login": "ada", "email": "ada@example.com"}, "the profile")
    must(scene.fake.user["token"] not in json.dumps(answer.result), f"the user's own token is given out: {answer}")


@case(VmsScene, "vms.doctor", "VMS-06")
def doctor(scene):
    scene.fake.available = False
    answer = scene.call("provider.check", provider=scene.name)
    same(answer["ok"], False, "ok of provider.check")
    must(DISABLED in json.dumps(answer["checks"]), f"no check says that {DISABLED}: {answer['checks']}")
