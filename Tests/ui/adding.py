"""A new provider that hangs or is slow while it is added."""

import contextlib
import socket

from grantd_testing import wait_until
from views import press, shown

PAGE_SECONDS = 90
# The broker gives a provider 30 seconds.
HANGING_SECONDS = 60


def hanging(stage):
    """A new provider that accepts connections and answers nothing: the step that hangs is shown while it does, then a
    sentence with the next step, and nothing is stored."""
    world = stage.world()
    page = world.open("/add")
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as silent:
        issuer = f"http://127.0.0.1:{silent.getsockname()[1]}"
        page.fill("#issuer", issuer)
        press(page, "Continue")
        assert steps(page) == {"Registration": "Running", "Checks": "Waits", "Sign-in request": "Waits"}, page.text()
        assert not page.evaluate("Boolean(document.querySelector('main .message'))")
        press(page, "Add another account")
        page.await_heading("Add an account")
        page.call("Page.navigateToHistoryEntry", entryId=page.call("Page.getNavigationHistory")["entries"][-2]["id"])
        shown(page, "Running")
    wait_until(lambda: page.browser.settle(0.1) or page.evaluate("Boolean(document.querySelector('main .message'))"),
               HANGING_SECONDS, "the page says why the provider was not added")
    assert page.evaluate("document.querySelector('main .message .step').textContent"), page.text()
    assert page.evaluate("document.getElementById('issuer').value") == issuer, page.text()
    assert [one["provider"] for one in world.socket.call("provider.list")["providers"]] == ["demo"]
    assert not world.socket.call("login.list")["logins"] and not world.socket.call("account.list")["accounts"]


def steps(page):
    return dict(page.evaluate(
        "[...document.querySelectorAll('.steps li')].map(e => [e.querySelector('.name').textContent, "
        "e.querySelector('.badge').textContent])"))


def slow(stage):
    """The steps of a new provider are shown one after the other, also without scripts."""
    world = stage.world()
    other = stage.demo(world, "other", registration=True)
    for place in ("discovery", "jwks"):
        other.control("fault", endpoint=place, kind="delay", seconds=HANGING_SECONDS, times=1)
    page = world.open("/add")
    page.fill("#issuer", other.issuer)
    page.scripting(False)
    press(page, "Continue")
    assert steps(page) == {"Registration": "Running", "Checks": "Waits", "Sign-in request": "Waits"}, page.text()
    other.control("release")
    wait_until(lambda: page.browser.settle(0.1) or steps(page).get("Checks") == "Running", PAGE_SECONDS, "the checks run")
    assert steps(page) == {"Registration": "OK", "Checks": "Running", "Sign-in request": "Waits"}, page.text()
    other.control("release")
    page.await_heading("Sign in at 127.0.0.1", PAGE_SECONDS)
    assert steps(page)["Sign-in request"] == "OK", page.text()


CASES = {"hanging": hanging, "slow": slow}
