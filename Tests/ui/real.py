"""A real provider, with its own pages."""

import shutil
import time

from rig import Glewlwyd, provider_section
from views import press, shown
from world import Skip

NEEDED = ("glewlwyd", "haproxy", "rnbyc")
PAGE_SECONDS = 90


def click(page, selector, text=""):
    """An element of a page that its script makes: once it is there."""
    found = f"[...document.querySelectorAll({selector!r})].find(e => e.textContent.trim() === {text!r} && !e.disabled)"
    end = time.monotonic() + PAGE_SECONDS
    while not page.evaluate(f"(e => {{ if (e) e.click(); return Boolean(e) }})({found})"):
        assert time.monotonic() < end, f"there is no {selector} {text}: {page.text()[:900]}"
        page.browser.settle(0.1)


def allow_all(page):
    """Each scope is checked. The page's script adds them one by one, and draws them again after a click."""
    unchecked = "[...document.querySelectorAll('.form-check-input:not(:disabled):not(:checked)')]"
    quiet = 0
    end = time.monotonic() + PAGE_SECONDS
    while quiet < 3:
        assert time.monotonic() < end, f"the scopes cannot be checked: {page.text()[:900]}"
        clicked = page.evaluate(f"(all => {{ all.forEach(e => e.click()); return all.length }})({unchecked})")
        quiet = 0 if clicked else quiet + 1
        page.browser.settle(0.1)


def glewlwyd(stage):
    """Sign-in at glewlwyd by clicks: its password and its consent in a second window, and the result by itself."""
    if not all(map(shutil.which, NEEDED)):
        raise Skip("glewlwyd is not installed: scripts/deps --tests installs it")

    def before(world):
        server = Glewlwyd(world.folder, f"http://127.0.0.1:{world.port}/callback", "--pages")
        world.pages.append(server)
        with world.broker.config.open("a") as file:
            file.write(provider_section("glewlwyd", server.info["issuer"], "native-public"))

    world = stage.world(before=before)
    page = world.open("/add")
    page.fill("#account-glewlwyd", "work")
    press(page, "Sign in", "form:has(#account-glewlwyd)")
    page.await_heading("Sign in to work")
    second = world.page()
    second.open(page.evaluate("document.getElementById('go').href"))
    shown(second, "Please enter your login and password", PAGE_SECONDS)
    second.fill("#username", "alice")
    second.fill("#password", "alice-password")
    click(second, "#loginbut", "OK")
    shown(second, "requires access to the following scopes", PAGE_SECONDS)
    allow_all(second)
    click(second, "button", "Grant access")
    click(second, "button", "Continue")
    second.await_heading("Signed in", PAGE_SECONDS)
    page.await_heading("Signed in", PAGE_SECONDS)
    assert "Alice Example" in page.text() or "alice@example.test" in page.text(), page.text()
    assert world.broker.token("work") not in page.markup() + second.markup()
    press(page, "Accounts")
    page.await_heading("Accounts")
    answer = world.broker.ctl("refresh", "work")
    assert answer.returncode == 0, answer.stderr
    press(page, "Sign out", "article")
    page.await_heading("Sign out of work")
    press(page, "Sign out")
    page.await_heading("Signed out of work")
    assert not world.socket.call("account.list")["accounts"]


CASES = {"glewlwyd": glewlwyd}
