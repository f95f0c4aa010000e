#!/usr/bin/env python3
"""Sign in and consent at a running glewlwyd as a person's browser would, without a browser. Stdlib only.

  headless_login.py --authorization-url URL --user alice --password alice-password [--scope "openid …"] [--print-only]

Follows the authorization URL to the login page, posts the password and the consent to the JSON API behind that page,
and goes on to the client's callback. Then it requests the callback and prints its HTTP status and page title, or with
--print-only prints the callback URL alone. Exit status: 0 done, 1 refused or unexpected (the reason is on stderr),
2 wrong usage, 3 the callback answered with an error status.
"""
import argparse
import html
import http.cookiejar
import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request

HOPS = 10          # redirects from the authorization URL to the callback
WAIT = 60          # seconds for each request
PAGE = 256 * 1024  # bytes read of the callback's page


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


class Browser:
    """Keeps cookies, follows nothing by itself, uses no proxy."""

    def __init__(self, jar=True):
        handlers = [urllib.request.ProxyHandler({}), NoRedirect()]
        if jar:
            handlers.append(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        self.opener = urllib.request.build_opener(*handlers)

    def send(self, method, url, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, method=method, headers={"Accept": "*/*"})
        if data is not None:
            request.add_header("Content-Type", "application/json")
        try:
            with self.opener.open(request, timeout=WAIT) as answer:
                return answer.status, answer.headers, answer.read(PAGE)
        except urllib.error.HTTPError as answer:
            return answer.code, answer.headers, answer.read(PAGE)


def fail(text):
    print(text, file=sys.stderr)
    sys.exit(1)


def parameters(url):
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))


def same_place(url, redirect_uri):
    a, b = urllib.parse.urlsplit(url), urllib.parse.urlsplit(redirect_uri)
    return (a.scheme.lower(), a.netloc.lower(), a.path) == (b.scheme.lower(), b.netloc.lower(), b.path)


def sign_in(browser, base, login_page, args):
    """Password, then consent to the asked scopes; the URL to go on with."""
    asked = parameters(login_page)
    status, _, body = browser.send("POST", base + "/api/auth/", {"username": args.user, "password": args.password})
    if status != 200:
        fail(f"glewlwyd refused the password of {args.user}: {status} {body[:300]!r}")
    scope = args.scope or asked.get("scope", "openid")
    # The consent comes before the code: glewlwyd issues a code for whatever is granted by then.
    client = urllib.parse.quote(asked.get("client_id", ""), safe="")
    status, _, body = browser.send("PUT", f"{base}/api/auth/grant/{client}", {"scope": scope})
    if status != 200:
        fail(f"glewlwyd refused the consent to “{scope}”: {status} {body[:300]!r}")
    back = asked.get("callback_url")
    if not back:
        fail(f"the login page has no callback_url: {login_page}")
    return back + ("&" if "?" in back else "?") + "g_continue"


def callback_url(args):
    url = args.authorization_url
    parts = urllib.parse.urlsplit(url)
    base = f"{parts.scheme}://{parts.netloc}"
    # A pushed request (RFC 9126) hides the redirect URI; the first redirect away from glewlwyd is the callback then.
    redirect_uri = parameters(url).get("redirect_uri")
    browser, signed_in = Browser(), False
    for _ in range(HOPS):
        status, headers, body = browser.send("GET", url)
        location = headers.get("Location")
        if status not in (301, 302, 303, 307) or not location:
            fail(f"expected a redirect from {url.split('?')[0]}, got {status}: {body[:300]!r}")
        url = urllib.parse.urljoin(url, location)
        foreign = urllib.parse.urlsplit(url).netloc != parts.netloc
        if same_place(url, redirect_uri) if redirect_uri else foreign:
            return url
        if foreign:
            fail(f"glewlwyd redirects elsewhere: {url}")
        if urllib.parse.urlsplit(url).path.endswith("login.html"):
            if signed_in:
                fail(f"glewlwyd asks for the login again: {url}")
            url, signed_in = sign_in(browser, base, url, args), True
    fail(f"no callback after {HOPS} redirects")


def main():
    ap = argparse.ArgumentParser(description="Sign in at glewlwyd without a browser.")
    ap.add_argument("--authorization-url", required=True)
    ap.add_argument("--user", default="alice")
    ap.add_argument("--password", default="alice-password")
    ap.add_argument("--scope", help="what to consent to; the asked scopes by default")
    ap.add_argument("--print-only", action="store_true", help="print the callback URL instead of requesting it")
    args = ap.parse_args()
    try:
        url = callback_url(args)
        if args.print_only:
            print(url)
            return
        # Another user agent session: the client's callback gets none of glewlwyd's cookies.
        status, _, body = Browser(jar=False).send("GET", url)
    except OSError as error:
        fail(f"no connection: {error}")
    title = re.search(r"<title[^>]*>(.*?)</title>", body.decode("utf-8", "replace"), re.S | re.I)
    print(status, html.unescape(" ".join(title.group(1).split())) if title else "(no title)")
    if status >= 400:
        sys.exit(3)


main()
