"""What the user does on the page."""

import json
import socket
import subprocess
import time
import urllib.parse

from grantd_testing import wait_until
from world import Skip

CONFIRM = '[[rule]]\nname = "ask-me"\nanyone = true\naccounts = ["bank"]\naccess = ["use"]\nconfirm = true\n'
WAIT_SECONDS = 60
# Measurements of speed.
TRIES = 3
# The broker looks every 20 seconds whether a page is open.
CLOSE_SECONDS = 90
# What a first request loads, as the types of its replies, and the noise of the broker's other work.
KEPT_KIB = 256
SETTLE_SECONDS, RETURN_SECONDS = 3, 16
FAST = ('[provider.fast]\nkind = "oauth2"\ndiscovery = false\nauthorization_endpoint = "http://127.0.0.1:9/a"\n'
        'token_endpoint = "http://127.0.0.1:9/t"\nclient_id = "bench"\nscopes = ["openid"]\n')
MARKUP = "<img src=x onerror=pwned('identity')><script>pwned('script')</script>\"'"


def clean(page):
    """Nothing foreign ran, and the policy had nothing to prevent."""
    assert not page.alarms, page.alarms
    said = [entry["text"] for entry in page.said if entry["source"] == "security"]
    assert not said, said


def shown(page, words, seconds=WAIT_SECONDS):
    """Once the page has the words, by itself."""
    end = time.monotonic() + seconds
    while words not in (text := page.text()):
        assert time.monotonic() < end, f"{words!r} is not shown: {text[:900]}"
        page.browser.settle(0.1)
    return text


def press(page, text, scope="main"):
    """The button or link with this text."""
    mark = f"data-mark{int(time.monotonic() * 1e6)}"
    found = page.evaluate(
        f"(e => {{ if (e) e.setAttribute({mark!r}, ''); return Boolean(e) }})([...document.querySelectorAll("
        f"{scope + ' a, ' + scope + ' button'!r})].find(e => e.textContent.trim() === {text!r}))")
    assert found, f"there is no {text!r}: {page.text()[:900]}"
    page.press(f"[{mark}]")


def home(stage):
    """The accounts with identity, state and time left."""
    world = stage.world(accounts=["work", "mail"])
    page = world.open()
    text = page.text()
    for words in ("2 accounts", "work", "mail", "alice@demo.example", "Signed in", "left, next refresh"):
        assert words in text, (words, text)
    clean(page)


def empty(stage):
    """Without accounts the page leads to the first one."""
    world = stage.world()
    page = world.open()
    assert "No accounts yet" in page.text()
    press(page, "Add an account")
    page.await_heading("Add an account")
    assert "Demo & Co" in page.text()
    clean(page)


def sign_in(world, page, user="alice"):
    """On the page of the provider, in a second window, as its link opens one."""
    url = page.evaluate("document.getElementById('go').href")
    second = world.page()
    second.open(url)
    second.fill("#username", user)
    second.press("button[value=allow]")
    second.await_heading("Signed in")
    return second


def add(stage):
    """Sign-in at the demo provider by clicks; the page shows the result by itself."""
    world = stage.world()
    page = world.open("/add")
    page.fill("#account-demo", "work")
    press(page, "Sign in")
    page.await_heading("Sign in to work")
    sign_in(world, page)
    page.await_heading("Signed in")
    text = page.text()
    assert "alice@demo.example" in text and "work" in text, text
    assert world.broker.token("work") not in page.markup()
    clean(page)
    press(page, "Accounts")
    page.await_heading("Accounts")
    assert "1 account" in page.text()


def without_scripts(stage):
    """The same with scripts off: the view loads itself again."""
    world = stage.world()
    page = world.open("/add")
    page.scripting(False)
    page.open(world.origin + "/add")
    page.fill("#account-demo", "work")
    press(page, "Sign in")
    page.await_heading("Sign in to work")
    sign_in(world, page)
    page.await_heading("Signed in")
    assert world.state("work") == "ok"


def issuer(stage):
    """A new provider by its issuer's URL: registered, checked, signed in; and one that registers no clients."""
    world = stage.world()
    other = stage.demo(world, "other", registration=True)
    page = world.open("/add")
    page.fill("#issuer", "this is no address")
    page.evaluate("document.querySelector('#issuer').removeAttribute('pattern')")
    press(page, "Continue")
    assert "not the URL of an issuer" in shown(page, "issuer")
    page.open(world.origin + "/add")
    page.fill("#issuer", other.issuer)
    press(page, "Continue")
    page.await_heading("Sign in at 127.0.0.1")
    assert "Sign-in request" in page.text(), page.text()
    press(page, "Sign in")
    page.await_heading("Sign in to 127.0.0.1")
    sign_in(world, page)
    page.await_heading("Signed in")
    closed = stage.demo(world, "closed", registration=False)
    page.open(world.origin + "/add")
    page.fill("#issuer", closed.issuer)
    press(page, "Continue")
    page.await_heading("Register a client at 127.0.0.1")
    assert f"http://127.0.0.1:{world.port}/callback" in page.text()
    page.fill("#client", "demo")
    press(page, "Continue")
    page.await_heading("Sign in at 127.0.0.1-2")
    clean(page)


def declined(stage):
    """A user who declines at the provider."""
    world = stage.world()
    page = world.open("/add")
    press(page, "Sign in")
    page.await_heading("Sign in to demo")
    second = world.page()
    second.open(page.evaluate("document.getElementById('go').href"))
    second.press("button[value=deny]")
    page.await_heading("Sign-in declined")
    assert "Sign in again" in page.text()


def device(stage):
    """Another device: the code and its QR symbol."""
    world = stage.world()
    page = world.open("/add")
    press(page, "Sign in")
    page.await_heading("Sign in to demo")
    press(page, "Use another device")
    page.await_heading("Sign in to demo")
    code = page.evaluate("document.getElementById('code').textContent")
    assert len(code) >= 8 and page.evaluate("document.querySelector('svg.qr path').getAttribute('d').length") > 500
    second = world.page()
    second.open(page.evaluate("document.querySelector('.address').textContent") + "?user_code=" + code)
    assert second.heading(), second.text()
    press(page, "Cancel")
    page.await_heading("Accounts")
    assert not world.socket.call("login.list")["logins"]


def sign_out(stage):
    """A question first, then the result of each step."""
    world = stage.world(accounts=["work", "mail"])
    page = world.open()
    press(page, "Sign out", "article:has(h2 bdi):nth-of-type(2)")
    page.await_heading("Sign out of work")
    assert world.state("work") == "ok"
    press(page, "Sign out")
    page.await_heading("Signed out of work")
    text = page.text()
    for words in ("Revoke the refresh token", "Forget the account", "Done"):
        assert words in text, text
    assert [account["account"] for account in world.socket.call("account.list")["accounts"]] == ["mail"]
    clean(page)


def dead(stage):
    """An account whose grant has ended comes first, with its fix; it is signed in again."""
    world = stage.world(accounts=["alpha", "work"])
    page = world.open()
    kill(world, "work")
    shown(page, "Sign-in needed")
    first = page.evaluate("document.querySelector('article h2').textContent")
    assert first == "work", first
    assert "1 with a problem" in page.text()
    press(page, "Sign in again", "article:nth-of-type(1)")
    page.await_heading("Sign in to work")
    sign_in(world, page)
    page.await_heading("Signed in")
    assert world.state("work") == "ok"


def kill(world, account):
    """The provider refuses the account's refresh token."""
    world.demo.control("fault", endpoint="token", kind="oauth_error", times=2)
    # The first refusal ends nothing while the access token works.
    world.broker.ctl("refresh", account)
    answer = world.broker.ctl("refresh", account, "--now")
    assert world.state(account) == "login_required", (answer.stdout, answer.stderr)


def asks(world, *words):
    """A program that waits for an approval."""
    return subprocess.Popen(
        [world.products / "grantctl", "--socket", world.broker.socket, "token", "bank", *words], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True)


def approval(stage):
    """Pending releases appear by themselves; allowed, denied, and allowed for ten minutes with Revoke."""
    world = stage.world(sections=CONFIRM, accounts=["bank"])
    page = world.open("/approvals")
    assert "No request waits" in page.text()
    for word, status in (("Allow once", 0), ("Deny", 1)):
        program = asks(world)
        text = shown(page, word)
        assert "bank" in text and "grantctl" in text and "ask-me" in text, text
        press(page, word)
        out, err = program.communicate(timeout=WAIT_SECONDS)
        assert (program.returncode == 0) == (status == 0), (word, program.returncode, err)
        assert out.strip() not in page.markup() or not out.strip()
        shown(page, "No request waits")
    program = asks(world)
    shown(page, "Allow for 10 minutes")
    press(page, "Allow for 10 minutes")
    assert program.wait(WAIT_SECONDS) == 0
    shown(page, "Active approvals")
    assert asks(world).wait(WAIT_SECONDS) == 0, "the approval does not hold"
    press(page, "Revoke")
    page.await_heading("Approvals")
    assert "Active approvals" not in page.text()
    program = asks(world)
    shown(page, "Allow once")
    press(page, "Deny")
    assert program.wait(WAIT_SECONDS) != 0
    clean(page)


def markup(stage):
    """Markup in an identity and in names stays text, in every view."""
    world = stage.world()
    world.demo.control("settings", id_token_extra={"email": MARKUP, "name": MARKUP})
    world.sign_in("work")
    page = world.open()
    assert MARKUP in page.text(), page.text()
    for path in VIEWS:
        page.open(world.origin + path)
        assert not page.evaluate("document.querySelectorAll('main img, main script').length"), path
        clean(page)
    odd = urllib.parse.quote("<script>pwned(1)</script>\"'")
    for path in (f"/use?account={odd}", f"/logout?account={odd}", f"/login?id={odd}", f"/add?provider={odd}",
                 f"/activity?account={odd}&unit={odd}", f"/access?account={odd}&unit={odd}&exe={odd}",
                 f"/use?account=work&tool=git&server={odd}", f"/?after={odd}"):
        page.open(world.origin + path)
        assert not page.evaluate("document.querySelectorAll('main script').length"), path
        clean(page)


def access(stage):
    """Who may use which account; a trial with the rule to copy."""
    rule = '[[rule]]\nname = "backup"\nuid = 990\nunit = "backup.service"\naccounts = ["w*"]\naccess = ["use"]\n'
    world = stage.world(sections=rule, accounts=["work", "mail"])
    page = world.open("/access")
    text = page.text()
    assert "uid 990, backup.service" in text and "backup" in text, text
    page.fill("#try-uid", "990")
    page.fill("#try-unit", "backup.service")
    page.fill("#try-account", "work")
    press(page, "Try")
    assert "may use work" in shown(page, "Rule backup allows it")
    page.fill("#try-unit", "other.service")
    press(page, "Try")
    assert 'unit = "other.service"' in shown(page, "may not use")
    clean(page)


def activity(stage):
    """Releases in the plot and in the records; filters; export."""
    world = stage.world(accounts=["work", "mail"])
    for _ in range(5):
        world.broker.token("work")
    world.broker.token("mail")
    page = world.open("/activity")
    wait_until(lambda: reload(page) and "6 releases" in page.text(), WAIT_SECONDS, "six releases are plotted", 0.5)
    assert page.evaluate("document.querySelectorAll('svg.plot rect.ok').length") == 24
    page.fill("#f-account", "mail")
    press(page, "Filter")
    accounts = page.evaluate("[...document.querySelectorAll('main tbody td:nth-child(2)')].map(e => e.textContent)")
    assert set(accounts) == {"mail"}, accounts
    cookie = "; ".join(f"{one['name']}={one['value']}" for one in page.call("Network.getCookies")["cookies"])
    answer = world.request("/activity.json?account=work", cookie=cookie)
    records = json.loads(answer.text)["records"]
    assert {record["account"] for record in records} == {"work"}, records
    assert answer.headers["Content-Disposition"].startswith("attachment")
    clean(page)


def reload(page):
    page.open(page.address())
    return True


def health(stage):
    """The broker and its providers; a check; a provider that is away."""
    world = stage.world(accounts=["work"])
    page = world.open("/health")
    text = page.text()
    for words in ("Nothing needs your attention", "Demo & Co", "Last backup", "none in the audit trail"):
        assert words in text, (words, text)
    world.broker.ctl("refresh", "work")
    page.open(world.origin + "/health")
    assert " ms" in page.evaluate("document.querySelector('main table').innerText"), page.text()
    world.demo.close()
    world.broker.ctl("refresh", "work")
    press(page, "Check")
    page.await_heading("Checks of demo")
    assert "Failed" in page.text(), page.text()
    page.open(world.origin + "/")
    assert "Refresh failed" in shown(page, "connection refused"), page.text()
    clean(page)


def use(stage):
    """Snippets, and what `grantctl configure` prints; a server that is missing."""
    world = stage.world(accounts=["work"])
    page = world.open("/use?account=work")
    assert "grantctl token work" in page.text()
    press(page, "Show")
    shown(page, "Git needs its server")
    page.fill("#server", "git.example.com")
    press(page, "Show")
    text = shown(page, "Write it to the tool's files")
    printed = world.broker.ctl("configure", "git", "work", "git.example.com").stdout
    assert "helper git" in printed
    for line in printed.splitlines():
        assert line.strip() in text, (line, text)
    clean(page)


def many(stage):
    """200 accounts: pages, and the first view within 50 ms."""
    world = stage.world()
    world.sign_in("account-000")
    for number in range(1, 200):
        world.sign_in(f"account-{number:03}", user=f"user-{number}")
    first_view(world, 200, 0.05)
    page = world.open()
    press(page, "Next page")
    assert "account-024" in page.text() and "account-000" not in page.text()


def first_view(world, accounts, limit):
    """The median of some requests, in seconds; the best of some, since the machine may pause."""
    cookie, medians = world.visit(), []
    while not medians or min(medians) >= limit and len(medians) < TRIES:
        times = []
        for _ in range(7):
            began = time.monotonic()
            answer = world.request("/", cookie=cookie)
            times.append(time.monotonic() - began)
            assert answer.status == 200 and f"{accounts} accounts" in answer.text, answer.text[:600]
            assert answer.text.count("<article") == 24 and "Next page" in answer.text
        medians.append(sorted(times)[3])
    median = min(medians)
    print(f"# first view of {accounts} accounts: {median * 1000:.0f} ms, {len(answer.text)} characters")
    assert median < limit, f"the first view takes {median * 1000:.0f} ms"


def thousands(stage):
    """10,000 accounts: the first view within 200 ms, and every page by its link."""
    fixture = stage.products / "store-fixture"
    if not fixture.exists():
        raise Skip("there is no store-fixture")

    def fill(world):
        subprocess.run(
            [fixture, "seed", "--folder", world.broker.state, "--accounts", "10000", "--issued-ago", "1000", "--expires-in",
             "500000"], check=True, stdout=subprocess.DEVNULL)

    world = stage.world(sections=FAST, before=fill)
    first_view(world, 10000, 0.2)


def memory(process):
    """KiB of its own."""
    with open(f"/proc/{process}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon:"))


def closes(stage):
    """Without a page the broker listens no more and keeps no memory of it, and a new link opens it again."""
    world = stage.world(accounts=["work"])
    world.broker.ctl("status")
    process = world.broker.process.pid
    time.sleep(SETTLE_SECONDS)
    before = memory(process)
    page = world.open()
    for path in VIEWS:
        page.open(world.origin + path)
    opened = memory(process)
    press(page, "Close", "header")
    page.await_heading("Page closed")
    parts = urllib.parse.urlsplit(world.origin)

    def refused():
        with socket.socket() as probe:
            return probe.connect_ex((parts.hostname, parts.port)) != 0

    wait_until(refused, CLOSE_SECONDS, "the port is closed", 0.5)
    time.sleep(RETURN_SECONDS if memory(process) - before >= KEPT_KIB else 0.5)
    closed = memory(process)
    print(f"# the page adds {opened - before} KiB while it is open, and {closed - before} KiB after that")
    assert closed - before < KEPT_KIB, f"{closed - before} KiB more than before the page"
    assert "work" in world.open().text()


VIEWS = ("/", "/add", "/add?template=google", "/approvals", "/access", "/activity", "/health", "/use?account=work",
         "/logout?account=work", "/nothing")
CASES = {
    "home": home, "empty": empty, "add": add, "without-scripts": without_scripts, "issuer": issuer, "declined": declined,
    "device": device, "sign-out": sign_out, "dead": dead, "approval": approval, "markup": markup, "access": access,
    "activity": activity, "health": health, "use": use, "many": many, "thousands": thousands, "closes": closes,
}
