"""What the cases share: the demo provider, brokers, and a browser with the user's page open."""

import contextlib
import http.client
import itertools
import pathlib
import re
import urllib.parse

from chromium import Browser
from grantd_testing import BlockingClient, BlockingDemo, CommandedDaemon, Wrong, free_ports, get
from parts import Stranger

HERE = pathlib.Path(__file__).resolve().parent
ANSWER_SECONDS = 90
SERVED_SECONDS = 60


class Skip(Exception):
    """The machine cannot run a case."""


class Stage:
    """The browser of all cases; a world of its own for each case."""

    def __init__(self, products, folder, pictures=None):
        self.products, self.folder, self.pictures, self.numbers = products, folder, pictures, itertools.count(1)
        self.browser, self.worlds = Browser(folder), []
        self.stranger = Stranger()

    def world(self, **options):
        world = World(self.products, self.folder / f"world-{next(self.numbers)}", self.browser, **options)
        self.worlds.append(world)
        return world

    def demo(self, world, name, registration):
        """A further provider, which registers clients or does not."""
        demo = BlockingDemo(self.products, world.folder, "--approve", "ask", name=name)
        if not registration:
            demo.control("settings", discovery_extra={"registration_endpoint": None})
        world.pages.append(demo)
        return demo

    def end_case(self):
        while self.worlds:
            self.worlds.pop().close()

    def close(self):
        self.stranger.close()
        self.browser.close()


class PageBroker(CommandedDaemon):
    """With more in its environment."""

    more = {}

    @property
    def environment(self):
        return super().environment | self.more


class World:
    """One broker with one provider."""

    def __init__(self, products, folder, browser, sections="", accounts=(), provider=(), before=None,
                 instance="user"):
        self.products, self.folder, self.browser, self.pages, self.socket = products, folder, browser, [], None
        folder.mkdir(mode=0o700)
        (self.port,) = free_ports()
        self.demo = BlockingDemo(products, folder, "--approve", "ask", "--access-ttl", "3600", *provider)
        self.broker = PageBroker(products, folder, self.port, self.configuration(sections))
        self.broker.instance = instance
        if before:
            before(self)
        try:
            self.start()
            for account in accounts:
                self.sign_in(account)
        except BaseException:
            self.close()
            raise

    def configuration(self, sections):
        return (f'[provider.demo]\nkind = "oidc"\nissuer = "{self.demo.issuer}"\nclient_id = "demo"\n'
                f'scopes = ["openid", "profile", "email"]\ndisplay_name = "Demo & Co"\n\n{sections}')

    def start(self):
        self.broker.start()
        if self.socket:
            self.socket.close()
        self.socket = BlockingClient(self.broker.socket, ANSWER_SECONDS)

    def sign_in(self, account, provider="demo", user="alice"):
        """Without a browser: the demo provider approves at once if the request names the user."""
        login = self.socket.call("login.start", provider=provider, account=account, login_hint=user)
        get(next(place["url"] for place in login["destinations"] if place["kind"] == "browser"))
        answer = self.socket.call("login.wait", login_id=login["login_id"], timeout=60)
        if answer["state"] != "completed":
            raise Wrong(f"{account} is not signed in: {answer}")

    def link(self):
        """The link that `grantctl ui` prints."""
        answer = self.broker.ctl("ui", "--no-browser")
        if answer.returncode:
            raise Wrong(f"grantctl ui: {answer.returncode}, {answer.stderr}")
        return re.search(r"http://127\.0\.0\.1:\d+/open/\S+", answer.stdout)[0]

    def page(self):
        """A window of a new profile."""
        page = self.browser.page()
        self.pages.append(page)
        return page

    def open(self, path="/"):
        """The user's page in a new window, at a view."""
        page = self.page()
        link = self.link()
        self.origin = link.split("/open/")[0]
        page.open(link)
        page.await_heading("Accounts")
        if path != "/":
            page.open(self.origin + path)
        return page

    def visit(self):
        """The same without a browser."""
        link = urllib.parse.urlsplit(self.link())
        self.origin = f"http://{link.netloc}"
        answer = self.request(link.path)
        return answer.headers["Set-Cookie"].split(";")[0]

    def request(self, path, body=None, cookie=None, **headers):
        """One request of a program to the page; `_` stands for a hyphen in a header's name."""
        link = urllib.parse.urlsplit(self.origin)
        connection = http.client.HTTPConnection(link.hostname, link.port, timeout=ANSWER_SECONDS)
        fields = {name.replace("_", "-"): value for name, value in headers.items()} | ({"Cookie": cookie} if cookie else {})
        if body is not None:
            fields.setdefault("Content-Type", "application/x-www-form-urlencoded")
        with contextlib.closing(connection):
            connection.request("GET" if body is None else "POST", path, body, fields)
            answer = connection.getresponse()
            answer.text = answer.read().decode()
        return answer

    def form_token(self, cookie):
        return re.search(r'name="form_token" value="([^"]+)"', self.request("/", cookie=cookie).text)[1]

    def state(self, account):
        return self.socket.call("account.get", account=account)["state"]

    def close(self):
        with contextlib.ExitStack() as all:
            for part in (self.demo, self.broker, self.socket, *self.pages):
                if part:
                    all.callback(part.close)
