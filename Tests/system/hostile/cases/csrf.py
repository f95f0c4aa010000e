"""Logins that another local user completes as themselves."""

import http.client
import os
import pathlib
import subprocess
import tempfile
import urllib.parse

from caller import attempt
from grantd_testing import wait_until
from machine import SOCKET, USERS
from stage import browser_address, hold, sign_in_at

# Names that no page has by chance.
OWNER, ATTACKER = "ada-lovelace", "mallory"
HTTP_SECONDS = 60
COMMAND_SECONDS = 60
LOGIN_SECONDS = 20
# The parameters of the authorization request that another user can sign in with.
SECRETS = ("state", "nonce", "code_challenge")


def start(_, account):
    return attempt("login.start", provider="main", account=account)


def sign_in(_, url, user):
    """Status and page of what the browser ends at."""
    try:
        status, _, page = sign_in_at(url, user)
    except OSError as error:
        return [0, str(error)]
    return [status, page]


def open_once(_, url):
    """Status and Location of one exchange."""
    place = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=HTTP_SECONDS)
    try:
        connection.request("GET", place.path + (f"?{place.query}" if place.query else ""))
        answer = connection.getresponse()
        return [answer.status, answer.getheader("Location")]
    except OSError:
        return [0, None]
    finally:
        connection.close()


def wait(_, login, seconds):
    return attempt("login.wait", login_id=login, timeout=seconds)


def person(result):
    """Who was signed in, or how the login is."""
    identity = result.get("account", {}).get("identity")
    return identity["subject"] if identity else result.get("state") or result["reason"]


def by_address(stage):
    """Another user who has the browser's address cannot sign in with it; the login's user still can."""
    owner, attacker = stage.machine.user("owner"), stage.machine.user("ruleless")
    stage.begin("main")
    started = stage.once(owner, start, "work")
    url = browser_address(started)
    status, _ = stage.once(attacker, sign_in, url, ATTACKER)
    after_attack = person(stage.once(owner, wait, started["login_id"], 1))
    stage.once(owner, sign_in, url, OWNER)
    after = person(stage.once(owner, wait, started["login_id"], LOGIN_SECONDS))
    return hold([
        (after_attack == "pending", f"another user ended at {status}: the login is {after_attack}"),
        (after == OWNER, f"then the user signs in: {after}")])


def by_request(stage):
    """Another user who has the authorization request cannot bring its callback back."""
    owner, attacker = stage.machine.user("owner"), stage.machine.user("ruleless")
    stage.begin("main")
    started = stage.once(owner, start, "work")
    url = browser_address(started)
    # The short address leads to the request; where there is none, the address is the request.
    request = stage.once(owner, open_once, url)[1] or url
    status, _ = stage.once(attacker, sign_in, request, ATTACKER)
    after_attack = person(stage.once(owner, wait, started["login_id"], 1))
    stage.once(owner, sign_in, request, OWNER)
    after = person(stage.once(owner, wait, started["login_id"], LOGIN_SECONDS))
    return hold([
        (after_attack == "pending", f"another user's callback: {status}, the login is {after_attack}"),
        (after == OWNER, f"then the user signs in: {after}")])


def short(stage):
    """The browser's address is short, on the callback's listener, tells nothing of the request, and is good once."""
    owner = stage.machine.user("owner")
    stage.begin("main")
    url = browser_address(stage.once(owner, start, "work"))
    callbacks = stage.ask("broker.status")["callback"]
    told = [name for name in SECRETS if name + "=" in url]
    first, second = (stage.once(owner, open_once, url) for _ in range(2))
    is_callback = any(url.startswith(callback + "/go/") for callback in callbacks)
    return hold([
        (is_callback, f"the address begins {url.split('?')[0][:40]}"),
        (not told, f"it has {', '.join(told) or 'nothing of the request'}"),
        (bool(first[1]), f"opened: {first[0]}"),
        (not second[1] and second[0] >= 400, f"opened again: {second[0]}")])


def command_line(folder):
    """`grantctl login` as sudo(8) has root run it for the owner, with a browser that only notes the address."""
    browser = folder / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >>{folder}/address\n')
    browser.chmod(0o755)
    environment = os.environ | {
        "GRANTD_SOCKET": str(SOCKET), "BROWSER": str(browser), "SUDO_UID": str(USERS["owner"]),
        "SUDO_GID": str(USERS["owner"]), "SUDO_USER": "owner"}
    with open(folder / "said", "wb") as said:
        return subprocess.Popen(
            ["timeout", str(COMMAND_SECONDS), "grantctl", "login", "main", "work"], env=environment,
            stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT)


def by_sudo(stage):
    """A login by `sudo grantctl login` is for the browser of the user who ran it; all say who was signed in."""
    stage.begin("main")
    with tempfile.TemporaryDirectory(prefix="hostile-browser-") as name:
        folder = pathlib.Path(name)
        # The browser is the owner's.
        folder.chmod(0o777)
        process, address = command_line(folder), folder / "address"
        stage.open_ones.callback(process.kill)
        wait_until(lambda: address.exists() and address.read_text(), 60, "grantctl opens the browser")
        url = address.read_text().split()[0]
        stage.once(stage.machine.user("ruleless"), sign_in, url, ATTACKER)
        _, page = stage.once(stage.machine.user("owner"), sign_in, url, OWNER)
        process.wait(COMMAND_SECONDS)
        said = (folder / "said").read_text()
    identity = stage.ask("account.get", account="work").get("identity", {}).get("subject")
    return hold([
        (identity == OWNER, f"the account is {identity}'s"),
        (OWNER in page, f"the page {'names' if OWNER in page else 'does not name'} who signed in"),
        (OWNER in said, f"grantctl {'names' if OWNER in said else 'does not name'} who signed in")])


CASES = {"csrf-address": by_address, "csrf-request": by_request, "csrf-short": short, "csrf-sudo": by_sudo}
