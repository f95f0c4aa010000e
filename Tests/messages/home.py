"""A user's home with their broker: the programs find each other by the usual paths."""

import json
import os
import subprocess

from browser import browse, follow
from grantd_testing import BlockingClient, Program, Wrong, environment, free_ports, wait_until
from provider import Provider
from screen import Terminal

START_SECONDS = 60
COMMAND_SECONDS = 120
LOGIN_SECONDS = 50
PAUSE_SECONDS = 0.02
SOCKET = "grantd/grantd.sock"


def must(condition, what):
    if not condition:
        raise Wrong(what)


def shows(text, *parts):
    """The parts are in the text, in that order; spaces and line breaks count as one space."""
    flat, place = " ".join(text.split()), 0
    for part in parts:
        found = flat.find(part, place)
        must(found >= 0, f"{part!r} is missing: {flat[-1500:]!r}")
        place = found + len(part)


def lacks(text, *parts):
    for part in parts:
        must(part not in " ".join(text.split()), f"{part!r} is there: {text[-1500:]!r}")


class Home:
    def __init__(self, products, folder):
        self.products, self.folder, self.process, self.open_ones = products, folder, None, []
        self.config, self.log = folder / ".config/grantd/grantd.toml", folder / "grantd.log"
        self.config.parent.mkdir(parents=True)
        self.socket = folder / "run" / SOCKET
        (folder / "run").mkdir(mode=0o700)
        self.port = free_ports()[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in self.open_ones:
            one.close()
        if self.process:
            self.process.stop()

    def keep(self, one):
        """Closed at the end of the case."""
        self.open_ones.append(one)
        return one

    def environment(self, **more):
        path = f"{self.products}:/usr/local/bin:/usr/bin:/bin"
        return environment(self.folder, PATH=path, XDG_RUNTIME_DIR=str(self.folder / "run"), LANG="C.UTF-8",
                           TERM="xterm", NO_COLOR="1") | more

    # ---- the broker

    def provider(self, **options):
        return self.keep(Provider(**options))

    def configure(self, *sections, port=None, **providers):
        """Each provider by its section: a fake of this case, or lines of the section."""
        lines = [f"[callback]\nport = {self.port if port is None else port}\n", *sections]
        for name, fake in providers.items():
            section = fake if isinstance(fake, str) else (
                f'issuer = "{fake.issuer}"\nclient_id = "grantd-test"\nscopes = ["openid", "a", "b"]')
            lines.append(f"[provider.{name}]\n{section}\n")
        self.config.write_text("\n".join(lines))
        os.chmod(self.config, 0o600)

    def launch(self, *options):
        self.process = Program([self.products / "grantd", "--user", *options], self.log, env=self.environment())

    def connect(self):
        if self.process.status is not None:
            raise Wrong(f"grantd ended with {self.process.status}: {self.log.read_text(errors='replace')[-500:]}")
        try:
            return BlockingClient(self.socket)
        except OSError:
            return None

    def start(self, *sections, **providers):
        if sections or providers:
            self.configure(*sections, **providers)
        self.launch()
        wait_until(self.connect, START_SECONDS, "grantd listens", PAUSE_SECONDS).close()
        return self

    def stop(self):
        self.process.stop()

    def call(self, method, /, **params):
        client = BlockingClient(self.socket)
        try:
            return client.call(method, **params)
        finally:
            client.close()

    def sign_in(self, provider, account, **params):
        login = self.call("login.start", provider=provider, account=account, login_hint=account, **params)
        url = next(one["url"] for one in login["destinations"] if one["kind"] == "manual")
        browse(follow(url))
        answer = self.call("login.wait", login_id=login["login_id"], timeout=LOGIN_SECONDS)
        must(answer["state"] == "completed", f"the login is not completed: {answer}")

    # ---- grantctl

    def ctl(self, *arguments, text=None, status=None, **more):
        """grantctl without a terminal."""
        given = {"stdin": subprocess.DEVNULL} if text is None else {"input": text}
        done = subprocess.run(
            [self.products / "grantctl", *map(str, arguments)], capture_output=True, text=True, timeout=COMMAND_SECONDS,
            env=self.environment(**more), **given)
        if status is not None:
            must(done.returncode == status, f"grantctl {' '.join(map(str, arguments))} ends with {done.returncode}, not "
                 f"{status}: {done.stdout[-400:]} {done.stderr[-400:]}")
        return done

    def output(self, *arguments, status=0, **more):
        return self.ctl(*arguments, status=status, **more).stdout

    def errors(self, *arguments, status, **more):
        return self.ctl(*arguments, status=status, **more).stderr

    def json(self, *arguments, status=0):
        return json.loads(self.output(*arguments, "--json", status=status))

    def terminal(self, *arguments, columns=80, rows=24, echo=False, program="grantctl", **more):
        """grantctl in a terminal of its own."""
        path = self.products / program if program == "grantctl" else program
        return self.keep(Terminal([path, *arguments], columns, rows, echo, **self.environment(**more)))
