"""Real servers from PyPI: sign in by the URL alone, call a tool, refresh, call it again."""

import base64
import contextlib
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import urllib.parse
import urllib.request

from clients import HERE, PEERS, START_SECONDS
from grantd_testing import Program, Wrong, environment, free_ports, wait_until
from logins import case
from scene import LOGIN_SECONDS, PAUSE_SECONDS, Login, Skip, must, same, visit

sys.path[:0] = [str(HERE.parent / "Support" / "pypi")]
from person import Person  # noqa: E402

STEPS = 8
ADD = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}}
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
    "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}


def python_with(*modules):
    own = HERE.parents[1] / ".build" / "python" / "bin" / "python3"
    for path in (os.environ.get("GRANTD_TEST_PYTHON"), own, sys.executable):
        if path and os.access(path, os.X_OK) and not subprocess.run(
                [path, "-c", "import " + ", ".join(modules)], capture_output=True).returncode:
            return str(path)
    raise Skip(f"no Python has {' and '.join(modules)} (scripts/deps --tests)")


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def location(url):
    """Where the server redirects to."""
    opener = urllib.request.build_opener(Stay, urllib.request.ProxyHandler({}))
    try:
        opener.open(url, timeout=LOGIN_SECONDS).close()
    except urllib.error.HTTPError as error:
        with error:
            return urllib.parse.urljoin(url, error.headers["Location"]) if error.headers["Location"] else None
    return None


def signed_in(broker, words, walk):
    """`grantctl login`, with a browser that walks from the broker's link to its callback."""
    log = broker.folder / "login.log"
    log.unlink(missing_ok=True)
    with contextlib.closing(Login(broker, words, log)) as login:
        wait_until(lambda: login.url() or login.process.status is not None, LOGIN_SECONDS, "the URL", PAUSE_SECONDS)
        must(login.process.status is None, f"the login ended: {login.text()}")
        walk(login.url()[0])
        wait_until(lambda: login.process.status is not None, LOGIN_SECONDS, "the login ends", PAUSE_SECONDS)
        must(login.process.status == 0, f"the login failed: {login.text()}")
        return login.text()


def redirects(url):
    """Follows redirects to the broker's callback."""
    for _ in range(STEPS):
        following = location(url)
        must(following, f"{url} is no redirect")
        if re.match(r"http://(127\.0\.0\.1|localhost|\[::1\]):\d+/callback", following):
            return visit(following)
        url = following
    raise Wrong(f"more than {STEPS} redirects")


def message(answer):
    """The message of an answer in JSON or as an event."""
    if isinstance(answer, dict):
        return answer
    lines = [line for line in answer.decode().splitlines() if line.startswith("data:")]
    return json.loads(lines[-1][5:])


@case
def fastmcp_proxy(scene):
    """FastMCP with its OAuth proxy, whose refresh tokens are its own and whose clients it registers."""
    program = python_with("fastmcp")
    authorization = scene.authorization()
    authorization.clients["proxy"] = {}
    (port,) = free_ports()
    log = scene.folder / "fastmcp.log"
    server = Program([program, PEERS / "fastmcp_server.py", port, authorization.url, "proxy"], log,
                     env=environment(scene.folder))
    scene.closing.callback(server.kill)
    wait_until(lambda: "running on" in log.read_text() or server.status is not None, START_SECONDS, "FastMCP serves")
    must(server.status is None, f"FastMCP ended: {log.read_text()[-1500:]}")
    broker = scene.start()
    signed_in(broker, [f"http://127.0.0.1:{port}/mcp", "notes"], redirects)

    def add():
        status, answer, head = broker.forward("notes/mcp", INITIALIZE)
        same(status, 200, f"the status of initialize: {answer}")
        session = {"Mcp-Session-Id": head.getheader("Mcp-Session-Id"), "MCP-Protocol-Version": "2025-11-25"}
        broker.forward("notes/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
        status, answer, _ = broker.forward("notes/mcp", ADD, headers=session)
        same(message(answer)["result"]["content"][0]["text"], "sum 3", "the answer of the tool")

    add()
    broker.must("refresh", "notes")
    add()
    broker.must("refresh", "notes")
    add()


class Protected(http.server.BaseHTTPRequestHandler):
    """A resource for the tokens of nanoidp, which the test asks about each of them (RFC 7662)."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, value, **fields):
        body = json.dumps(value).encode()
        self.send_response(status)
        for name, text in ({"Content-Type": "application/json", "Content-Length": str(len(body))} | fields).items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        url = f"http://127.0.0.1:{self.server.server_address[1]}"
        if self.path == "/.well-known/oauth-protected-resource/mcp":
            return self.answer(200, {"resource": f"{url}/mcp", "authorization_servers": [self.server.issuer],
                                     "scopes_supported": ["openid", "offline_access"]})
        self.handle_call(url)

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.handle_call(f"http://127.0.0.1:{self.server.server_address[1]}")

    def handle_call(self, url):
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if not token or not self.is_active(token):
            return self.answer(401, {"error": "invalid_token"}, WWW_Authenticate=(
                f'Bearer resource_metadata="{url}/.well-known/oauth-protected-resource/mcp"'))
        self.server.tokens.add(token)
        self.answer(200, {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "sum 3"}]}})

    def is_active(self, token):
        credentials = base64.b64encode(b"inspector:inspector-secret").decode()
        request = urllib.request.Request(
            self.server.issuer + "/introspect", urllib.parse.urlencode({"token": token}).encode(),
            {"Authorization": f"Basic {credentials}"})
        with urllib.request.urlopen(request, timeout=LOGIN_SECONDS) as answer:
            return json.load(answer)["active"]


@case
def nanoidp_document(scene):
    """nanoidp fetches the client ID metadata document that `grantctl client-metadata` prints: no registration.

    nanoidp 3.4 gives such clients no refresh token: the refresh is that of its own suite (Tests/providers/nanoidp).
    """
    program = python_with("nanoidp", "werkzeug")
    folder = scene.folder / "nanoidp"
    folder.mkdir()
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
                    "-keyout", folder / "key.pem", "-out", folder / "certificate.pem", "-subj", "/CN=127.0.0.1",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    (port,) = free_ports()
    log = scene.folder / "nanoidp.log"
    process = Program([program, PEERS / "nanoidp_server.py", folder, port], log,
                      env=environment(scene.folder) | {"SSL_CERT_FILE": str(folder / "certificate.pem")})
    scene.closing.callback(process.kill)
    wait_until(lambda: "ready " in log.read_text() or process.status is not None, START_SECONDS, "nanoidp serves")
    must(process.status is None, f"nanoidp ended: {log.read_text()[-1500:]}")
    info = json.loads(re.search(r"ready (.*)", log.read_text())[1])
    resource = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Protected)
    resource.issuer, resource.tokens = info["issuer"], set()
    threading.Thread(target=resource.serve_forever, daemon=True).start()
    scene.closing.callback(resource.shutdown)
    broker = scene.start(f'[client_metadata]\nurl = "{info["document"]}"\n')
    pathlib.Path(folder / "grantd.json").write_text(broker.must("client-metadata"))

    def walk(url):
        person = Person()
        person.sign_in(person.open(url))

    text = signed_in(broker, [f"http://127.0.0.1:{resource.server_address[1]}/mcp", "notes"], walk)
    must("published client metadata" in text, f"the client: {text}")
    status, answer, _ = broker.forward("notes/mcp", ADD)
    same((status, message(answer)["result"]["content"][0]["text"]), (200, "sum 3"), f"the answer: {answer}")
    same(len(resource.tokens), 1, "tokens")


@case
def django_mcp_oauth(scene):
    """django-mcp-oauth, with its consent page. A refresh returns no new refresh token there, so the grant ends with the next."""
    program = python_with("django_mcp_oauth", "werkzeug")
    folder = scene.folder / "django"
    folder.mkdir()
    (port,) = free_ports()
    log = scene.folder / "django.log"
    process = Program([program, PEERS / "django_server.py", folder, port], log, env=environment(scene.folder))
    scene.closing.callback(process.kill)
    wait_until(lambda: "ready" in log.read_text() or process.status is not None, START_SECONDS, "Django serves")
    must(process.status is None, f"Django ended: {log.read_text()[-1500:]}")
    broker = scene.start()

    def walk(url):
        person = Person()
        page = person.sign_in(person.open(url))
        person.submit(page, "csrfmiddlewaretoken", confirm="yes")

    signed_in(broker, [f"http://127.0.0.1:{port}/mcp", "notes"], walk)
    status, answer, _ = broker.forward("notes/mcp", ADD)
    same((status, message(answer)["result"]["content"][0]["text"]), (200, "sum 3 for alice"), f"the answer: {answer}")
    broker.must("refresh", "notes")
    must("REFRESHED 200" in log.read_text(), f"no refresh: {log.read_text()[-800:]}")
    same(broker.forward("notes/mcp", ADD)[0], 200, "the status after the refresh")
