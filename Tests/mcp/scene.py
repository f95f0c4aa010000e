"""A broker with its HTTP listener, a user's browser, and pairs of servers for each case."""

import contextlib
import http.client
import json
import re
import subprocess
import urllib.parse

from grantd_testing import CommandedDaemon, Program, Wrong, environment, free_ports, redirected, wait_until
from servers import Authorization, Resource

COMMAND_SECONDS = 120
LOGIN_SECONDS = 60
START_SECONDS = 90
PAUSE_SECONDS = 0.02


def must(condition, what):
    if not condition:
        raise Wrong(what)


def same(found, wanted, what):
    if found != wanted:
        raise Wrong(f"{what} is {found!r}, not {wanted!r}")


class Skip(Exception):
    """This machine cannot run the case."""


class Broker(CommandedDaemon):
    def __init__(self, programs, folder, sections=""):
        super().__init__(programs, folder, free_ports()[0], f'[http]\nlisten = "127.0.0.1:0"\n{sections}')
        self.address = None

    def start(self):
        words = ("serving HTTP", "127.0.0.1:")
        before = len(self.lines(*words))
        super().start()
        wait_until(lambda: len(self.lines(*words)) > before, START_SECONDS, "the listener serves")
        self.address = int(re.search(r"127\.0\.0\.1:(\d+)", self.lines(*words)[-1])[1])

    def start_plain(self):
        """Without the listener."""
        super().start()

    def ctl(self, *arguments):
        return subprocess.run(
            [self.products / "grantctl", "--socket", self.socket, *arguments], capture_output=True, text=True,
            timeout=COMMAND_SECONDS, env=environment(self.folder))

    def must(self, *words):
        done = self.ctl(*words)
        must(done.returncode == 0, f"grantctl {' '.join(words)}: {done.stderr}")
        return done.stdout

    def refused(self, *words):
        """The standard error of a command that must fail."""
        done = self.ctl(*words)
        must(done.returncode != 0, f"grantctl {' '.join(words)} succeeded: {done.stdout}")
        return done.stderr

    def call(self, method, **params):
        return json.loads(self.must("call", method, json.dumps(params)))

    def login(self, *words):
        """`grantctl login … --no-browser`, with a browser that follows the provider's redirects; its output."""
        log = self.folder / "login.log"
        log.unlink(missing_ok=True)
        with contextlib.closing(Login(self, words, log)) as login:
            return login.finish()

    def providers(self):
        return [one["provider"] for one in self.call("provider.list")["providers"]]

    def forward(self, path, body=None, method="POST", headers=None):
        """Status and JSON of a request to /forward."""
        connection = http.client.HTTPConnection("127.0.0.1", self.address, timeout=COMMAND_SECONDS)
        with contextlib.closing(connection):
            fields = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
            data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, "/forward/" + path, data, fields | (headers or {}))
            answer = connection.getresponse()
            text = answer.read()
            with contextlib.suppress(ValueError):
                return answer.status, json.loads(text), answer
            return answer.status, text, answer


class Login:
    def __init__(self, broker, words, log):
        self.log = log
        self.process = Program([broker.products / "grantctl", "--socket", broker.socket, "login", *words, "--no-browser"],
                               log, env=environment(broker.folder))

    def text(self):
        return self.log.read_text(errors="replace")

    def url(self):
        """The broker's own link, which leads to the provider."""
        return re.search(r"http://127\.0\.0\.1:\d+/go/\S+", self.text())

    def finish(self):
        wait_until(lambda: self.url() or self.process.status is not None, LOGIN_SECONDS, "the URL", PAUSE_SECONDS)
        must(self.process.status is None, f"the login ended: {self.text()}")
        place = redirected(self.url()[0])
        self.asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(place).query))
        visit(redirected(place))
        wait_until(lambda: self.process.status is not None, LOGIN_SECONDS, "the login ends", PAUSE_SECONDS)
        must(self.process.status == 0, f"the login failed: {self.text()}")
        return self.asked, self.text()

    def close(self):
        self.process.kill()


def visit(url):
    """A page that the browser is sent to."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=COMMAND_SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", f"{parts.path}?{parts.query}", headers={"Accept": "text/html"})
        answer = connection.getresponse()
        answer.read()
        return answer.status


class Scene:
    """What a case gets: a running broker of its own."""

    def __init__(self, programs, folder):
        self.programs, self.folder, self.closing = programs, folder, contextlib.ExitStack()
        self.broker = self.closing.enter_context(contextlib.closing(Broker(programs, folder)))

    def start(self, sections=""):
        if sections:
            with open(self.broker.config, "a") as file:
                file.write(sections)
        self.broker.start()
        return self.broker

    def authorization(self, *arguments):
        return self.closing.enter_context(contextlib.closing(Authorization(*arguments)))

    def resource(self, authorization, *arguments):
        return self.closing.enter_context(contextlib.closing(Resource(authorization, *arguments)))

    def pair(self):
        authorization = self.authorization()
        return authorization, self.resource(authorization)

    def url(self, resource):
        return resource.url + resource.path

    def close(self):
        self.closing.close()
