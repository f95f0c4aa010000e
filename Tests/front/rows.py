"""The table: command lines, sockets and answers."""

import json
import socket

from trial import Row, failure, regular_file, reply, resets

TOKEN = {
    "access_token": "ya29.a0-._~+/=AfH6SMC", "token_type": "Bearer", "expires_at": 1767229199, "expires_in": 3599,
    "scope": ["openid", "email"], "account": "work", "provider": "google", "issuer": "https://accounts.google.com",
    "generation": 7}
# A program at a terminal asks after a second.
EXPLAIN_SECONDS = 60
OTHER = TOKEN | {"access_token": "other"}
SESSION = {
    "kind": "session", "session_id": "s-123", "cookie": "sid=s-123", "scope": [], "account": "work", "provider": "zephr",
    "generation": 1}


def says(*texts):
    """Answers a request so, and waits for its client."""
    def script(connection):
        connection.request()
        for text in texts:
            connection.send(text)
        connection.hang()
    return script


def says_late(seconds, *texts):
    def script(connection):
        connection.request()
        for text in texts:
            connection.pause(seconds)
            connection.send(text)
        connection.hang()
    return script


def hangs(connection):
    connection.request()
    connection.hang()


def closes_unasked(connection):
    pass


def closes_asked(connection):
    connection.request()


def refuses(connection):
    connection.send(failure(-32013, "too many connections", None, reason="overloaded", hint="Close some."))


def waits_for_a_person(connection, waits=True):
    request = json.loads(connection.request())
    if request["method"] == "policy.explain":
        connection.send(reply({
            "allowed": True, "rule": "ask", "why": "a rule", "confirm": {"within": 60, "rule": "ask"}, "scopes": ["*"]}))
        connection.server.explained.set()
    else:
        if waits:
            connection.server.explained.wait(EXPLAIN_SECONDS)
        connection.pause(2.5)
        connection.send(reply(TOKEN))
    connection.hang()


def waits_unseen(connection):
    """The same for a program without a terminal, which does not ask why it waits."""
    waits_for_a_person(connection, waits=False)


good = says(reply(TOKEN))


def command_lines():
    understood = {
        "": ["token", "work"], "--as-header": ["token", "work", "--as-header"],
        "--as-header first": ["token", "--as-header", "work"],
        "--user": ["token", "work", "--user"], "--user before the command": ["--user", "token", "work"],
        "--socket": ["token", "work", "--socket", "{socket}"], "--socket=": ["token", "work", "--socket={socket}"],
        "--socket before the command": ["--socket", "{socket}", "token", "work"],
        "--socket= before the command": ["--socket={socket}", "token", "work", "--as-header"],
        "--min-ttl": ["token", "work", "--min-ttl", "60"], "--min-ttl=": ["token", "--min-ttl=60", "work"],
        "--min-ttl 0": ["token", "work", "--min-ttl", "0"], "--min-ttl with zeros": ["token", "work", "--min-ttl", "007"],
        "--timeout": ["token", "work", "--timeout", "20"], "--timeout= before": ["--timeout=86400", "token", "work"],
        "--timeout and --socket before": ["--timeout", "3", "--socket", "{socket}", "token", "work"],
        "--scope": ["token", "work", "--scope", "a"], "--scope twice": ["token", "--scope", "a", "work", "--scope", " b  c"],
        "--scope with quotes": ["token", "work", "--scope", 'a"b\\c'], "--scope=": ["token", "work", "--scope=a=b"],
        "--resource": ["token", "work", "--resource", "https://api.example.com/a?b=c"],
        "all": ["token", "--as-header", "--min-ttl", "9", "work", "--scope", "a", "--resource", "r", "--timeout", "9", "--user"],
        "a name with all characters": ["token", "a.Z_0@+-x"], "the name help": ["token", "help"],
        "the name token": ["token", "token"]}
    left = {
        "nothing": [], "--help": ["--help"], "-h": ["-h"], "token alone": ["token"], "token --help": ["token", "--help"],
        "help token": ["help", "token"], "two names": ["token", "work", "home"], "--": ["token", "--", "work"],
        "a name with a dash": ["token", "-work"], "an empty name": ["token", ""], "a name with a space": ["token", "a b"],
        "a name that is not ASCII": ["token", "bücher"], "a name with a slash": ["token", "a/b"],
        "bytes that are no UTF-8": ["token", "a\udcff"],
        "--json": ["token", "work", "--json"], "--json before": ["--json", "token", "work"],
        "--cookie": ["token", "work", "--cookie"], "--as-header and --json": ["token", "work", "--as-header", "--json"],
        "--as-header before the command": ["--as-header", "token", "work"],
        "--as-header twice": ["token", "work", "--as-header", "--as-header"],
        "--min-ttl 10m": ["token", "work", "--min-ttl", "10m"], "--timeout 30s": ["token", "work", "--timeout", "30s"],
        "--as-header=": ["token", "work", "--as-header=true"], "a prefix of an option": ["token", "work", "--as-head"],
        "--min-ttl without a value": ["token", "work", "--min-ttl"], "--min-ttl x": ["token", "work", "--min-ttl", "x"],
        "--min-ttl -1": ["token", "work", "--min-ttl", "-1"], "--min-ttl=-1": ["token", "work", "--min-ttl=-1"],
        "--min-ttl 1.5": ["token", "work", "--min-ttl", "1.5"], "--min-ttl 1e3": ["token", "work", "--min-ttl", "1e3"],
        "--min-ttl, long": ["token", "work", "--min-ttl", "12345678901"], "--min-ttl twice": ["token", "work", "--min-ttl", "1", "--min-ttl", "2"],
        "--min-ttl before": ["--min-ttl", "1", "token", "work"], "--min-ttl nan": ["token", "work", "--min-ttl", "nan"],
        "--timeout 0": ["token", "work", "--timeout", "0"], "--timeout, long": ["token", "work", "--timeout", "86401"],
        "--timeout 0.5": ["token", "work", "--timeout", "0.5"], "--timeout before, no value": ["--timeout", "token", "work"],
        "--socket without a value": ["token", "work", "--socket"], "an empty --socket": ["token", "work", "--socket", ""],
        "an empty --socket=": ["token", "work", "--socket="], "--socket with a dash": ["token", "work", "--socket", "-x"],
        "--socket twice": ["token", "work", "--socket", "/a", "--socket", "{socket}"],
        "--socket that is not ASCII": ["token", "work", "--socket", "/ä"],
        "--system and --user": ["token", "work", "--system", "--user"],
        "--user and --socket": ["token", "work", "--user", "--socket", "{socket}"], "--user twice": ["token", "work", "--user", "--user"],
        "an empty --scope": ["token", "work", "--scope", ""], "--scope of spaces": ["token", "work", "--scope", "  "],
        "--scope with a dash": ["token", "work", "--scope", "-a"], "--scope that is not ASCII": ["token", "work", "--scope", "ä"],
        "an empty --resource": ["token", "work", "--resource", ""], "--resource twice": ["token", "work", "--resource", "a", "--resource", "b"],
        "an unknown option": ["token", "work", "--verbose"], "another case": ["Token", "work"], "another command": ["list"],
        "--version": ["--version"], "version": ["version"],
        "an unknown command": ["tokens", "work"], "a call": ["call", "token.get", '{"account": "work"}']}
    for name, arguments in understood.items():
        yield Row(f"command line: {name or 'token NAME'}", arguments, good, by_itself=True)
    for name, arguments in left.items():
        yield Row(f"command line, left: {name}", arguments, good)


def answers():
    def with_members(**members):
        return reply({name: value for name, value in (TOKEN | members).items() if value is not ...})
    understood = {
        "with spaces": json.dumps(json.loads(reply(TOKEN)), indent=1).replace("\n", " ") + "\r\n",
        "in another order": json.dumps(dict(reversed(json.loads(reply(TOKEN)).items()))) + "\n",
        "a token of a space": with_members(access_token=" "),
        "a token of 20,000 bytes": with_members(access_token="a" * 20000),
        "an expiry that is not known": with_members(expires_at=..., expires_in=...), "no issuer": with_members(issuer=...),
        "no scopes": with_members(scope=[]), "a thumbprint": with_members(dpop_thumbprint="x", token_type="DPoP"),
        "no type": with_members(token_type=...), "another kind": with_members(kind="token"), "a cookie and no session": with_members(cookie="a=b"),
        "more behind it": reply(TOKEN) + reply(SESSION, 2) + "x\n"}
    left = {
        "an escaped token": reply(TOKEN).replace("ya29", "\\u0079a29"), "an escaped name": reply(TOKEN).replace("scope", "\\u0073cope"),
        "members that are new": with_members(colour="blue", more={"a": [1, None]}), "extra": with_members(extra={"instance_url": "u", "é": 1}),
        "an account that is not ASCII": with_members(account="bücher"),
        "a person has to sign in": failure(-32001, "work has to sign in", reason="login_required", hint="Run `grantctl login google work`."),
        "not permitted": failure(-32003, "no rule allows it", reason="not_permitted", hint="Ask.\nTwo lines."),
        "unknown account": failure(-32002, "no such account", reason="unknown_account"),
        "later": failure(-32005, "not now", reason="temporarily_unavailable", retry_after=5),
        "a provider's error": failure(-32006, "refused", reason="provider_error", oauth={"error": "invalid_scope", "error_description": "\u202etpircs"}),
        "invalid parameters": failure(-32602, "params.account: missing"), "an error of an unknown reason": failure(-1, "a\x1b[31mb", reason="new"),
        "an error without a message": json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": 1}}) + "\n",
        "an error and a result": json.dumps({"jsonrpc": "2.0", "id": 1, "result": TOKEN, "error": {"code": 1, "message": "x"}}) + "\n",
        "an error that is null": json.dumps({"jsonrpc": "2.0", "id": 1, "result": TOKEN, "error": None}) + "\n",
        "a session": reply(SESSION), "a session that is null": with_members(session_id=None), "a session and a token": with_members(session_id="s"),
        "no token": with_members(access_token=...), "an empty token": with_members(access_token=""), "a token that is a number": with_members(access_token=1),
        "a token with a newline": with_members(access_token="a\nb"), "a token with an escape sequence": with_members(access_token="\x1b]0;x\x07"),
        "a token that is not ASCII": with_members(access_token="tökn"), "a type with a newline": with_members(token_type="A\nB"),
        "a type that is not ASCII": with_members(token_type="Bärer"), "an empty type": with_members(token_type=""),
        "a type that is null": with_members(token_type=None), "a type that is a number": with_members(token_type=1),
        "scopes that are text": with_members(scope="openid"), "scopes of numbers": with_members(scope=[1]), "scopes that are missing": with_members(scope=...),
        "no account": with_members(account=...), "no provider": with_members(provider=...), "no generation": with_members(generation=...),
        "a generation that is text": with_members(generation="7"), "a generation with a fraction": with_members(generation=7.0),
        "a generation that is too large": reply(TOKEN).replace(": 7", ": 99999999999999999999"),
        "an expiry that is text": with_members(expires_in="3599"), "an expiry that is null": with_members(expires_at=None),
        "an issuer that is a number": with_members(issuer=1), "extra that is a list": with_members(extra=[]),
        "a result that is null": reply(None), "a result that is a list": reply([TOKEN]), "no result": '{"jsonrpc":"2.0","id":1}\n',
        "another version": reply(TOKEN).replace('"2.0"', '"1.0"'), "no version": reply(TOKEN).replace('"jsonrpc": "2.0", ', ""),
        "a fourth member": reply(TOKEN).replace('{"jsonrpc"', '{"x": 1, "jsonrpc"'),
        "a notification first": '{"jsonrpc":"2.0","method":"event","params":{}}\n' + reply(TOKEN),
        "another's answer first": reply(OTHER, 2) + reply(TOKEN), "an id that is text, first": reply(OTHER, "1") + reply(TOKEN),
        "an id that is null, first": reply(OTHER, None) + reply(TOKEN), "an id with a fraction, then the answer": reply(OTHER, 1.0) + reply(TOKEN),
        "an error about the connection": failure(-32013, "too many", None, reason="overloaded"),
        "an empty line": "\n", "no JSON": "HTTP/1.1 400 Bad Request\r\n\r\n", "a list": "[" + reply(TOKEN).strip() + "]\n", "half of it, and a newline": reply(TOKEN)[:80] + "\n",
        "a member twice": reply(TOKEN).replace('"generation"', '"scope": [], "generation"'),
        "bytes that are no UTF-8": reply(TOKEN).encode().replace(b"ya29", b"ya\xff9"), "a byte order mark": "\ufeff" + reply(TOKEN),
        "deeply nested": with_members(extra={"a": json.loads("[" * 70 + "]" * 70)}), "a NUL behind it": reply(TOKEN).replace("}\n", "}\0\n"),
        "of 100,000 bytes": with_members(access_token="a" * 100000)}
    for name, text in understood.items():
        yield Row(f"answer: {name}", ["token", "work"], says(text), by_itself=True)
        yield Row(f"answer: {name}, --as-header", ["token", "work", "--as-header"], says(text), by_itself=True)
    for name, text in left.items():
        yield Row(f"answer, left: {name}", ["token", "work"], says(text))
    for name in ["a session", "a session and a token", "a type with a newline", "a person has to sign in", "no token"]:
        yield Row(f"answer, left: {name}, --as-header", ["token", "work", "--as-header"], says(left[name]))
    for name in ["a session", "not permitted"]:
        yield Row(f"answer, left: {name}, --json", ["token", "work", "--json"], says(left[name]))


def sockets():
    def row(name, server=None, arguments=("token", "work"), **more):
        return Row(f"socket: {name}", list(arguments), server, **more)
    yield row("named by GRANTD_SOCKET", good, environment={"GRANTD_SOCKET": "{socket}", "XDG_RUNTIME_DIR": "/nowhere"}, by_itself=True)
    yield row("GRANTD_SOCKET is empty", good, environment={"GRANTD_SOCKET": ""}, by_itself=True)
    yield row("GRANTD_SOCKET against --socket", good, ["token", "work", "--socket", "{socket}"], environment={"GRANTD_SOCKET": "/a"}, by_itself=True)
    yield row("GRANTD_SOCKET against --user", good, ["token", "work", "--user"], environment={"GRANTD_SOCKET": "/a"}, by_itself=True)
    yield row("GRANTD_SOCKET that is not ASCII", good, environment={"GRANTD_SOCKET": "/ä"})
    yield row("XDG_RUNTIME_DIR that is not ASCII", good, environment={"XDG_RUNTIME_DIR": "/ä"})
    yield row("another process's connection in the environment", good, environment={"GRANTCTL_CONNECTION": "1:3"}, by_itself=True)
    yield row("the same, and left", says(failure(1, "x")), environment={"GRANTCTL_CONNECTION": "1:3"})
    yield row("none")
    yield row("none, --user", arguments=["token", "work", "--user"])
    yield row("none, named", arguments=["token", "work", "--socket", "{socket}"])
    yield row("none, as JSON", arguments=["token", "work", "--json"])
    yield row("a path that is too long", arguments=["token", "work", "--socket", "/" + "a" * 120])
    yield row("a path that is relative", good, ["token", "work", "--socket", "no/where"])
    yield row("a file", place=regular_file)
    yield row("a folder", place=lambda path: path.mkdir(), arguments=["token", "work", "--socket", "{socket}"])
    yield row("below a file", place=regular_file, arguments=["token", "work", "--socket", "{socket}/x"])
    yield row("a link to nowhere", place=lambda path: path.symlink_to("nowhere"))
    yield row("nobody listens", place=dead_socket)
    yield row("permission denied", good, as_stranger=True, mode=0o600)
    yield row("another user's", good, foreign_server=True)
    yield row("another user's, named", good, ["token", "work", "--socket", "{socket}"], foreign_server=True, by_itself=True)
    yield row("another user's, by GRANTD_SOCKET", good, foreign_server=True, environment={"GRANTD_SOCKET": "{socket}"}, by_itself=True)
    yield row("asked by another user", good, as_stranger=True, by_itself=True)
    yield row("closes before it is asked", closes_unasked, compares_requests=False)
    yield row("closes before it is asked, then answers", [closes_unasked, good], compares_requests=False)
    yield row("closes when it is asked", closes_asked)
    yield row("closes when it is asked, then answers", [closes_asked, good])
    yield row("closes when it is asked, then is stopping", [closes_asked, says(failure(-32011, "stopping", reason="shutting_down"))])
    yield row("resets", resets)
    yield row("is stopping, then answers", [says(failure(-32011, "stopping", reason="shutting_down")), good])
    yield row("is stopping", says(failure(-32011, "stopping", reason="shutting_down", hint="Wait.")))
    yield row("refuses", refuses, compares_requests=False)
    yield row("closes in the middle of an answer", closes_in_the_middle)
    yield row("answers in two pieces", says_late(0.05, reply(TOKEN)[:50], reply(TOKEN)[50:]))
    yield row("answers late", says_late(0.5, reply(TOKEN)))
    yield row("answers late, with an error", says_late(0.5, failure(-32003, "no", reason="not_permitted")))
    yield row("hangs", hangs, ["token", "work", "--timeout", "1"], is_slow=True)
    yield row("has a full queue", hangs, waiting=1, compares_requests=False, is_slow=True)


def outputs():
    slow = says_late(1.5, reply(TOKEN))
    for output in ["full", "gone", "closed"]:
        yield Row(f"output: {output}", ["token", "work"], good, output=output)
        yield Row(f"output: {output}, and an error", ["token", "work"], says(failure(1, "x")), output=output)
    yield Row("terminal: a token", ["token", "work"], good, terminal=True, by_itself=True)
    yield Row("terminal: an error is broken at its width", ["token", "work"], says(failure(1, "a word " * 30, hint="b " * 90)), terminal=True)
    yield Row("terminal: waits for a person", ["token", "work"], waits_for_a_person, terminal=True)
    yield Row("terminal: waits for a person, named", ["token", "work", "--socket", "{socket}"], waits_for_a_person, terminal=True)
    yield Row("terminal: answers late", ["token", "work"], slow, terminal=True, compares_requests=False)
    yield Row("no terminal: waits for a person", ["token", "work"], waits_unseen)


def closes_in_the_middle(connection):
    connection.request()
    connection.send(reply(TOKEN)[:50])


def dead_socket(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


def rows():
    return [*command_lines(), *answers(), *sockets(), *outputs()]
