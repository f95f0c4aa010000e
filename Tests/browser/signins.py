"""Signing in, as a person does."""

import json
import urllib.parse

from rooms import PUBLIC, Rooms


class SignIns(Rooms):
    def code(self):
        login, url, _ = self.start("code", "alice")
        self.consent(url)
        self.check_page("Signed in")
        text = self.page.text()
        assert "alice" in text and "Demo & Co" in text, text
        self.look("signed-in")
        assert self.outcome(login) == "completed"
        assert self.broker.token("alice")
        # The provider is told nothing of where the browser was.
        sent = [request for request in self.page.requests if request["url"].startswith(self.callback)]
        assert len(sent) == 1 and "Referer" not in sent[0]["headers"], sent

    def again(self):
        address = self.page.address()
        self.page.open(address)
        self.check_page("Already completed")
        self.look("already")

    def denied(self):
        login, url, _ = self.start("code", "bob")
        self.consent(url, allow=False)
        self.check_page("Sign-in declined")
        self.look("declined")
        assert self.outcome(login) == "login_denied"
        assert self.is_unknown("bob")

    def refused(self):
        login, url, _ = self.start("code", "carol")
        self.page.open(f"{self.callback}?code=x&state=forged")
        self.check_page("Answer not accepted")
        self.look("not-accepted")
        assert self.is_pending(login)
        self.socket.call("login.cancel", login_id=login)

    def action(self):
        """Whoever has too many sessions is sent back to where the sign-in was started."""
        elsewhere = self.demo.control("vms_session", user="alice", client="Old telephone")["id"]
        login, url, _ = self.start("cameras", "camera")
        self.consent(url)
        self.check_page("One more thing to do")
        assert "You are not signed in yet." in self.page.text()
        self.look("action")
        assert self.outcome(login) == "action_required"
        answer = self.socket.call("login.continue", login_id=login, session_id=str(elsewhere))
        assert answer["state"] == "completed", answer

    def elsewhere(self):
        self.page.open(self.callback.replace("/callback", "/elsewhere"))
        self.check_page("Nothing here")
        self.look("nothing-here")

    def public(self):
        login, url, _ = self.start("web", "wendy")
        self.consent(url)
        self.check_page("Signed in")
        assert self.page.address().startswith(f"{PUBLIC}/callback?"), self.page.address()
        assert self.outcome(login) == "completed"
        self.page.open(f"{PUBLIC}/elsewhere?code=1")
        self.check_page("Nothing here")

    # The token in the fragment

    def token(self):
        login, url, _ = self.start("token", "tom")
        self.consent(url)
        self.check_page("Signed in", scripts=1)
        assert self.outcome(login) == "completed"
        self.check_secrecy(self.broker.token("tom"))
        assert self.page.address() == self.callback, self.page.address()

    def check_secrecy(self, token):
        """The token went where it had to, and is nowhere else."""
        page = self.page
        assert token not in page.markup() and token not in page.evaluate("document.title")
        posts = [request for request in page.requests if request["method"] == "POST" and request["url"] == self.callback]
        assert len(posts) == 1 and token in posts[0]["postData"], posts
        page.until(lambda: posts[0]["number"] in page.sent, "the browser tells what it sent")
        sent = page.sent[posts[0]["number"]]
        assert sent["Origin"] == self.callback.removesuffix("/callback"), sent
        assert sent["Sec-Fetch-Site"] == "same-origin" and "Referer" not in sent, sent
        assert not any(token in request["url"] for request in page.requests)
        others = [request for request in page.requests if request is not posts[0]]
        assert not any(token in json.dumps(request.get("headers", {})) for request in others)
        history = page.call("Page.getNavigationHistory")["entries"]
        assert not any(token in entry["url"] or token in entry["title"] for entry in history), history
        assert token not in self.broker.log_text(), "the token is in the log"

    def token_again(self):
        """What is in the page's place now has nothing to bring any more."""
        before = len(self.page.requests)
        self.page.open(self.callback)
        self.check_page("Answer not accepted")
        assert before and not any(request["method"] == "POST" for request in self.page.requests)

    def token_denied(self):
        login, url, _ = self.start("token", "tina")
        self.consent(url, allow=False)
        self.check_page("Sign-in declined", scripts=1)
        assert self.outcome(login) == "login_denied"
        assert self.page.address() == self.callback
        # Where a server knows no better.
        login, _, state = self.start("token", "tina")
        self.page.open(f"{self.callback}?error=access_denied&state={urllib.parse.quote(state)}")
        self.check_page("Sign-in declined")
        assert self.outcome(login) == "login_denied"

    def without_scripts(self):
        login, url, _ = self.start("token", "nora")
        self.page.scripting(False)
        try:
            self.consent(url)
            self.page.await_heading("One more thing to do")
            assert "grantctl login --manual" in self.page.text()
            self.look("without-scripts")
            assert self.is_pending(login)
        finally:
            self.page.scripting(True)
        before = self.page.loads
        self.page.call("Page.reload")
        self.page.until(lambda: self.page.loads > before, "it is loaded again")
        self.page.await_heading("Signed in")
        assert self.outcome(login) == "completed"

    def provider_gone(self):
        """Whoever waits sees that something is under way, and what to do where no answer comes."""
        self.start("token", "gus")
        self.page.call("Fetch.enable", patterns=[{"urlPattern": f"{self.callback}*", "requestStage": "Request"}])
        held = []
        happened = self.page.happened

        def listen(method, event):
            if method == "Fetch.requestPaused":
                held.append(event)
            happened(method, event)

        self.page.happened = listen
        try:
            self.page.open("about:blank")
            # By a script: the command itself would wait for the answer that is held back.
            self.page.evaluate(f"setTimeout(() => location.assign('{self.callback}#a=b'))")
            self.page.until(lambda: held, "the page is asked for")
            self.page.call("Fetch.continueRequest", requestId=held.pop()["requestId"])
            self.page.until(lambda: held, "the fragment is brought")
            assert self.page.heading() == "Completing the sign-in", self.page.text()
            assert self.page.address() == self.callback
            self.look("completing")
            self.page.call("Fetch.failRequest", requestId=held.pop()["requestId"], errorReason="ConnectionReset")
            self.page.await_heading("No answer")
            self.look("no-answer")
        finally:
            self.page.call("Fetch.disable")
            del self.page.happened

    def sign_ins(self):
        self.check("signing in by a code on the real pages", self.code)
        self.check("the same address a second time does nothing again", self.again)
        self.check("a person who declines is told so, and nothing is stored", self.denied)
        self.check("a forged answer is refused, and the login goes on waiting", self.refused)
        self.check("a sign-in that needs one more thing says where to do it", self.action)
        self.check("another path says that there is nothing", self.elsewhere)
        self.check("signing in over a proxy, at the public address", self.public)
        self.check("a token in the fragment is brought once, by the page's own script, and is nowhere else", self.token)
        self.check("a page without its fragment brings nothing", self.token_again)
        self.check("a refusal in the query and in the fragment", self.token_denied)
        self.check("a browser without scripts is told what to do, and a reload with them signs in", self.without_scripts)
        self.check("what is seen while the answer is on its way, and where none comes", self.provider_gone)
