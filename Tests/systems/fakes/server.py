"""The HTTP server below each fake: it records every request, and every request that is wrong with the reason."""

import collections
import contextlib
import http.server
import json
import threading
import urllib.parse

HOLD_SECONDS = 20
POLL_SECONDS = 0.01
BODY_BYTES = 1 << 20


class Refusal(Exception):
    """The request is wrong. `answer` goes to the client, `reason` into the fake's list of refusals."""

    def __init__(self, reason, answer):
        super().__init__(reason)
        self.reason, self.answer = reason, answer


class Answer:
    """One HTTP answer. `headers` is a list, since some fields come more than once."""

    def __init__(self, status, body=b"", headers=(), content_type=None):
        self.status, self.body, self.headers = status, body, list(headers)
        if content_type:
            self.headers.append(("Content-Type", content_type))

    def __repr__(self):
        return f"{self.status} {self.body[:80]!r}"

    @classmethod
    def json(cls, status, value, headers=()):
        return cls(status, json.dumps(value).encode(), headers, "application/json")

    @classmethod
    def redirect(cls, location, headers=()):
        return cls(302, b"", [("Location", location), *headers])


# In place of an answer: the connection is closed without one.
DROP = Answer(0)


class Request:
    """One request as it came, with strict readers of its parts."""

    def __init__(self, method, target, headers, body):
        parts = urllib.parse.urlsplit(target)
        self.method, self.path, self.query_text = method, parts.path, parts.query
        self.headers, self.body = headers, body
        self.query = pairs(parts.query)

    @property
    def route(self):
        return self.method, self.path

    @property
    def content_type(self):
        return (self.headers.get("Content-Type") or "").split(";")[0].strip().lower()

    @property
    def cookies(self):
        """The cookies of the request, by name."""
        found = [one.strip().partition("=") for one in (self.headers.get("Cookie") or "").split(";") if one.strip()]
        return {name: value for name, _, value in found}

    @property
    def bearer(self):
        """The token of `Authorization: Bearer`, or None."""
        scheme, _, token = (self.headers.get("Authorization") or "").partition(" ")
        return token if scheme == "Bearer" and token else None


def pairs(text):
    """The parameters of a query or of a form, in order."""
    return urllib.parse.parse_qsl(text, keep_blank_values=True, errors="strict")


class Fake:
    """A server on a port of loopback that the kernel chose.

    A subclass has `routes`: (method, path) to the name of its method. A path that ends with `/` is a prefix.
    """

    routes = {}

    def __init__(self):
        # What came, and what was wrong with it.
        self.requests, self.refusals = [], []
        self.lock = threading.RLock()
        self.scripts, self.holds = collections.defaultdict(collections.deque), {}
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(POLL_SECONDS,), daemon=True).start()

    def close(self):
        for hold in self.holds.values():
            hold.set()
        self.server.shutdown()
        self.server.server_close()

    def handler(fake):
        """The class of http.server that calls this fake."""

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_):
                """Nothing: the requests are recorded."""

            def handle_one_request(self):
                with contextlib.suppress(ConnectionError):
                    super().handle_one_request()

            def serve(self):
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(min(length, BODY_BYTES))
                answer = fake.respond(Request(self.command, self.path, self.headers, body))
                if answer is DROP:
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in answer.headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = serve

        return Handler

    def respond(self, request):
        """The answer to one request; a wrong one is recorded with its reason."""
        with self.lock:
            self.requests.append(request)
            hold = self.holds.get(request.route)
        if hold and not hold.wait(HOLD_SECONDS):
            return DROP
        with self.lock:
            try:
                action = self.find(request)
                self.check(request)
                if script := self.scripts[request.route]:
                    return script.popleft()
                return action(request)
            except Refusal as refusal:
                self.refusals.append(f"{request.method} {request.path}: {refusal.reason}")
                return refusal.answer

    def find(self, request):
        if name := self.routes.get(request.route):
            return getattr(self, name)
        for (method, path), name in self.routes.items():
            if path.endswith("/") and method == request.method and request.path.startswith(path):
                return getattr(self, name)
        methods = [method for method, path in self.routes if path == request.path]
        if methods:
            raise Refusal(f"the method is not {' or '.join(methods)}", Answer(405))
        raise Refusal("no such path", Answer(404))

    def check(self, request):
        """What holds for every request. A subclass raises Refusal."""

    def refuse(self, reason):
        """Ends the request with the system's answer to a wrong one."""
        raise Refusal(reason, Answer.json(400, {"message": reason}))

    # What a test asks.

    def script(self, method, path, *answers):
        """The next answers to correct requests of this route."""
        with self.lock:
            self.scripts[method, path].extend(answers)

    def hold(self, method, path):
        """Requests of this route wait until the event is set."""
        self.holds[method, path] = event = threading.Event()
        return event

    def count(self, method, path):
        with self.lock:
            return sum(request.route == (method, path) for request in self.requests)

    def of(self, method, path):
        """The requests of one route, the oldest first."""
        with self.lock:
            return [request for request in self.requests if request.route == (method, path)]

    # Readers of a request, each with a reason where it is wrong.

    def json_object(self, request, **names):
        """The body as a JSON object with exactly these members; each value is a type, or a tuple of types."""
        if request.content_type != "application/json":
            self.refuse(f"the content type is {request.content_type or 'absent'}, not application/json")
        try:
            value = json.loads(request.body)
        except ValueError:
            self.refuse(f"the body is no JSON: {request.body[:80]!r}")
        if not isinstance(value, dict) or set(value) != set(names):
            self.refuse(f"the body is {value!r}, not an object of {', '.join(names)}")
        for name, kind in names.items():
            if not isinstance(value[name], kind):
                self.refuse(f"{name} is {value[name]!r}")
        return value

    def parameters(self, found, required=(), optional=(), where="query"):
        """The parameters, each at most once; exactly the required ones and any of the optional ones."""
        values = dict(found)
        if len(values) != len(found):
            self.refuse(f"a parameter of the {where} comes twice: {[name for name, _ in found]}")
        if missing := [name for name in required if name not in values]:
            self.refuse(f"the {where} has no {', '.join(missing)}: {sorted(values)}")
        if more := sorted(set(values) - set(required) - set(optional)):
            self.refuse(f"the {where} has {', '.join(more)}")
        return values

    def form(self, request, required=(), optional=()):
        if request.content_type != "application/x-www-form-urlencoded":
            self.refuse(f"the content type is {request.content_type or 'absent'}, not application/x-www-form-urlencoded")
        if request.query_text:
            self.refuse(f"the address has a query: {request.query_text}")
        try:
            found = pairs(request.body.decode("ascii"))
        except ValueError:
            self.refuse(f"the form is not encoded: {request.body[:80]!r}")
        return self.parameters(found, required, optional, "form")

    def empty_query(self, request):
        if request.query_text:
            self.refuse(f"the address has a query: {request.query_text}")

    def empty_body(self, request):
        if request.body:
            self.refuse(f"the body is not empty: {request.body[:80]!r}")
