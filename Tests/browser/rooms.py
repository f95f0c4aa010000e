"""What all checks in the browser share: everything that runs, and what must hold of every page of ours."""

import contextlib
import urllib.parse

from chromium import Browser
from grantd_testing import BlockingClient, BlockingDemo, Checks, CommandedDaemon, Refused, free_ports, products
from parts import ANSWER_SECONDS, Proxy, Stranger

PUBLIC_HOST = "broker.example.com"
PUBLIC = f"https://{PUBLIC_HOST}"
NARROW = 360
# No page of ours has any of these in its tree.
FOREIGN = ("script, img, svg, iframe, object, embed, form, base, video, audio, input, textarea, "
           "link:not([rel=icon]), meta[http-equiv], [onload], [onerror], [onclick], [style], a[href^='javascript' i]")


class Rooms(Checks):
    demo = proxy = broker = socket = stranger = browser = None

    def prepare(self, folder, pictures):
        self.folder, self.pictures = folder, pictures
        (self.port,) = free_ports()
        self.callback = f"http://127.0.0.1:{self.port}/callback"
        self.stranger = Stranger()
        # It asks a person on a page.
        self.demo = BlockingDemo(
            products(), folder, "--approve", "ask", "--access-ttl", "600", "--redirect-uri", f"{PUBLIC}/callback", "--set",
            "implicit_grant=true", "--set", "vms_session_limit=1", "--set",
            f"vms_redirect={self.callback.replace('/callback', '/cameras')}")
        self.broker = CommandedDaemon(products(), folder, self.port, self.configuration())
        self.broker.start()
        self.socket = BlockingClient(self.broker.socket, ANSWER_SECONDS)
        self.proxy = Proxy(folder, PUBLIC_HOST, self.port)
        self.browser = Browser(
            folder, f"--host-resolver-rules=MAP {PUBLIC_HOST}:443 127.0.0.1:{self.proxy.port}",
            "--ignore-certificate-errors")
        self.page = self.browser.page()

    def configuration(self):
        issuer = self.demo.issuer
        code = f'kind = "oidc"\nissuer = "{issuer}"\nclient_id = "demo"\nscopes = ["openid", "profile"]\n'
        return (f'public_url = "{PUBLIC}"\n\n[provider.code]\n{code}display_name = "Demo & Co"\n\n'
                f'[provider.web]\n{code}redirect_uri = "{PUBLIC}/callback"\n\n'
                f'[provider.token]\nkind = "oauth2"\nauthorization_endpoint = "{issuer}/authorize"\n'
                f'token_endpoint = "{issuer}/token"\nclient_id = "demo"\nscopes = ["profile"]\n'
                'response_type = "token"\nallow_implicit = true\n\n'
                f'[provider.cameras]\nkind = "vms"\nbase_url = "{issuer}"\n'
                f'redirect_uri = "{self.callback.replace("/callback", "/cameras")}"\n')

    def close(self):
        with contextlib.ExitStack() as all:
            for part in (self.stranger, self.demo, self.proxy, self.broker, self.socket, self.browser):
                if part:
                    all.callback(part.close)

    def start(self, provider, account="someone"):
        """The id, the address to open and the state of a new login."""
        login = self.socket.call("login.start", provider=provider, account=account)
        places = {place["kind"]: place["url"] for place in login["destinations"]}
        # The browser's own address tells nothing of the request.
        url, request = places["browser"], places["manual"]
        state = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(request).query)).get("state")
        return login["login_id"], url, state

    def outcome(self, login):
        """The state of the login, or why it failed."""
        try:
            return self.socket.call("login.wait", login_id=login, timeout=50)["state"]
        except Refused as refusal:
            return refusal.reason

    def is_unknown(self, account):
        try:
            return not self.socket.call("account.get", account=account)
        except Refused as refusal:
            return refusal.reason == "unknown_account"

    def is_pending(self, login):
        return any(one["login_id"] == login for one in self.socket.call("login.list")["logins"])

    def consent(self, url, allow=True, user="alice"):
        """Signs in on the provider's own page."""
        self.page.open(url)
        assert self.page.heading().startswith("Sign in"), self.page.text()
        self.look("provider")
        self.page.fill("#username", user)
        self.page.press("button[value=allow]" if allow else "button[value=deny]")

    def check_page(self, heading, scripts=0, strangers=0):
        """That this page of ours is as it has to be, and that nothing else happened on the way to it."""
        page = self.page
        page.await_heading(heading)
        self.browser.settle(0.02)
        assert not page.alarms, page.alarms
        ran = [script for script in page.scripts if script["url"]]
        assert len(ran) == scripts, f"{len(ran)} scripts ran: {ran}"
        origins = {self.demo.issuer, self.callback.removesuffix("/callback"), PUBLIC}
        origins |= {self.stranger.origin} if strangers else set()
        places = [request["url"] for request in page.requests if not request["url"].startswith("data:")]
        others = [url for url in places if not any(url.startswith(origin + "/") for origin in origins)]
        assert not others, f"requests to others: {others}"
        blocked = [entry["text"] for entry in page.said if entry["source"] == "security"]
        assert not blocked, f"something was kept from happening: {blocked}"
        foreign = page.evaluate(f"[...document.querySelectorAll({FOREIGN!r})].map(e => e.outerHTML).join()")
        assert not foreign, f"foreign markup: {foreign[:400]}"
        self.check_headers()

    def check_headers(self):
        ours = [response for url, response in self.page.responses.items()
                if url.startswith(("data:", self.demo.issuer, self.stranger.origin)) is False]
        assert ours, "no answer of ours"
        for response in ours:
            headers = {name.lower(): value for name, value in response["headers"].items()}
            policy = headers.get("content-security-policy", "")
            assert policy.startswith("default-src 'none'") and "unsafe" not in policy, f"{response['url']}: {policy}"
            assert "frame-ancestors 'none'" in policy, policy
            assert headers.get("cache-control") == "no-store", headers
            assert headers.get("referrer-policy") == "no-referrer", headers

    def look(self, name):
        """That a narrow window has room for it; and keeps what is seen, for whoever asked for that."""
        assert self.page.width(NARROW) <= NARROW, f"{name} is {self.page.width(NARROW)} wide in a narrow window"
        if self.pictures:
            self.pictures.mkdir(parents=True, exist_ok=True)
            for suffix, options in {"": {}, "-narrow": {"width": NARROW, "height": 640}, "-dark": {"dark": True}}.items():
                self.page.picture(self.pictures / f"{name}{suffix}.png", **options)
