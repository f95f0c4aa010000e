"""/forward: what is sent on, what comes back, tokens that are refused, and redirects."""

import concurrent.futures
import json
import threading
import time

from grantd_testing import wait_until
from rig import case, hasnt, must
from wire import Reader, ask, dial, raw, request

KEPT_BYTES = 1 << 20
TOGETHER = 40
WAIT_SECONDS = 60


def forward(scene, method, path, body=None, fields=(), account="work", **more):
    return scene.ask(method, f"/forward/{account}{path}", body, fields, **more)


def echoed(answer):
    must(answer.status == 200, f"status {answer.status}: {answer.body[:400]}")
    return json.loads(answer.body)


def own_error(answer, *statuses):
    """An error of the broker's own."""
    must(answer.status in statuses, f"status {answer.status}, not {statuses}: {answer.body[:300]}")
    must(answer.get("content-type", "").startswith("application/json"), f"{answer.fields}")
    value = json.loads(answer.body)
    must(all(isinstance(value.get(name), str) and value[name] for name in ("error", "message", "hint")), f"{value}")
    must(not answer.all("www-authenticate"), "WWW-Authenticate: clients would start a sign-in of their own")
    hasnt(answer.body.decode(), "tok-")
    return value


def live(exchange, status=200, body=b"", fields=()):
    """An answer for a token that is alive."""
    if not exchange.refused():
        exchange.reply(status, body, fields)


@case("forward.request")
def sends(scene):
    value = echoed(forward(scene, "POST", "/echo/a%20b/%2F?q=1&q=%ff;x&y=a+b", b"\0\xffbody",
                           [("X-A", "1"), ("x-a", "2")]))
    must(value["target"] == "/echo/a%20b/%2F?q=1&q=%ff;x&y=a+b", f"target {value['target']}")
    must(value["method"] == "POST" and value["body"] == "\0\xffbody", f"{value}")
    fields = [tuple(field) for field in value["fields"]]
    must([field for field in fields if field[0] == "x-a"] in ([("x-a", "1"), ("x-a", "2")], [("x-a", "1, 2")]),
         f"{fields}")
    must(dict(fields)["host"] == scene.upstream.place, f"{fields}")
    must(scene.upstream.seen["echo"][-1].token in scene.provider.of("work"), "another token")
    for path in ("/echo", "/echo?", "/echo/?a", "/echo/~!$&'()*+,;=:@/x", "/echo//x", "/echo/x/"):
        must(echoed(forward(scene, "GET", path))["target"] in (path, path.removesuffix("?")), path)
    for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS", "REPORT", "PROPFIND", "M-SEARCH"):
        must(echoed(forward(scene, method, "/echo"))["method"] == method, method)
    # A request without a body has none there.
    there = {name for name, _ in echoed(forward(scene, "GET", "/echo"))["fields"]}
    must(not {"transfer-encoding", "content-length"} & there, "a body of nobody's")
    must(dict(map(tuple, echoed(forward(scene, "POST", "/echo", b""))["fields"])).get("content-length") == "0",
         "no length 0")


@case("forward.fields")
def fields_of_requests(scene):
    """Headers that Connection names, and those that the broker sets (the names are in the case questions.headers)."""
    sent = [("X-Named", "1"), ("X-Other", "2"), ("Connection", "x-named"), ("Connection", "keep-alive, X-Other, Upgrade"),
            ("Authorization", "Bearer stolen"), ("AUTHORIZATION", "Bearer other"), ("Accept-Encoding", "gzip, br")]
    value = echoed(forward(scene, "POST", "/echo", b"x", sent))
    there = dict(map(tuple, value["fields"]))
    must(not {"x-named", "x-other"} & set(there), f"not taken out: {there}")
    must([text for name, text in value["fields"] if name == "accept-encoding"] == ["identity"], f"{there}")
    seen = scene.upstream.seen["echo"][-1]
    must(len(seen.all("authorization")) == 1 and seen.token in scene.provider.of("work"),
         f"{seen.all('authorization')}")
    must(there.get("connection", "keep-alive").lower() in ("keep-alive", "close"), f"{there}")


@case("forward.fields_of_answers")
def fields_of_answers(scene):
    scene.upstream.route("answer", lambda exchange: live(exchange, 299, "x", [
        ("Set-Cookie", "a=b"), ("Set-Cookie", "c=d"), ("X-A", "1"), ("X-A", "2"), ("ETag", '"v"'),
        ("Mcp-Session-Id", "s"),
        ("Keep-Alive", "timeout=99"), ("X-Named", "n"), ("Connection", "X-Named"), ("Content-Type", "a/b"),
        ("Proxy-Authenticate", "Basic"), ("Link", "</x>; rel=next")]))
    answer = forward(scene, "GET", "/answer")
    must(answer.status == 299 and answer.body == b"x", f"{answer}")
    found = {name for name, _ in answer.fields}
    must(not found & {"set-cookie", "keep-alive", "x-named"}, f"{found}")
    must(answer.all("x-a") in (["1", "2"], ["1, 2"]), f"{answer.all('x-a')}")
    for name, text in (("etag", '"v"'), ("mcp-session-id", "s"), ("content-type", "a/b"), ("link", "</x>; rel=next")):
        must(answer.get(name) == text, f"{name}: {answer.get(name)}")


@case("forward.unreadable_answers")
def unreadable(scene):
    """What was not asked for, and could hide the token: compressed, or a part."""
    for status, field in ((200, ("Content-Encoding", "gzip")), (206, ("Content-Range", "bytes 0-3/9"))):
        scene.upstream.route("unreadable", lambda exchange: live(exchange, status, "text", [field]))
        own_error(forward(scene, "GET", "/unreadable"), 502)
    scene.upstream.route("unreadable", lambda exchange: live(exchange, 200, "text", [("Content-Encoding", "identity")]))
    must(forward(scene, "GET", "/unreadable").body == b"text", "identity is no coding")


@case("forward.statuses")
def statuses(scene):
    """Answers as they are, whatever their status; without a body where there is none."""
    scene.upstream.route("status", lambda exchange: live(exchange, int(exchange.target.split("/")[2]), b"text",
                                                         [("X", "y")]))
    for status in (200, 201, 202, 203, 300, 400, 402, 403, 404, 405, 409, 410, 412, 418, 422, 429, 500, 501, 503,
                   599):
        answer = forward(scene, "GET", f"/status/{status}")
        must((answer.status, answer.body, answer.get("x")) == (status, b"text", "y"), f"{status}: {answer}")
    for status in (204, 304):
        answer = forward(scene, "GET", f"/status/{status}")
        must((answer.status, answer.body, answer.all("transfer-encoding")) == (status, b"", []), f"{status}: {answer}")
    with dial(scene.broker.address) as stream:
        reader = Reader(stream)
        for method, path in (("HEAD", "/status/200"), ("GET", "/status/204"), ("GET", "/status/304"),
                             ("HEAD", "/status/404"),
                             ("GET", "/status/200")):
            stream.sendall(request(method, f"/forward/work{path}", scene.broker.address, close=False))
            answer = reader.answer(method)
            must(answer.status == int(path[-3:]), f"{method} {path}: {answer}")
            if method == "HEAD":
                must(answer.get("content-length") == "4", f"HEAD: {answer.fields}")
        must(answer.body == b"text", "the connection is out of step")
    # With the length that a GET would have had (RFC 9110 §8.6).
    scene.upstream.route("length", lambda exchange: exchange.refused() or exchange.head(304,
                                                                                        [("Content-Length", "1000")]))
    answers, _ = raw(scene.broker.address, request("GET", "/forward/work/length", scene.broker.address))
    must([answer.status for answer in answers] == [304], f"{answers}")
    answer = forward(scene, "GET", "/status/401")
    own_error(answer, 502)


@case("forward.interim")
def interim(scene):
    """1xx of the server: sent on or left out, and never taken for the answer."""
    def action(exchange):
        if not exchange.refused():
            for status in (100, 103, 199):
                exchange.head(status, [("Link", "</style.css>")])
            exchange.reply(200, "done")
    scene.upstream.route("interim", action)
    for method in ("GET", "POST"):
        answer = forward(scene, method, "/interim", b"x" if method == "POST" else None)
        must((answer.status, answer.body) == (200, b"done"), f"{answer}")
    scene.upstream.route("switching", lambda exchange: exchange.head(101,
                                                                     [("Upgrade", "x"), ("Connection", "upgrade")]))
    own_error(forward(scene, "GET", "/switching", fields=[("Upgrade", "x"), ("Connection", "upgrade")]), 502)


def in_chunks(exchange):
    body = exchange.body()
    if not exchange.refused():
        exchange.head(200, [("Transfer-Encoding", "chunked"), ("Trailer", "X-Sum")])
        for piece in (b"a", body or b"-", b"b" * 70000):
            exchange.chunk(piece)
        exchange.send(b"0\r\nX-Sum: 1\r\nSet-Cookie: a=b\r\n\r\n")


@case("forward.chunked")
def chunked(scene):
    """Both ways in chunks, with extensions and trailers."""
    scene.upstream.route("chunks", in_chunks)
    head = request("POST", "/forward/work/chunks", scene.broker.address, fields=[("Transfer-Encoding", "chunked")])
    for body in (b"3\r\nabc\r\n0\r\n\r\n", b'003;x="\\"y";z\r\nabc\r\n0;q\r\nX-Trailer: 1\r\n\r\n',
                 b"1\r\na\r\n1\r\nb\r\n1\r\nc\r\n000\r\n\r\n", b"3;" + b"e" * 4000 + b"\r\nabc\r\n0\r\n\r\n"):
        answers, _ = raw(scene.broker.address, head + body)
        must(len(answers) == 1 and answers[0].status in (200, 400), f"{body[:20]}: {answers}")
        if answers[0].status == 200:
            must(answers[0].body == b"aabc" + b"b" * 70000, f"{body[:20]}: {answers[0].body[:20]}")
        must(not any(line.lower().startswith("set-cookie") for line in answers[0].trailers), "a cookie in the trailers")
    answers, _ = raw(scene.broker.address, head + b"3\r\nabc\r\n0\r\n\r\n")
    must(answers[0].status == 200, f"chunks: {answers}")


@case("forward.until_close")
def until_close(scene):
    """A body that ends with its connection, and one for a client of HTTP/1.0."""
    def action(exchange):
        if not exchange.refused():
            exchange.closes = True
            exchange.head(200, [("Connection", "close")])
            exchange.send(b"x" * 100_000)
    scene.upstream.route("close", action)
    scene.upstream.route("chunks", in_chunks)
    answer = forward(scene, "GET", "/close")
    must(answer.body == b"x" * 100_000 and answer.is_whole, f"{len(answer.body)} bytes")
    for path in ("/close", "/chunks"):
        data = request("GET", f"/forward/work{path}", scene.broker.address).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
        answers, closed = raw(scene.broker.address, data, closes=True)
        must(closed and len(answers) == 1 and len(answers[0].body) > 70000, f"HTTP/1.0: {answers}")
        must(not answers[0].all("transfer-encoding"), "chunks for HTTP/1.0")


@case("forward.upgrade", "curl")
def upgrade(scene):
    """An upgrade is not passed on, and the connection is of use afterwards: curl offers h2c by itself."""
    url = f"{scene.broker.url}/forward/work/echo"
    for words in (["--http2"], ["-H", "Connection: Upgrade", "-H", "Upgrade: websocket"],
                  ["-H", "Connection: Upgrade", "-H", "Upgrade: x", "-d", "hello"]):
        done = scene.run("curl", "-q", "-sS", "-m", "50", *words, url, url)
        must(done.status == 0 and done.out.count('"method"') == 2, f"{words}: {done.status} {done.text[-300:]}")
        must("upgrade" not in done.out, f"{words}: {done.out}")


# ---- tokens that are refused

@case("forward.refused_token")
def refused_token(scene):
    """A new token, and the same request once more."""
    for method, body in (("GET", None), ("POST", b"x" * 10), ("PUT", b"y" * KEPT_BYTES), ("DELETE", b"")):
        # Each of its own: a user's tokens of one account are replaced three times without a pause.
        account = scene.account()
        scene.provider.kill(account)
        before = len(scene.upstream.seen["echo"])
        value = echoed(forward(scene, method, "/echo", body, account=account))
        must(value["body"].encode("latin-1") == (body or b"") and value["method"] == method,
             f"{method}: another request")
        seen = scene.upstream.seen["echo"][before:]
        must(len(seen) == 2 and seen[0].token != seen[1].token and seen[0].target == seen[1].target,
             f"{method}: {len(seen)} times")
    scene.provider.kill(account)
    head = request("POST", f"/forward/{account}/echo", scene.broker.address, fields=[("Transfer-Encoding", "chunked")])
    answers, _ = raw(scene.broker.address, head + b"3\r\nabc\r\n0\r\n\r\n")
    must(len(answers) == 1 and echoed(answers[0])["body"] == "abc", f"{answers}")


@case("forward.refused_together")
def refused_together(scene):
    """Many requests find out at once that the token is dead: one refresh, and all of them work."""
    account = scene.account()
    asked = len(scene.provider.asked[account])
    scene.provider.kill(account)
    with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
        found = list(pool.map(lambda number: forward(scene, "POST", "/echo", b"x" * number, account=account),
                              range(TOGETHER)))
    must({answer.status for answer in found} == {200}, f"{[answer.status for answer in found]}")
    must([len(json.loads(answer.body)["body"]) for answer in found] == list(range(TOGETHER)), "bodies were mixed up")
    count = len(scene.provider.asked[account]) - asked
    must(count == 1, f"{count} refreshes")


@case("forward.early_answers")
def early_answers(scene):
    """An answer that is over before the request is: the request is cut, and nobody else notices."""
    answered = threading.Semaphore(0)

    def action(exchange):
        exchange.is_read, exchange.closes = True, True
        exchange.head(413, [("Transfer-Encoding", "chunked")])
        for _ in range(4):
            exchange.chunk(b"too much" * 4000)
        exchange.send(b"0\r\n\r\n")
        # To close on what was not read would take the answer away.
        answered.acquire(timeout=WAIT_SECONDS)
    scene.upstream.route("over", action)
    for fields in ([("Transfer-Encoding", "chunked")], [("Content-Length", "500000")]):
        for _ in range(3):
            with dial(scene.broker.address) as stream:
                stream.sendall(request("POST", "/forward/work/over", scene.broker.address, fields=fields) + b"3\r\nabc\r\n")
                answer = Reader(stream).answer("POST")
                answered.release()
                must(answer.status == 413 and len(answer.body) == 128_000, f"{answer.status} {len(answer.body)}")
    must(echoed(forward(scene, "GET", "/echo"))["method"] == "GET", "another request")


@case("forward.early_refusal")
def early_refusal(scene):
    """A 401 while the body still comes in: the whole of it is sent again, once, and each byte is there."""
    answered = threading.Semaphore(0)

    def action(exchange):
        if not scene.provider.is_alive(exchange.token):
            exchange.is_read, exchange.closes = True, True
            exchange.head(401, [("Content-Length", "0"), ("WWW-Authenticate", "Bearer")])
            # To close on what was not read would take the answer away.
            answered.acquire(timeout=WAIT_SECONDS)
        else:
            exchange.reply(200, exchange.body())
    scene.upstream.route("late", action)
    pieces = [b"%04d" % number * 500 for number in range(20)]
    for _ in range(2):
        account = scene.account()
        forward(scene, "GET", "/echo", account=account)
        scene.provider.kill(account)
        with dial(scene.broker.address) as stream:
            stream.sendall(request("POST", f"/forward/{account}/late", scene.broker.address,
                                   fields=[("Transfer-Encoding", "chunked")]))
            for piece in pieces:
                stream.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
                time.sleep(0.02)
            stream.sendall(b"0\r\n\r\n")
            answer = Reader(stream).answer("POST")
            answered.release()
        must(answer.status == 200 and answer.body == b"".join(pieces), f"{answer.status}: {len(answer.body)} bytes")


@case("forward.refused_large")
def refused_large(scene):
    """What is longer than what is kept: the client is told to try again, and then it works."""
    account, body = scene.account(), b"z" * (3 * KEPT_BYTES)
    scene.provider.kill(account)
    answer = forward(scene, "POST", "/echo", body, account=account)
    own_error(answer, 502)
    must(answer.get("retry-after") == "0", f"Retry-After: {answer.get('retry-after')}")
    must(len(echoed(forward(scene, "POST", "/echo", body, account=account))["body"]) == len(body), "the second try")

    answered = threading.Semaphore(0)

    # Refused before the body is sent, as servers do.
    def early(exchange):
        exchange.closes = exchange.is_read = True
        if scene.provider.is_alive(exchange.token):
            return exchange.reply(200, str(len(exchange.body())))
        exchange.reply(401, "no", [("Connection", "close"), ("WWW-Authenticate", "Bearer")])
        # To close on what was not read would take the answer away.
        return answered.acquire(timeout=WAIT_SECONDS)
    scene.upstream.route("early", early)
    scene.provider.kill(account)
    answer = forward(scene, "POST", "/early", body, account=account)
    answered.release()
    # It may have kept all that it had sent by then.
    if answer.status != 200:
        own_error(answer, 502)
    answer = forward(scene, "POST", "/early", body, account=account)
    must((answer.status, answer.body) == (200, str(len(body)).encode()), f"{answer}")


@case("forward.refused_twice")
def refused_twice(scene):
    account = scene.account()
    seen = scene.upstream.route("always", lambda exchange: exchange.reply(401, "no tok", [
        ("WWW-Authenticate", 'Bearer resource_metadata="https://x.example/"'), ("WWW-Authenticate", "Basic")]))
    asked = len(scene.provider.asked[account])
    own_error(forward(scene, "GET", "/always", account=account), 502)
    must(len(seen) == 2, f"sent {len(seen)} times")
    must(len(scene.provider.asked[account]) == asked + 1, "not one refresh")


@case("forward.ended")
def ended(scene):
    """The grant has ended, or the provider is out of order while the token is refused."""
    account = scene.account()
    scene.provider.kill(account)
    scene.provider.faults[account] = "invalid_grant"
    try:
        value = own_error(forward(scene, "GET", "/echo", account=account), 403, 502)
        value = own_error(forward(scene, "GET", "/echo", account=account), 403, 502)
        must(f"grantctl login p {account}" in value["hint"] + value["message"], f"{value}")
    finally:
        del scene.provider.faults[account]
    account = scene.account("down")
    scene.provider.kill(account)
    scene.provider.faults[account] = 503
    try:
        answer = forward(scene, "GET", "/echo", account=account)
        own_error(answer, 503, 502)
        own_error(forward(scene, "GET", "/echo", account="unheard-of"), 404)
    finally:
        del scene.provider.faults[account]


# ---- origins

@case("forward.origins")
def origins(scene):
    place = scene.second.place
    must(echoed(forward(scene, "GET", f"/@{place}/echo?x"))["target"] == "/echo?x", "the second origin")
    must(scene.second.seen["echo"], "it was not asked")
    must(echoed(forward(scene, "GET", f"/@{scene.upstream.place}/echo"))["target"] == "/echo", "the first by its name")
    evil = scene.foreign.place
    for path in (f"/@{evil}/echo", "/@evil.example/x", f"/@{place}@{evil}/echo", f"/@{evil}%2f{place}/echo", "/@/echo",
                 f"/@{place}.evil.example/echo", f"/@127.0.0.1/@{evil}/echo", f"/@user@{place}/echo",
                 f"/@{place}:1/echo",
                 f"/@{place}%00/echo", f"/%40{evil}/echo", f"/@{evil}"):
        answer = forward(scene, "GET", path)
        must(answer.status in (400, 403, 404), f"{path}: {answer.status}")
    must(not scene.foreign.seen["echo"], "the token went to a foreign host")
    for path in (f"//{evil}/echo", f"/\\{evil}/echo", f"/http://{evil}/echo", "/..", "/echo/../../x"):
        forward(scene, "GET", path)
        must(not scene.foreign.seen["echo"], f"{path}: the token went to a foreign host")
    for target in ("/forward", "/forward/", "/forward/unheard-of/echo", "/forward//echo", "/forward/%2e%2e/echo",
                   "/forward/work\0/x"):
        answers, _ = raw(scene.broker.address, request("GET", target, scene.broker.address))
        must(answers and answers[0].status in (400, 404), f"{target!r}: {answers}")
    name = scene.broker.imported("p", "you@x+y.z")
    for written in (name, "you%40x%2By.z", "you@x%2by.z"):
        must(echoed(forward(scene, "GET", "/echo", account=written))["target"] == "/echo", written)
    # Without a path: the origin's root.
    must(forward(scene, "GET", "").status in (200, 301, 302, 307, 308, 404), "no path")


@case("forward.base_path")
def base_path(scene):
    """What is behind the account is below the base's path, and does not leave it."""
    upstream = scene.upstream
    place = f"/forward/work/@{upstream.place}"
    moved = {"/base/v1/moved": f"{upstream.url}/base/v1/x?y", "/base/v1/up": "/other/x",
             "/base/v1/side": f"{upstream.url}/base/v10"}
    upstream.route("base", lambda exchange: live(
        exchange, 302 if exchange.target in moved else 200, exchange.target,
        [("Location", moved[exchange.target])] if exchange.target in moved else []))
    upstream.route("other", lambda exchange: live(exchange, 200, exchange.target))
    with scene.another(scene.section("p", f'api_base = "{upstream.url}/base/v1"')) as broker:
        broker.imported("p", "work")

        def get(path):
            return ask(broker.address, "GET", path)
        for path, wanted in (("/x?y", "/base/v1/x?y"), ("/", "/base/v1/"), ("//x", "/base/v1//x")):
            must(get(f"/forward/work{path}").body == wanted.encode(), f"{path}: {get(f'/forward/work{path}')}")
        must(get(f"{place}/other/x").body == b"/other/x", "the whole path at the origin")
        for path in ("/../../other/x", "/%2e%2e/%2e%2e/other/x", "/..%2f..%2fother/x", "/x/../../../other/x"):
            answer = get(f"/forward/work{path}")
            must(answer.status in (400, 403, 404) and answer.body != b"/other/x", f"{path}: {answer}")
        for path, wanted in (("/moved", "/forward/work/x?y"), ("/up", f"{place}/other/x"),
                             ("/side", f"{place}/base/v10")):
            location = (get(f"/forward/work{path}").get("location") or "").removeprefix(broker.url)
            must(location in (wanted, f"{place}{moved['/base/v1' + path].removeprefix(upstream.url)}"),
                 f"{path}: {location}")


@case("forward.redirects")
def redirects(scene):
    upstream, second = scene.upstream, scene.second

    def action(exchange):
        live(exchange, int(exchange.target.split("/")[2][:3]), "moved",
             [("Location", places[exchange.target.split("/")[3]])])
    places = {
        "path": "/echo/x?y#z", "own": f"{upstream.url}/echo/x?y", "relative": "../echo",
        "schemeless": f"//{upstream.place}/echo",
        "upper": f"HTTP://{upstream.place}/echo", "foreign": f"{scene.foreign.url}/echo",
        "other": "https://evil.example/x",
        "downgrade": f"https://{upstream.place}/echo", "foreign-schemeless": f"//{scene.foreign.place}/x",
        "script": "javascript:alert(1)",
        "backslash": f"/\\{scene.foreign.place}/x", "user": f"http://{upstream.place}@{scene.foreign.place}/x",
        "tab": f"/\t/{scene.foreign.place}/x", "second": f"{second.url}/echo"}
    upstream.route("moved", action)
    for status in (301, 302, 303, 307, 308):
        answer = forward(scene, "GET", f"/moved/{status}/path")
        must((answer.status, answer.get("location")) == (status, "/forward/work/echo/x?y#z"),
             f"{answer.status} {answer.fields}")
    for name in ("own", "schemeless", "upper"):
        answer = forward(scene, "GET", f"/moved/302/{name}")
        wanted = f"/forward/work{'/echo/x?y' if name == 'own' else '/echo'}"
        must(answer.status == 302 and (answer.get("location") or "").removeprefix(scene.broker.url) == wanted,
             f"{name}: {answer}")
    answer = forward(scene, "GET", "/moved/302/relative")
    # Relative to /forward/work/moved/302/relative, or already resolved.
    must(answer.get("location") in ("../echo", "/forward/work/moved/echo"), f"relative: {answer.fields}")
    for name in ("foreign", "other", "downgrade", "foreign-schemeless", "script", "backslash", "user", "tab"):
        answer = forward(scene, "GET", f"/moved/302/{name}")
        own_error(answer, 502)
        must(not answer.all("location"), f"{name}: {answer.fields}")
    answer = forward(scene, "GET", "/moved/307/second")
    must(answer.status == 502 or answer.get("location") == f"/forward/work/@{second.place}/echo",
         f"second: {answer.status} {answer.fields}")
    # 201 names what was made, and is no redirect.
    answer = forward(scene, "GET", "/moved/201/own")
    must(answer.status == 201, f"201: {answer.status}")
    done = scene.run("curl", "-q", "-sSL", f"{scene.broker.url}/forward/work/moved/302/own").ok()
    must(json.loads(done.out)["target"] == "/echo/x?y", done.out)


@case("forward.dpop")
def dpop(scene):
    value = echoed(forward(scene, "POST", "/echo/p?q=1", b"x", account="bound"))
    must(value["target"] == "/echo/p?q=1" and scene.upstream.seen["echo"][-1].token in scene.provider.of("dpop"),
         f"{value}")
    # The server wants a nonce, and then another (RFC 9449 §9).
    for nonce in ("first", "second"):
        seen = scene.upstream.route("nonce", lambda exchange: exchange.refused(nonce) or exchange.reply(200, "ok"))
        answer = forward(scene, "POST", "/nonce", b"body", account="bound")
        must((answer.status, answer.body) == (200, b"ok") and [one.body for one in seen] == [b"body"] * 2,
             f"{nonce}: {answer}")
    asked = len(scene.provider.asked["dpop"])
    scene.provider.kill("dpop")
    echoed(forward(scene, "GET", "/echo", account="bound"))
    must(len(scene.provider.asked["dpop"]) == asked + 1, "not one refresh")
    value = echoed(forward(scene, "GET", "/echo", fields=[("DPoP", "a.b.c")], account="bound"))
    must(len([1 for name, _ in value["fields"] if name == "dpop"]) == 1, "two proofs")
    # A token alone is of no use to a client that cannot make proofs.
    answer = scene.ask("POST", "/token", "grant_type=client_credentials&client_id=bound",
                       [("Content-Type", "application/x-www-form-urlencoded")])
    if answer.status == 200:
        must(json.loads(answer.body)["token_type"] == "DPoP",
             f"a bound token as {json.loads(answer.body)['token_type']}")


@case("forward.certificate")
def certificate(scene):
    """TLS, with the client's certificate (RFC 8705)."""
    value = echoed(forward(scene, "POST", "/echo", b"x" * 100_000, account="cert"))
    must(len(value["body"]) == 100_000 and scene.secure.certificates[-1], f"{scene.secure.certificates}")


@case("forward.socket")
def by_socket(scene):
    answer = ask(scene.broker.unix, "POST", "/forward/work/echo", b"abc")
    must(echoed(answer)["body"] == "abc", f"{answer}")


@case("forward.audit")
def audit(scene):
    account = scene.account()
    echoed(forward(scene, "GET", "/echo", account=account))

    def rows():
        records = scene.broker.json("audit", "--account", account)["records"]
        return [row for row in records if row["action"] in ("use", "release")]
    found = wait_until(rows, WAIT_SECONDS, "the trail has the use")
    must(all("uid" in row for row in found) and all(row["action"] == "use" for row in found), f"{found}")
