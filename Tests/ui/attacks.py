"""Who else reaches the page: other origins, frames, users, old links, and browsers that keep nothing."""

import contextlib
import http.client
import json
import os
import shutil
import subprocess
import sys
import urllib.parse

from world import ANSWER_SECONDS, Skip

# A user without any right on most machines.
OTHER_USER = 65534
STRANGE_SITES = ("cross-site", "same-site", "bogus")


def denied(answer, status, words):
    assert answer.status == status, (answer.status, answer.text[-600:])
    assert words in answer.text, answer.text[-600:]
    assert "form_token" not in answer.text and "payroll" not in answer.text, "a refused request sees the accounts"


def link_once(stage):
    """A link opens the page once; a second browser with a stolen link gets nothing, and the first one keeps its page."""
    world = stage.world(accounts=["payroll"])
    link = world.link()
    page, thief = world.page(), world.page()
    page.open(link)
    page.await_heading("Accounts")
    thief.open(link)
    thief.await_heading("Link already used")
    assert "grantctl ui" in thief.text() and "payroll" not in thief.text()
    page.open(link.split("/open/")[0] + "/")
    page.await_heading("Accounts")
    assert "payroll" in page.text()
    assert page.call("Network.getCookies")["cookies"][0]["httpOnly"]
    assert page.call("Network.getCookies")["cookies"][0]["sameSite"] == "Strict"
    assert page.evaluate("document.cookie") == ""


def no_link(stage):
    """Without a cookie, and with an invented one."""
    world = stage.world(accounts=["payroll"])
    world.visit()
    denied(world.request("/"), 403, "Open this page with grantctl")
    port = urllib.parse.urlsplit(world.origin).port
    denied(world.request("/", cookie=f"grantd-{port}=invented"), 403, "This page has ended")
    denied(world.request("/live"), 403, "Open this page with grantctl")


def headers(stage):
    """Host, Origin, Fetch Metadata, the token of a form, and methods."""
    world = stage.world(accounts=["payroll"])
    cookie = world.visit()
    host = urllib.parse.urlsplit(world.origin).netloc
    assert world.request("/", cookie=cookie).status == 200
    for other in (f"localhost:{host.split(':')[1]}", "evil.example", "127.0.0.1"):
        assert world.request("/", cookie=cookie, Host=other).status == 421, other
    for site in STRANGE_SITES:
        denied(world.request("/", cookie=cookie, Sec_Fetch_Site=site), 403, "Request of another page")
    for origin in ("http://evil.example", "null", f"http://localhost:{host.split(':')[1]}"):
        denied(world.request("/", cookie=cookie, Origin=origin), 403, "Request of another page")
    denied(world.request("/", cookie=cookie, Sec_Fetch_Dest="iframe"), 403, "Request of another page")
    denied(world.request("/", cookie=cookie, Sec_Purpose="prefetch"), 503, "Not opened yet")
    token = world.form_token(cookie)
    body = urllib.parse.urlencode({"account": "payroll", "form_token": token})
    denied(world.request("/logout", body, cookie=cookie), 403, "Request of another page")
    denied(world.request("/logout", body, cookie=cookie, Origin="http://evil.example"), 403, "Request of another page")
    denied(world.request("/logout", body, cookie=cookie, Origin=world.origin, Sec_Fetch_Site="none"), 403,
           "Request of another page")
    for wrong in ("account=payroll", "account=payroll&form_token=", "account=payroll&form_token=" + "A" * 32):
        denied(world.request("/logout", wrong, cookie=cookie, Origin=world.origin), 403, "Request of another page")
    for wrong, kind in ((body, "text/plain"), (body, "multipart/form-data; boundary=x")):
        denied(world.request("/logout", wrong, cookie=cookie, Origin=world.origin, Content_Type=kind), 400, "not understood")
    denied(world.request("/logout", body + "&account=mail", cookie=cookie, Origin=world.origin), 400, "not understood")
    assert world.request("/logout", body + "&x=" + "a" * 20000, cookie=cookie, Origin=world.origin).status == 400
    assert world.state("payroll") == "ok"
    answer = world.request("/logout", body, cookie=cookie, Origin=world.origin)
    assert answer.status == 200 and "Signed out of payroll" in answer.text, answer.text[-800:]


def policy(stage):
    """What each answer tells the browser."""
    world = stage.world(accounts=["payroll"])
    cookie = world.visit()
    for path in ("/", "/add", "/approvals", "/access", "/activity", "/health", "/use?account=payroll",
                 "/logout?account=payroll", "/x"):
        answer = world.request(path, cookie=cookie)
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'") and "frame-ancestors 'none'" in policy, (path, policy)
        assert "unsafe" not in policy and "http" not in policy, (path, policy)
        assert answer.headers["Cache-Control"] == "no-store" and answer.headers["X-Frame-Options"] == "DENY", path
        assert answer.headers["Referrer-Policy"] == "same-origin", path
        assert "style=" not in answer.text and "onclick" not in answer.text, path


def another_origin(stage):
    """A page of another port posts a form and sends requests in the user's own browser, with the user's cookie."""
    world = stage.world(accounts=["payroll"])
    page = world.open()
    form = f"<form method=post action=\"{world.origin}/logout\"><input name=account value=payroll></form>"
    page.open(stage.stranger.show("/forged", form + "<script>document.forms[0].submit()</script>"))
    page.await_heading("Request of another page")
    page.open(stage.stranger.show("/fetch", "x"))
    for mode in ("cors", "no-cors"):
        answer = page.evaluate(
            f"fetch('{world.origin}/', {{mode: '{mode}', credentials: 'include'}})"
            ".then(a => a.type + a.status, e => e.message)")
        assert answer in ("opaque0", "Failed to fetch"), answer
    page.open(stage.stranger.show("/link", f"<a href=\"{world.origin}/\">x</a>"))
    page.press("a")
    page.await_heading("Request of another page")
    assert world.state("payroll") == "ok"


def frame(stage):
    """A page of another port shows the page in a frame."""
    world = stage.world(accounts=["payroll"])
    page = world.open()
    page.open(stage.stranger.show("/frame", f"<iframe src=\"{world.origin}/\"></iframe>"))
    page.browser.settle(0.3)
    ours = [response for url, response in page.responses.items() if url == world.origin + "/"]
    assert all(response["status"] == 403 for response in ours), ours
    assert any("frame" in entry["text"].lower() for entry in page.said) or not ours, page.said


AS_OTHER = """
import encodings.idna, http.client, os, sys
os.setgroups([]); os.setgid({uid}); os.setuid({uid})
port, path, cookie = int(sys.argv[1]), sys.argv[2], sys.argv[3]
connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
connection.request("GET", path, headers={{"Cookie": cookie}} if cookie else {{}})
answer = connection.getresponse()
print(answer.status); print(answer.read().decode())
"""


def as_other(port, path, cookie=""):
    done = subprocess.run(
        [sys.executable, "-c", AS_OTHER.format(uid=OTHER_USER), str(port), path, cookie], capture_output=True, text=True,
        timeout=ANSWER_SECONDS)
    assert done.returncode == 0, done.stderr
    status, _, text = done.stdout.partition("\n")
    return int(status), text


def other_user(stage):
    """Another user of the machine has the link, or the cookie."""
    if os.geteuid() != 0:
        raise Skip("needs root to be another user")
    world = stage.world(accounts=["payroll"])
    link = urllib.parse.urlsplit(world.link())
    status, text = as_other(link.port, link.path)
    assert status == 403 and "Page of another user" in text and "payroll" not in text, (status, text)
    world.origin = f"http://{link.netloc}"
    cookie = world.request(link.path).headers["Set-Cookie"].split(";")[0]
    assert world.request("/", cookie=cookie).status == 200, "the link was used up by another user"
    status, text = as_other(link.port, "/", cookie)
    assert status == 403 and "Page of another user" in text and "payroll" not in text, (status, text)


def no_cookies(stage):
    """A browser that keeps no cookies is told so."""
    world = stage.world(accounts=["payroll"])
    page = world.page()
    page.call("Network.enable")
    page.call("Emulation.setDocumentCookieDisabled", disabled=True)
    link = urllib.parse.urlsplit(world.link())
    world.origin = f"http://{link.netloc}"
    first = world.request(link.path)
    assert first.status == 303 and first.headers["Location"] == "/?opened=1"
    denied(world.request("/?opened=1"), 403, "This browser keeps no cookies")


AS_VISITOR = """
import encodings.idna, http.client, json, os, subprocess, sys, urllib.parse
os.setgroups([]); os.setgid({uid}); os.setuid({uid})
done = subprocess.run([sys.argv[1], "--socket", sys.argv[2], "ui", "--no-browser", "--json"], capture_output=True, text=True)
link = urllib.parse.urlsplit(json.loads(done.stdout)["url"])
def get(path, cookie=None):
    connection = http.client.HTTPConnection(link.hostname, link.port, timeout=60)
    connection.request("GET", path, headers={{"Cookie": cookie}} if cookie else {{}})
    answer = connection.getresponse()
    return answer.headers, answer.status, answer.read().decode()
cookie = get(link.path)[0]["Set-Cookie"].split(";")[0]
print(json.dumps([get(path, cookie)[1:] for path in sys.argv[3:]]))
"""


def as_visitor(world, *paths):
    """Status and text of views, as another user of the system's broker sees them."""
    # The other user may not reach the folder of the build.
    program = world.folder / "grantctl"
    if not program.exists():
        shutil.copy(world.products / "grantctl", program)
        program.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", AS_VISITOR.format(uid=OTHER_USER), str(program), str(world.broker.socket),
         *paths], capture_output=True, text=True, timeout=2 * ANSWER_SECONDS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def system(stage, sections=""):
    if os.geteuid() != 0:
        raise Skip("needs root to be another user")
    for folder in (stage.folder.parent, stage.folder):
        folder.chmod(0o711)
    world = stage.world(sections=sections, accounts=["payroll", "mail"], instance="system")
    world.folder.chmod(0o711)
    return world


def without_rule(stage):
    """A user for whom there is no rule learns that from the system's broker, and sees nothing else."""
    for status, text in as_visitor(system(stage), "/", "/add", "/approvals", "/access", "/activity", "/health"):
        assert status == 200 and "payroll" not in text and "alice" not in text, (status, text[-900:])
    (_, text), = as_visitor(stage.worlds[-1], "/")
    assert "No rule lets you see accounts" in text, text[-900:]


def with_rule(stage):
    """In the system's broker a user sees the accounts of the rules, and does what these allow."""
    rule = f'[[rule]]\nuid = {OTHER_USER}\naccounts = ["mail"]\naccess = ["observe"]\n'
    world = system(stage, rule)
    (status, home), (_, logout), (_, use) = as_visitor(world, "/", "/logout?account=payroll", "/use?account=payroll")
    assert status == 200 and "mail" in home and "payroll" not in home, home[-900:]
    for text in (logout, use):
        assert "alice" not in text and "form method=\"post\" action=\"/logout\"" not in text, text[-900:]


def restart(stage):
    """The broker restarts while a page is open: the page says so, and a new link opens a new one."""
    world = stage.world(accounts=["payroll"])
    page = world.open()
    page.until(lambda: any(request["url"].endswith("/live") for request in page.requests), "the page listens for events")
    page.browser.settle(0.3)
    world.broker.end(15)
    page.until(lambda: page.evaluate("!document.getElementById('lost').hidden"), "the page shows that the broker is away")
    assert "grantctl ui" in page.evaluate("document.getElementById('lost').innerText")
    world.start()
    port = urllib.parse.urlsplit(world.origin).port
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        try:
            connection.request("GET", "/")
        except ConnectionRefusedError:
            pass
        else:
            raise AssertionError("the port is still served")
    page = world.open()
    assert "payroll" in page.text()


def ended(stage):
    """Close ends the visit: its cookie is of no use."""
    world = stage.world(accounts=["payroll"])
    page = world.open()
    cookie = "; ".join(f"{one['name']}={one['value']}" for one in page.call("Network.getCookies")["cookies"])
    page.press(".end button")
    page.await_heading("Page closed")
    denied(world.request("/", cookie=cookie), 403, "This page has ended")


CASES = {
    "link-once": link_once, "no-link": no_link, "headers": headers, "policy": policy, "another-origin": another_origin,
    "frame": frame, "other-user": other_user, "no-cookies": no_cookies,
    "without-rule": without_rule, "with-rule": with_rule, "restart": restart, "ended": ended,
}
