"""Reports to this project that no row of a comparable program covers."""

import os
import pty
import re
import select
import subprocess
import time
import urllib.parse

from grantd_testing import environment, wait_until
from browser import browse, follow
from provider import CLIENT
from rig import must, same
from server import Answer
from table import oidc, row

SECONDS = 20
# A terminal in canonical mode cuts a line after 4,095 bytes.
PADDING = 6000
LOGIN_URL = re.compile(rb"http://127\.0\.0\.1:\d+/authorize\?[!-~]+")


def answered(login, **members):
    """The page for a callback with these members and the login's state."""
    target, _, query = login.callback().partition("?")
    members["state"] = dict(urllib.parse.parse_qsl(query))["state"]
    return browse(f"{target}?{urllib.parse.urlencode(members)}")


@row("C11", "a report to this project", oidc({"extra": {"authorization_response_iss_parameter_supported": True}}))
def denial_without_issuer(scene, site):
    """a denial without the promised `iss` leaves the login waiting"""
    login = site.start("c11-denied")
    answered(login, error="access_denied")
    same(login.failed().reason, "login_denied", "the reason of the denial")
    # A code needs it.
    login = site.start("c11-code")
    page = browse(login.callback())
    must(400 <= page.status < 500, f"the page for a code without iss has status {page.status}")
    same(site.fake.count("code"), 0, "the number of code exchanges")
    site.fake.iss = site.fake.issuer
    site.sign_in("c11-code")


@row("C12", "a report to this project", oidc())
def errors_of_the_client(scene, site):
    """an error of the client or of the server in the callback is shown as the user's denial"""
    expected = {"invalid_scope": ("provider_misconfigured", "scopes", 78),
                "unauthorized_client": ("provider_misconfigured", "client_id", 78),
                "server_error": ("temporarily_unavailable", "later", 5),
                "temporarily_unavailable": ("temporarily_unavailable", "later", 5),
                "access_denied": ("login_denied", "", None)}
    for code, (reason, words, status) in expected.items():
        login = site.start(f"c12-{code}".replace("_", "-"))
        answered(login, error=code)
        error = login.failed()
        same(error.reason, reason, f"the reason with {code}")
        must(words in error.data.get("hint", ""), f"the hint with {code} is {error.data}")
        if status:
            same(scene.ctl("call", "login.wait", f'{{"login_id": "{login.id}"}}').returncode, status, f"the status with {code}")


@row("C13", "a report to this project", oidc(), seconds=3)
def long_paste(scene, site):
    """a callback URL of more than 4,095 bytes that is pasted at a terminal is cut"""
    main, side = pty.openpty()
    process = subprocess.Popen(
        [scene.broker.products / "grantctl", "login", site.name, "--manual"], stdin=side, stdout=side, stderr=side,
        env=environment(scene.home, GRANTD_SOCKET=str(scene.broker.socket), TERM="dumb"), start_new_session=True)
    os.close(side)
    shown, end = b"", time.monotonic() + SECONDS
    while not LOGIN_URL.search(shown) or not shown.endswith(b" "):
        must(time.monotonic() < end, f"no URL: {shown[-400:]}")
        if select.select([main], [], [], 0.5)[0]:
            shown += os.read(main, 1 << 16)
        elif LOGIN_URL.search(shown):
            break
    callback = follow(LOGIN_URL.search(shown)[0].decode()) + "&padding=" + "p" * PADDING
    left = (callback + "\r").encode()
    while process.poll() is None:
        must(time.monotonic() < end, f"the login has not ended: {shown[-400:]}")
        reads, writes, _ = select.select([main], [main] if left else [], [], 0.2)
        try:
            if reads:
                shown += os.read(main, 1 << 16)
            if writes:
                left = left[os.write(main, left[:256]):]
        except OSError:
            break
    same(process.wait(SECONDS), 0, f"the status of grantctl login ({shown[-300:]})")
    same(site.account()["state"], "ok", "the state")


@row("M11", "a report to this project", oidc())
def two_documents(scene, site):
    """an endpoint that only the second metadata document has is unknown"""
    fake = site.fake
    fake.always("oauth-metadata", lambda request, usual: Answer.json({
        "issuer": fake.issuer, "authorization_endpoint": f"{fake.issuer}/authorize", "token_endpoint": f"{fake.issuer}/token",
        "response_types_supported": ["code"], "revocation_endpoint": f"{fake.issuer}/revoke"}))
    fake.always("/revoke", Answer.json({}))
    site.sign_in()
    scene.printed("logout", site.name)
    wait_until(lambda: fake.count("/revoke"), SECONDS, "a revocation at the endpoint of the second document")


@row("M12", "a report to this project", oidc())
def other_issuers_document(scene, site):
    """the second metadata document is of another issuer, and is merged"""
    fake = site.fake
    fake.always("oauth-metadata", Answer.json({
        "issuer": "https://attacker.invalid", "authorization_endpoint": f"{fake.issuer}/authorize",
        "token_endpoint": f"{fake.issuer}/token", "response_types_supported": ["code"],
        "revocation_endpoint": f"{fake.issuer}/attacker"}))
    site.sign_in()
    scene.ctl("logout", site.name)
    same(fake.count("/attacker"), 0, "the requests to the other issuer's endpoint")


@row("O03", "a report to this project", oidc(revocation_endpoint="{issuer}/revoke"), oidc(revocation_endpoint="{issuer}/revoke"))
def unrevoked(scene, works, fails):
    """a logout that could not revoke ends with status 0"""
    works.fake.always("/revoke", Answer.json({}))
    fails.fake.always("/revoke", Answer.error("unsupported_token_type"))
    for site, status in ((works, {0}), (fails, range(1, 100))):
        site.sign_in()
        done = scene.ctl("logout", site.name)
        must(done.returncode in status, f"the status of a logout at {site.name} is {done.returncode}: {done.stderr}")
    must("revo" in done.stderr + done.stdout, f"the revocation is not named: {done.stderr}")


def robot(scene):
    """A declared account with other scopes than its provider's section."""
    site, secret = scene.sites[0], scene.broker.folder / "client-secret"
    secret.write_text("s3cret\n")
    secret.chmod(0o600)
    site.keys["client_secret_file"] = str(secret)
    site.fake.clients[CLIENT] = "s3cret"
    site.fake.always("token", Answer.json({"access_token": "robot", "token_type": "Bearer", "expires_in": 3600, "scope": "a"}))
    return f'[callback]\nport = 0\n[account.robot]\nprovider = "{site.name}"\ngrant = "client_credentials"\nscopes = ["a"]\n'


@row("O04", "a report to this project", oidc(), own=robot)
def declared_account(scene, site):
    """doctor compares a declared account with the scopes of logins, and advises a login"""
    site.token("robot")
    shown = " ".join(scene.ctl("doctor", site.name).stdout.split())
    must("robot" in shown and "all that is configured" in shown, f"doctor prints {shown}")
    must("grantctl login" not in shown, f"doctor advises a login: {shown}")


@row("T16", "a report to this project", oidc())
def odd_texts(scene, site):
    """control characters of a provider's texts reach the terminal"""
    site.sign_in()
    site.fake.always("refresh", Answer.error("invalid_request", 400, "first\u001b[31m\u0007\r\nsecond"))
    site.refresh()
    for shown in (scene.ctl("status", site.name), scene.ctl("refresh", site.name, "--now"), scene.ctl("doctor", site.name)):
        text = shown.stdout + shown.stderr
        must(not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text), f"control characters: {text!r}")
    must("second" in scene.ctl("refresh", site.name, "--now").stderr, "the rest of the text is lost")
    login = site.start("t16")
    answered(login, error="access_denied", error_description="one\u001b]0;x\u0007two")
    must(not re.search(r"[\x00-\x1f\x7f]", str(login.failed())), "control characters in the error of a login")
