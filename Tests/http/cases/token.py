"""POST /token: what clients get, each error, outages, and fifty who ask at once (RFC 6749 §4.4, §5, §6)."""

import base64
import concurrent.futures
import json
import os
import time
import urllib.parse

from grantd_testing import wait_until
from rig import case, has, must
from wire import Reader, dial, request

FORM = [("Content-Type", "application/x-www-form-urlencoded")]
LONGEST_SECONDS = 300
ASKERS = 50
SHORT_SECONDS = 4
WAIT_SECONDS = 60


def basic(name, secret="ignored"):
    text = f"{urllib.parse.quote_plus(name)}:{urllib.parse.quote_plus(secret)}"
    return [("Authorization", f"Basic {base64.b64encode(text.encode()).decode()}")]


def post(scene, form, fields=(), **more):
    body = form if isinstance(form, str) else urllib.parse.urlencode(form)
    return scene.ask("POST", "/token", body, [*FORM, *fields], **more)


def credentials(scene, name, **form):
    return post(scene, {"grant_type": "client_credentials", "client_id": name, "client_secret": "x"} | form)


def is_uncached(answer):
    must("no-store" in answer.get("cache-control", "") and answer.get("pragma") == "no-cache",
         f"fields {answer.fields}")
    must(answer.get("content-type", "").startswith("application/json"), f"fields {answer.fields}")


def granted(scene, answer, account="work"):
    """The members of an answer that is right in all of them."""
    must(answer.status == 200, f"status {answer.status}: {answer.body[:500]}")
    is_uncached(answer)
    value = json.loads(answer.body)
    must(set(value) == {"access_token", "token_type", "expires_in", "scope"}, f"members {set(value)}")
    must(value["token_type"] == "Bearer" and value["access_token"] in scene.provider.of(account), f"{value}")
    must(type(value["expires_in"]) is int and 0 < value["expires_in"] <= LONGEST_SECONDS, f"{value}")
    return value


def refused(answer, status, error):
    must(answer.status == status, f"status {answer.status}, not {status}: {answer.body[:500]}")
    is_uncached(answer)
    value = json.loads(answer.body)
    must(value["error"] == error, f"{value['error']}, not {error}")
    must(value.get("error_description"), f"no description: {value}")
    # RFC 6749 §5.2 has these characters alone.
    must(all(" " <= letter <= "~" and letter not in '"\\' for letter in value["error_description"]), f"{value}")
    return value["error_description"]


@case("token.client_credentials")
def client_credentials(scene):
    value = granted(scene, credentials(scene, "work"))
    must(set(value["scope"].split()) == {"a", "b"}, f"scope {value['scope']}")
    again = granted(scene, credentials(scene, "metrics"))
    must(again["access_token"] == value["access_token"], "the handle has another token than its account")
    form = {"grant_type": "client_credentials"}
    for fields in (basic("work"), basic("work", ""),
                   [("authorization", basic("work")[0][1].replace("Basic", "basic"))]):
        granted(scene, post(scene, form, fields))
    granted(scene, post(scene, form | {"client_id": "work"}, basic("work")))
    granted(scene, post(scene, form | {"client_id": "work", "unknown": "x", "audience": "y"}))
    granted(scene, post(scene, form | {"client_id": "work"},
                        [("Accept", "text/html"), ("Connection", "keep-alive, x")]))


@case("token.refresh_token")
def refresh_token(scene):
    form = {"grant_type": "refresh_token", "refresh_token": "work", "client_id": "anything", "client_secret": "x"}
    granted(scene, post(scene, form))
    granted(scene, post(scene, {"grant_type": "refresh_token", "refresh_token": "metrics"}, basic("other")))
    narrow = granted(scene, post(scene, form | {"refresh_token": "narrow"}))
    must(narrow["scope"] == "a", f"scope {narrow['scope']}")
    refused(post(scene, form | {"refresh_token": "unheard-of"}), 401, "invalid_client")
    must(not [one for one in scene.provider.asked["work"] if one.form.get("refresh_token") != "rt-work"],
         "a handle was sent on")


@case("token.names")
def names(scene):
    """All that an account's name may have, in Basic with the encoding of forms (RFC 6749 §2.3.1)."""
    for name in ("me@x+y.z", "A-_.0", "@", "n" * 128):
        scene.broker.imported("p", name)
        granted(scene, credentials(scene, name), name)
        granted(scene, post(scene, {"grant_type": "client_credentials"}, basic(name)), name)
        granted(scene, post(scene, {"grant_type": "refresh_token", "refresh_token": name}), name)


@case("token.scopes")
def scopes(scene):
    value = granted(scene, credentials(scene, "narrow"))
    must(value["scope"] == "a" and scene.provider.tokens[value["access_token"]].scope == "a", f"{value}")
    value = granted(scene, credentials(scene, "work", scope="b"))
    must(value["scope"] == "b" and scene.provider.tokens[value["access_token"]].scope == "b", f"{value}")
    refused(credentials(scene, "narrow", scope="b"), 400, "invalid_scope")
    refused(credentials(scene, "work", scope='a"'), 400, "invalid_scope")
    for scope in ("b a", "a b"):
        must(set(granted(scene, credentials(scene, "work", scope=scope))["scope"].split()) == {"a", "b"}, scope)
    granted(scene, credentials(scene, "work", scope=""))
    value = granted(scene, credentials(scene, "there"))
    must(scene.provider.tokens[value["access_token"]].resource == "https://there.example.com/",
         "the resource was not asked for")


@case("token.invalid_scope")
def invalid_scope(scene):
    """A scope that the account does not have: found by the broker, or by the provider."""
    account = scene.account()
    scene.provider.faults[account] = "invalid_scope"
    try:
        refused(credentials(scene, account, scope="z"), 400, "invalid_scope")
    finally:
        del scene.provider.faults[account]
    granted(scene, credentials(scene, account), account)


@case("token.errors")
def errors(scene):
    form = {"grant_type": "client_credentials", "client_id": "work"}
    for name in ("unheard-of", "x" * 4000, "work\0", "../work", "w\u00f6rk"):
        refused(post(scene, form | {"client_id": name}), 401, "invalid_client")
    answer = post(scene, {"grant_type": "client_credentials"}, basic("unheard-of"))
    refused(answer, 401, "invalid_client")
    must(answer.get("www-authenticate", "").startswith("Basic"), "RFC 6749 §5.2: who tried Basic is told of it")
    for grant in ("password", "authorization_code", "urn:ietf:params:oauth:grant-type:device_code", "x y"):
        refused(post(scene, form | {"grant_type": grant}), 400, "unsupported_grant_type")
    table = {
        "no grant_type": "client_id=work", "an empty body": "", "no client": "grant_type=client_credentials",
        "a client without a name": "grant_type=client_credentials&client_id=",
        "no refresh token": "grant_type=refresh_token&client_id=work",
        "a parameter twice": "grant_type=client_credentials&client_id=work&client_id=work",
        "a grant twice": "grant_type=client_credentials&grant_type=refresh_token&client_id=work&refresh_token=work",
        "a bad escape": "grant_type=client_credentials&client_id=%zz",
        "no UTF-8": "grant_type=client_credentials&client_id=%ff",
        "JSON": json.dumps(form)}
    for what, body in table.items():
        answer = post(scene, body)
        must(answer.status in (400, 401), f"{what}: status {answer.status}")
        error = json.loads(answer.body)["error"]
        must(error in ("invalid_request", "invalid_client"), f"{what}: {error}")
    refused(scene.ask("POST", "/token", json.dumps(form), [("Content-Type", "application/json")]), 400,
            "invalid_request")
    refused(post(scene, {"grant_type": "client_credentials", "client_id": "work"}, basic("metrics")), 400,
            "invalid_request")
    for value in ("Basic", "Basic !!!", "Basic " + base64.b64encode(b"nocolon").decode(), "Bearer x", "Basic \u00ff"):
        answer = post(scene, {"grant_type": "client_credentials"}, [("Authorization", value)])
        must(answer.status in (400, 401) and json.loads(answer.body)["error"] in ("invalid_request", "invalid_client"),
             f"{value}: {answer.status} {answer.body}")


@case("token.methods")
def methods(scene):
    for method in ("GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "FOO"):
        answer = scene.ask(method, "/token")
        # A method that is unknown may be none of HTTP to a parser.
        must(answer.status in (405, 501) + (400,) * (method == "FOO"), f"{method}: {answer}")
        must(answer.status != 405 or "POST" in answer.get("allow", ""), f"{method}: Allow: {answer.get('allow')}")
    for target in ("/token/", "/Token", "/tokens", "/", "/oauth/token", "//token", "/%74oken", "/x/../token"):
        answer = scene.ask("POST", target, "grant_type=client_credentials&client_id=work", FORM)
        must(answer.status in (400, 404, 405) and b"access_token" not in answer.body, f"{target}: {answer.status}")
    # Credentials do not belong there (RFC 6749 §2.3.1).
    answer = scene.ask("POST", "/token?grant_type=client_credentials&client_id=work", "", FORM)
    must(answer.status in (400, 401, 404), f"in the query: {answer.status}")
    answer = scene.ask("POST", "/token", "x" * (4 << 20), FORM)
    must(answer.status == 413, f"4 MiB: {answer.status}")


@case("token.ended")
def ended(scene):
    """The person must sign in again, and only that is invalid_grant."""
    account = scene.account()
    granted(scene, credentials(scene, account), account)
    scene.provider.faults[account] = "invalid_grant"
    try:
        scene.provider.kill(account)
        scene.broker.lost(account)
        for form in ({"grant_type": "client_credentials", "client_id": account},
                     {"grant_type": "refresh_token", "refresh_token": account}):
            has(refused(post(scene, form), 400, "invalid_grant"), f"grantctl login p {account}")
    finally:
        del scene.provider.faults[account]
    scene.broker.imported("p", account)
    granted(scene, credentials(scene, account), account)


@case("token.outage")
def outage(scene):
    """An account whose token has ended while its provider is out of order; another provider is not."""
    account = scene.account("down", SHORT_SECONDS)
    for fault in (503, "close"):
        scene.provider.faults[account] = fault
        wait_until(lambda: not any(map(scene.provider.is_alive, scene.provider.of(account))), WAIT_SECONDS,
                   "the token ends")
        answer = credentials(scene, account)
        refused(answer, 503, "temporarily_unavailable")
        must(answer.get("retry-after", "").isdigit(), f"Retry-After: {answer.get('retry-after')}")
        granted(scene, credentials(scene, "work"))
    del scene.provider.faults[account]


@case("token.askers")
def askers(scene):
    """Fifty ask for a token that has ended; the provider answers late, and once."""
    account = scene.account(lifetime=SHORT_SECONDS)
    event = scene.provider.hold(account)
    wait_until(lambda: not any(map(scene.provider.is_alive, scene.provider.of(account))), WAIT_SECONDS,
               "the token ends")
    scene.provider.lifetimes[account] = 3600
    with concurrent.futures.ThreadPoolExecutor(ASKERS) as pool:
        running = [pool.submit(credentials, scene, account) for _ in range(ASKERS)]
        time.sleep(1)
        event.set()
        answers = [one.result() for one in running]
    del scene.provider.held[account]
    values = {granted(scene, answer, account)["access_token"] for answer in answers}
    must(len(values) == 1, f"{len(values)} tokens")
    # The broker may have asked by itself before them, or before that.
    count = sum(one.is_held for one in scene.provider.asked[account])
    must(count == 1, f"{count} refreshes")


@case("token.kept_connection")
def kept(scene):
    """Many requests on a connection, two of them at once."""
    body = b"grant_type=client_credentials&client_id=work"
    one = request("POST", "/token", scene.broker.address, body, FORM, close=False)
    with dial(scene.broker.address) as stream:
        reader = Reader(stream)
        for _ in range(20):
            stream.sendall(one)
            granted(scene, reader.answer())
        stream.sendall(one * 2)
        for _ in range(2):
            granted(scene, reader.answer())
        stream.sendall(one.replace(b"HTTP/1.1", b"HTTP/1.0"))
        granted(scene, reader.answer())
        must(reader.closes(), "HTTP/1.0 without keep-alive: the connection stays")


@case("token.audit")
def audit(scene):
    account = scene.account()
    granted(scene, credentials(scene, account), account)
    refused(credentials(scene, account, scope="z"), 400, "invalid_scope")

    def rows():
        return [row for row in scene.broker.json("audit", "--account", account)["records"]
                if row["action"] == "release"]
    found = wait_until(rows, WAIT_SECONDS, "the trail has the release")
    must(any(row.get("uid") == os.getuid() and row["result"] == "ok" for row in found), f"{found}")
    must(all(token not in json.dumps(found) for token in scene.provider.of(account)), "a token is in the trail")
    must(not scene.broker.lines("tok-"), "a token is in the log")
