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


class Room(Scene):
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

    def proceed(self, login, **params):
        """`login.continue`, then how the login went on."""
        answer = self.outcome("login.continue", login_id=login["login_id"], **params)
        return answer if answer.error or answer.state != "pending" else self.wait(login)

    def callbacks(self):
        return [json.loads(request.body) for request in self.fake.of("POST", CALLBACK)]

    def fails(self, answer):
        """The login's error where the exchange of the code is answered so."""
        self.fake.script("POST", CALLBACK, answer)
        login = self.start()
        done = self.finish(login)
        must(done.error, f"the login goes on: {done}")
        return done


@case(Room, "vms.sign_in", "VMS-01", "VMS-02", "VMS-09", "VMS-11", "VMS-14")
def sign_in(room):
    login = room.start()
    same(room.url(login), f"{room.fake.url}/sign-in", "the address to open")
    done = room.finish(login)
    same(done.state, "completed", f"the login ({done})")
    identity = done.result["account"].get("identity") or {}
    same(identity.get("subject"), "17", "identity.subject")
    same(identity.get("email"), "ada@example.com", "identity.email")
    same(identity.get("name"), "Ada Lovelace", "identity.name")
    token = room.token()
    must(token["access_token"] in room.fake.tokens, "token.get does not give the access_token of the answer")
    same(token.get("expires_at"), None, "expires_at of a token without an end")
    same(token.get("token_type"), "Bearer", "token_type")
    # The user's own token is a secret; the page does not say that a caller gets it.
    public = {name: value for name, value in room.fake.user.items() if name != "token"}
    same({**token["extra"]["user"], "token": None}, {**public, "token": None}, "extra.user")
    same([request.path for request in room.fake.requests[:2]], [BASIC, SIGN_IN_URL], "the first requests")


@case(Room, "vms.client_headers", "VMS-03")
def client_headers(room):
    room.fake.client, room.fake.version, room.fake.language = "ios", "24.03.0.0", "de"
    room.configure(client_name="ios", client_version="24.03.0.0", language="de")
    room.sign_in()
    room.call("account.sessions", account=room.name)


@case(Room, "vms.device_uuid", "VMS-04")
def device_uuid(room):
    def used():
        found = {request.headers["X-UUID"] for request in room.fake.requests if request.path.startswith(BASE)}
        room.fake.requests.clear()
        return found

    room.sign_in("first")
    room.call("account.sessions", account="first")
    first = used()
    same(len(first), 1, "the number of UUIDs of one account")
    uuid.UUID(*first)
    room.stage.restart()
    room.sign_in("first")
    same(used(), first, "the UUID of the account after a second login")
    room.sign_in("second")
    must(not used() & first, "two accounts have the same UUID")


@case(Room, "vms.availability", "VMS-05", "VMS-06")
def availability(room):
    room.fake.available = True
    login = room.start()
    room.call("login.cancel", login_id=login["login_id"])
    taken = []
    for value in (False, None, ABSENT, 0, 1, "true"):
        room.fake.available = value
        asked = room.fake.count("GET", SIGN_IN_URL)
        done = room.outcome("login.start", provider=room.name)
        if not done.error:
            taken.append("absent" if value is ABSENT else json.dumps(value))
            room.call("login.cancel", login_id=done.result["login_id"])
            continue
        must(DISABLED in str(done.error), f"the error does not say that {DISABLED}: {done}")
        same(room.fake.count("GET", SIGN_IN_URL), asked, "the number of requests for the address")
    must(not taken, f"a login starts where is_external_auth_enabled is {', '.join(taken)}")


@case(Room, "vms.callback_scheme", "VMS-07")
def callback_scheme(room):
    forms = ("{}://sign-in?code={}", "{}://sign-in/?code={}", "{}:sign-in?code={}", "{}:/sign-in?code={}",
             "{}:///other/path?code={}", "{}://?code={}", "{}:?code={}")
    refused = []
    for form in forms:
        login = room.start()
        done = room.bring(login, form.format(room.scheme, room.fake.new_code()))
        if done.state != "completed":
            refused.append(f"{form.format('SCHEME', 'C')} ({done.reason or done.state})")
            room.call("login.cancel", login_id=login["login_id"])
    must(not refused, f"not taken as callback: {', '.join(refused)}")


@case(Room, "vms.loopback", "VMS-09")
def loopback(room):
    (port,) = free_ports()
    room.fake.redirect = f"http://127.0.0.1:{port}/cameras"
    room.configure(redirect_uri=room.fake.redirect)
    login = room.start()
    room.person.open(room.url(login, "browser"))
    same(room.person.status, 200, f"the status of the last page, {room.person.visited[-1]}")
    same(room.wait(login).state, "completed", "the login")


@case(Room, "vms.callback_other_scheme", "VMS-07")
def callback_other_scheme(room):
    login = room.start()
    done = room.bring(login, f"x-other://sign-in?code={room.fake.new_code()}")
    same(done.state, "not handled", f"a callback of another scheme ({done})")
    same(room.wait(login, 0).state, "pending", "the login after a callback of another scheme")
    same(room.callbacks(), [], "what was posted")


@case(Room, "vms.one_login", "VMS-08")
def one_login(room):
    login = room.start()
    refusal = room.refused("login.start", provider=room.name, account="second")
    same(refusal.reason, "login_in_progress", f"the reason of the second login ({refusal})")
    same(room.finish(login).state, "completed", "the first login")


@case(Room, "vms.absent_members", "VMS-10")
def absent_members(room):
    room.fake.user = {
        "id": 17, "name": "Ada", "login": "ada", "email": "ada@example.com", "phone": "", "permissions": [],
        "can_update_password": False}
    room.sign_in()
    user = room.token()["extra"]["user"]
    same(user, room.fake.user, "extra.user without token and access_token_id")


@case(Room, "vms.session_limit", "VMS-15", "VMS-16", "VMS-20")
def session_limit(room):
    room.fill(
        {"id": 4711, "user_agent": "Chrome", "online": True, "client": "Android", "ip": "192.0.2.17", "is_current": False,
         "last": OLD}, session(4712))
    room.configure()
    login, waiting = room.limited()
    same(waiting.action.get("sessions_limit"), 2, "sessions_limit")
    same(waiting.action.get("sessions"), [
        {"session_id": "4711", "user_agent": "Chrome", "online": True, "client": "Android", "ip": "192.0.2.17",
         "current": False, "last": OLD},
        {"session_id": "4712", "user_agent": "Firefox", "online": False, "client": "web", "ip": "192.0.2.7",
         "current": False}], "the sessions")
    same(room.fake.ended, [], "the sessions that were ended without a word of the person")
    (key,) = room.fake.keys
    must(key not in json.dumps(waiting.result), "the server's key is given out")
    done = room.proceed(login, session_id="4712")
    same(done.state, "completed", f"the login ({done})")
    same(room.fake.ended, [4712], "the sessions that were ended")
    first, second = room.callbacks()
    same(set(first), {"code"}, "the members of the first POST")
    same(set(second), {"key", "session_id"}, "the members of the POST that replaces")
    same(second["key"], key, "key")


@case(Room, "vms.limit_without_key", "VMS-17", "VMS-21")
def limit_without_key(room):
    room.fill(session("a"), session("b"), sends_key=False)
    login, _ = room.limited()
    done = room.proceed(login, session_id="b")
    same(done.state, "completed", f"the login ({done})")
    first, second = room.callbacks()
    same(second, {"code": first["code"], "session_id": "b"}, "the POST that replaces")


@case(Room, "vms.limit_as_array", "VMS-18")
def limit_as_array(room):
    room.fill(session("a"), session("b"), limit_shape="array")
    login, waiting = room.limited()
    same([one["session_id"] for one in waiting.action["sessions"]], ["a", "b"], "the sessions of a bare array")
    same(waiting.action.get("sessions_limit"), None, "sessions_limit where the answer has none")
    same(room.proceed(login, session_id="a").state, "completed", "the login")
    same(room.fake.ended, ["a"], "the sessions that were ended")


@case(Room, "vms.limit_again", "VMS-22")
def limit_again(room):
    room.fill(session("a"), session("b"), session("c"), limit=2)
    login, _ = room.limited()
    again = room.proceed(login, session_id="a")
    same(again.state, "action_required", f"the state after a second 419 ({again})")
    same([one["session_id"] for one in again.action["sessions"]], ["b", "c"], "the sessions of the second 419")
    same(room.proceed(login, session_id="b").state, "completed", "the login")
    same(room.fake.ended, ["a", "b"], "the sessions that were ended")


@case(Room, "vms.limit_without_sessions", "VMS-19")
def limit_without_sessions(room):
    room.fill(limit=0)
    login, waiting = room.limited()
    same(waiting.action.get("sessions") or [], [], "the sessions")
    same(room.wait(login, 0).state, "action_required", "the login while nobody has answered")
    same(len(room.callbacks()), 1, "the number of POSTs before the person answered")
    # Whether the login can go on without a session to replace is up to the broker; it must not end by itself.
    done = room.proceed(login)
    must(done.state == "completed" or room.wait(login, 0).state == "action_required", f"the login afterwards: {done}")


@case(Room, "vms.limit_survives_restart", "VMS-15")
def limit_survives_restart(room):
    room.fill(session("a"), session("b"))
    login, _ = room.limited()
    room.stage.restart()
    waiting = room.wait(login, 0)
    same(waiting.state, "action_required", f"the login after a restart ({waiting})")
    same(room.proceed(login, session_id="a").state, "completed", "the login")


@case(Room, "vms.nothing_to_send", "VMS-23")
def nothing_to_send(room):
    login = room.start()
    error = room.refused("login.continue", login_id=login["login_id"], session_id="a")
    same(room.callbacks(), [], f"the POSTs without key and code ({error})")
    room.fill(session("a"), session("b"))
    same(room.finish(login).state, "action_required", "the login after 419")
    refusal = room.refused("login.continue", login_id=login["login_id"])
    must("-32602" in str(refusal), f"login.continue without session_id is no invalid params: {refusal}")
    same(len(room.callbacks()), 1, "the number of POSTs")
    same(room.fake.ended, [], "the sessions that were ended")


@case(Room, "vms.replace_oldest_configured", "VMS-24")
def replace_oldest_configured(room):
    room.fill(session("new", last=NEW), session("old", last=OLD), session("newest", last="2026-01-21T10:00:00Z"))
    room.configure(replace_session="oldest")
    done = room.finish(room.start())
    same(done.state, "completed", f"the login ({done})")
    same(room.fake.ended, ["old"], "the sessions that were ended")


@case(Room, "vms.replace_offline_configured", "VMS-24")
def replace_offline_configured(room):
    room.fill(session("on", online=True), session("off"))
    room.configure(replace_session="offline")
    done = room.finish(room.start())
    same(done.state, "completed", f"the login ({done})")
    same(room.fake.ended, ["off"], "the sessions that were ended")


@case(Room, "vms.replace_without_data", "VMS-25")
def replace_without_data(room):
    room.fill(session("a"), session("b"))
    room.configure(replace_session="oldest")
    room.limited()
    same(room.fake.ended, [], "the sessions that were ended without times")
    room.call("login.cancel", login_id=room.call("login.list")["logins"][0]["login_id"])
    room.fill(session("a", online=True), session("b", online=True))
    room.configure(replace_session="offline")
    room.limited()
    same(room.fake.ended, [], "the sessions that were ended while all are online")


def option(room, word, *sessions):
    """`grantctl login --continue --replace-session WORD` of a login that waits."""
    room.fill(*sessions)
    login, _ = room.limited()
    return login, room.ctl("login", "--continue", login["login_id"], "--replace-session", word)


@case(Room, "vms.replace_option_oldest", "VMS-26")
def replace_option_oldest(room):
    _, done = option(room, "oldest", session("new", last=NEW), session("old", last=OLD))
    same(done.returncode, 0, f"the exit status ({done.stderr})")
    same(room.fake.ended, ["old"], "the sessions that were ended")


@case(Room, "vms.replace_option_offline", "VMS-26")
def replace_option_offline(room):
    _, done = option(room, "offline", session("on", online=True), session("off"))
    same(done.returncode, 0, f"the exit status ({done.stderr})")
    same(room.fake.ended, ["off"], "the sessions that were ended")


@case(Room, "vms.replace_option_id", "VMS-26")
def replace_option_id(room):
    _, done = option(room, "4712", session(4711), session(4712))
    same(done.returncode, 0, f"the exit status ({done.stderr})")
    same(room.fake.ended, [4712], "the sessions that were ended")


@case(Room, "vms.replace_option_without_times", "VMS-27")
def replace_option_without_times(room):
    login, done = option(room, "oldest", session("a"), session("b"))
    same(room.fake.ended, [], "the sessions that were ended although no time is known")
    must(done.returncode != 0, "oldest is taken although no time is known")
    same(room.wait(login, 0).state, "action_required", "the login afterwards")


def talk_to(room, *sessions):
    """`grantctl login` at a terminal, up to the question which session to replace."""
    room.fill(*sessions)
    talk = room.sign_in_at_terminal()
    talk.until(QUESTION)
    return talk


@case(Room, "vms.replace_dialogue_oldest", "VMS-26")
def replace_dialogue_oldest(room):
    talk = talk_to(room, session("new", last=NEW), session("old", last=OLD))
    same(talk.answer("oldest", QUESTION), 0, "the exit status")
    same(room.fake.ended, ["old"], "the sessions that were ended")


@case(Room, "vms.replace_dialogue_offline", "VMS-26")
def replace_dialogue_offline(room):
    talk = talk_to(room, session("on", online=True), session("off"))
    same(talk.answer("offline", QUESTION), 0, "the exit status")
    same(room.fake.ended, ["off"], "the sessions that were ended")


@case(Room, "vms.replace_dialogue_without_times", "VMS-27")
def replace_dialogue_without_times(room):
    talk = talk_to(room, session("a"), session("b"))
    at = len(talk.said)
    talk.type("oldest")
    talk.until(QUESTION, at)
    same(room.fake.ended, [], "the sessions that were ended although no time is known")
    same(talk.answer("2", QUESTION), 0, "the exit status")
    same(room.fake.ended, ["b"], "the sessions that were ended")


@case(Room, "vms.replace_dialogue_id", "VMS-26")
def replace_dialogue_id(room):
    talk = talk_to(room, session("a"), session("b"))
    same(talk.answer("b", QUESTION), 0, "the exit status")
    same(room.fake.ended, ["b"], "the sessions that were ended")


def denied(status):
    def check(room):
        done = room.fails(Answer.json(status, {"message": "no"}))
        must(done.reason in ("login_denied", "login_required"), f"the reason of {status} is {done.reason}: {done}")
    return check


for number in (401, 403):
    case(Room, f"vms.login_{number}", "VMS-28")(denied(number))


@case(Room, "vms.login_404", "VMS-29")
def login_404(room):
    done = room.fails(Answer.json(404, {"message": "not found"}))
    must(done.reason in ("provider_misconfigured", "provider_error", "login_denied"), f"the reason of 404 is {done.reason}")


@case(Room, "vms.client_too_old", "VMS-30")
def client_too_old(room):
    done = room.fails(Answer.json(409, {"message": "update"}))
    same(done.reason, "provider_misconfigured", f"the reason of 409 ({done})")
    must("409" in str(done.error) or "client" in str(done.error), f"the error does not say that the client is refused: {done}")
    room.fake.script("GET", BASIC, Answer.json(409, {"message": "update"}))
    same(room.refused("login.start", provider=room.name).reason, "provider_misconfigured", "the reason of 409 at the start")


@case(Room, "vms.fields", "VMS-31")
def fields(room):
    for status in (400, 422):
        done = room.fails(Answer.json(status, {"message": "The given data was invalid.", "errors": {
            "code": ["The code is invalid.", "The code is old."]}}))
        same(done.reason, "registration_rejected", f"the reason of {status} ({done})")
        detail = json.dumps(done.data)
        for word in ('"code"', "The code is invalid.", "The code is old."):
            must(word in detail, f"the error has no {word}: {done}")


@case(Room, "vms.fields_as_text", "VMS-32")
def fields_as_text(room):
    done = room.fails(Answer.json(422, {"message": "The given data was invalid.", "errors": "code has ended"}))
    must(done.reason in ("registration_rejected", "login_denied"), f"the reason of 422 is {done.reason}: {done}")
    must("code has ended" in f"{done.error}{done.data}", f"the text of errors is lost: {done}")


@case(Room, "vms.try_later", "VMS-33")
def try_later(room):
    for status in (429, 503, 500, 502):
        done = room.fails(Answer.json(status, {"message": "later"}))
        same(done.reason, "temporarily_unavailable", f"the reason of {status} ({done})")
    for status in (429, 503, 500):
        room.fake.script("GET", BASIC, Answer.json(status, {"message": "later"}))
        refusal = room.refused("login.start", provider=room.name)
        same(refusal.reason, "temporarily_unavailable", f"the reason of {status} at the start ({refusal})")


@case(Room, "vms.every_call_ends", "VMS-34")
def every_call_ends(room):
    for answer in (DROP, Answer(200, b"<html>", content_type="text/html"), Answer.json(200, {}), Answer.json(419, {}),
                   Answer.json(204, None), Answer.json(302, {})):
        room.fake.script("POST", CALLBACK, *([answer] * 3 if answer is DROP else [answer]))
        login = room.start()
        done = room.finish(login)
        must(done.error or done.state == "action_required", f"the login goes on after {answer}: {done}")
        room.call("login.cancel", login_id=login["login_id"])
        room.fake.scripts.clear()
    room.sign_in()
    for status in (403, 404, 409, 419, 422, 429, 500, 503, 401):
        asked = room.fake.count("GET", SESSIONS)
        room.fake.script("GET", SESSIONS, Answer.json(status, {"message": "no"}))
        refusal = room.refused("account.sessions", account=room.name)
        must(room.fake.count("GET", SESSIONS) > asked, f"the server was not asked before {refusal}")
        same(refusal.reason == "login_required", status == 401, f"whether {status} asks for a login ({refusal})")
        room.fake.scripts.clear()


@case(Room, "vms.code_once", "VMS-12")
def code_once(room):
    login = room.start()
    url = room.person.open(room.url(login))
    same(room.bring(login, url).state, "completed", "the login")
    again = room.start()
    done = room.bring(again, url)
    must(done.error, f"a code is good twice: {done}")
    room.expected.append("unknown or was used")


@case(Room, "vms.no_refresh", "VMS-13")
def no_refresh(room):
    room.sign_in()
    must("next_refresh_at" not in room.account(), "a refresh is planned")
    before = len(room.fake.requests)
    refusal = room.refused("account.refresh", account=room.name)
    same(refusal.reason, "unsupported_by_provider", f"the reason of account.refresh ({refusal})")
    same(len(room.fake.requests), before, "the number of requests")


@case(Room, "vms.report_not_confirmed", "VMS-35")
def report_not_confirmed(room):
    room.sign_in()
    token = room.token()
    before = len(room.fake.requests)
    room.outcome("token.report_rejected", account=room.name, generation=token["generation"])
    must(len(room.fake.requests) > before, "the server is not asked whether the token is good")
    same(room.account()["state"], "ok", "the account's state after a caller's word alone")


@case(Room, "vms.report_confirmed", "VMS-36")
def report_confirmed(room):
    room.sign_in()
    token = room.token()
    room.fake.tokens.clear()
    refusal = room.refused("token.report_rejected", account=room.name, generation=token["generation"])
    same(refusal.reason, "login_required", f"the reason of the report ({refusal})")
    same(room.account()["state"], "login_required", "the account's state")
    same(room.refused("token.get", account=room.name).reason, "login_required", "the reason of token.get")


@case(Room, "vms.request_refused", "VMS-36")
def request_refused(room):
    room.sign_in()
    room.fake.tokens.clear()
    room.outcome("request.send", account=room.name, method="GET", url="/users/self")
    same(room.account()["state"], "login_required", "the account's state after the provider's own 401")


@case(Room, "vms.logout", "VMS-37")
def logout(room):
    room.sign_in()
    steps = room.call("account.logout", account=room.name)["steps"]
    same(room.fake.count("POST", LOGOUT), 1, "the number of logouts at the server")
    same(room.fake.tokens, {}, "the tokens that are good afterwards")
    same([one["result"] for one in steps], ["done", "done"], f"the results of the steps ({steps})")
    same(steps[-1]["step"], "forget", "the last step")


@case(Room, "vms.logout_fails", "VMS-38")
def logout_fails(room):
    for answer in (Answer.json(500, {}), Answer.json(401, {}), Answer.json(404, {}), DROP):
        room.sign_in()
        room.fake.script("POST", LOGOUT, *[answer] * 2)
        room.call("account.logout", account=room.name)
        room.fake.scripts.clear()
        same(room.refused("account.get", account=room.name).reason, "unknown_account", "the account after logout")


@case(Room, "vms.sessions", "VMS-39")
def sessions(room):
    room.sign_in()
    room.fake.sessions = [session(4711, online=True, last=OLD), session(4712, is_current=True)]
    found = room.call("account.sessions", account=room.name)["sessions"]
    same([(one["session_id"], one["online"], one["current"], one.get("last")) for one in found],
         [("4711", True, False, OLD), ("4712", False, True, None)], "the sessions")
    same(room.call("account.end_session", account=room.name, session_id="4711"), {"ended": True}, "the answer")
    same(room.fake.ended, [4711], "the sessions that were ended")
    same(room.call("account.end_session", account=room.name, session_id="9"), {"ended": False}, "the answer of no session")
    room.fake.sessions = [session(4713)]
    done = room.ctl("sessions", room.name, "--end", "4713")
    same((done.returncode, room.fake.ended), (0, [4711, 4713]), f"grantctl sessions --end ({done.stderr})")


@case(Room, "vms.profile", "VMS-40")
def profile(room):
    room.sign_in()
    answer = room.outcome("account.userinfo", account=room.name)
    asked = [request.path for request in room.fake.requests if request.path.startswith(BASE)]
    same(asked[-1], SELF, f"the address of the profile ({answer})")
    must(not answer.error, f"account.userinfo fails: {answer}")
    claims = answer.result["claims"]
    same({name: claims.get(name) for name in ("id", "login", "email")},
         {"id": 17, "login": "ada", "email": "ada@example.com"}, "the profile")


@case(Room, "vms.doctor", "VMS-06")
def doctor(room):
    room.fake.available = False
    answer = room.call("provider.check", provider=room.name)
    same(answer["ok"], False, "ok of provider.check")
    must(DISABLED in json.dumps(answer["checks"]), f"no check says that {DISABLED}: {answer['checks']}")
