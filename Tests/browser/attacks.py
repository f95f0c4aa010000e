"""What strangers try: markup in everything that may be echoed, and posts from their own pages."""

import time
import urllib.parse

from chromium import ANSWER_SECONDS
from rooms import PUBLIC, Rooms

# `pwned` is a function of every page here, which no policy keeps from being called: the browser tells of each call.
PAYLOADS = (
    "<script>pwned('script')</script>",
    "\"><img src=STRANGER/image onerror=pwned('attribute')>",
    "'><svg/onload=pwned('svg')><style>@import 'STRANGER/style'</style>",
    "</title></style></noscript><script src=STRANGER/script></script><script>pwned('raw')</script>",
    "javascript:pwned('address')//",
    "<iframe srcdoc=\"<script>parent.pwned('frame')</script>\"></iframe><base href=STRANGER/base/>",
    "<meta http-equiv=refresh content=\"0;url=STRANGER/refresh\"><link rel=stylesheet href=STRANGER/sheet>",
    "a\r\nContent-Type: text/html\r\n\r\n<script>pwned('header')</script>",
    "`<b>code</b>` <a href=\"javascript:pwned('link')\" autofocus onfocus=pwned('focus')>x</a>",
)
# Where it stands in an address: parameters of the query, `S` being the login's own state.
QUERY = {
    "state": "code=x&state={}", "code": "code={}&state=S", "error": "error={}&state=S",
    "error_description": "error=access_denied&error_description={}&state=S",
    "error_uri": "error=access_denied&error_uri={}&state=S", "iss": "code=x&state=S&iss={}",
    "a name": "{}=x&state=S", "a name twice": "{0}=x&{0}=y&state=S", "response": "response={}&state=S",
}
FRAGMENT = {
    "state": "access_token=x&token_type=bearer&state={}", "access_token": "access_token={}&token_type=bearer&state=S",
    "token_type": "access_token=x&token_type={}&state=S", "scope": "access_token=x&token_type=bearer&scope={}&state=S",
    "expires_in": "access_token=x&token_type=bearer&expires_in={}&state=S", "error": "error={}&state=S",
    "error_description": "error=access_denied&error_description={}&state=S",
    "error_uri": "error=access_denied&error_uri={}&state=S", "a name": "{}=x&state=S", "all of it": "{}",
}
HEADINGS = ("Signed in", "Sign-in declined", "Sign-in expired", "Answer not accepted", "Sign-in failed",
            "Problem at the provider", "Nothing here", "Request not understood")


class Attacks(Rooms):
    def payloads(self):
        return [payload.replace("STRANGER", self.stranger.origin) for payload in PAYLOADS]

    def joined(self):
        """The same in fewer texts, each of which begins with another."""
        every = self.payloads()
        return [" ".join(every[first::3]) for first in (0, 1)] + [" ".join([every[4], every[2], every[5], every[8]])]

    def control(self):
        """What is shown as it stands does run, and is seen to."""
        for payload in self.payloads():
            if payload.startswith("javascript:"):
                payload = f"<a href=\"{payload}\" id=go>x</a><script>document.getElementById('go').click()</script>"
            if payload.startswith("`"):
                payload = payload.replace("autofocus", "id=f autofocus") + "<script>f.focus()</script>"
            self.page.open(self.stranger.show("/control", payload))
            self.page.until(self.is_seen, f"something is seen of {payload}")
        self.page.open("about:blank")

    def is_seen(self):
        return self.page.alarms or any(script["url"] for script in self.page.scripts) or any(
            request["url"] != f"{self.stranger.origin}/control" for request in self.page.requests)

    def shown(self, what, payload, scripts):
        heading = self.page.heading()
        end = time.monotonic() + ANSWER_SECONDS
        while heading not in HEADINGS and time.monotonic() < end:
            self.browser.settle(0.02)
            heading = self.page.heading()
        assert heading in HEADINGS, f"{what}, {payload}: {heading!r}"
        try:
            self.check_page(heading, scripts=scripts)
        except AssertionError as error:
            raise AssertionError(f"{what}, {payload}: {error}") from None

    def query(self):
        self.stranger.visits.clear()
        for what, template in QUERY.items():
            for payload in self.joined():
                login, _, state = self.start("code")
                query = template.replace("state=S", f"state={state}")
                # Without it nothing else would be looked at.
                query += "" if "iss=" in query else f"&iss={urllib.parse.quote(self.demo.issuer)}"
                self.page.open(f"{self.callback}?{query.format(urllib.parse.quote(payload))}")
                self.shown(what, payload, 0)
                self.socket.call("login.cancel", login_id=login)
        assert not self.stranger.visits, self.stranger.visits

    def path(self):
        for payload in self.joined():
            for address in (self.callback, f"{PUBLIC}/callback"):
                self.page.open(f"{address}/{urllib.parse.quote(payload)}?{urllib.parse.quote(payload)}")
                self.shown("the path", payload, 0)

    def fragment(self):
        self.stranger.visits.clear()
        for what, template in FRAGMENT.items():
            for number, payload in enumerate(self.joined()):
                login, _, state = self.start("token", f"victim-{number}")
                fragment = template.replace("state=S", f"state={state}")
                # As it stands the browser encodes it in its own way.
                text = payload if what == "all of it" else urllib.parse.quote(payload)
                self.page.open("about:blank")
                self.page.open(f"{self.callback}#{fragment.format(text)}")
                self.shown(what, payload, 1)
                assert self.page.address() == self.callback, self.page.address()
                self.socket.call("login.cancel", login_id=login)
        assert not self.stranger.visits, self.stranger.visits

    def posts(self):
        """Whatever another page posts is not looked at, be it of this machine or not."""
        login, _, state = self.start("token", "victim")
        fields = f"<input name=access_token value=evil><input name=state value=\"{state}\">"
        form = f"<form method=post action=\"{self.callback}\">{fields}</form><script>document.forms[0].submit()</script>"
        self.page.open(self.stranger.show("/form", form))
        self.page.await_heading("Not this way")
        self.look("posted")
        body = f"access_token=evil&token_type=bearer&state={state}"
        options = f"method: 'POST', body: {body!r}, headers: {{'Content-Type': 'application/x-www-form-urlencoded'}}"
        self.page.open(self.stranger.show("/fetch", "x"))
        for mode in ("cors", "no-cors"):
            answer = self.page.evaluate(
                f"fetch('{self.callback}', {{{options}, mode: '{mode}'}}).then(a => a.type, e => e.message)")
            assert answer in ("opaque", "Failed to fetch"), answer
        assert self.is_pending(login)
        assert self.is_unknown("victim")
        self.socket.call("login.cancel", login_id=login)

    def framed(self):
        """Nobody shows a page of ours inside his own."""
        login, _, state = self.start("code", "framed")
        answer = urllib.parse.urlencode({"error": "access_denied", "state": state, "iss": self.demo.issuer})
        frame = f"<iframe src=\"{self.callback}?{answer.replace('&', '&amp;')}\"></iframe>"
        self.page.open(self.stranger.show("/frame", frame))
        self.browser.settle(0.2)
        assert self.is_pending(login), "a frame ended the login"
        self.socket.call("login.cancel", login_id=login)

    def attacks(self):
        self.check("the attacks run where a page lets them", self.control)
        self.check("markup in each parameter of the query stays text", self.query)
        self.check("markup in the path stays text", self.path)
        self.check("markup in each member of the fragment stays text", self.fragment)
        self.check("posts of other pages are refused", self.posts)
        self.check("a frame in another page completes nothing", self.framed)
