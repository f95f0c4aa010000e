"""Questions that several entry points must answer alike: each case runs all of them over one table (questions.py in
Tests/python), and collects every deviation before it fails. More of them are in characters.py, errors.py and folders.py."""

import concurrent.futures
import contextlib
import json

import people
from grantd_testing import wait_until
from questions import HEADERS, PATHS
from rig import case, must

# Their rules: with `requests`, and without.
RULED, FREE = 4721, 4722
# Without a rule, and one for whose requests the user is asked.
UNRULED, ASKING = 4723, 4724
LISTED = 25
START_SECONDS = 60

FORWARD = """
import json, sys
place, rows = json.loads(sys.argv[1])
for row in rows:
    try:
        answer = wire.ask(place, *row)
        row[:] = [answer.status, answer.body.decode("latin-1")]
    except (OSError, wire.Broken) as error:
        row[:] = [0, str(error)]
print(json.dumps(rows))
"""
SEND = """
import json, socket, sys
path, rows = json.loads(sys.argv[1])
with socket.socket(socket.AF_UNIX) as stream:
    stream.settimeout(60)
    stream.connect(path)
    lines = stream.makefile("rb")
    for row in rows:
        call = {"jsonrpc": "2.0", "id": 1, "method": "request.send", "params": row[0]}
        stream.sendall(json.dumps(call).encode() + b"\\n")
        answer = json.loads(lines.readline())
        row[:] = [answer.get("result", {}).get("status", 0), json.dumps(answer.get("error"))]
print(json.dumps(rows))
"""


class Deviations:
    """What differs from the table."""

    def __init__(self):
        self.found, self.count = [], 0

    def check(self, entry, row, found, wanted):
        self.count += 1
        if found != wanted:
            self.found.append(f"{entry}: {row!r}: {found}, not {wanted}")

    def end(self):
        more = f" and {len(self.found) - LISTED} more" if len(self.found) > LISTED else ""
        must(not self.found, f"{len(self.found)} of {self.count} differ: " + "; ".join(self.found[:LISTED]) + more)


class Callers:
    """Programs of two users, with a rule each, and what the API's server got of their requests."""

    def __init__(self, scene, broker, account="work"):
        self.scene, self.broker, self.account = scene, broker, account

    def arrived(self, action):
        """The requests by their number, and the results of the action."""
        servers = (self.scene.upstream, self.scene.second)
        before = [({name: len(seen) for name, seen in server.seen.items()}, len(server.broken)) for server in servers]
        results, found = action(), {}
        for server, (counts, broken) in zip(servers, before, strict=True):
            must(len(server.broken) == broken, f"requests that cannot be read: {server.broken[broken:]}")
            for name, seen in list(server.seen.items()):
                for one in seen[counts.get(name, 0):]:
                    found.setdefault(int(one.all("x-row")[0]), []).append(one)
        return found, results

    def forward(self, uid, rows, place=None):
        """`rows`: paths with headers."""
        made = [["GET", f"/forward/{self.account}{encoded(path)}", None, [("X-Row", number), *fields]]
                for number, (path, fields) in enumerate(rows)]
        return self.arrived(lambda: people.run(uid, FORWARD, json.dumps([place or self.broker.address, made])))

    def send(self, uid, rows, base=""):
        made = [[{"account": self.account, "method": "GET", "url": base + path,
                  "headers": {"X-Row": str(number), **dict(fields)}}] for number, (path, fields) in enumerate(rows)]
        return self.arrived(lambda: people.run(uid, SEND, json.dumps([str(self.broker.socket), made])))


def encoded(path):
    """As bytes of UTF-8 in a request line."""
    return path.encode().decode("latin-1")


@contextlib.contextmanager
def callers(scene):
    with scene.another(scene.plain() + rules(scene, "work"), "system") as broker:
        broker.imported("p", "work")
        yield Callers(scene, broker)


def rules(scene, account):
    for server in (scene.upstream, scene.second):
        for name in ("allowed", "other", "%61llowed"):
            server.route(name, lambda exchange: exchange.refused() or exchange.reply(200, "ok"))
    patterns = '["* /allowed/*", "* /other/*", "* /%61llowed/*"]'
    return (f'[[rule]]\nuid = {RULED}\naccounts = ["{account}"]\naccess = ["use"]\nrequests = {patterns}\n'
            f'[[rule]]\nuid = {FREE}\naccounts = ["{account}"]\naccess = ["use"]\n')


@case("questions.paths", "setpriv")
def paths(scene):
    """Which paths every server reads in the same way. A refused request has reached no server."""
    rows, deviations = [(path.text, []) for path in PATHS], Deviations()
    second = [(f"/@{scene.second.place}{path.text}", []) for path in PATHS]
    with callers(scene) as made:
        entries = {
            "request.send with a rule": (made.send(RULED, rows), "ruled"),
            "request.send with a rule, as a URL": (made.send(RULED, rows, scene.upstream.url), "ruled"),
            "request.send": (made.send(FREE, rows), "free"),
            "/forward with a rule": (made.forward(RULED, rows), "ruled"),
            "/forward with a rule, by the socket": (made.forward(RULED, rows, str(made.broker.unix)), "ruled"),
            "/forward": (made.forward(FREE, rows), "free"),
            "request.send with a rule, second server": (made.send(RULED, rows, scene.second.url), "ruled"),
            "/forward with a rule, second server": (made.forward(RULED, second), "ruled"),
            "/forward, second server": (made.forward(FREE, second), "free"),
        }
    for entry, ((arrived, results), column) in entries.items():
        for number, (path, (status, text)) in enumerate(zip(PATHS, results, strict=True)):
            targets = [one.target for one in arrived.get(number, [])]
            wanted = ["sent", [path.text]] if getattr(path, column) else ["refused", []]
            deviations.check(entry, path.text, ["sent" if status == 200 else "refused", targets], wanted)
    deviations.end()


@case("questions.headers", "setpriv")
def headers(scene):
    """Which headers of a caller do not reach the provider."""
    deviations = Deviations()
    rows = [("/allowed/x", [(header.name, mark(number))]) for number, header in enumerate(HEADERS)]
    with callers(scene) as made:
        entries = {
            "request.send": (made.send(RULED, rows), "sent"),
            "/forward": (made.forward(RULED, rows), "forwarded"),
            "/forward by the socket": (made.forward(FREE, rows, str(made.broker.unix)), "forwarded"),
        }
    for entry, ((arrived, results), column) in entries.items():
        for number, header in enumerate(HEADERS):
            requests = arrived.get(number, [])
            found = [name for one in requests for name, value in one.fields if mark(number) in value]
            passes = getattr(header, column)
            deviations.check(entry, header.name, found, [header.name.lower()] if passes else [])
            # `request.send` refuses the request, and then nothing may have been sent.
            if entry == "request.send":
                deviations.check(entry, header.name, len(requests), int(passes))
    deviations.end()


def mark(number):
    return f"marked-{number}."


@case("questions.order", "setpriv")
def order(scene):
    """A request is refused before anything is asked: here the provider keeps back the account's first token."""
    deviations = Deviations()
    refused = [(path.text, []) for path in PATHS if not path.ruled]
    named = [("/allowed/x", [(header.name, "x")]) for header in HEADERS if not header.sent]
    upwards = [(path.text, []) for path in PATHS if not path.free]
    sections = scene.plain("held") + '[account.held]\nprovider = "held"\ngrant = "client_credentials"\n'
    event, asked = scene.provider.hold("held"), scene.provider.asked["held"]
    try:
        with scene.another(sections + rules(scene, "held"), "system") as broker:
            made = Callers(scene, broker, "held")
            entries = {
                "request.send with a rule": made.send(RULED, refused), "request.send, headers": made.send(FREE, named),
                "/forward with a rule": made.forward(RULED, refused), "/forward": made.forward(FREE, upwards)}
            for entry, (arrived, results) in entries.items():
                deviations.check(entry, "requests that the provider got", arrived, {})
                for number, (status, text) in enumerate(results):
                    is_judged = not any(reason in text for reason in ("timed_out", "temporarily_unavailable"))
                    deviations.check(entry, number, [status in (0, 400, 403), is_judged], [True, True])
            deviations.check("all", "token requests at most one", len(asked) <= 1, True)
            deviations.end()
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                sent = pool.submit(made.send, RULED, [("/allowed/x", [])])
                wait_until(lambda: len(asked) == 1, START_SECONDS, "the token is asked for")
                must(not sent.done(), "an allowed request does not wait for the token")
                event.set()
                must([status for status, _ in sent.result()[1]] == [200], f"an allowed request: {sent.result()}")
    finally:
        event.set()
        del scene.provider.held["held"]
