"""What a case runs on: a broker with its HTTP listener, an issuer, and programs in a home folder of their own."""

import contextlib
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse

from grantd_testing import (
    BlockingClient, CommandedDaemon, Program, Refused, Wrong, environment, free_ports, redirected, wait_until)
from issuer import CLIENT, Issuer

COMMAND_SECONDS = 120
LOGIN_SECONDS = 60
START_SECONDS = 60
PAUSE_SECONDS = 0.02
HOST = "localhost"
# Of the system's broker: users with rules.
USER, OTHER = 4711, 4712

CASES = {}


class Skip(Exception):
    """This machine cannot run the case."""


def case(name):
    def register(action):
        CASES[name] = action
        return action
    return register


def must(condition, what):
    if not condition:
        raise Wrong(what)


def same(found, wanted, what):
    if found != wanted:
        raise Wrong(f"{what} is {found!r}, not {wanted!r}")


def has(text, word):
    if word not in text:
        raise Wrong(f"{word!r} is not in {text[-1500:]!r}")


class Broker(CommandedDaemon):
    def __init__(self, programs, folder, instance="user"):
        super().__init__(programs, folder, free_ports()[0], '[http]\nlisten = "127.0.0.1:0"\n')
        self.instance, self.address = instance, None

    def start(self):
        words = ("serving HTTP", "127.0.0.1:")
        before = len(self.lines(*words))
        super().start()
        wait_until(lambda: len(self.lines(*words)) > before, START_SECONDS, "the listener serves")
        self.address = int(re.search(r"127\.0\.0\.1:(\d+)", self.lines(*words)[-1])[1])

    def add(self, text):
        with open(self.config, "a") as file:
            file.write(text)

    def grantctl(self, user):
        """The program; a copy for another user, who may not reach the folder of the build."""
        program = self.products / "grantctl"
        if user is not None:
            copied = self.folder / "grantctl-of-all"
            if not copied.exists():
                shutil.copy(program, copied)
                copied.chmod(0o755)
            return copied
        return program

    def run(self, *words, **more):
        return subprocess.run([self.grantctl(more.get("user")), "--socket", self.socket, *map(str, words)],
                              capture_output=True, text=True, timeout=COMMAND_SECONDS, cwd="/",
                              env=environment(self.folder), **more)

    def must(self, *words, **more):
        done = self.run(*words, **more)
        must(done.returncode == 0, f"grantctl {' '.join(map(str, words))}: {done.stderr}")
        return done.stdout

    def refused(self, *words, **more):
        """The standard error of a command that must fail."""
        done = self.run(*words, **more)
        must(done.returncode != 0, f"grantctl {' '.join(map(str, words))} succeeded: {done.stdout}")
        return done.stderr

    def call(self, method, **params):
        client = BlockingClient(self.socket)
        with contextlib.closing(client.socket):
            return client.call(method, **params)

    def fails(self, reason, method, **params):
        """The error of a call that must fail for this reason."""
        try:
            answer = self.call(method, **params)
        except Refused as error:
            same(error.reason, reason, f"the reason of {error}")
            return f"{error} {error.data.get('hint')}"
        raise Wrong(f"{method} {params} succeeded: {answer}")

    def login(self, *words):
        """`grantctl login … --no-browser`, with a browser that follows the provider's redirects; its output."""
        log = self.folder / "login.log"
        log.unlink(missing_ok=True)
        program = Program([self.products / "grantctl", "--socket", self.socket, "login", *words, "--no-browser"], log,
                          env=environment(self.folder))
        try:
            def url():
                return log.exists() and re.search(r"http://127\.0\.0\.1:\d+/go/\S+", log.read_text(errors="replace"))
            wait_until(lambda: url() or program.status is not None, LOGIN_SECONDS, "the URL", PAUSE_SECONDS)
            if program.status is None:
                self.visit(redirected(redirected(url()[0])))
            wait_until(lambda: program.status is not None, LOGIN_SECONDS, "the login ends", PAUSE_SECONDS)
            return program.status, log.read_text(errors="replace")
        finally:
            program.kill()

    @staticmethod
    def visit(url):
        parts = urllib.parse.urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=COMMAND_SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", f"{parts.path}?{parts.query}", headers={"Accept": "text/html"})
            connection.getresponse().read()

    def http(self, method, path, form=None, headers=None):
        """Status, fields and body of a request to the listener."""
        connection = http.client.HTTPConnection("127.0.0.1", self.address, timeout=COMMAND_SECONDS)
        with contextlib.closing(connection):
            fields = {"Content-Type": "application/x-www-form-urlencoded"} if form else {}
            connection.request(method, path, urllib.parse.urlencode(form) if form else None, fields | (headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()


class Scene:
    def __init__(self, programs, folder):
        self.programs, self.folder, self.closing = programs, folder, contextlib.ExitStack()
        folder.chmod(0o755)
        self.home, self.bin = folder / "home", folder / "bin"
        self.home.mkdir()
        self.bin.mkdir()
        (self.bin / "grantctl").symlink_to(programs / "grantctl")
        self.issuer = self.closed(Issuer())
        self.broker = self.closed(Broker(programs, folder))

    def closed(self, one):
        return self.closing.enter_context(contextlib.closing(one))

    def close(self):
        self.closing.close()

    # ---- configuration

    def provider(self, name="p", *lines, scopes='["openid", "email", "offline_access"]', kind="oidc"):
        """A provider of the issuer's, in the configuration as well."""
        made = self.issuer.provider(name)
        endpoints = [f'issuer = "{made.issuer}"'] if kind == "oidc" else [
            f'authorization_endpoint = "{made.issuer}/authorize"', f'token_endpoint = "{made.issuer}/token"']
        self.broker.add("\n".join([f"[provider.{name}]", f'kind = "{kind}"', *endpoints, f'client_id = "{CLIENT}"',
                                   f"scopes = {scopes}", *lines, ""]))
        return made

    def start(self, *accounts, sections=""):
        """Starts the broker, and signs these accounts in at the first provider."""
        self.broker.add(sections)
        self.broker.start()
        for account in accounts:
            self.signed_in(account)

    def signed_in(self, account, provider="p", *words):
        status, text = self.broker.login(provider, account, *words)
        must(status == 0, f"the login failed: {text}")

    # ---- programs

    def environment(self, **more):
        path = os.pathsep.join([str(self.bin), "/usr/local/bin", "/usr/bin", "/bin"])
        return environment(self.folder) | {
            "HOME": str(self.home), "PATH": path, "GRANTD_SOCKET": str(self.broker.socket), "NO_PROXY": "*",
            "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"} | more

    def run(self, *command, text=None, **more):
        given = {"stdin": subprocess.DEVNULL} if text is None else {"input": text}
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=self.home,
                              timeout=COMMAND_SECONDS, env=self.environment(**more), **given)
        must(done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}")
        return done.stdout

    def python(self, code, *modules, **more):
        """Runs code with libraries of PyPI."""
        for module in modules:
            test = f"import importlib.util as u, sys; sys.exit(not u.find_spec({module!r}))"
            if subprocess.run([sys.executable, "-c", test], capture_output=True).returncode:
                raise Skip(f"Python has no {module}: scripts/deps --tests installs it")
        return self.run(sys.executable, "-c", code, **more)

    def file(self, name, value):
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    def certificate(self):
        """An authority, and a certificate of it for loopback."""
        self.ca, self.key, self.chain = (self.folder / name for name in ("ca.pem", "key.pem", "chain.pem"))
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
        for words in (
                ["-subj", "/CN=test authority", "-addext", "basicConstraints=critical,CA:TRUE",
                 "-addext", "keyUsage=critical,keyCertSign", "-keyout", self.folder / "ca.key", "-out", self.ca],
                ["-CA", self.ca, "-CAkey", self.folder / "ca.key", "-subj", f"/CN={HOST}", "-addext",
                 f"subjectAltName=DNS:{HOST},IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE",
                 "-addext", "extendedKeyUsage=serverAuth", "-keyout", self.key, "-out", self.chain]):
            subprocess.run(["openssl", "req", "-x509", *key, *words], check=True, capture_output=True)
