"""Processes of one user that start together at a server without a grant: one sign-in page, which the others wait for."""

import contextlib
import os
import re
import signal
import time
import urllib.parse

from bridge import INITIALIZE, Bridge
from grantd_testing import Program, environment, redirected, wait_until
from logins import case, works
from scene import must, same, visit

PROCESSES = 20
ALL_SECONDS = 180
WAITS = "Another process has begun this sign-in"


class Signing:
    """`grantctl login URL notes` with a browser that only notes the page."""

    def __init__(self, broker, number, *words):
        self.log, self.pages = broker.folder / f"login-{number}.log", broker.folder / "pages"
        browser = broker.folder / "browser"
        if not browser.exists():
            browser.write_text(f'#!/bin/sh\necho "$1" >> "{self.pages}"\n')
            browser.chmod(0o755)
        self.process = Program(
            [broker.products / "grantctl", "--socket", broker.socket, "login", *words], self.log,
            env=environment(broker.folder) | {"BROWSER": str(browser)})

    def text(self):
        return self.log.read_text(errors="replace")

    def close(self):
        self.process.kill()


def many(scene, broker, count, *words):
    began = len(list(broker.folder.glob("login-*.log")))
    return [scene.closing.enter_context(contextlib.closing(Signing(broker, began + number, *words)))
            for number in range(count)]


def pages(broker):
    file = broker.folder / "pages"
    return file.read_text().split() if file.exists() else []


@case
def one_sign_in(scene):
    """20 commands and 20 MCP clients: one registration, one page, one code, and all have their account."""
    authorization, resource = scene.pair()
    broker = scene.start()
    clients = [scene.closing.enter_context(contextlib.closing(Bridge(broker, "notes"))) for _ in range(PROCESSES)]
    for client in clients:
        client.send(INITIALIZE)
    logins = many(scene, broker, PROCESSES, scene.url(resource), "notes")
    wait_until(lambda: sum(WAITS in login.text() for login in logins) == PROCESSES - 1, ALL_SECONDS, "all but one wait")
    for client in clients:
        same(client.answer(0)["error"]["data"]["reason"], "unknown_account", "the answer before the sign-in")
    wait_until(lambda: pages(broker), ALL_SECONDS, "the page")
    same(len(broker.call("login.list")["logins"]), 1, "logins")
    # One of those that wait is interrupted, and ends nothing.
    waiting = next(login for login in logins if WAITS in login.text())
    os.kill(waiting.process.pid, signal.SIGINT)
    wait_until(lambda: waiting.process.status is not None, ALL_SECONDS, "the interrupted command ends")
    must("stays pending" in waiting.text(), waiting.text())
    visit(redirected(redirected(pages(broker)[0])))
    others = [login for login in logins if login is not waiting]
    wait_until(lambda: all(login.process.status is not None for login in others), ALL_SECONDS, "the commands end")
    same([login.text() for login in others if login.process.status or "Signed in to notes" not in login.text()], [],
         "the commands that failed")
    same(len(pages(broker)), 1, "pages")
    same(len(authorization.asked("/register", "POST")), 1, "registrations")
    same(len([form for form in authorization.forms("/token") if "code_verifier" in form]), 1, "codes")
    same(broker.providers(), ["127.0.0.1"], "the providers")
    works(broker, "notes")
    for client in clients:
        must("result" in client.ask(1, "tools/list"), "a client that was refused before the sign-in")


@case
def one_refusal(scene):
    """A server that refuses: each command has the error, and the server was asked once."""
    authorization, resource = scene.pair()
    authorization.refused_registration = "not here"
    broker = scene.start()

    def slow(request):
        time.sleep(3)
        request.answer(200, resource.metadata)

    resource.documents = {path: slow for path in resource.documents}
    logins = many(scene, broker, PROCESSES, scene.url(resource), "notes")
    wait_until(lambda: all(login.process.status is not None for login in logins), ALL_SECONDS, "the commands end")
    same([login.text() for login in logins if "not here" not in login.text()], [], "the commands without the reason")
    tries = len(authorization.asked("/register", "POST"))
    must(tries < PROCESSES, f"{tries} registrations")
    same((broker.providers(), pages(broker)), ([], []), "providers and pages")


@case
def one_end(scene):
    """The page is declined, or the first command is interrupted: that ends the others too, and a new start has its own page."""
    _, resource = scene.pair()
    broker = scene.start()
    broker.call("resource.add", url=scene.url(resource))
    for word in ("declined", "cancelled"):
        before = len(pages(broker))
        logins = many(scene, broker, 3, scene.url(resource), "notes")
        wait_until(lambda: sum(WAITS in login.text() for login in logins) == 2, ALL_SECONDS, "all but one wait")
        wait_until(lambda: len(pages(broker)) > before, ALL_SECONDS, "the page")
        first = next(login for login in logins if WAITS not in login.text())
        if word == "declined":
            place = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(redirected(pages(broker)[-1])).query))
            visit(f"{place['redirect_uri']}?{urllib.parse.urlencode({'error': 'access_denied', 'state': place['state']})}")
        else:
            os.kill(first.process.pid, signal.SIGINT)
        wait_until(lambda: all(login.process.status is not None for login in logins), ALL_SECONDS, "the commands end")
        same([login.process.status for login in logins if not login.process.status], [], "commands that succeeded")
        same([login.text() for login in logins if word not in login.text()], [], f"the commands without “{word}”")
    same(broker.call("login.list")["logins"], [], "logins")


@case
def joined_logins(scene):
    """`join` of login.start: the same parameters, while the login is pending and new."""
    _, resource = scene.pair()
    broker = scene.start()
    provider = broker.call("resource.add", url=scene.url(resource))["provider"]

    def start(**more):
        return broker.call("login.start", **({"provider": provider, "account": "notes", "join": True} | more))

    first = start()
    must("joined" not in first, f"the first one: {first}")
    again = start()
    same((again["login_id"], again["joined"], again["destinations"]),
         (first["login_id"], True, first["destinations"]), "the second one")
    ids = {first["login_id"]}
    for other in (start(scopes=["notes.write"]), start(account="other"), start(join=False)):
        must("joined" not in other and other["login_id"] not in ids, f"joined {other}")
        ids.add(other["login_id"])
    link = next(place["url"] for place in first["destinations"] if place["kind"] == "browser")
    must(re.fullmatch(r"http://127\.0\.0\.1:\d+/go/\S+", link), link)
    visit(redirected(redirected(link)))
    same(broker.call("login.wait", login_id=again["login_id"], timeout=60)["state"], "completed", "the login")
    # It has ended: the next one asks again.
    must("joined" not in start(), "a login that has ended was joined")
    broker.call("login.cancel", login_id=start()["login_id"])
    must("joined" not in start(), "a login that was cancelled was joined")
