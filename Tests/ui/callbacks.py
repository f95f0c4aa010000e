"""The pages that a browser sees after the provider: each outcome has its heading, says what happened, and names the next
command."""

import contextlib
import subprocess

from conditions import Clock
from views import clean

LOGIN_SECONDS = 600


@contextlib.contextmanager
def login(world, account):
    """`grantctl login` in a terminal: the link that it prints."""
    command = [world.products / "grantctl", "--socket", world.broker.socket, "login", "demo", account, "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as program:
        try:
            yield program.stdout.readline().split()[-1]
        finally:
            program.kill()


def answer(page, link, button, user="alice"):
    page.open(link)
    page.fill("#username", user)
    page.press(f"button[value={button}]")


def outcome(page, heading, *words):
    page.await_heading(heading)
    text = page.text()
    for word in words:
        assert word in text, (word, text)
    clean(page)
    return text


def facts(page):
    return dict(page.evaluate("[...document.querySelectorAll('dl div')].map(e => [...e.children].map(e => e.textContent))"))


def signed_in(world, page):
    """Success names the identity, the provider, and the program that asked; a second time nothing is done again."""
    with login(world, "work") as link:
        answer(page, link, "allow")
        outcome(page, "Signed in", "You can close this window.")
    assert facts(page) == {
        "Signed in as": "alice@demo.example", "Name": "Alice Example", "Account": "work", "Provider": "Demo & Co",
        "Asked for by": str((world.products / "grantctl").resolve())}, page.text()
    assert world.state("work") == "ok"
    page.open(page.address())
    outcome(page, "Already completed", "was completed before; nothing was done again", "What to do: grantctl status")


def declined(world, page):
    with login(world, "mail") as link:
        answer(page, link, "deny")
        outcome(page, "Sign-in declined", "declined at the provider", "Nothing was stored",
                "What to do: Start again with grantctl login demo mail")


def provider_fault(world, page):
    world.demo.control("fault", endpoint="token.code", kind="status", status=503, times=1)
    with login(world, "mail") as link:
        answer(page, link, "allow")
        outcome(page, "Problem at the provider", "You are not signed in", "HTTP 503", "grantctl login demo mail")


def refused(world, page):
    """An answer of no login; the one that waits still does."""
    with login(world, "mail") as link:
        page.open(link)
        page.open(f"http://127.0.0.1:{world.port}/callback?code=x&state=forged")
        outcome(page, "Answer not accepted", "belongs to no login", "still open", "or run grantctl login again")
        (waiting,) = world.socket.call("login.list")["logins"]
        world.socket.call("login.cancel", login_id=waiting["login_id"])


def expired(world, page, clock):
    with login(world, "mail") as link:
        page.open(link)
        clock.pass_by(2 * LOGIN_SECONDS)
        page.fill("#username", "alice")
        page.press("button[value=allow]")
        for _ in range(2):
            outcome(page, "Sign-in expired", "too much time passed", "Nothing was stored",
                    "grantctl login demo mail")
            page.open(page.address())


def callbacks(stage):
    """Each outcome of a sign-in that `grantctl login` began."""
    clocks = []
    world = stage.world(before=lambda world: clocks.append(Clock(world)))
    page = world.page()
    for case in (signed_in, declined, provider_fault, refused):
        case(world, page)
    expired(world, page, clocks[0])
    assert [one["account"] for one in world.socket.call("account.list")["accounts"]] == ["work"]


CASES = {"callbacks": callbacks}
