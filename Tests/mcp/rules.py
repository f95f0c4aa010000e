"""Rules for agents: the calls that a rule with `mcp` allows, through `/forward` and `request.send`, and the audit trail.

The broker is a system's, and the caller another user. Attacks are rows: none of them may reach the server.
"""

import base64
import contextlib
import http.client
import json
import os
import socket
import time

from grantd_testing import wait_until
from logins import case
from scene import Skip, must, same
from servers import Resource

SECONDS = 20
AGENT = 65534
RULES = f"""
[[rule]]
name = "agents"
uid = {AGENT}
accounts = ["notes"]
requests = ["POST /mcp", "DELETE /mcp", "* /open"]
mcp = ["tools/list", "tools/call:search_*", "resources/read:note:*"]
"""
ASKING = f"""
[[rule]]
name = "asks"
uid = {AGENT}
accounts = ["notes"]
requests = ["POST /mcp"]
mcp = ["tools/call:delete_*"]
confirm = true
"""


def call(method, number=1, **params):
    message = {"jsonrpc": "2.0", "id": number, "method": method}
    return message | ({"params": params} if params else {})


def tool(name, **arguments):
    return call("tools/call", name=name, arguments=arguments)


def text(value):
    return json.dumps(value).encode()


DENIED = text(tool("delete_all"))
ALLOWED = {
    "a listed method": text(call("tools/list")),
    "a tool of the pattern": text(tool("search_notes", q="secret words")),
    "escapes in names": b'{"jsonrpc":"2.0","id":1,"m\\u0065thod":"tools/call","params":{"name":"search_\\u0061"}}',
    "a resource": text(call("resources/read", uri="note:1")),
    "initialize": text(call("initialize", protocolVersion="2025-11-25")),
    "ping": text(call("ping")),
    "a notification": text({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    "an answer of the client": text({"jsonrpc": "2.0", "id": "s1", "result": {}}),
    "a batch": text([call("tools/list"), call("ping", 2)]),
    "duplicates in arguments only by case": text(tool("search_x", a=1, A=2)),
}
ATTACKS = {
    "another tool": DENIED,
    "another method": text(call("resources/list")),
    "a tool in another case": text(tool("Search_notes")),
    "a name that only begins so": text(tool("xsearch_notes")),
    "a space behind the name": text(tool("delete_all ")),
    "a tool without a name": text(call("tools/call", arguments={})),
    "a name that is a list": text(call("tools/call", name=["search_a", "delete_all"])),
    "a batch with one other tool": text([call("tools/list"), tool("delete_all")]),
    "a batch within a batch": text([[tool("search_a")]]),
    "an empty batch": b"[]",
    "a batch of 65": text([call("ping", number) for number in range(65)]),
    "the method twice": b'{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"resources/list"}',
    "the method twice by escapes": b'{"jsonrpc":"2.0","id":1,"method":"tools/list","m\\u0065thod":"resources/list"}',
    "the name twice": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_a","name":"delete_all"}}',
    "params twice": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_a"},"params":{"name":"x"}}',
    "the name again in capitals": text(call("tools/call", name="search_a", Name="delete_all")),
    "the method again in capitals": text(call("tools/list") | {"Method": "resources/list"}),
    "params with a long s": text(tool("search_a") | {"param\u017f": {"name": "delete_all"}}),
    "the uri with a Turkish i": text(call("resources/read", uri="note:1", URI="file:///etc/passwd")),
    "an unknown member": text(call("tools/list") | {"method_": "x"}),
    "a byte order mark": b"\xef\xbb\xbf" + text(call("tools/list")),
    "UTF-16": json.dumps(call("tools/list")).encode("utf-16"),
    "UTF-32": json.dumps(call("tools/list")).encode("utf-32-le"),
    "a lone surrogate": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_\\ud800"}}',
    "a NUL in the name": text(tool("search_\0delete_all")),
    "a name that is not ASCII": text(tool("search_\u202edelete")),
    "an overlong byte": text(tool("search_a")).replace(b"search_a", b"search_\xc0\xaf"),
    "two values": text(call("tools/list")) + b"\n" + DENIED,
    "a value behind a comment": b"/* */" + text(call("tools/list")),
    "no JSON": b"method=tools/list",
    "no body": b"",
    "not an object": b'"tools/list"',
    "version 1": text({"id": 1, "method": "tools/list"}),
    "a method and a result": text(call("tools/list") | {"result": {}}),
    "params as a list": text(call("tools/list") | {"params": ["delete_all"]}),
    "too deep": b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":' + b'{"a":' * 70 + b"1" + b"}" * 70 + b"}",
}
HEADERS = {
    "another type": {"Content-Type": "text/plain"},
    "a type with a charset": {"Content-Type": "application/json; charset=utf-16"},
    "a type of a form": {"Content-Type": "application/x-www-form-urlencoded"},
    "two types in one": {"Content-Type": "application/json, text/plain"},
    "an encoding": {"Content-Encoding": "gzip"},
    "Mcp-Method of another call": {"Mcp-Method": "resources/list"},
    "Mcp-Name of another tool": {"Mcp-Method": "tools/call", "Mcp-Name": "delete_all"},
}


class Recording(Resource):
    """A server that answers everything, and keeps the bodies with the account's token."""

    def __init__(self, authorization):
        super().__init__(authorization)
        self.reached = []

    def serve(self, request, path, query, body):
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if bearer in self.authorization.tokens and path in (self.path, "/open"):
            self.reached.append((request.command, path, body))
            return request.answer(200, {"jsonrpc": "2.0", "id": 1, "result": {}})
        return super().serve(request, path, query, body)


def agent(scene, rules=RULES):
    if os.geteuid():
        raise Skip("only root can be another user")
    for folder in (scene.folder, scene.folder.parent):
        folder.chmod(0o711)
    authorization = scene.authorization()
    server = Recording(authorization)
    scene.closing.callback(server.close)
    scene.broker.instance = "system"
    broker = scene.start(rules)
    broker.login(scene.url(server), "notes")
    return server, broker


def as_agent(action):
    """What the action returns in a process of the agent's user."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.setgroups([])
            os.setgid(AGENT)
            os.setuid(AGENT)
            result = action()
        except BaseException as error:  # it is the parent's to judge
            result = f"{type(error).__name__}: {error}"
        with contextlib.suppress(BaseException), os.fdopen(writer, "w") as file:
            json.dump(result, file)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return json.loads(text)


def send(broker, body, method="POST", headers=None, path="/mcp"):
    """`request.send` over the socket: the status of the answer, or the reason of the error."""
    params = {"account": "notes", "method": method, "url": path,
              "headers": {"Content-Type": "application/json"} | (headers or {})}
    if body:
        params["body_base64"] = base64.b64encode(body).decode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(SECONDS)
        connection.connect(str(broker.socket))
        connection.sendall(text({"jsonrpc": "2.0", "id": 1, "method": "request.send", "params": params}) + b"\n")
        answer = json.loads(connection.makefile().readline())
    return answer["result"]["status"] if "result" in answer else answer["error"].get("data", {}).get("reason", "invalid")


def forwarded(broker, body, method="POST", headers=None, path="/mcp"):
    """The same through `/forward`."""
    connection = http.client.HTTPConnection("127.0.0.1", broker.address, timeout=SECONDS)
    with contextlib.closing(connection):
        connection.request(method, "/forward/notes" + path, body or None,
                           {"Content-Type": "application/json"} | (headers or {}))
        answer = connection.getresponse()
        value = json.loads(answer.read() or b"{}")
        for one in value if isinstance(value, list) else [value]:
            error = one.get("error")
            if error:
                return error["data"]["reason"] if isinstance(error, dict) else error
        return answer.status


WAYS = {"request.send": send, "/forward": forwarded}


def rows(broker, table):
    """What each row comes to in each way."""
    return as_agent(lambda: {f"{way}: {name}": function(broker, **row) for way, function in WAYS.items()
                             for name, row in table.items()})


@case
def allowed_calls(scene):
    """Calls that the rule lists, and the messages of each session, reach the server byte by byte."""
    server, broker = agent(scene)
    found = rows(broker, {name: {"body": body} for name, body in ALLOWED.items()})
    same({name: status for name, status in found.items() if status != 200}, {}, "the answers that are not 200")
    same([body for _, _, body in server.reached], list(ALLOWED.values()) * 2, "the bodies at the server")
    server.reached.clear()
    same(rows(broker, {"the end of the session": {"body": b"", "method": "DELETE"}}),
         {f"{way}: the end of the session": 200 for way in WAYS}, "DELETE, which the rule names")


@case
def refused_calls(scene):
    """No other call reaches the server, however it is written; GET and DELETE only if the rule names them."""
    server, broker = agent(scene)
    table = {name: {"body": body} for name, body in ATTACKS.items()}
    table |= {name: {"body": text(call("tools/list")), "headers": fields} for name, fields in HEADERS.items()}
    table |= {
        "GET": {"body": b"", "method": "GET"},
        "GET where any method is named": {"body": b"", "method": "GET", "path": "/open"},
        "DELETE with a body": {"body": DENIED, "method": "DELETE"},
        "PUT": {"body": text(call("tools/list")), "method": "PUT", "path": "/open"},
        "post in small letters": {"body": text(call("tools/list")), "method": "post"},
        "another path": {"body": text(call("tools/list")), "path": "/other"},
        "another method by a header": {"body": DENIED, "headers": {"X-HTTP-Method-Override": "GET"}},
    }
    found = rows(broker, table)
    # What is no request at all is refused before the rules.
    wrong = {name: result for name, result in found.items() if result not in ("not_permitted", "invalid", "bad_request")}
    same(wrong, {}, "the answers that are not refusals")
    same(server.reached, [], "what reached the server")
    big = {"a body of 2 MiB": {"body": text(tool("search_a", q="a" * (2 << 20)))}}
    same(as_agent(lambda: forwarded(broker, **big["a body of 2 MiB"])), "body_too_large", "a body of 2 MiB")
    # A chunked body, in which the call comes late.
    pieces = [DENIED[:20], DENIED[20:]]

    def slowly():
        def body():
            for piece in pieces:
                yield piece
                time.sleep(0.3)
        return forwarded(broker, body())
    same(as_agent(slowly), "not_permitted", "a body in pieces")
    same(server.reached, [], "what reached the server at last")


@case
def calls_in_the_trail(scene):
    """The audit trail has methods and tools, never arguments; `explain --all` has the patterns."""
    server, broker = agent(scene)
    secret = "4d2f-an-argument"
    body = {"body": text(tool("search_notes", q=secret))}
    rows(broker, {"one": body, "two": {"body": text([call("tools/list"), tool("delete_all", q=secret)])}})
    found = broker.must("audit", "--account", "notes", "--json")
    for words in ("tools/call search_notes", "tools/list, tools/call delete_all"):
        must(words in found, f"the trail lacks {words}: {found}")
    must(secret not in found and secret not in broker.log_text(), "an argument is in the trail or the log")
    must("tools/call:search_*" in broker.must("explain", "notes", "--all"), "explain --all lacks the patterns")
    explained = broker.must("explain", "notes", "--uid", str(AGENT), "--method", "request.send")
    must("tools/call:search_*" in explained, f"explain lacks the patterns: {explained}")
    refused = as_agent(lambda: broker.forward("notes/mcp", tool("delete_all"))[1])
    must("tools/call delete_all" in refused["error"]["message"], f"the error lacks the tool: {refused}")


@case
def approved_tools(scene):
    """A rule with `confirm` asks for each tool by its name; other calls of the caller do not wait."""
    server, broker = agent(scene, RULES + ASKING)
    for way, function in WAYS.items():
        server.reached.clear()
        answered = []
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(reader)
            result = None
            try:
                os.setgid(AGENT)
                os.setuid(AGENT)
                result = [function(broker, text(tool("delete_note", number=number))) for number in range(2)]
            except BaseException as error:  # the parent judges it
                result = str(error)
            os.write(writer, text(result))
            os._exit(0)
        os.close(writer)
        for number in range(2):
            waiting = wait_until(lambda: [one for one in broker.call("release.list")["waiting"] if one["id"] not in answered],
                                 SECONDS, f"question {number} by {way}")
            answered.append(waiting[0]["id"])
            must("tools/call delete_note" in waiting[0]["request"], f"the question: {waiting}")
            same(len(server.reached), number, f"calls at the server before the approval by {way}")
            same(as_agent(lambda: function(broker, text(call("ping")))), 200, "a message of each session")
            server.reached.pop()
            broker.must("approve", waiting[0]["id"], *(["--deny"] if number else []))
        with os.fdopen(reader) as file:
            same(json.loads(file.read()), [200, "not_permitted"], f"the answers by {way}")
        os.waitpid(pid, 0)
        same(len(server.reached), 1, f"calls at the server by {way}")
        same(as_agent(lambda: function(broker, text(tool("search_a")))), 200, "a tool that needs no approval")
