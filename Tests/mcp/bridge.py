"""`grantctl mcp`: the protocol's stdio transport, with sessions, streams and resumption, also without [http]."""

import contextlib
import json
import queue
import subprocess
import threading
import time
import tomllib

from clients import CALLS, LIFETIME_SECONDS, PEERS, START_SECONDS, python
from grantd_testing import Program, environment, free_ports, wait_until
from logins import case
from scene import must, same
from streaming import VERSION, Streaming

ANSWER_SECONDS = 60
# An error that waits for nothing, at best of some measurements.
PROMPT_SECONDS, TRIES = 1, 3
OFF = '[http]\nlisten = "127.0.0.1:0"\n'
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
    "protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}


class Bridge:
    """A `grantctl mcp` process, spoken to line by line."""

    def __init__(self, broker, account="notes", *words):
        self.errors = open(broker.folder / "bridge.log", "ab")
        self.process = subprocess.Popen(
            [broker.products / "grantctl", "--socket", broker.socket, "mcp", account, *words], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.errors, env=environment(broker.folder))
        self.lines, self.kept = queue.Queue(), []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def send(self, message):
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.process.stdin.write(data + b"\n")
        self.process.stdin.flush()

    def find(self, fits, what):
        """The first message that fits; others are kept."""
        end = time.monotonic() + ANSWER_SECONDS
        while True:
            for message in self.kept:
                if fits(message):
                    self.kept.remove(message)
                    return message
            try:
                message = self.lines.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                message = None
            must(message is not None, f"no {what}; there are {self.kept}")
            self.kept.append(message)

    def answer(self, number):
        return self.find(lambda one: one.get("id") == number and "method" not in one, f"answer to {number}")

    def ask(self, number, method, **params):
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return self.answer(number)

    def begin(self):
        self.send(INITIALIZE)
        answer = self.answer(0)
        must("result" in answer, f"initialize: {answer}")
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def close(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        self.process.kill()
        self.process.wait()
        self.errors.close()


def streaming(scene, off=True):
    """A signed-in account at a server with streams, and a bridge to it."""
    authorization = scene.authorization()
    server = scene.closing.enter_context(contextlib.closing(Streaming(authorization)))
    broker = scene.broker
    if off:
        broker.config.write_text(broker.config.read_text().replace(OFF, ""))
        broker.start_plain()
    else:
        broker.start()
    broker.login(scene.url(server), "notes")
    return authorization, server, broker


def bridge(scene, broker, *words):
    return scene.closing.enter_context(contextlib.closing(Bridge(broker, "notes", *words)))


@case
def bridge_session(scene):
    """Without [http]: a session, answers as events and as JSON, the version's header, and the end of the session."""
    _, server, broker = streaming(scene)
    client = bridge(scene, broker)
    client.begin()
    same(client.ask("a", "tools/list")["result"]["tools"], [{"name": "add"}], "the tools")
    server.sends_events = False
    same(client.ask(7, "tools/call", name="add")["result"]["content"][0]["text"], "add", "the answer in JSON")
    posts = [headers for verb, path, headers, _ in server.requests if verb == "POST" and path == "/mcp" and
             "Mcp-Session-Id" in headers]
    same({headers.get("MCP-Protocol-Version") for headers in posts}, {VERSION}, "the version's header")
    must(all("text/event-stream" in headers["Accept"] for headers in posts), f"Accept: {posts}")
    (session,) = server.sessions
    client.process.stdin.close()
    same(client.process.wait(ANSWER_SECONDS), 0, "the exit status")
    same(server.ended, [session], "the sessions that were ended")
    log = (broker.folder / "bridge.log").read_text()
    must(not any(token in log for token in server.authorization.tokens), "a token is in the log")


@case
def bridge_streams(scene):
    """The server's own stream: its requests and the client's answers, over an end of the stream."""
    _, server, broker = streaming(scene)
    client = bridge(scene, broker)
    client.begin()
    (session,) = server.sessions.values()
    wait_until(lambda: "end" in session, START_SECONDS, "the stream")
    session["queue"].put({"jsonrpc": "2.0", "id": "s1", "method": "roots/list"})
    client.find(lambda one: one.get("method") == "roots/list", "the server's request")
    client.send({"jsonrpc": "2.0", "id": "s1", "result": {"roots": []}})
    wait_until(lambda: any("result" in call for call in server.calls), START_SECONDS, "the client's answer")
    session.pop("end").set()
    wait_until(lambda: "end" in session, START_SECONDS, "the stream comes again")
    lasts = [headers.get("Last-Event-ID") for verb, path, headers, _ in server.requests if verb == "GET" and path == "/mcp"
             and "Mcp-Session-Id" in headers]
    must(lasts[0] is None and lasts[-1] == session["events"][-1][1], f"Last-Event-ID: {lasts}")
    session["queue"].put({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    client.find(lambda one: one.get("method", "").endswith("list_changed"), "the notification")


@case
def bridge_resumption(scene):
    """An answer whose stream ends before it comes by Last-Event-ID, and the call is sent once."""
    _, server, broker = streaming(scene)
    server.has_stream = False
    client = bridge(scene, broker)
    client.begin()
    server.cuts = True
    same(client.ask(1, "tools/call", name="cut")["result"]["content"][0]["text"], "cut", "the answer")
    same(len([call for call in server.calls if call.get("method") == "tools/call"]), 1, "calls")
    client.find(lambda one: one.get("method") == "notifications/message", "the event before")


@case
def bridge_lost_session(scene):
    """A server that forgets the session gets another one with the client's own initialize."""
    _, server, broker = streaming(scene)
    client = bridge(scene, broker)
    client.begin()
    wait_until(lambda: server.calls, START_SECONDS, "the notification")
    server.sessions.clear()
    must("result" in client.ask(1, "tools/list"), "the answer after the session was lost")
    same(len(server.sessions), 1, "sessions")
    same(len([1 for call in server.calls if call.get("method") == "notifications/initialized"]), 2, "initialized")


@case
def bridge_cancellation(scene):
    """A cancelled request reaches the server as such, gets no answer, and does not delay others."""
    _, server, broker = streaming(scene)
    client = bridge(scene, broker)
    client.begin()
    client.send({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "waits"}})
    wait_until(lambda: server.slow, START_SECONDS, "the call begins")
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})
    wait_until(lambda: server.cancelled == [5], START_SECONDS, "the cancellation")
    must("result" in client.ask(6, "tools/list"), "the next answer")
    must(not [one for one in client.kept if one.get("id") == 5], "the cancelled request was answered")


@case
def bridge_bad_input(scene):
    """Lines that are no messages, are too long, or too many get an error of JSON-RPC, and the bridge goes on."""
    authorization, server, broker = streaming(scene)
    client = bridge(scene, broker)
    client.send(b"{not json")
    same(client.answer(None)["error"]["code"], -32700, "the code")
    client.send(b'{"jsonrpc":"2.0","id":1,"method":"x","params":"' + b"a" * (5 << 20) + b'"}')
    must("4 MiB" in client.answer(None)["error"]["message"], "a line that is too long")
    client.begin()
    for number in range(100):
        client.send({"jsonrpc": "2.0", "id": f"n{number}", "method": "tools/call", "params": {"name": "waits"}})
    for number in range(64, 100):
        same(client.answer(f"n{number}")["error"]["data"]["reason"], "overloaded", f"request {number}")
    client.close()


@case
def bridge_without_sign_in(scene):
    """Before the first sign-in each request gets an error with a hint; after it the same process works."""
    authorization = scene.authorization()
    server = scene.closing.enter_context(contextlib.closing(Streaming(authorization)))
    broker = scene.start()
    client = bridge(scene, broker)
    client.send(INITIALIZE)
    error = client.answer(0)["error"]
    same(error["data"]["reason"], "unknown_account", "the reason")
    must("grantctl login" in error["message"], f"the message: {error}")
    broker.login(scene.url(server), "notes")
    client.begin()
    times = []
    while not times or min(times) >= PROMPT_SECONDS and len(times) < TRIES:
        authorization.refreshes.clear()
        authorization.tokens.clear()
        began = time.monotonic()
        error = client.ask(2 * len(times) + 1, "tools/list")["error"]
        times.append(time.monotonic() - began)
        must("grantctl login 127.0.0.1 notes" in error["message"], f"the message: {error}")
        broker.login(scene.url(server), "notes")
        must("result" in client.ask(2 * len(times), "tools/list"), "the answer after the sign-in")
    must(min(times) < PROMPT_SECONDS, f"the error comes after {times} s")


@case
def bridge_restart(scene):
    """A restart of the broker: the same process and session go on, and the call in it is not sent twice."""
    _, server, broker = streaming(scene, off=False)
    client = bridge(scene, broker)
    client.begin()
    must("result" in client.ask(1, "tools/list"), "the answer before")
    broker.end(15)
    client.send({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "later"}})
    time.sleep(0.5)
    broker.start()
    same(client.answer(2)["result"]["content"][0]["text"], "later", "the answer over the restart")
    same(len([call for call in server.calls if call.get("params", {}).get("name") == "later"]), 1, "calls")
    same(len(server.sessions), 1, "sessions")


@case
def sdk_stdio(scene):
    """The SDK's stdio client against the SDK's server through tokens that end, over a restart of the broker."""
    program = python()
    (port,) = free_ports()
    log = scene.folder / "sdk.log"
    server = Program([program, PEERS / "sdk_server.py", port, LIFETIME_SECONDS], log)
    scene.closing.callback(server.kill)
    wait_until(lambda: "running on" in log.read_text(), START_SECONDS, "the SDK's server serves")
    broker = scene.start()
    broker.login(f"http://127.0.0.1:{port}/mcp", "notes")
    client = subprocess.Popen(
        [program, PEERS / "stdio_client.py", str(CALLS), "0.5", broker.products / "grantctl", "--socket", broker.socket, "mcp",
         "notes"], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    scene.closing.callback(client.kill)
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(line.strip() for line in client.stdout), daemon=True)
    reader.start()
    wait_until(lambda: len(lines) > CALLS // 2, 60, "half of the answers")
    broker.end(15)
    broker.start()
    reader.join(60)
    same(lines, ["add"] + [f"sum {number + 1}" for number in range(CALLS)], f"the answers ({client.stderr.read()[-500:]})")


@case
def configured_commands(scene):
    """`configure --stdio` writes the command, also without [http], and takes it out again."""
    _, _, broker = streaming(scene)
    words = {"command": "grantctl", "args": ["mcp", "notes", "--socket", str(broker.socket)]}
    for tool, name, members, entry in (
            ("claude-code", ".claude.json", "mcpServers", {"type": "stdio"} | words),
            ("gemini", ".gemini/settings.json", "mcpServers", words),
            ("cursor", ".cursor/mcp.json", "mcpServers", words),
            ("vscode", ".config/Code/User/mcp.json", "servers", {"type": "stdio"} | words),
            ("zed", ".config/zed/settings.json", "context_servers", words)):
        broker.must("configure", tool, "notes", "--stdio", "--write")
        same(json.loads((broker.folder / name).read_text()), {members: {"notes": entry}}, f"the file of {tool}")
        broker.must("configure", tool, "notes", "--stdio", "--undo")
        must("grantctl" not in (broker.folder / name).read_text(), f"the file of {tool} after --undo")
    broker.must("configure", "codex", "notes", "--stdio", "--write")
    same(tomllib.loads((broker.folder / ".codex/config.toml").read_text()), {"mcp_servers": {"notes": words}}, "codex")
    must("--stdio" in broker.refused("configure", "git", "notes", "git.example.com", "--stdio"), "git takes --stdio")
