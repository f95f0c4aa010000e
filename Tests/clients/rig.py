"""What a case runs on: the demo provider, one grantd, a folder of helpers, a certificate, and servers that check tokens."""

import base64
import contextlib
import dataclasses
import http.server
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
import typing

from grantd_testing import BlockingDemo, CommandedDaemon, Wrong, environment, free_ports, wait_until

COMMAND_SECONDS = 120
LOGIN_SECONDS = 90
BODY_BYTES = 64 << 20
ACCESS_SECONDS = 300
PAUSE_SECONDS = 0.05
# In which a helper refuses bad input.
PROMPT_SECONDS = float(os.environ.get("GRANTD_TEST_SLOWNESS") or 1)
MORE_MEASUREMENTS = 2
HOST = "localhost"
# Of docs/recipes: they are names in the certificate (tunnel.py).
PAGE_HOSTS = (
    "github.com", "gitlab.com", "bitbucket.org", "dev.azure.com", "kubernetes.example.com", "sts.amazonaws.com",
    "sts.eu-west-1.amazonaws.com", "sts.googleapis.com", "storage.googleapis.com", "cloudresourcemanager.googleapis.com",
    "login.microsoftonline.com", "registry.example.com", "pypi.example.com", "crates.example.com", "goproxy.example.com",
    "api.example.com", "files.example.com", "www.googleapis.com")
# ROBOT is an account whose access tokens are JWTs.
PROVIDER, ROBOT = "demo", "robot"
HEADLESS = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "demo" / "headless-browser"


class Skip(Exception):
    """The client is not here."""


CASES = {}


def case(name, *programs):
    """A case, and the programs without which it is skipped."""
    def register(action):
        CASES[name] = (action, programs)
        return action
    return register


def must(condition, what):
    if not condition:
        raise Wrong(what)


def has(text, word):
    if word not in text:
        raise Wrong(f"{word!r} is not in {text[-1500:]!r}")


def hasnt(text, word):
    if word in text:
        raise Wrong(f"{word!r} is in {text[-1500:]!r}")


ROOT = pathlib.Path(__file__).resolve().parents[2]
# What `scripts/deps --tests` installs from PyPI: Google's and Azure's libraries, uv, and a newer Go than Debian's.
PYPI = ROOT / ".build" / "python" / "bin"


def find(program):
    """Also where people install what their distribution does not have."""
    if program == "go" and (PYPI / program).exists():
        return str(PYPI / program)
    places = [os.environ.get("PATH", ""), "/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/go/bin", str(PYPI)]
    return shutil.which(program, path=os.pathsep.join(places))


def need(program):
    path = find(program)
    if not path:
        raise Skip(f"{program} is not installed")
    return path


@dataclasses.dataclass
class Ran:
    status: int
    out: str
    err: str
    seconds: float
    # Runs the same once more, for its seconds.
    again: typing.Callable | None = dataclasses.field(default=None, repr=False)

    @property
    def text(self):
        return self.out + self.err

    @property
    def is_prompt(self):
        """At best of some measurements: the machine may have paused during one."""
        return self.seconds < PROMPT_SECONDS or bool(self.again) and any(
            self.again() < PROMPT_SECONDS for _ in range(MORE_MEASUREMENTS))

    def ok(self):
        if self.status != 0:
            raise Wrong(f"status {self.status}: {self.text[-1500:]}")
        return self

    def fails(self):
        if self.status == 0:
            raise Wrong(f"it did not fail: {self.text[-800:]}")
        return self


class Stage:
    def __init__(self, programs, folder):
        self.programs, self.folder = programs, folder
        self.revoked, self.closing = set(), []
        self.home = folder / "home"
        self.bin, self.keyring = folder / "bin", folder / "keyring"
        for path in (self.home, self.bin, self.keyring):
            path.mkdir()
        for name in ("git-credential-grantd", "docker-credential-grantd", "cargo-credential-grantd",
                     "terraform-credentials-grantd", "grantctl"):
            (self.bin / name).symlink_to(programs / "grantctl")
        (self.bin / "grantctl-front").symlink_to(programs / "grantctl-front")
        (self.keyring / "keyring").symlink_to(programs / "grantctl")
        self.mapping = self.home / ".config" / "grantd" / "helper.toml"
        self.mapping.parent.mkdir(parents=True)
        self.certificate()

    def start(self):
        self.demo = BlockingDemo(self.programs, self.folder, "--access-ttl", ACCESS_SECONDS)
        self.closing.append(self.demo)
        section = (f'[provider.{PROVIDER}]\nkind = "oidc"\nissuer = "{self.demo.issuer}"\nclient_id = "demo"\n'
                   'scopes = ["openid", "email", "offline_access"]\nallow_insecure_http = true\n')
        self.issuer = self.serve(Issuer, tls=False)
        secret = self.folder / "secret"
        secret.write_text("secret")
        secret.chmod(0o600)
        self.robot = (
            f'[provider.issuer]\nkind = "oauth2"\ntoken_endpoint = "{self.issuer.url}/token"\nclient_id = "c"\n'
            f'authorization_endpoint = "{self.issuer.url}/none"\nclient_secret_file = "{secret}"\nscopes = ["x"]\n'
            f'allow_insecure_http = true\n[account.{ROBOT}]\nprovider = "issuer"\ngrant = "client_credentials"\n')
        self.daemon = CommandedDaemon(self.programs, self.folder, free_ports()[0], section + self.robot)
        self.closing.append(self.daemon)
        self.daemon.start()
        self.account = self.count = 0

    def begin(self):
        """An account of the case's own: what a caller may report of one is limited."""
        self.count += 1
        self.account = f"work-{self.count}"
        self.sign_in()
        self.map()

    def rename(self, account):
        """The case's account is one of that name."""
        self.daemon.ctl("logout", self.account)
        self.account = account
        self.sign_in()
        self.map()

    @contextlib.contextmanager
    def another_home(self, name):
        """With nothing of other cases in it."""
        before = self.home, self.mapping
        self.home = self.folder / "homes" / name
        self.mapping = self.home / self.mapping.relative_to(before[0])
        self.mapping.parent.mkdir(parents=True)
        try:
            yield
        finally:
            self.home, self.mapping = before

    def end(self):
        for account in self.daemon.json("list")["accounts"]:
            if account["account"] != ROBOT:
                self.daemon.ctl("logout", account["account"])

    def close(self):
        for one in reversed(self.closing):
            with contextlib.suppress(Exception):
                one.close()

    # ---- accounts

    def sign_in(self, account=None):
        account = account or self.account
        log = self.folder / "login.log"
        with open(log, "w+") as output:
            process = subprocess.Popen(
                [self.programs / "grantctl", "--socket", self.daemon.socket, "login", PROVIDER, account, "--no-browser"],
                stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environment(self.folder))
        try:
            def address():
                return next((word for word in log.read_text().split() if "/go/" in word), None)
            url = wait_until(address, LOGIN_SECONDS, "an address to sign in at", PAUSE_SECONDS)
            subprocess.run([sys.executable, HEADLESS, url], check=True, capture_output=True, timeout=LOGIN_SECONDS)
            must(process.wait(LOGIN_SECONDS) == 0, f"the login failed: {log.read_text()}")
        finally:
            process.kill()

    def token(self, account=None):
        return self.daemon.token(account or self.account)

    def is_alive(self, token):
        """As a resource server finds out."""
        if token in self.issuer.seen:
            return token not in self.revoked
        return token and token not in self.revoked and self.facts(token).get("live") is True

    def report(self, account):
        """The token of now is refused: the account needs another."""
        self.renew_budget()
        generation = self.daemon.json("show", account)["generation"]
        self.daemon.ctl("call", "token.report_rejected", json.dumps({"account": account, "generation": generation}))

    def facts(self, token):
        return self.demo.control("token", token=token)

    def renew_budget(self):
        """A user may have three tokens of an account replaced without a pause, which a run of all cases needs more often.
        The count is in the broker's memory."""
        self.daemon.end(signal.SIGTERM)
        self.daemon.start()

    def revoke(self):
        """The token of now is refused by all servers, and grantd does not know."""
        self.renew_budget()
        self.revoked.add(self.token())

    @contextlib.contextmanager
    def ended(self):
        """The grant has ended, until a person signs in again."""
        self.demo.control("revoke_user", user="alice")
        # The old token is handed out as long as nobody says that it is refused.
        self.report(self.account)
        wait_until(lambda: self.daemon.ctl("token", self.account).returncode == 3, LOGIN_SECONDS, "login_required", PAUSE_SECONDS)
        try:
            yield f"grantctl login {PROVIDER} {self.account}"
        finally:
            self.sign_in()

    # ---- files and programs

    def map(self, *places, account=None, **keys):
        entries, account = [], account or self.account
        for place in places:
            lines = [f'[[host]]\nname = "{place}"\naccount = "{account}"']
            entries.append("\n".join([*lines, *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]))
        self.mapping.write_text("\n".join(entries) + "\n")

    def file(self, name, text):
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def environment(self, **more):
        path = os.pathsep.join([str(self.bin), "/usr/local/bin", "/usr/bin", "/bin"])
        return environment(self.folder) | {
            "HOME": str(self.home), "PATH": path, "GRANTD_SOCKET": str(self.daemon.socket), "LC_ALL": "C.UTF-8",
            "SSL_CERT_FILE": str(self.ca)} | more

    def run(self, *command, text=None, seconds=COMMAND_SECONDS, cwd=None, env=None, **more):
        begun = time.monotonic()
        text = text.encode() if isinstance(text, str) else text
        given = {"stdin": subprocess.DEVNULL} if text is None else {"input": text}
        try:
            done = subprocess.run(
                [str(word) for word in command], capture_output=True, timeout=seconds, cwd=cwd or self.home,
                env=self.environment(**more) if env is None else env, **given)
        except subprocess.TimeoutExpired as error:
            raise Wrong(f"{command[0]} has not ended after {seconds} s: {error.stdout} {error.stderr}") from error
        return Ran(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"),
                   time.monotonic() - begun,
                   lambda: self.run(*command, text=text, seconds=seconds, cwd=cwd, env=env, **more).seconds)

    def helper(self, name, *arguments, text="", **more):
        return self.run(self.bin / "grantctl", "helper", name, *arguments, text=text, **more)

    def certificate(self):
        """An authority, and a certificate of it for `localhost`."""
        self.ca, self.key, self.chain = (self.folder / name for name in ("ca.pem", "key.pem", "chain.pem"))
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
        authority = self.folder / "ca.key"
        names = ",".join(f"DNS:{name}" for name in (HOST, *PAGE_HOSTS))
        for arguments in (
                ["-subj", "/CN=test authority", "-addext", "basicConstraints=critical,CA:TRUE",
                 "-addext", "keyUsage=critical,keyCertSign", "-keyout", authority, "-out", self.ca],
                ["-CA", self.ca, "-CAkey", authority, "-subj", f"/CN={HOST}", "-addext", "basicConstraints=CA:FALSE",
                 "-addext", f"subjectAltName={names},IP:127.0.0.1", "-addext", "extendedKeyUsage=serverAuth",
                 "-keyout", self.key, "-out", self.chain]):
            subprocess.run(["openssl", "req", "-x509", *key, *arguments], check=True, capture_output=True)

    def serve(self, handler, tls=True):
        server = Server(self, handler, tls)
        self.closing.append(server)
        return server


class Server(http.server.ThreadingHTTPServer):
    """On a port of loopback, with TLS. `handler` is a subclass of Handler."""

    daemon_threads = True

    def __init__(self, stage, handler, tls):
        super().__init__(("127.0.0.1", 0), handler)
        self.stage, self.seen = stage, []
        self.place = f"{HOST}:{self.server_port}"
        self.url = f"{'https' if tls else 'http'}://{self.place}"
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(stage.chain, stage.key)
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        """Clients that hang up are no news."""

    def close(self):
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    @property
    def stage(self):
        return self.server.stage

    def body(self):
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(min(int(self.headers.get("Content-Length") or 0), BODY_BYTES))

    def basic(self):
        """User and password of the request, or two Nones."""
        scheme, _, value = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return None, None
        user, _, password = base64.b64decode(value).decode().partition(":")
        return user, password

    def bearer(self):
        scheme, _, value = self.headers.get("Authorization", "").partition(" ")
        return value if scheme.lower() == "bearer" else None

    def reply(self, status, body=b"", kind="text/plain", **headers):
        body = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def json(self, value, status=200, **headers):
        self.reply(status, json.dumps(value), "application/json", **headers)


class Issuer(Handler):
    """An authorization server whose access tokens have the form of JWTs."""

    def do_POST(self):
        self.body()
        now = int(time.time())
        claims = {"n": len(self.server.seen), "sub": ROBOT, "iat": now, "exp": now + ACCESS_SECONDS}
        part = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
        token = f"eyJhbGciOiJub25lIn0.{part}.c2ln"
        self.server.seen.append(token)
        self.json({"access_token": token, "token_type": "Bearer", "expires_in": ACCESS_SECONDS})
