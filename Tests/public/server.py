"""An HTTP/1.1 server on a loopback port that the kernel chooses. The test determines every byte of an answer."""

import contextlib
import json
import socket
import struct
import time
import urllib.parse

from grantd_testing import StreamServer

IDLE_SECONDS = 60
HEAD_FIELDS = 100
BODY_BYTES = 1 << 20


class Request:
    """One request, with readers of its parts."""

    def __init__(self, method, target, fields, body):
        parts = urllib.parse.urlsplit(target)
        self.method, self.target, self.path, self.query_text = method, target, parts.path, parts.query
        # Field names are in lower case.
        self.fields, self.body, self.at = fields, body, time.monotonic()

    @property
    def query(self):
        return dict(urllib.parse.parse_qsl(self.query_text, keep_blank_values=True))

    @property
    def form(self):
        return dict(urllib.parse.parse_qsl(self.body.decode(), keep_blank_values=True))

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def bearer(self):
        scheme, _, token = self.fields.get("authorization", "").partition(" ")
        return token if scheme.lower() == "bearer" else None

    @classmethod
    def read(cls, file):
        """The next request of a connection, or None at its end."""
        start = file.readline().decode("latin-1").split()
        if len(start) != 3:
            return None
        fields = {}
        for _ in range(HEAD_FIELDS):
            line = file.readline().decode("latin-1").rstrip("\r\n")
            if not line:
                break
            name, _, value = line.partition(":")
            fields[name.strip().lower()] = value.strip()
        return cls(start[0], start[1], fields, file.read(min(int(fields.get("content-length", 0)), BODY_BYTES)))


class Answer:
    """One answer. `value` is the JSON value that the body was made of."""

    def __init__(self, status, body=b"", fields=(), value=None):
        self.status, self.body, self.fields, self.value = status, body, list(fields), value

    def wire(self):
        lines = [f"HTTP/1.1 {self.status} Answer", *(f"{name}: {value}" for name, value in self.fields)]
        return "\r\n".join([*lines, f"Content-Length: {len(self.body)}", "", ""]).encode("latin-1") + self.body

    @classmethod
    def json(cls, value, status=200, fields=()):
        return cls(status, json.dumps(value).encode(), [("Content-Type", "application/json"), *fields], value)

    @classmethod
    def error(cls, code, status=400, description=None):
        """An OAuth error (RFC 6749 §5.2)."""
        return cls.json({"error": code} | ({"error_description": description} if description else {}), status)

    @classmethod
    def text(cls, body, status=200, kind="text/html; charset=utf-8", fields=()):
        return cls(status, body.encode(), [("Content-Type", kind), *fields])

    @classmethod
    def redirect(cls, location, status=302):
        return cls(status, b"", [("Location", location)])


# Instead of an answer: the connection is closed, or reset.
CLOSE, RESET = Answer(0), Answer(0)


class Server(StreamServer):
    """Calls `respond` with each request. With `context` it speaks TLS."""

    def __init__(self, respond, context=None):
        self.respond, self.context = respond, context
        super().__init__()

    def close(self):
        # Without `shutdown` the thread in `accept` would keep the port open.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def serve(self, stream):
        with contextlib.suppress(OSError, ValueError), stream:
            stream.settimeout(IDLE_SECONDS)
            if self.context:
                stream = self.context.wrap_socket(stream, server_side=True)
            with stream, stream.makefile("rb") as file:
                while request := Request.read(file):
                    answer = self.respond(request)
                    if answer is RESET:
                        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    if answer in (CLOSE, RESET):
                        return
                    stream.sendall(answer.wire())
                    if request.fields.get("connection", "").lower() == "close":
                        return
