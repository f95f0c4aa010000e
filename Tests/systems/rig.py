"""What a case runs on: one grantd for all cases, a fake of the case's own, a browser, and grantctl."""

import contextlib
import dataclasses
import fcntl
import http.client
import json
import os
import pty
import select
import struct
import subprocess
import termios
import time
import urllib.parse

from grantd_testing import BlockingClient, DaemonProcess, Refused, Wrong, environment, free_ports, wait_until

ANSWER_SECONDS = 20
START_SECONDS = 20
COMMAND_SECONDS = 20
DIALOGUE_SECONDS = 8
PAUSE_SECONDS = 0.01
REDIRECTS = 10
READ_BYTES = 1 << 16


def must(condition, what):
    """Fails the case with what differed."""
    if not condition:
        raise Wrong(what)


def same(found, wanted, what):
    if found != wanted:
        raise Wrong(f"{what} is {found!r}, not {wanted!r}")


@dataclasses.dataclass
class Outcome:
    """How a login went on after the browser came back: a result of `login.wait`, or an error."""

    state: str = None
    result: dict = dataclasses.field(default_factory=dict)
    error: Refused = None

    @property
    def reason(self):
        return self.error and self.error.reason

    @property
    def data(self):
        return self.error.data if self.error else {}

    @property
    def action(self):
        return self.result.get("action") or {}

    def __str__(self):
        return f"{self.error} {self.data}" if self.error else f"{self.state} {self.result}"


class Stage:
    """One grantd whose configuration has the provider of the running case alone."""

    def __init__(self, programs, folder):
        self.folder = folder
        (self.port,) = free_ports()
        self.daemon = DaemonProcess(programs, folder)
        self.client = None
        self.write("")

    def write(self, sections):
        self.daemon.config.write_text(f"[callback]\nport = {self.port}\nipv6 = false\n\n{sections}")

    def start(self):
        self.daemon.launch()
        self.client = wait_until(self.connect, START_SECONDS, "grantd listens", PAUSE_SECONDS)

    def connect(self):
        if self.daemon.process.status is not None:
            raise Wrong(f"grantd ended with {self.daemon.process.status}: {self.daemon.last_lines(3)}")
        with contextlib.suppress(OSError):
            return BlockingClient(self.daemon.socket, ANSWER_SECONDS)

    def reconnect(self):
        """A connection without the answers that an earlier case did not read; Wrong where grantd has ended."""
        self.client.close()
        if self.daemon.process.status is not None:
            ended = f"grantd ended with {self.daemon.process.status}: {self.daemon.last_lines(3)}"
            self.start()
            raise Wrong(ended)
        self.client = wait_until(self.connect, START_SECONDS, "grantd listens", PAUSE_SECONDS)

    def restart(self):
        """As after a crash."""
        self.client.close()
        self.daemon.process.kill()
        self.start()

    def close(self):
        if self.client:
            self.client.close()
        if self.daemon.process:
            self.daemon.process.stop()

    def call(self, method, /, **params):
        return self.client.call(method, **params)

    def clear(self):
        """Forgets what a case left behind."""
        for login in self.call("login.list")["logins"]:
            self.call("login.cancel", login_id=login["login_id"])
        for account in self.call("account.list")["accounts"]:
            self.call("account.logout", account=account["account"], revoke=False)

    def command(self, *arguments):
        return [str(self.daemon.products / "grantctl"), "--socket", str(self.daemon.socket), *map(str, arguments)]

    def ctl(self, *arguments, text=None, **more):
        """grantctl without a terminal."""
        return subprocess.run(
            self.command(*arguments), capture_output=True, text=True, timeout=COMMAND_SECONDS,
            env=environment(self.folder, **more), **({"stdin": subprocess.DEVNULL} if text is None else {"input": text}))

    def check_configuration(self, section):
        """grantd --check-config of one section: its exit status and its words."""
        path = self.folder / "checked.toml"
        path.write_text(section)
        done = subprocess.run(
            [self.daemon.products / "grantd", "--user", "--config", path, "--check-config"], capture_output=True, text=True,
            timeout=COMMAND_SECONDS, env=environment(self.folder))
        return done.returncode, done.stdout + done.stderr


class Browser:
    """A browser that keeps cookies and follows redirects, until one leads to a scheme of an application."""

    def __init__(self):
        self.cookies = {}
        # The addresses that it went to, the last one included.
        self.visited = []

    def open(self, url):
        """The address where it ends: of an application's scheme, or of a page."""
        for _ in range(REDIRECTS):
            self.visited.append(url)
            parts = urllib.parse.urlsplit(url)
            if parts.scheme not in ("http", "https"):
                return url
            status, headers, self.page = self.get(parts)
            location = headers.get("Location")
            if status not in (302, 303, 307) or not location:
                self.status, self.headers = status, headers
                return url
            url = urllib.parse.urljoin(url, location)
        raise Wrong(f"more than {REDIRECTS} redirects: {self.visited}")

    def get(self, parts):
        jar = self.cookies.setdefault(parts.netloc, {})
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=ANSWER_SECONDS)
        try:
            cookie = {"Cookie": "; ".join(f"{name}={value}" for name, value in jar.items())} if jar else {}
            connection.request("GET", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""), headers=cookie)
            answer = connection.getresponse()
            for field in answer.headers.get_all("Set-Cookie") or []:
                name, _, value = field.split(";")[0].partition("=")
                jar[name.strip()] = value.strip()
            return answer.status, answer.headers, answer.read().decode(errors="replace")
        finally:
            connection.close()


class Dialogue:
    """grantctl at a terminal."""

    def __init__(self, stage, *arguments):
        self.said, self.fd = "", None
        terminal, other = pty.openpty()

        def control():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 300, 0, 0))
        self.process = subprocess.Popen(
            stage.command(*arguments), stdin=other, stdout=other, stderr=other, preexec_fn=control,
            env=environment(stage.folder, TERM="dumb", NO_COLOR="1"))
        os.close(other)
        self.fd = terminal

    def read(self, seconds):
        if select.select([self.fd], [], [], seconds)[0]:
            with contextlib.suppress(OSError):
                if data := os.read(self.fd, READ_BYTES):
                    self.said += data.decode(errors="replace")
                    return True
        return False

    def until(self, word, start=0):
        """Waits until the word is there behind that position; the position behind it."""
        end = time.monotonic() + DIALOGUE_SECONDS
        while (at := self.said.find(word, start)) < 0:
            ended = self.process.poll() is not None
            if not self.read(0.05) and ended or time.monotonic() > end:
                raise Wrong(f"grantctl does not say {word!r}: {self.said[-600:]!r}")
        return at + len(word)

    def type(self, text):
        os.write(self.fd, text.encode() + b"\n")

    def answer(self, text, prompt):
        """Types the answer to a prompt, and takes the exit status; fails where the prompt comes again."""
        start = len(self.said)
        self.type(text)
        return self.wait(lambda: must(prompt not in self.said[start:], f"{text} is no answer: {self.said[start:]!r}"))

    def wait(self, check=lambda: None):
        """The exit status."""
        end = time.monotonic() + DIALOGUE_SECONDS
        while self.process.poll() is None:
            self.read(0.05)
            check()
            if time.monotonic() > end:
                raise Wrong(f"grantctl does not end: {self.said[-600:]!r}")
        while self.read(0):
            """What is left."""
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.fd)


class Scene:
    """One case: its fake, its provider's section, and the steps of a login. A subclass is for one system."""

    def __init__(self, stage, name):
        self.stage, self.name = stage, name.replace(".", "-").replace("_", "-")
        self.browser, self.open_ones = Browser(), contextlib.ExitStack()
        # Words of refusals that this case wants.
        self.expected = []
        self.prepare()

    def prepare(self):
        """Starts the fake. A subclass does."""

    def section(self):
        """The lines of the provider's section without its head. A subclass knows them."""

    def configure(self, **keys):
        """Makes the case's provider that of grantd; `keys` replace or add lines, None removes one."""
        self.stage.write(self.toml(**keys))
        self.stage.call("broker.reload")

    def toml(self, **keys):
        merged = {name: value for name, value in (self.section() | keys).items() if value is not None}
        lines = [f"{name} = {toml_value(value)}" for name, value in merged.items()]
        return "\n".join([f"[provider.{self.name}]", *lines, ""])

    def close(self):
        """Ends the case; what the fake refused without being expected fails it."""
        self.open_ones.close()
        self.stage.clear()
        self.fake.close()

    def verdict(self):
        for refusal in self.fake.refusals:
            must(any(word in refusal for word in self.expected), f"the server refused: {refusal}")

    # Calls.

    def call(self, method, /, **params):
        return self.stage.call(method, **params)

    def refused(self, method, /, **params):
        """The error of a call that has to fail."""
        try:
            result = self.stage.call(method, **params)
        except Refused as refusal:
            return refusal
        raise Wrong(f"{method} is not refused: {result}")

    def outcome(self, method, /, **params):
        try:
            result = self.stage.call(method, **params)
        except Refused as refusal:
            return Outcome(error=refusal)
        return Outcome(result.get("state"), result)

    def start(self, **params):
        """A login that waits; what `login.start` returned."""
        return self.call("login.start", provider=self.name, **params)

    def url(self, login, kind="manual", app=None):
        found = [one for one in login["destinations"] if one["kind"] == kind and app in (None, one.get("app"))]
        must(found, f"there is no destination {kind} {app or ''}: {login['destinations']}")
        return found[0]["url"]

    def bring(self, login, url, seconds=10):
        """Hands over the address where the browser ended, then waits; how the login went on."""
        try:
            answer = self.call("login.handle_callback", url=url)
        except Refused as refusal:
            handed = refusal
        else:
            handed = None
            if not answer["handled"]:
                return Outcome("not handled", answer)
        waited = self.outcome("login.wait", login_id=login["login_id"], timeout=0 if handed else seconds)
        if handed and waited.state == "pending":
            # An address that completes nothing leaves the login as it was.
            return Outcome("pending", waited.result, handed)
        return waited

    def finish(self, login, kind="manual"):
        """The person signs in at the address of that kind."""
        return self.bring(login, self.browser.open(self.url(login, kind)))

    def sign_in(self, account=None, **params):
        """A whole login; the account."""
        params |= {"account": account} if account else {}
        done = self.finish(self.start(**params))
        must(done.state == "completed", f"the login is not completed: {done}")
        return done.result.get("account")

    def wait(self, login, seconds=10):
        return self.outcome("login.wait", login_id=login["login_id"], timeout=seconds)

    def proceed(self, login, **params):
        """`login.continue`, then how the login went on."""
        answer = self.outcome("login.continue", login_id=login["login_id"], **params)
        return answer if answer.error or answer.state != "pending" else self.wait(login)

    def account(self, name=None):
        return self.call("account.get", account=name or self.name)

    def token(self, name=None):
        return self.call("token.get", account=name or self.name)

    def other_client(self):
        client = BlockingClient(self.stage.daemon.socket, ANSWER_SECONDS)
        self.open_ones.callback(client.close)
        return client

    def ctl(self, *arguments, **more):
        return self.stage.ctl(*arguments, **more)

    def dialogue(self, *arguments):
        made = Dialogue(self.stage, *arguments)
        self.open_ones.callback(made.close)
        return made

    def sign_in_at_terminal(self, *options):
        """`grantctl login` at a terminal, up to where the address was pasted."""
        talk = self.dialogue("login", self.name, "--manual", *options)
        talk.until("http://")
        url = wait_until(lambda: (talk.read(0.05), self.printed_url(talk))[1], DIALOGUE_SECONDS, "grantctl prints an address")
        talk.type(self.browser.open(url))
        return talk

    def printed_url(self, talk):
        """The address on a whole line of its own."""
        lines = [line.strip() for line in talk.said.split("\n")[:-1]]
        found = [line for line in lines if line.startswith(self.fake.url)]
        return found[0] if found else None


def toml_value(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{ " + ", ".join(f'"{name}" = {toml_value(one)}' for name, one in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return json.dumps(value)
