"""A headless Chromium, driven by the DevTools protocol over a pair of pipes."""

import base64
import fcntl
import itertools
import json
import os
import selectors
import shutil
import signal
import subprocess
import time

from grantd_testing import Program

NAMES = ("chromium", "chromium-browser", "google-chrome")
ANSWER_SECONDS = 90
END_SECONDS = 60
LONGEST_MESSAGE = 64 << 20


class Gone(RuntimeError):
    """The browser ended, or does not answer."""


def program():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    def __init__(self, folder, *options):
        # Numbers that the shell's redirections do not touch on the way.
        ours_in, theirs_out = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in os.pipe())
        theirs_in, ours_out = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in os.pipe())
        command = [
            program(), "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={folder}", "--no-first-run",
            "--no-default-browser-check", "--disable-background-networking", "--disable-component-update",
            "--disable-default-apps", "--disable-extensions", "--disable-sync", "--disable-gpu", "--disable-dev-shm-usage",
            "--mute-audio", "--password-store=basic", "--use-mock-keychain", "--no-proxy-server",
            # It shows our own pages alone, and its sandbox is nothing for root or for containers.
            "--no-sandbox", *options]
        self.process = Program(
            ["bash", "-c", 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"', "bash", theirs_in, theirs_out, *command],
            folder / "chromium.log", pass_fds=(theirs_in, theirs_out), start_new_session=True,
            env=os.environ | {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder)})
        os.close(theirs_in)
        os.close(theirs_out)
        self.input, self.output = ours_in, ours_out
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.input, selectors.EVENT_READ)
        self.buffer = b""
        self.numbers = itertools.count(1)
        self.answers, self.pages = {}, {}

    def page(self):
        """A new one, in a profile of its own."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.pages[session] = page = Page(self, session, target, context)
        page.prepare()
        return page

    def call(self, method, session=None, **parameters):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.output, data):]
        self.until(lambda: number in self.answers, method)
        answer = self.answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error'].get('message')}")
        return answer["result"]

    def until(self, condition, what, seconds=ANSWER_SECONDS):
        """Takes what the browser says until it holds."""
        end = time.monotonic() + seconds
        while not (value := condition()):
            left = end - time.monotonic()
            if left <= 0:
                raise Gone(f"not within {seconds} s: {what}")
            if self.selector.select(left):
                self.read()
        return value

    def settle(self, seconds):
        """Takes what comes for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self.selector.select(left):
                self.read()

    def read(self):
        data = os.read(self.input, 1 << 20)
        self.buffer += data
        if not data or len(self.buffer) > LONGEST_MESSAGE:
            raise Gone(f"the browser ended ({self.process.poll()})")
        *messages, self.buffer = self.buffer.split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self.answers[message["id"]] = message
            elif page := self.pages.get(message.get("sessionId")):
                page.happened(message["method"], message["params"])

    def close(self):
        """Its processes are of one group, which is its own; the last of them may end a little after the first."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(END_SECONDS)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue
        end = time.monotonic() + END_SECONDS
        while self.runs() and time.monotonic() < end:
            time.sleep(0.02)
        self.selector.close()
        os.close(self.input)
        os.close(self.output)

    def runs(self):
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return False
        return True


class Page:
    """One window, and everything that happened in it."""

    def __init__(self, browser, session, target, context):
        self.browser, self.session, self.target, self.context = browser, session, target, context
        self.forget()

    def prepare(self):
        for domain in ("Page", "Runtime", "Network", "Log", "Debugger"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        # What an attack calls where it runs; no policy keeps it from that.
        self.call("Runtime.addBinding", name="pwned")

    def forget(self):
        self.requests, self.sent, self.responses, self.scripts = [], {}, {}, []
        self.alarms, self.said = [], []
        self.loads = 0

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def happened(self, method, event):
        match method:
            case "Page.loadEventFired":
                self.loads += 1
            case "Page.javascriptDialogOpening":
                self.alarms.append(f"a dialog: {event['message']}")
                # Not waited for: this is called from the one who reads.
                number = next(self.browser.numbers)
                message = {"id": number, "method": "Page.handleJavaScriptDialog", "params": {"accept": False}}
                os.write(self.browser.output, json.dumps(message | {"sessionId": self.session}).encode() + b"\0")
            case "Runtime.bindingCalled":
                self.alarms.append(f"a script ran: {event['payload']}")
            case "Page.windowOpen":
                self.alarms.append(f"a window: {event['url']}")
            case "Page.downloadWillBegin":
                self.alarms.append(f"a download: {event['url']}")
            case "Debugger.scriptParsed":
                self.scripts.append(event)
            case "Network.requestWillBeSent":
                self.requests.append(event["request"] | {"initiator": event["initiator"], "kind": event.get("type"),
                                                         "number": event["requestId"]})
            case "Network.requestWillBeSentExtraInfo":
                # It may come before the event of the request itself.
                self.sent[event["requestId"]] = event["headers"]
            case "Network.responseReceived":
                self.responses[event["response"]["url"]] = event["response"]
            case "Log.entryAdded":
                self.said.append(event["entry"])
            case "Runtime.exceptionThrown":
                self.alarms.append(f"an exception: {event['exceptionDetails'].get('text')}")

    def open(self, url, seconds=ANSWER_SECONDS):
        """Goes there, and returns once it is shown; what happened before is forgotten."""
        self.browser.settle(0)
        self.forget()
        answer = self.call("Page.navigate", url=url)
        if answer.get("errorText"):
            raise RuntimeError(f"{url}: {answer['errorText']}")
        # An address that differs in its fragment alone loads nothing.
        if "loaderId" in answer:
            self.until(lambda: self.loads, f"{url} is loaded", seconds)

    def until(self, condition, what, seconds=ANSWER_SECONDS):
        return self.browser.until(condition, what, seconds)

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True,
                           userGesture=True, timeout=ANSWER_SECONDS * 1000)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails'].get('exception', {}).get('description')}")
        return answer["result"].get("value")

    def heading(self):
        """Of what is to be seen; read from the tree, so that no script is needed."""
        return self.evaluate(
            "[...document.querySelectorAll('h1')].filter(h => h.checkVisibility()).map(h => h.textContent).join('|')")

    def await_heading(self, text, seconds=ANSWER_SECONDS):
        end = time.monotonic() + seconds
        while (found := self.heading()) != text:
            if time.monotonic() > end:
                raise AssertionError(f"the page says {found!r}, not {text!r}: {self.text()[:400]}")
            self.browser.settle(0.05)

    def text(self):
        return self.evaluate("document.body ? document.body.innerText : ''")

    def markup(self):
        return self.evaluate("document.documentElement.outerHTML")

    def address(self):
        return self.evaluate("location.href")

    def press(self, selector):
        """As a person does with the keyboard, for which no layout has to stand still. Returns when the next page is there."""
        assert self.evaluate(
            f"(e => {{ e.focus(); return document.activeElement === e }})(document.querySelector({json.dumps(selector)}))")
        before = self.loads
        enter = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
        self.call("Input.dispatchKeyEvent", type="keyDown", text="\r", **enter)
        self.call("Input.dispatchKeyEvent", type="keyUp", **enter)
        self.until(lambda: self.loads > before, f"a page after {selector}")

    def fill(self, selector, text):
        self.evaluate(f"(e => {{ e.focus(); e.select() }})(document.querySelector({json.dumps(selector)}))")
        self.call("Input.insertText", text=text)

    def picture(self, path, width=1000, height=760, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
        self.call("Emulation.clearDeviceMetricsOverride")

    def width(self, window):
        """What the page needs of a window of that width."""
        self.call("Emulation.setDeviceMetricsOverride", width=window, height=760, deviceScaleFactor=1, mobile=False)
        try:
            return self.evaluate("document.documentElement.scrollWidth")
        finally:
            self.call("Emulation.clearDeviceMetricsOverride")

    def scripting(self, on):
        self.call("Emulation.setScriptExecutionDisabled", value=not on)

    def close(self):
        self.browser.call("Target.disposeBrowserContext", browserContextId=self.context)
        self.browser.pages.pop(self.session, None)
