"""The clients' side: their configuration, the broker's errors as they show them, and the SDK's server and client."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
import tomllib

from grantd_testing import Program, free_ports, wait_until
from logins import LIST, case, works
from scene import Skip, must, same

HERE = pathlib.Path(__file__).resolve().parent
PEERS = HERE / "peers"
LIFETIME_SECONDS = 6
CALLS, PAUSE_SECONDS = 40, 0.5
START_SECONDS = 90
# An error comes in this time, at best of some measurements.
ERROR_SECONDS, TRIES = 2, 3


@case
def configured_clients(scene):
    """`configure` writes the URL of /forward alone, keeps what is there, and takes it out again."""
    authorization, resource = scene.pair()
    broker = scene.start()
    broker.login(scene.url(resource), "notes")
    url = f"http://127.0.0.1:{broker.address}/forward/notes/mcp"
    other = {"mcpServers": {"other": {"command": "x"}}, "theme": "dark"}
    for tool, name, members, entry in (
            ("claude-code", ".claude.json", "mcpServers", {"type": "http", "url": url}),
            ("gemini", ".gemini/settings.json", "mcpServers", {"httpUrl": url}),
            ("cursor", ".cursor/mcp.json", "mcpServers", {"url": url}),
            ("vscode", ".config/Code/User/mcp.json", "servers", {"type": "http", "url": url}),
            ("zed", ".config/zed/settings.json", "context_servers", {"url": url})):
        file = broker.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(other))
        must(url in broker.must("configure", tool, "notes"), f"{tool} does not show the URL")
        same(json.loads(file.read_text()), other, f"the file of {tool} before --write")
        broker.must("configure", tool, "notes", "--write")
        same(json.loads(file.read_text())[members]["notes"], entry, f"the entry of {tool}")
        broker.must("configure", tool, "notes", "--undo")
        same(json.loads(file.read_text()), other, f"the file of {tool} after --undo")
    broker.must("configure", "codex", "notes", "--write")
    same(tomllib.loads((broker.folder / ".codex/config.toml").read_text()), {"mcp_servers": {"notes": {"url": url}}}, "codex")
    done = broker.ctl("configure", "mcp", "notes")
    must(url in done.stdout + done.stderr, "configure mcp does not show the URL")


@case
def listener_that_is_off(scene):
    """Without [http], `configure` names the section, and `--write` adds it to the user's configuration."""
    authorization, resource = scene.pair()
    broker = scene.broker
    broker.config.write_text(broker.config.read_text().replace('[http]\nlisten = "127.0.0.1:0"\n', ""))
    broker.start_plain()
    broker.login(scene.url(resource), "notes")
    refused = broker.refused("configure", "cursor", "notes")
    must("[http]" in refused and "--write" in refused, refused)
    broker.must("configure", "cursor", "notes", "--write")
    written = tomllib.loads((broker.folder / ".config/grantd/grantd.toml").read_text())
    same(written, {"http": {"listen": "127.0.0.1:7817"}}, "the user's configuration")
    same(json.loads((broker.folder / ".cursor/mcp.json").read_text())["mcpServers"]["notes"],
         {"url": "http://127.0.0.1:7817/forward/notes/mcp"}, "the client's entry")


@case
def errors_for_agents(scene):
    """A JSON-RPC request gets a JSON-RPC error with the next command, never 401; others keep the status."""
    authorization, resource = scene.pair()
    broker = scene.start()
    broker.login(scene.url(resource), "notes")
    authorization.refreshes.clear()
    authorization.tokens.clear()
    status, answer, _ = broker.forward("notes/mcp", LIST | {"id": "a-1"})
    same((status, answer["id"], answer["error"]["data"]["reason"]), (200, "a-1", "login_required"), "the answer")
    must("grantctl login 127.0.0.1 notes" in answer["error"]["data"]["hint"], f"the hint: {answer}")
    must("grantctl login" in answer["error"]["message"], f"the message: {answer}")
    status, answer, _ = broker.forward("notes/mcp", [LIST, {"jsonrpc": "2.0", "method": "ping"}, LIST | {"id": 7}])
    same((status, [one["id"] for one in answer]), (200, [1, 7]), "the answers to a batch")
    for body in ({"jsonrpc": "2.0", "method": "notifications/initialized"}, {"a": 1}, b"{"):
        status, answer, _ = broker.forward("notes/mcp", body)
        must(status == 502 and answer["error"] == "login_required", f"{body}: {status} {answer}")
    same(broker.forward("notes/mcp", method="GET")[0], 502, "status of a GET")
    status, answer, _ = broker.forward("nobody/mcp", LIST)
    same((status, answer["error"]["data"]["reason"]), (200, "unknown_account"), "an unknown account")
    broker.login(scene.url(resource), "notes")
    works(broker, "notes")
    resource.close()
    resource.listener.server_close()


@case
def step_up(scene):
    """A scope that the server requires is remembered: in `status`, an event and the answer; the next login asks for it."""
    authorization, resource = scene.pair()
    broker = scene.start()
    broker.login(scene.url(resource), "notes")
    with contextlib.closing(Events(broker)) as events:
        resource.needed = "notes.write"
        status, answer, _ = broker.forward("notes/mcp", LIST)
        same((status, answer["error"]["data"]["reason"]), (200, "scope_not_granted"), "the answer")
        must("notes.write" in answer["error"]["message"] and "grantctl login" in answer["error"]["data"]["hint"], f"{answer}")
        # Another client gets the server's own answer.
        status, answer, head = broker.forward("notes/mcp", method="GET")
        same(status, 403, "the status of a GET")
        must("insufficient_scope" in head.getheader("WWW-Authenticate", ""), "the challenge is missing")
        same(broker.call("account.get", account="notes")["required_scopes"], ["notes.write"], "required_scopes")
        must("notes.write" in broker.must("status"), "status does not name the scope")
        event = events.find("account.scopes_required")
        must("notes.write" in event["message"] and "grantctl login" in event["hint"], f"the event: {event}")
    asked, _ = broker.login("127.0.0.1", "notes")
    same(asked["scope"].split(), ["notes.read", "notes.write"], "the scopes of the next login")
    works(broker, "notes")
    same(broker.call("account.get", account="notes").get("required_scopes"), None, "required_scopes after the login")


@case
def stronger_sign_in(scene):
    """RFC 9470: the next login has the parameters that the server named, and no refresh is spent."""
    authorization, resource = scene.pair()
    broker = scene.start()
    broker.login(scene.url(resource), "notes")
    resource.raw_challenge = 'Bearer error="insufficient_user_authentication", acr_values="mfa", max_age="60"'
    authorization.tokens.clear()
    before = len(authorization.forms("/token"))
    for _ in range(3):
        status, answer, _ = broker.forward("notes/mcp", LIST)
        same((status, answer["error"]["data"]["reason"]), (200, "login_required"), "the answer")
    same(broker.forward("notes/mcp", method="GET")[0], 502, "the status of a GET")
    same(len(authorization.forms("/token")), before, "token requests")
    resource.raw_challenge = None
    asked, _ = broker.login("127.0.0.1", "notes")
    same((asked["acr_values"], asked["max_age"]), ("mfa", "60"), "the parameters of the next login")
    works(broker, "notes")


@case
def other_audience(scene):
    """A token for another audience: the error names `resource`, and costs one refresh, not one for each call."""
    authorization, resource = scene.pair()
    authorization.clients["c"] = {}
    broker = scene.start(f'[provider.company]\nkind = "oauth2"\nissuer = "{authorization.issuer}"\nclient_id = "c"\n'
                         f'scopes = ["notes.read"]\napi_base = "{resource.url}"\n')
    broker.login("company", "work")
    before = len(authorization.forms("/token"))
    for _ in range(4):
        status, answer, _ = broker.forward("work/mcp", LIST)
        same((status, answer["error"]["data"]["reason"]), (200, "provider_error"), "the answer")
        must(f"grantctl login {scene.url(resource)}" in answer["error"]["data"]["hint"], f"the hint: {answer}")
    same(len(authorization.forms("/token")) - before, 1, "refreshes")
    broker.login(scene.url(resource), "notes")
    works(broker, "notes")


class Events:
    """`grantctl events`."""

    def __init__(self, broker):
        self.process = subprocess.Popen(
            [broker.products / "grantctl", "--socket", broker.socket, "events", "--json"], text=True,
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        self.lines = []
        threading.Thread(target=lambda: self.lines.extend(iter(self.process.stdout.readline, "")), daemon=True).start()

        def is_subscribed():
            broker.must("reload")
            return self.lines

        wait_until(is_subscribed, START_SECONDS, "an event of a reload")

    def find(self, kind):
        return wait_until(lambda: next((event for line in list(self.lines) if (event := json.loads(line))["type"] == kind), None),
                          START_SECONDS, f"an event {kind}")

    def close(self):
        self.process.kill()
        self.process.wait()


def python():
    """A Python with the SDK."""
    own = HERE.parents[1] / ".build" / "python" / "bin" / "python3"
    for path in (os.environ.get("GRANTD_TEST_PYTHON"), own, sys.executable):
        if path and os.access(path, os.X_OK) and not subprocess.run(
                [path, "-c", "import mcp, uvicorn"], capture_output=True).returncode:
            return str(path)
    raise Skip("no Python has the package mcp (scripts/deps --tests)")


@case
def sdk(scene):
    """The SDK's server by its URL, and its client through tokens that end: no call fails."""
    program = python()
    (port,) = free_ports()
    log = scene.folder / "sdk.log"
    server = Program([program, PEERS / "sdk_server.py", port, LIFETIME_SECONDS], log)
    scene.closing.callback(server.kill)
    wait_until(lambda: "running on" in log.read_text(), START_SECONDS, "the SDK's server serves")
    broker = scene.start()
    broker.login(f"http://127.0.0.1:{port}/mcp", "notes")
    url = f"http://127.0.0.1:{broker.address}/forward/notes/mcp"
    client = subprocess.Popen([program, PEERS / "sdk_client.py", url, str(CALLS), str(PAUSE_SECONDS)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    scene.closing.callback(client.kill)
    with contextlib.closing(client.stdout):
        lines = [line.strip() for line in client.stdout]
    same(lines, [f"sum {number + 1}" for number in range(CALLS)], "the answers")
    must(log.read_text().count("REFRESHED") >= CALLS * PAUSE_SECONDS / LIFETIME_SECONDS, "no refresh in the session")


@case
def ended_grant(scene):
    """A logout: the SDK's client shows an error at once, and the session goes on after the sign-in."""
    program = python()
    (port,) = free_ports()
    log = scene.folder / "sdk.log"
    server = Program([program, PEERS / "sdk_server.py", port, LIFETIME_SECONDS], log)
    scene.closing.callback(server.kill)
    wait_until(lambda: "running on" in log.read_text(), START_SECONDS, "the SDK's server serves")
    broker = scene.start()
    resource = f"http://127.0.0.1:{port}/mcp"
    broker.login(resource, "notes")
    url = f"http://127.0.0.1:{broker.address}/forward/notes/mcp"
    client = subprocess.Popen([program, PEERS / "sdk_client.py", url, str(CALLS), "0.25"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    scene.closing.callback(client.kill)
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(iter(lambda: client.stdout.readline().strip(), "")), daemon=True)
    reader.start()
    wait_until(lambda: lines, START_SECONDS, "the first answer")
    times = []
    while not times or min(times) >= ERROR_SECONDS and len(times) < TRIES:
        count = len(lines)
        broker.must("logout", "notes")
        began = time.monotonic()
        wait_until(lambda: any("error" in line for line in lines[count:]), START_SECONDS, "the error")
        times.append(time.monotonic() - began)
        broker.login(resource, "notes")
        count = len(lines)
        wait_until(lambda: any("sum" in line for line in lines[count:]), START_SECONDS, f"an answer after the sign-in: {lines}")
    must(min(times) < ERROR_SECONDS, f"the error comes after {times} s")
    client.kill()
