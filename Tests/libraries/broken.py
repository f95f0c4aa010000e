"""Cases with a server that misbehaves."""

import os
import pathlib
import subprocess
import tempfile
import time

from fake import CLOSE, SECRET, Fake, error, line, token
from rig import Skip, case, driving, must, wait_until

OUTSIDER = 65534
LISTEN = """
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(8)
print("ready", flush=True)
stream, _ = listener.accept()
data = stream.recv(1000)
print(len(data), flush=True)
"""


def path(stage, language):
    return stage.folder / f"fake-{language.name}.sock"


def misbehaving(name, script, reason, requests=None):
    """A server that answers by `script`: the error has that reason, no secret is printed, and the next call is independent."""
    @case(name)
    def check(stage, language):
        def answered(fake, request):
            return token(request, account="good") if request["params"]["account"] == "good" else script(fake, request)
        with Fake(path(stage, language), answered) as fake, driving(stage, language, fake.path) as driver:
            answer = driver.ask(do="token", account="work", timeout=0.3 if reason == "timed_out" else 60)
            found = answer.get("error")
            must(found and found["reason"] == reason, f"{answer}, not {reason}")
            must(SECRET not in str(found), f"a secret in the error: {found}")
            must(found["hint"] or reason not in ("bad_answer", "disconnected", "timed_out"), f"no hint: {found}")
            if requests:
                wait_until(lambda: len(fake.requests) >= requests, 60, "the fake broker has read the request")
            must(requests is None or len(fake.requests) == requests, f"{len(fake.requests)} requests, not {requests}")
            must(driver.ok(do="token", account="good")["access_token"] == SECRET, "the next call fails")


SECRET_RESULT = {"access_token": SECRET, "generation": "x"}
misbehaving("garbage", lambda fake, request: b"garbage " + SECRET.encode() + b"\n", "bad_answer", 1)
misbehaving("not-an-object", lambda fake, request: b"[1]\n", "bad_answer", 1)
misbehaving("not-utf8", lambda fake, request: b'{"id":1,"result":"\xff"}\n', "bad_answer", 1)
misbehaving("deep", lambda fake, request: b"[" * 100_000 + b"\n", "bad_answer", 1)
misbehaving("half-a-line", lambda fake, request: token(request)[:40], "timed_out", 1)
misbehaving("a-mebibyte", lambda fake, request: b'{"x":"' + b"x" * (1 << 20), "bad_answer", 1)
misbehaving("no-token", lambda fake, request: line(id=request["id"], result={}), "bad_answer", 1)
misbehaving("no-result", lambda fake, request: line(id=request["id"]), "bad_answer", 1)
misbehaving("wrong-type", lambda fake, request: line(id=request["id"], result=SECRET_RESULT), "bad_answer", 1)
misbehaving("closes", lambda fake, request: CLOSE, "disconnected", 2)
misbehaving("shutting-down-twice", lambda fake, request: error(request, "shutting_down"), "shutting_down", 2)
misbehaving("unknown-reason", lambda fake, request: error(request, "brand_new"), "brand_new", 1)
misbehaving("rpc-error", lambda fake, request: line(id=request["id"], error={"code": -32602, "message": "m"}), "", 1)


@case("half-then-closed")
def half_then_closed(stage, language):
    def script(fake, request):
        request["stream"].sendall(token(request)[:40])
        return CLOSE
    with Fake(path(stage, language), script) as fake, driving(stage, language, fake.path) as driver:
        driver.fails("disconnected", do="token", account="work")


@case("unknown-member")
def unknown_member(stage, language):
    """Members, notifications and answers of a newer broker are ignored."""
    def script(fake, request):
        before = line(method="news", params={}) + line(id=999_999, result={}) + line(id=None, result=1) + line(id="1", result=1)
        return before + token(request, novelty={"a": [1]}, expires_at=None, extra={"a": {"b": "c"}})
    with Fake(path(stage, language), script) as fake, driving(stage, language, fake.path) as driver:
        answer = driver.ok(do="token", account="work")
        must(answer["access_token"] == SECRET and answer["generation"] == 1, answer)


@case("escapes")
def escapes(stage, language):
    """Names and hints with any character arrive unchanged."""
    words = 'a"b\\c\né€😀\u0001'

    def script(fake, request):
        must(request["params"]["account"] == words, f"{request['params']}")
        return error(request, "login_required", hint=words)
    with Fake(path(stage, language), script) as fake, driving(stage, language, fake.path) as driver:
        found = driver.fails("login_required", do="token", account=words)
        must(found["hint"] == words, found)


@case("long-hint")
def long_hint(stage, language):
    """A hint that does not fit is cut between two characters, also if only its last one does not fit."""
    fits = "x" * 510

    def script(fake, request):
        # As UTF-8, not as an escape.
        return error(request, "login_required", hint=fits + "?").replace(b"x?", "xé".encode())
    with Fake(path(stage, language), script) as fake, driving(stage, language, fake.path) as driver:
        found = driver.fails("login_required", do="token", account="work")
        must(found["hint"] in (fits, fits + "é"), found)


@case("closes-at-once")
def closes_at_once(stage, language):
    with Fake(path(stage, language), None) as fake, driving(stage, language, fake.path) as driver:
        for _ in range(20):
            driver.fails("disconnected", do="token", account="work")
        answer = driver.ask(do="events", account="work", types=["token.refreshed"], count=1)
        # The driver of JavaScript may say this first.
        answer = driver.answer() if answer == {"ok": "subscribed"} else answer
        must(answer.get("error", {}).get("reason") == "disconnected", answer)


@case("shutting-down")
def shutting_down(stage, language):
    """A broker that restarts, or has closed the kept connection: one more attempt on a new connection."""
    def script(fake, request):
        return {2: error(request, "shutting_down"), 4: CLOSE}.get(request["number"], None) or token(request)
    with Fake(path(stage, language), script) as fake, driving(stage, language, fake.path) as driver:
        for _ in range(4):
            driver.ok(do="token", account="work")
        must(fake.connections == 3, f"{fake.connections} connections")


@case("idle-close")
def idle_close(stage, language):
    """The broker closed the connection between two calls."""
    with Fake(path(stage, language), lambda fake, request: token(request)) as fake, \
            driving(stage, language, fake.path) as driver:
        driver.ok(do="token", account="work")
        fake.streams[0].shutdown(2)
        time.sleep(0.05)
        driver.ok(do="token", account="work")
        must(fake.connections == 2, f"{fake.connections} connections")


@case("idle-close-login")
def idle_close_login(stage, language):
    """The same, and the next call is one that must not be repeated: the broker has not seen it."""
    def script(fake, request):
        results = {"login.start": {"login_id": "l", "destinations": []}, "login.wait": {"state": "completed"}}
        found = results.get(request["method"])
        return line(id=request["id"], result=found) if found else token(request)
    with Fake(path(stage, language), script) as fake, driving(stage, language, fake.path) as driver:
        driver.ok(do="token", account="work")
        fake.streams[0].shutdown(2)
        time.sleep(0.05)
        driver.ok(do="login", provider="people", account="work")
        must(driver.answer()["ok"]["state"] == "completed", "the login fails")
        must([one["method"] for one in fake.requests[1:]] == ["login.start", "login.wait"], fake.requests)


@case("errors")
def errors(stage, language):
    """The members of an error, and its type."""
    def script(fake, request):
        return error(request, request["params"]["account"], retry_after=7)
    with Fake(path(stage, language), script) as fake, driving(stage, language, fake.path) as driver:
        for reason in ("login_required", "temporarily_unavailable", "not_permitted"):
            found = driver.fails(reason, do="token", account=reason)
            must(found["hint"] == f"hint of {reason}" and found["message"] == f"words of {reason}", found)
            must(found["retry_after"] == 7 and found["is_type"] is True, found)
        must(fake.connections == 1, "an answered error ends the connection")


@case("no-second-cache")
def no_second_cache(stage, language):
    """A changed policy, and a changed token, apply to the next call: the library keeps no token."""
    def script(fake, request):
        return {1: token(request), 2: error(request, "not_permitted")}.get(request["number"]) or token(request, generation=2)
    with Fake(path(stage, language), script) as fake, driving(stage, language, fake.path) as driver:
        driver.ok(do="token", account="work")
        driver.fails("not_permitted", do="token", account="work")
        must(driver.ok(do="token", account="work")["generation"] == 2, "an old token")
        must(len(fake.requests) == 3, f"{len(fake.requests)} requests")


@case("parameters")
def parameters(stage, language):
    with Fake(path(stage, language), lambda fake, request: token(request)) as fake, \
            driving(stage, language, fake.path) as driver:
        driver.ok(do="token", account="work")
        driver.ok(do="token", account="work", scopes=["a", "b"], resource="https://r.example", min_ttl=60, timeout=9)
        seen = [(one["method"], one["params"]) for one in fake.requests]
        must(seen[0] == ("token.get", {"account": "work"}), seen)
        must(seen[1] == ("token.get", {"account": "work", "scopes": ["a", "b"], "resource": "https://r.example",
                                       "min_ttl": 60, "timeout": 9}), seen)


@case("prints-nothing")
def prints_nothing(stage, language):
    """However a token or a client is printed, the secret is not in it."""
    def script(fake, request):
        return token(request, kind="session", cookie=SECRET, session_id=SECRET)
    with Fake(path(stage, language), script) as fake, driving(stage, language, fake.path) as driver:
        texts = driver.ok(do="print", account="work")
        must(texts and not any(SECRET in text for text in texts), texts)


@case("not-running")
def not_running(stage, language):
    with driving(stage, language, stage.folder / "none.sock") as driver:
        found = driver.fails("not_running", do="token", account="work")
        must(str(stage.folder / "none.sock") in found["message"] and "systemctl" in found["hint"], found)


@case("users-socket")
def users_socket(stage, language):
    """Without GRANTD_SOCKET the user's socket is used if it exists, else the system's."""
    own = stage.folder / f"run-{language.name}"
    with driving(stage, language, False, XDG_RUNTIME_DIR=str(own)) as driver:
        if not os.path.exists("/run/grantd/grantd.sock"):
            found = driver.fails("not_running", do="token", account="work")
            must("/run/grantd/grantd.sock" in found["message"], found)
        (own / "grantd").mkdir(parents=True)
        with Fake(own / "grantd" / "grantd.sock", lambda fake, request: token(request)):
            driver.ok(do="token", account="work")


@case("socket-of-another-user")
def socket_of_another_user(stage, language):
    """Nothing is sent to it. A socket that the caller named is not checked: its uid may be that of another namespace."""
    if os.geteuid() != 0:
        raise Skip("only root can run a server as another user")
    with tempfile.TemporaryDirectory(prefix="grantd-foreign-", dir="/tmp") as text:
        folder = pathlib.Path(text)
        (folder / "grantd").mkdir()
        for one in (folder, folder / "grantd"):
            one.chmod(0o777)
        server = subprocess.Popen(
            ["/usr/bin/python3", "-c", LISTEN, folder / "grantd" / "grantd.sock"], stdout=subprocess.PIPE, user=OUTSIDER,
            group=OUTSIDER, extra_groups=[], cwd="/")
        try:
            must(server.stdout.readline() == b"ready\n", "no server")
            with driving(stage, language, False, XDG_RUNTIME_DIR=text) as driver:
                found = driver.fails("foreign_server", do="token", account="work")
                must(str(OUTSIDER) in found["message"], found)
            if language.connects_before_the_check:
                must(server.stdout.readline() == b"0\n", "something was sent")
        finally:
            server.kill()
            server.wait()
            server.stdout.close()
