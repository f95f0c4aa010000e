"""Real clients: of the token endpoint, and of what is forwarded."""

import json
import os
import pathlib
import pty
import select
import subprocess
import threading
import time
import urllib.parse

import upstream
from grantd_testing import Program, Wrong, free_ports, wait_until
from kafka import Kafka
from mail import Mailbox
from rig import case, find, has, must

WAIT_SECONDS = 90
PAUSE_SECONDS = 0.05
PUSH_BYTES = 3 << 20


def guarded(scene, name, body="up 1\n", kind="text/plain"):
    """What only a live token gets; the tokens."""
    return scene.upstream.route(name, lambda exchange: exchange.refused() or exchange.reply(200, body,
                                                                                            [("Content-Type", kind)]))


def none_refused(scene, name):
    refused = [one for one in scene.upstream.refused if one[0].startswith(f"/{name}")]
    must(not refused, f"{len(refused)} requests were refused: {refused[:2]}")


@case("token.curl", "curl")
def curl(scene):
    for words in (["-u", "work:x", "-d", "grant_type=client_credentials"],
                  ["-d", "grant_type=refresh_token", "-d", "refresh_token=metrics", "-H", "Transfer-Encoding: chunked"],
                  ["-d", "grant_type=client_credentials", "-d", "client_id=narrow", "-H", "Expect: 100-continue"]):
        done = scene.run("curl", "-q", "-sS", "-f", *words, f"{scene.broker.url}/token").ok()
        must(json.loads(done.out)["access_token"] in scene.provider.of("work"), done.out)


@case("token.prometheus", "prometheus")
def prometheus(scene):
    seen = guarded(scene, "metrics")
    config = scene.file("prometheus.yml", f"""global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: test
    metrics_path: /metrics
    oauth2:
      client_id: metrics
      client_secret: anything
      token_url: {scene.broker.url}/token
      scopes: [a]
      endpoint_params: {{audience: x}}
    static_configs: [{{targets: ["{scene.upstream.place}"]}}]
""")
    (port,) = free_ports()
    program = Program(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={scene.folder / 'tsdb'}",
                       f"--web.listen-address=127.0.0.1:{port}"], scene.folder / "prometheus.log",
                      env=scene.environment())
    try:
        wait_until(lambda: len(seen) > 3, WAIT_SECONDS, "scrapes", PAUSE_SECONDS)
    finally:
        program.kill()
    none_refused(scene, "metrics")
    must({scene.provider.tokens[one.token].scope for one in seen} == {"a"}, "another scope")


def rclone_configuration(scene, handle):
    token = json.dumps({"access_token": "x", "refresh_token": handle, "expiry": "2020-01-01T00:00:00Z"})
    return scene.file(f"rclone-{handle}.conf", f"""[drive]
type = hidrive
endpoint = {scene.upstream.url}/drive
client_id = any
client_secret = any
auth_url = {scene.broker.url}/none
token_url = {scene.broker.url}/token
token = {token}
""")


@case("token.rclone", "rclone")
def rclone(scene):
    seen = guarded(scene, "drive", json.dumps({"id": "1", "members": [], "nmembers": 0, "type": "dir"}),
                   "application/json")
    path = rclone_configuration(scene, "work")
    scene.run("rclone", "--config", path, "lsd", "drive:").ok()
    must(seen and seen[-1].token in scene.provider.of("work"), f"{seen}")
    none_refused(scene, "drive")
    (line,) = [line for line in path.read_text().splitlines() if line.startswith("token = ")]
    must(json.loads(line[8:])["refresh_token"] == "work", f"the handle is gone: {line}")
    done = scene.run("rclone", "--config", rclone_configuration(scene, "unheard-of"), "--low-level-retries", "1",
                     "lsd", "drive:")
    has(done.fails().err, "invalid_client")


GOOGLE = """
import google.auth, google.auth.transport.requests as r
c, _ = google.auth.default(scopes=["a"])
c.refresh(r.Request())
print(type(c).__name__, c.token)
"""


@case("token.google_auth")
def google_auth(scene):
    python = scene.python("google.auth", "requests")

    def run(handle):
        path = scene.file("adc.json", json.dumps({
            "type": "external_account_authorized_user", "client_id": "x", "client_secret": "y", "refresh_token": handle,
            "audience": "//iam.googleapis.com/locations/global/workforcePools/p/providers/q",
            "token_url": f"{scene.broker.url}/token", "token_info_url": f"{scene.broker.url}/introspect"}))
        return scene.run(python, "-c", GOOGLE, GOOGLE_APPLICATION_CREDENTIALS=str(path), GOOGLE_CLOUD_PROJECT="p")
    kind, token = run("work").ok().out.split()
    must("ExternalAccountAuthorizedUser" in kind or kind == "Credentials", kind)
    must(token in scene.provider.of("work"), token)
    account = scene.account()
    scene.provider.kill(account)
    scene.provider.faults[account] = "invalid_grant"
    try:
        scene.broker.lost(account)
        done = run(account).fails()
        has(done.err, "invalid_grant")
        has(done.err, f"grantctl login p {account}")
    finally:
        del scene.provider.faults[account]


KAFKA = """
import confluent_kafka, sys
place, url = sys.argv[1:]
client = confluent_kafka.Producer({
    "bootstrap.servers": place, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "robot", "sasl.oauthbearer.client.secret": "any",
    "sasl.oauthbearer.token.endpoint.url": url, "sasl.oauthbearer.scope": "a", "error_cb": print})
for _ in range(80):
    client.poll(1.0)
"""


@case("token.kafka")
def kafka(scene):
    server = Kafka(scene.provider)
    try:
        python = scene.python("confluent_kafka")
        program = subprocess.Popen([python, "-c", KAFKA, server.place, f"{scene.broker.url}/token"],
                                   stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, env=scene.environment(), text=True)
        try:
            wait_until(lambda: server.seen or program.poll() is not None, WAIT_SECONDS, "a sign-in", PAUSE_SECONDS)
        finally:
            program.kill()
            said = program.communicate()[0]
        must(server.seen, f"nothing came: {said[-600:]}")
        must(server.seen[0] in scene.provider.of("jwt") and scene.provider.is_alive(server.seen[0]),
             f"{server.seen} {said[-600:]}")
    finally:
        server.close()


@case("token.aerc", "aerc")
def aerc(scene):
    """It starts on a terminal of its own, and asks for a token at each connection."""
    server = Mailbox(scene.provider, upstream.tls(scene.chain, scene.key))
    query = urllib.parse.urlencode({"client_id": "any", "client_secret": "any", "scope": "a",
                                    "token_endpoint": f"{scene.broker.url}/token"})
    path = scene.file(".config/aerc/accounts.conf",
                      f"[work]\nsource = imaps+oauthbearer://ada%40example.com:work@localhost:"
                      f"{server.port}?{query}\nfrom = <ada@example.com>\n")
    path.chmod(0o600)
    terminal, other = pty.openpty()
    program = subprocess.Popen(
        ["sh", "-c", 'exec "$@" <>"$0" >&0 2>&0', os.ttyname(other), find("aerc")], start_new_session=True,
        cwd=scene.home,
        env=scene.environment(TERM="xterm", SSL_CERT_FILE=str(scene.ca), XDG_CONFIG_HOME=str(scene.home / ".config")))
    shown, end = b"", time.monotonic() + WAIT_SECONDS
    try:
        while not server.seen and time.monotonic() < end:
            if select.select([terminal], [], [], PAUSE_SECONDS)[0]:
                shown += os.read(terminal, 1 << 16)
    finally:
        program.kill()
        program.wait()
        os.close(terminal)
        os.close(other)
        server.close()
    must(server.seen, f"aerc did not sign in: {shown[-800:]}")
    must(server.seen[0] in scene.provider.of("work"), f"{server.seen}")


# ---- git

def backend(scene, exchange):
    """git http-backend, as a server of repositories runs it (RFC 3875)."""
    if exchange.refused():
        return
    path, _, query = exchange.target.partition("?")
    names = {"REQUEST_METHOD": exchange.method, "QUERY_STRING": query, "PATH_INFO": path.removeprefix("/git"),
             "GIT_PROJECT_ROOT": str(scene.folder / "repositories"), "GIT_HTTP_EXPORT_ALL": "1", "REMOTE_USER": "ada",
             "CONTENT_TYPE": exchange.get("content-type", ""), "GIT_PROTOCOL": exchange.get("git-protocol", ""),
             "HTTP_CONTENT_ENCODING": exchange.get("content-encoding", "")}
    process = subprocess.Popen(["git", "http-backend"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, env=scene.environment(**names))

    def feed():
        with process.stdin:
            for piece in exchange.pieces():
                process.stdin.write(piece)
    feeder = threading.Thread(target=feed)
    feeder.start()
    out = process.stdout.read()
    process.wait()
    feeder.join()
    head, _, body = out.partition(b"\r\n\r\n")
    fields = [tuple(line.split(": ", 1)) for line in head.decode().split("\r\n")]
    status = next((int(value.split()[0]) for name, value in fields if name == "Status"), 200)
    exchange.head(status, [*(field for field in fields if field[0] != "Status"), ("Transfer-Encoding", "chunked")])
    for at in range(0, len(body), 10000):
        exchange.chunk(body[at:at + 10000])
    exchange.send(b"0\r\n\r\n")


@case("forward.git", "git")
def git(scene):
    """clone and push by insteadOf, of small things and of large ones, which git sends in chunks."""
    account, home = scene.account(), scene.home
    scene.upstream.route("git", lambda exchange: backend(scene, exchange))
    root = scene.folder / "repositories" / "r.git"
    scene.run("git", "init", "-q", "--bare", "-b", "main", root).ok()
    scene.run("git", "-C", root, "config", "http.receivepack", "true").ok()

    def run(*words, cwd=home):
        return scene.run("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c",
                         f"url.{scene.broker.url}/forward/{account}/git/"
                         ".insteadOf=https://git.example.com/", *words, cwd=cwd, GIT_TERMINAL_PROMPT="0",
                         GIT_CONFIG_NOSYSTEM="1")
    run("clone", "-q", "https://git.example.com/r.git", "work").ok()
    for number, size in enumerate((10, PUSH_BYTES)):
        (home / "work" / "file").write_bytes(os.urandom(size))
        run("add", "file", cwd=home / "work").ok()
        run("commit", "-q", "-m", f"{number}", cwd=home / "work").ok()
        run("push", "-q", "origin", "HEAD:main", cwd=home / "work").ok()
        scene.provider.kill(account)
    run("clone", "-q", "https://git.example.com/r.git", "again").ok()
    must((home / "again" / "file").stat().st_size == PUSH_BYTES, "another file")
    run("ls-remote", "https://git.example.com/none.git").fails()


# ---- MCP

SERVER = pathlib.Path(__file__).resolve().parents[2] / "clients" / "mcp_server.py"
CLIENT = pathlib.Path(__file__).resolve().parents[1] / "mcp_client.py"
CALLS = 12


@case("forward.mcp")
def mcp(scene):
    """A session of many calls, in which the token ends three times: none of them fails."""
    python, account, log = scene.python("mcp", "uvicorn"), scene.account(), scene.folder / "mcp.log"
    (port,) = free_ports()
    server = Program([python, SERVER, port, scene.provider.url], log, env=scene.environment())
    try:
        with scene.another(scene.section("mcp", f'api_base = "http://127.0.0.1:{port}"')) as broker:
            broker.imported("mcp", account)
            wait_until(lambda: "running" in log.read_text() or server.poll() is not None, WAIT_SECONDS, "the server runs",
                       PAUSE_SECONDS)
            client = subprocess.Popen(
                [python, CLIENT, f"{broker.url}/forward/{account}/mcp", str(CALLS)], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=scene.environment())
            try:
                for number in range(CALLS):
                    if number % 4 == 3:
                        scene.provider.kill(account)
                    client.stdin.write("\n")
                    client.stdin.flush()
                    line = client.stdout.readline()
                    if line != f"sum {number + 1}\n":
                        client.kill()
                        raise Wrong(f"call {number}: {line} {client.stdout.read()[-1200:]}")
            finally:
                client.kill()
                client.communicate()
    finally:
        server.kill()
    must(log.read_text().count("REFUSED") >= 3, f"the tokens did not end: {log.read_text()[-500:]}")
