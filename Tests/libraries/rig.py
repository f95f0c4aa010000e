"""What the cases run on: an authorization server, the real daemon, a server for tokens, and drivers of the languages."""

import contextlib
import http.server
import json
import os
import queue
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.parse
import urllib.request

from grantd_testing import CommandedDaemon, Program, Wrong, environment, free_ports

ANSWER_SECONDS = 120
LOGIN_SECONDS = 60
PROVIDER, DOWN = "people", "down"
# Each has an account, whose tokens it refuses.
EXAMPLES = ("mail", "python", "js", "go", "c", "swift")
CASES = {}


class Skip(Exception):
    """The case cannot run here."""


class Inapplicable(Exception):
    """The case has no meaning for this language."""


def case(name, *languages):
    """For all languages, or only for some."""
    def register(action):
        action.languages = languages
        CASES[name] = action
        return action
    return register


def must(condition, what):
    if not condition:
        raise Wrong(what)


def need(program):
    """Its path."""
    path = shutil.which(program) or shutil.which(program, path="/usr/bin:/usr/local/bin:/usr/local/go/bin")
    if not path:
        raise Skip(f"{program} is not installed")
    return path


# ---- servers

def certificate(folder):
    """Of a server that is `localhost` and `api.example.com`: cert.pem, key.pem."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,DNS:api.example.com",
         "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)


def secured(socket, folder):
    """A listening socket, with TLS and that certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    # Not at accept: a client that fails would end the server's loop.
    return context.wrap_socket(socket, server_side=True, do_handshake_on_connect=False)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, handler, stage, port=0):
        super().__init__(("127.0.0.1", port), handler)
        self.stage, self.url = stage, f"http://127.0.0.1:{self.server_port}"
        self.begin()

    def begin(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        """A client that hangs up is not an error of the test."""


class SecureServer(Server):
    def __init__(self, handler, stage, folder, port=0):
        self.folder = folder
        super().__init__(handler, stage, port)

    def begin(self):
        self.socket = secured(self.socket, self.folder)
        super().begin()


class Handler(http.server.BaseHTTPRequestHandler):
    """The authorization server (/authorize, /token), and a resource server that refuses tokens on request (/resource)."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def answer(self, status, members, **headers):
        body = (members if isinstance(members, str) else json.dumps(members)).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": len(body), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        parts = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        if parts.path == "/elsewhere":
            self.answer(302, {}, Location=self.server.url.replace("127.0.0.1", "localhost") + "/always-401")
        elif parts.path == "/authorize":
            back = urllib.parse.urlencode({"code": "code", "state": query["state"]})
            self.answer(302, {}, Location=f"{query['redirect_uri']}?{back}")
        else:
            self.resource(b"")

    def do_POST(self):
        length = self.headers.get("Content-Length")
        body = self.rfile.read(int(length)) if length else self.chunks()
        form = dict(urllib.parse.parse_qsl(body.decode()))
        if self.path.startswith("/sts"):
            self.assume_role(form)
            return
        if self.path != "/token":
            self.resource(body)
            return
        if form.get("refresh_token") in self.server.stage.dead:
            self.answer(400, {"error": "invalid_grant", "error_description": "revoked"})
            return
        count = self.server.stage.count()
        more = {} if form["grant_type"] == "client_credentials" else {"refresh_token": f"refresh-{count}"}
        self.answer(200, {"access_token": f"secret-{count}", "token_type": "Bearer", "expires_in": 3600, **more})

    def assume_role(self, form):
        with self.server.stage.lock:
            self.server.stage.seen.append(form["WebIdentityToken"])
        self.answer(200, (
            '<R xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>'
            "<AccessKeyId>AKIAEXAMPLE</AccessKeyId><SecretAccessKey>k</SecretAccessKey><SessionToken>role-session"
            "</SessionToken><Expiration>2100-01-01T00:00:00Z</Expiration></Credentials>"
            "</AssumeRoleWithWebIdentityResult></R>"), **{"Content-Type": "text/xml"})

    def chunks(self):
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def resource(self, body):
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        with self.server.stage.lock:
            self.server.stage.seen.append(token)
            is_good = token and token not in self.server.stage.refused and "always-401" not in self.path
        self.answer(200 if is_good else 401, {"body": body.decode()})


class HeldDaemon(CommandedDaemon):
    """grantd whose listening socket outlives it, as under a socket unit."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.socket))
        self.listener.listen(512)

    def launch(self, files=None, **more):
        self.starts += 1
        start = 'LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=grantd exec "$@" 3<&' + str(self.listener.fileno())
        self.process = Program(
            ["/bin/bash", "-c", start, "grantd", self.products / "grantd", "--user", "--config", self.config, "--state",
             self.state, "--socket", self.socket, *self.options], self.log, env=self.environment,
            pass_fds=[self.listener.fileno()])

    def close(self):
        super().close()
        self.listener.close()


class Stage:
    def __init__(self, programs, folder, languages):
        self.programs, self.folder, self.languages = programs, folder, languages
        self.lock, self.tokens, self.seen, self.refused, self.dead, self.closing = threading.Lock(), 0, [], set(), set(), []
        # One daemon at a time is restarted: it needs the processors.
        self.restarting = threading.Lock()

    def count(self):
        with self.lock:
            self.tokens += 1
            return self.tokens

    def start(self):
        self.server = Server(Handler, self)
        self.closing.append(self.server.server_close)
        self.daemon = self.new_daemon("broker")
        self.sign_in("ended")
        self.end_grant("ended")

    def end_grant(self, account):
        """The provider refuses each refresh token that it has issued."""
        with self.lock:
            self.dead |= {f"refresh-{number}" for number in range(self.tokens + 1)}
        held = json.loads(self.daemon.ctl("call", "token.get", json.dumps({"account": account})).stdout)
        self.daemon.ctl("call", "token.report_rejected", json.dumps({"account": account, "generation": held["generation"]}))
        # The second refusal ends the grant.
        self.daemon.ctl("refresh", account, "--now")

    def new_daemon(self, name):
        folder = self.folder / name
        folder.mkdir()
        secret = folder / "secret"
        secret.write_text("secret")
        secret.chmod(0o600)
        text = ""
        for provider, place in ((PROVIDER, self.server.url), (DOWN, f"http://127.0.0.1:{free_ports()[0]}")):
            text += (
                f'[provider.{provider}]\nkind = "oauth2"\ntoken_endpoint = "{place}/token"\nclient_id = "c"\n'
                f'authorization_endpoint = "{place}/authorize"\nclient_secret_file = "{secret}"\nscopes = ["x"]\n'
                'allow_insecure_http = true\n')
        accounts = {"work": PROVIDER, "off": DOWN} | {f"work-{language}": PROVIDER for language in self.languages}
        accounts |= {f"adapter-{number}": PROVIDER for number in range(1, 8)}
        accounts |= {f"example-{name}": PROVIDER for name in EXAMPLES}
        for account, provider in accounts.items():
            text += f'[account.{account}]\nprovider = "{provider}"\ngrant = "client_credentials"\n'
        made = HeldDaemon(self.programs, folder, free_ports()[0], text)
        self.closing.append(made.close)
        made.start()
        # The first token of an account is an event, for which no case waits.
        for account, provider in accounts.items():
            if provider == PROVIDER:
                must(made.ctl("token", account).returncode == 0, f"{account} gets no token")
        return made

    def open(self, url):
        """As a browser does; redirects are followed."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=LOGIN_SECONDS) as answer:
            return answer.read()

    def sign_in(self, account):
        started = json.loads(self.daemon.ctl(
            "call", "login.start", json.dumps({"provider": PROVIDER, "account": account})).stdout)
        self.open(next(one["url"] for one in started["destinations"] if one["kind"] == "browser"))
        done = self.daemon.ctl("call", "login.wait", json.dumps({"login_id": started["login_id"], "timeout": 50}))
        must(json.loads(done.stdout).get("state") == "completed", f"no login: {done.stdout} {done.stderr}")

    def close(self):
        for action in reversed(self.closing):
            with contextlib.suppress(Exception):
                action()


# ---- drivers

class Driver:
    """A program of a language: a line of JSON for each command, a line of JSON for each answer."""

    def __init__(self, command, folder, **variables):
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment(folder) | {"PATH": os.environ["PATH"], **variables})
        self.lines, self.errors = queue.Queue(), b""
        self.threads = [threading.Thread(target=one, daemon=True) for one in (self.read, self.read_errors)]
        for thread in self.threads:
            thread.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def read_errors(self):
        self.errors = self.process.stderr.read()

    def send(self, **command):
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        self.process.stdin.flush()

    def answer(self, seconds=ANSWER_SECONDS):
        try:
            line = self.lines.get(timeout=seconds)
        except queue.Empty:
            raise Wrong(f"the driver does not answer within {seconds} s") from None
        if line is None:
            self.process.wait(ANSWER_SECONDS)
            self.threads[1].join(ANSWER_SECONDS)
            raise Wrong(f"the driver ended with {self.process.returncode}: {self.errors[-1500:].decode(errors='replace')}")
        answer = json.loads(line)
        if "skip" in answer:
            raise Inapplicable(answer["skip"])
        return answer

    def ask(self, **command):
        self.send(**command)
        return self.answer()

    def ok(self, **command):
        answer = self.ask(**command)
        must("ok" in answer, f"{command}: {answer}")
        return answer["ok"]

    def fails(self, reason, **command):
        """The error, of that reason and of the reason's type."""
        answer = self.ask(**command)
        error = answer.get("error")
        must(error and error["reason"] == reason, f"{command}: {answer}, not {reason}")
        return error

    def resident(self):
        """Bytes of memory (proc_pid_status(5))."""
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))

    def close(self):
        """Its exit status and its standard error."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Wrong("the driver does not end") from None
        self.threads[1].join(ANSWER_SECONDS)
        return self.process.returncode, self.errors.decode(errors="replace")


@contextlib.contextmanager
def driving(stage, language, socket=None, ends_well=True, **variables):
    """A driver at that socket, by default the daemon's. At its end it has no leak and no complaint."""
    language.need()
    named = {"GRANTD_SOCKET": str(socket or stage.daemon.socket)} if socket is not False else {}
    driver = Driver(language.command(stage), stage.folder, **named, **variables)
    try:
        yield driver
    except BaseException:
        driver.process.kill()
        raise
    status, errors = driver.close()
    must(not ends_well or (status == 0 and not errors), f"the driver ended with {status}: {errors[-1500:]}")


def wait_until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        must(time.monotonic() < end, f"not within {seconds} s: {what}")
        time.sleep(0.01)
