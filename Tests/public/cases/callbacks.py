"""Callbacks: browsers that prefetch, repeat, ask first or send too much, and providers with odd parameters."""

import urllib.parse

from browser import browse, connect, head
from rig import must, same
from table import oauth2, oidc, row

PREFETCHES = ("prefetch", "prefetch;prerender")


def unspent(site, login):
    """The login waits, and no code was sent to the provider."""
    must(login.pending(), f"the login no longer waits: {login.wait(0)}")
    same(site.fake.count("code"), 0, "the number of code exchanges")


@row("C01", "streamlit/streamlit#15568, PR 15589", oidc())
def prefetch(scene, site):
    """a prefetch of the callback spends the code"""
    login = site.start()
    url = login.callback()
    for purpose in PREFETCHES:
        browse(url, fields=[("Sec-Purpose", purpose)])
        unspent(site, login)
    page = browse(url)
    same(page.status, 200, "the status of the page")
    login.completed()
    same(site.fake.count("code"), 1, "the number of code exchanges")


@row("C02", "discord/discord-api-docs#6073", oidc())
def two_navigations(scene, site):
    """the provider's page navigates twice, with two codes"""
    login = site.start()
    first, second = login.callback(), login.callback()
    parts = urllib.parse.urlsplit(first)
    with connect(parts.hostname, parts.port) as stream:
        stream.sendall(head(first))
    page = browse(second)
    must("text/html" in page.fields["content-type"] and page.body, f"the second page is empty: {page}")
    must(page.status < 500, f"the second page has status {page.status}")
    login.completed()
    same(site.fake.count("code"), 1, "the number of code exchanges")
    same(site.account()["state"], "ok", "the state of the account")
    site.refreshed()
    must(site.token() in site.fake.tokens, "the token is not one of the provider's")


@row("C03", "lionello/onedrive-cli PR 63, modelstudioai/cli#190", oidc())
def preflight(scene, site):
    """an OPTIONS preflight is taken for the callback"""
    login = site.start()
    url = login.callback()
    browse(url, "OPTIONS", [("Origin", site.fake.origin), ("Access-Control-Request-Method", "GET"),
                            ("Access-Control-Request-Private-Network", "true")])
    unspent(site, login)
    browse(url)
    login.completed()


@row("C04", "PostHog/wizard PR 1253", oidc())
def cookies(scene, site):
    """cookies of other localhost servers make the head too large"""
    for account, size in (("c04-large", 20), ("c04-larger", 40)):
        login = site.start(account)
        url = login.callback()
        page = browse(url, fields=[("Cookie", f"other={'x' * (size << 10)}")])
        if size > 20:
            must(400 <= page.status < 500, f"the status is {page.status} for {size} KiB of cookies")
            must("text/html" in page.fields.get("content-type", "") and "cookie" in page.body.lower(),
                 f"the page does not name the cookies: {page}")
            must(login.pending(), "the login no longer waits")
            browse(url)
        login.completed()


@row("C05", "OpenWhispr/openwhispr#1750", oidc())
def wrong_state(scene, site):
    """a callback with a wrong state ends the login, or leaves it without a word"""
    login = site.start()
    url = login.callback()
    page = browse(url.partition("?")[0] + "?code=x&state=wrong")
    must(400 <= page.status < 500 and page.body, f"the page of a wrong state is {page.status} {page.body[:80]!r}")
    unspent(site, login)
    same(browse(url).status, 200, "the status of the right callback")
    login.completed()


@row("C07", "ooples/AiDotNet PR 1258, pantasystem/Milktea PR 1145, better-auth#8954", oidc())
def bad_escapes(scene, site):
    """an error_description that is not UTF-8, or has a bad escape, hides the denial"""
    for number, text in enumerate(("Acc%E8s%20refus%E9", "%ZZ", "100%", "%")):
        login = site.start(f"c07-{number}")
        state = urllib.parse.parse_qs(urllib.parse.urlsplit(login.callback()).query)["state"][0]
        target = login.callback().partition("?")[0]
        page = browse(f"{target}?error=access_denied&error_description={text}&state={state}")
        must(page.body and page.status < 500, f"the page for {text} is {page.status}")
        must(not login.pending(), f"{text}: the login still waits; the page has status {page.status}")
        error = login.failed()
        same(error.reason, "login_denied", f"the reason with {text}")
        same(error.data.get("oauth", {}).get("error"), "access_denied", f"the provider's error with {text}")
    same(site.fake.count("code"), 0, "the number of code exchanges")


@row("C10", "modelcontextprotocol/go-sdk#1152, ory/polis#2074", oauth2(), oidc())
def issuer_parameter(scene, plain, known):
    """`iss` in the callback of a provider that did not announce it"""
    plain.fake.iss = plain.fake.issuer
    plain.sign_in()
    known.fake.iss = known.fake.issuer
    known.sign_in()
    known.fake.iss = "https://attacker.invalid"
    exchanges = known.fake.count("code")
    login = known.start("c10-attacked")
    page = browse(login.callback())
    must(400 <= page.status < 500, f"the page for a wrong iss has status {page.status}")
    answer = login.wait(0)
    must(not isinstance(answer, dict) or answer["state"] == "pending", f"a wrong iss completes the login: {answer}")
    same(known.fake.count("code"), exchanges, "the number of code exchanges")
