"""A resource server whose every byte the test decides: a thread for each connection, a function for each first segment.

What it takes of a request is strict, so that what a broker makes of an odd one is seen.
"""

import collections
import contextlib
import dataclasses
import json
import re
import socket
import ssl

from grantd_testing import StreamServer
from wire import Broken, Reader

READ_SECONDS = 60
REASONS = collections.defaultdict(lambda: "Status")


@dataclasses.dataclass
class Seen:
    method: str
    target: str
    fields: list
    body: bytes
    token: str | None

    def all(self, name):
        return [value for field, value in self.fields if field == name]


class Exchange:
    """A request whose body is not yet read, and the way back."""

    def __init__(self, server, stream, reader, method, target, fields):
        self.server, self.stream, self.reader = server, stream, reader
        self.method, self.target, self.fields = method, target, fields
        self.closes, self.is_read = False, False
        scheme, _, value = self.get("authorization", "").partition(" ")
        self.token = value if scheme in ("Bearer", "DPoP") else None
        self.seen = Seen(method, target, fields, b"", self.token)
        self.trailers = []

    def get(self, name, default=None):
        return next((value for field, value in self.fields if field == name), default)

    def pieces(self):
        """The body as it comes."""
        self.is_read = True
        codings = [value for name, value in self.fields if name == "transfer-encoding"]
        lengths = [value for name, value in self.fields if name == "content-length"]
        if len(codings) + len(lengths) > 1 or codings not in ([], ["chunked"]):
            raise Broken(f"codings {codings}, lengths {lengths}")
        if not all(re.fullmatch("[0-9]{1,18}", value) for value in lengths):
            raise Broken(f"lengths {lengths}")
        if codings:
            for piece in self.reader.chunks():
                if isinstance(piece, list):
                    self.trailers = piece
                else:
                    yield piece
        elif lengths:
            yield from self.reader.pieces(int(lengths[0]))

    def body(self):
        self.seen.body += b"".join(self.pieces())
        return self.seen.body

    def refused(self, nonce=None):
        """Whether the token is none that is alive; the answer is sent then."""
        url = f"{self.server.url}{self.target}"
        reason = self.server.provider.refuses(dict(self.fields), self.method, url, nonce)
        if reason:
            self.server.refused.append((self.target, self.token, reason))
            if not self.is_read:
                self.body()
            extra = [("DPoP-Nonce", nonce)] if nonce else []
            error = "use_dpop_nonce" if reason == "nonce" else "invalid_token"
            scheme = "DPoP" if nonce else "Bearer"
            self.reply(401, json.dumps({"why": reason}), [
                       ("WWW-Authenticate", f'{scheme} realm="x", error="{error}"'), *extra])
        return bool(reason)

    def send(self, data):
        self.stream.sendall(data.encode("latin-1") if isinstance(data, str) else data)

    def head(self, status, fields=()):
        lines = [f"HTTP/1.1 {status} {REASONS[status]}", *(f"{name}: {value}" for name, value in fields)]
        self.send("\r\n".join([*lines, "", ""]))

    def reply(self, status=200, body=b"", fields=()):
        if not self.is_read:
            self.body()
        body = body.encode() if isinstance(body, str) else body
        length = [] if status in (204, 304) or 100 <= status < 200 else [("Content-Length", len(body))]
        self.head(status, [*fields, *length])
        if self.method != "HEAD" and length:
            self.send(body)

    def chunk(self, data):
        self.send(b"%x\r\n%b\r\n" % (len(data), data))


class Upstream(StreamServer):
    def __init__(self, provider, context=None):
        self.provider, self.context = provider, context
        self.seen, self.refused, self.broken = collections.defaultdict(list), [], []
        self.routes = {"echo": echo}
        self.certificates = []
        super().__init__(backlog=256)
        self.url = f"{'https' if context else 'http'}://{self.place}"

    def route(self, name, action):
        """What is done with requests for /NAME/…, of which none was seen yet."""
        self.routes[name] = action
        self.seen[name] = []
        return self.seen[name]

    def serve(self, stream):
        with contextlib.suppress(OSError, TimeoutError), contextlib.ExitStack() as stack:
            stack.callback(stream.close)
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.context:
                stream = self.context.wrap_socket(stream, server_side=True)
                stack.callback(stream.close)
                self.certificates.append(stream.getpeercert())
            reader = Reader(stream, READ_SECONDS)
            try:
                while self.one(stream, reader):
                    pass
            except (Broken, ValueError) as error:
                # The end of an idle connection is none.
                if reader.kept or "b''" not in str(error):
                    self.broken.append(str(error))

    def one(self, stream, reader):
        first, fields = reader.head()
        method, target, version = first.split(" ")
        if version != "HTTP/1.1":
            raise Broken(f"version {version}")
        exchange = Exchange(self, stream, reader, method, target, fields)
        name = target.partition("?")[0].split("/")[1]
        self.seen[name].append(exchange.seen)
        self.routes.get(name, missing)(exchange)
        if not exchange.is_read and not exchange.closes:
            exchange.body()
        return not exchange.closes

    def close(self):
        # Its thread waits in accept(2), which only this ends.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def missing(exchange):
    exchange.reply(404, "no such route")


def echo(exchange):
    """What came, as JSON, with everything but the token."""
    body = exchange.body()
    if exchange.refused():
        return
    fields = [[name, value] for name, value in exchange.fields if name != "authorization"]
    exchange.reply(200, json.dumps({
        "method": exchange.method, "target": exchange.target, "fields": fields, "body": body.decode("latin-1")}),
        [("Content-Type", "application/json")])


def tls(chain, key, authority=None):
    """`authority`: clients must show a certificate of it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    if authority:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority)
    return context
