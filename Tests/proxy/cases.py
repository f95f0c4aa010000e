"""The cases: requests of the broker through tinyproxy, and what users read if the proxy does not let them through."""

import base64
import contextlib
import json
import os
import socket
import subprocess
import time

from grantd_testing import environment, free_ports, wait_until
from rig import must, same
from server import Answer

from scene import ACCOUNT, HOST
from servers import Odd

CASES = {}
USER, PASSWORD = "ada", "pass word:%40é"
SECONDS = 20
# grantd waits 15 s for a proxy's answer.
HANG_SECONDS = 19


def case(action):
    CASES[action.__name__.replace("_", "-")] = action
    return action


def credentials(user=USER, password=PASSWORD):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def forwarded(scene, path):
    """The status and the body of a request to the forward endpoint."""
    with socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(SECONDS)
        stream.connect(str(scene.http_socket))
        stream.sendall(f"GET /forward/{ACCOUNT}{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        data = b""
        while part := stream.recv(1 << 16):
            data += part
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


@case
def through(scene):
    """Sign-in, refresh, request.send and /forward; only the proxy can look up the provider's name."""
    with contextlib.suppress(OSError):
        socket.getaddrinfo(HOST, 443)
        must(False, f"this machine can look up {HOST}")
    fake, proxy = scene.provider(), scene.tinyproxy()
    # An answer with the token itself would be changed on its way to a caller of request.send.
    fake.always("/items", lambda request, _: Answer.json({"length": len(request.bearer or "")}))
    scene.start(https_proxy=f"http://{proxy.place}")
    scene.sign_in()
    scene.site.refreshed(ACCOUNT)
    token = scene.site.token(ACCOUNT)
    sent = scene.broker.call("request.send", account=ACCOUNT, method="GET", url="/items")
    same((sent["status"], json.loads(sent["body"])), (200, {"length": len(token)}), "the answer to request.send")
    same(forwarded(scene, "/items"), (200, json.dumps({"length": len(token)})), "the forwarded answer")
    # tinyproxy speaks HTTP/1.0 to the proxy behind it.
    same({line.rpartition(" ")[0] for line in scene.names.lines}, {f"CONNECT {scene.target}"}, "what the proxy got")
    must(len(proxy.requests) >= 3, f"tinyproxy logged {proxy.requests}")
    shown = scene.ctl("doctor", "p").stdout
    must(f"through the proxy {proxy.place}" in " ".join(shown.split()), f"doctor does not name the proxy: {shown}")
    must(token not in json.dumps(scene.names.heads), "the proxy got the access token")


@case
def credentials_of_the_proxy(scene):
    """The user is in the URL, and the password in a file."""
    scene.provider()
    proxy = scene.tinyproxy(f'BasicAuth {USER} secret-of-ada')
    scene.start(https_proxy=f"http://{USER}@{proxy.place}", password_file=scene.secret("secret-of-ada"))
    scene.sign_in()
    must(len(proxy.requests) >= 1, f"tinyproxy logged {proxy.requests}")
    texts = [scene.log, scene.ctl("doctor", "p").stdout, scene.ctl("status", "--json").stdout]
    must(not any("secret-of-ada" in text for text in texts), "the password is printed")


@case
def no_credentials(scene):
    """Without the password, and with a wrong one: the error names the proxy, 407 and the keys to set."""
    scene.provider()
    proxy = scene.tinyproxy(f"BasicAuth {USER} secret-of-ada")
    # tinyproxy answers 401 to a wrong password.
    for status, keys in ((407, {"https_proxy": f"http://{proxy.place}"}),
                         (401, {"https_proxy": f"http://{USER}@{proxy.place}", "password_file": scene.secret("another")})):
        if scene.broker.process:
            scene.broker.process.stop()
        scene.start(**keys)
        text, hint, _ = scene.refused()
        must(f"the proxy {proxy.place} refused the connection to {scene.target}: {status}" in text, f"the error is {text}")
        must("password_file" in hint and "[proxy]" in hint, f"the hint is {hint}")
        shown = " ".join(scene.ctl("doctor", "p").stdout.split())
        must(str(status) in shown and "password_file" in shown, f"doctor prints {shown[-900:]}")
    must(not scene.names.heads, f"the request went on: {scene.names.heads}")


@case
def denied(scene):
    """A host that the proxy denies."""
    scene.provider()
    proxy = scene.tinyproxy(denied=[HOST])
    scene.start(https_proxy=f"http://{proxy.place}")
    text, hint, _ = scene.refused()
    must(f"the proxy {proxy.place} refused the connection to {scene.target}: 403" in text, f"the error is {text}")
    must("no_proxy" in hint and "https_proxy" in hint, f"the hint is {hint}")


@case
def an_account_outlives_the_proxy(scene):
    """While the proxy is unreachable the account stays, its token is returned, and a refresh succeeds afterwards."""
    scene.provider()
    proxy = scene.tinyproxy()
    scene.start(https_proxy=f"http://{proxy.place}")
    scene.sign_in()
    token, port = scene.site.token(ACCOUNT), proxy.port
    proxy.close()
    # The connection that is kept ends with its proxy.
    error = scene.site.refresh(ACCOUNT)
    told = f"{error} {getattr(error, 'data', '')}"
    must(error is not True and f"127.0.0.1:{port}" in told, f"the refresh: {told}")
    same((scene.site.token(ACCOUNT), scene.site.account(ACCOUNT)["state"] in ("ok", "degraded")), (token, True), "the account")
    other = scene.tinyproxy()
    scene.configure(https_proxy=f"http://{other.place}")
    same(scene.ctl("reload").returncode, 0, "the status of reload")
    # The first may share an automatic attempt that still met the closed proxy.
    wait_until(lambda: scene.site.refresh(ACCOUNT) is True, 30, "a refresh through the new proxy")
    must(other.requests, "the new proxy was not used")


@case
def a_reload_changes_the_proxy(scene):
    """Connections that are kept do not outlive it."""
    scene.provider()
    one, two = scene.tinyproxy(), scene.tinyproxy()
    scene.start(https_proxy=f"http://{one.place}")
    scene.sign_in()
    scene.configure(https_proxy=f"http://{two.place}")
    same(scene.ctl("reload").returncode, 0, "the status of reload")
    before = len(one.requests)
    scene.site.refreshed(ACCOUNT)
    same((len(one.requests), bool(two.requests)), (before, True), "the proxies that got requests")


@case
def faulty_proxies(scene):
    """Nothing listens; it closes; its answer is not HTTP; its name is unknown."""
    scene.provider()
    closed, silent, garbage = free_ports()[0], scene.closed(Odd(b"")), scene.closed(Odd(b"SSH-2.0-OpenSSH\r\n"))
    hanging = scene.closed(Odd(b"HTTP/1.1 200 Connected\r\n\r\nnonsense"))
    places = {f"127.0.0.1:{closed}": "refused", silent.place: "closed the connection", garbage.place: "",
              "proxy.example.test:3128": "cannot be resolved", hanging.place: "no secure connection"}
    for place, words in places.items():
        if scene.broker.process:
            scene.broker.process.stop()
        scene.start(https_proxy=f"http://{place}")
        text, hint, _ = scene.refused()
        must(f"proxy {place}" in text and words in text, f"the error with {place} is {text}")
        must(hint, f"there is no hint: {text}")


@case
def a_proxy_that_hangs(scene):
    """It accepts the connection and never answers."""
    scene.provider()
    hung = scene.closed(Odd(None))
    scene.start(https_proxy=f"http://{hung.place}")
    began = time.monotonic()
    text, hint, _ = scene.refused()
    must(time.monotonic() - began < HANG_SECONDS, "the answer took too long")
    must(f"the proxy {hung.place} did not answer in time" in text, f"the error is {text}")
    must("https_proxy" in hint, f"the hint is {hint}")


@case
def plain_http(scene):
    """Absolute-form, with the credentials; the server does not get these."""
    fake = scene.provider(secure=False)
    proxy = scene.tinyproxy(f"BasicAuth {USER} secret-of-ada")
    scene.start(http_proxy=f"http://{USER}@{proxy.place}", password_file=scene.secret("secret-of-ada"))
    scene.sign_in()
    must(any(line.startswith(f"POST http://{scene.target}/token ") for line in scene.names.lines),
         f"the proxy got {scene.names.lines}")
    for _, request in fake.requests:
        must("proxy-authorization" not in request.fields, f"the server got {request.fields}")
        must(request.target.startswith("/"), f"the server got {request.target}")
        same(request.fields["host"], scene.target, "Host")


@case
def plain_http_without_credentials(scene):
    """407 of the proxy is not taken for the provider's answer."""
    scene.provider(secure=False)
    proxy = scene.tinyproxy(f"BasicAuth {USER} secret-of-ada")
    scene.start(http_proxy=f"http://{proxy.place}")
    text, hint, _ = scene.refused()
    must(f"the proxy {proxy.place} refused" in text and "407" in text, f"the error is {text}")
    must("http_proxy" in hint and "password_file" in hint, f"the hint is {hint}")


@case
def exceptions(scene):
    """A host of no_proxy is requested directly."""
    scene.provider(host="0.0.0.0")
    scene.start(https_proxy=f"http://127.0.0.1:{free_ports()[0]}", no_proxy=["0.0.0.0/32"])
    scene.sign_in()
    shown = scene.ctl("doctor", "p").stdout
    must("through the proxy" not in shown, f"doctor prints {shown}")


@case
def this_machine(scene):
    """Loopback servers are never requested through the proxy."""
    for host in ("127.0.0.1", "localhost"):
        if scene.broker.process:
            scene.broker.process.stop()
        scene.provider(host=host)
        scene.start(https_proxy=f"http://127.0.0.1:{free_ports()[0]}", http_proxy=f"http://127.0.0.1:{free_ports()[0]}")
        scene.sign_in()


@case
def environment_of_a_user(scene):
    """The variables of a user instance; a password there is used, and never printed."""
    scene.provider()
    proxy = scene.tinyproxy(f"BasicAuth {USER} secret-of-ada")
    dead = f"http://127.0.0.1:{free_ports()[0]}"
    scene.start({"HTTPS_PROXY": f"http://{USER}:secret-of-ada@{proxy.place}", "HTTP_PROXY": dead})
    scene.sign_in()
    log = "\n".join(line for line in scene.log.splitlines() if not line.startswith("----"))
    texts = [log, scene.ctl("doctor", "p").stdout, scene.ctl("status", "--json").stdout]
    must(not any("secret-of-ada" in text for text in texts), "the password is printed")
    # Lower case takes precedence, and a key takes precedence over both.
    for variables, keys in (({"https_proxy": f"http://{USER}:secret-of-ada@{proxy.place}", "HTTPS_PROXY": dead}, {}),
                            ({"https_proxy": dead}, {"https_proxy": f"http://{USER}@{proxy.place}",
                                                     "password_file": scene.secret("secret-of-ada")})):
        scene.broker.process.stop()
        scene.start(variables, **keys)
        scene.site.refreshed(ACCOUNT)


@case
def environment_of_no_use(scene):
    """HTTP_PROXY in upper case and all variables of a system instance are ignored; other schemes are named."""
    scene.provider(host="0.0.0.0", secure=False)
    dead = f"http://127.0.0.1:{free_ports()[0]}"
    scene.start({"HTTP_PROXY": dead})
    scene.sign_in()
    scene.broker.process.stop()
    scene.start({"http_proxy": f"socks5://{USER}:secret-of-ada@127.0.0.1:1"})
    scene.site.refreshed(ACCOUNT)
    must("http_proxy of the environment is ignored" in scene.log, "the variable is ignored without a warning")
    if os.geteuid() == 0:
        scene.broker.process.stop()
        scene.broker.instance = "system"
        scene.start({"http_proxy": dead, "https_proxy": dead})
        scene.site.refreshed(ACCOUNT)


@case
def refused_configurations(scene):
    """A password in the URL is refused without being printed; each problem names the next step."""
    wrong = {
        'https_proxy = "http://ada:secret-of-ada@proxy.example.com:3128"': "password_file",
        'https_proxy = "https://proxy.example.com"': "http",
        'https_proxy = "socks5://proxy.example.com"': "http",
        'http_proxy = "http://proxy.example.com/path"': "path",
        'no_proxy = ["https://example.com"]': "scheme",
        'password_file = "/dev/null"': "USER@",
    }
    for line, words in wrong.items():
        scene.broker.config.write_text(f"[proxy]\n{line}\n")
        done = subprocess.run(
            [scene.programs / "grantd", "--user", "--config", scene.broker.config, "--check-config"], capture_output=True,
            text=True, env=environment(scene.folder), timeout=SECONDS)
        text = done.stdout + done.stderr
        same(done.returncode, 78, f"the status with {line}")
        must(words in text and "secret-of-ada" not in text, f"the message is {text}")


@case
def bound_tokens(scene):
    """Client certificates and DPoP are between the broker and the provider, through the proxy."""
    fake, proxy = scene.provider(client_certificate=True, dpop=True), scene.tinyproxy()

    def bound(_, usual):
        answer = usual()
        return Answer.json(answer.value | {"token_type": "DPoP"}) if answer.status == 200 else answer

    fake.always("code", bound)
    fake.always("refresh", bound)
    scene.start(https_proxy=f"http://{proxy.place}")
    scene.sign_in()
    scene.site.refreshed(ACCOUNT)
    for request in fake.of("code") + fake.of("refresh"):
        part = request.fields["dpop"].split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        same((claims["htm"], claims["htu"]), ("POST", f"https://{scene.target}/token"), "the proof")
