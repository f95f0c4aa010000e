"""A PostgreSQL server as far as a login goes: protocol 3.0, and SASL by OAUTHBEARER (RFC 7628)."""

import contextlib
import json
import socket
import struct
import threading

SSL, GSS = 80877103, 80877104
OK, SASL, CONTINUE = 0, 10, 11
SECONDS = 60


class Postgres:
    """It accepts one token, and asks for one of this issuer."""

    def __init__(self, token, issuer):
        self.token, self.issuer, self.seen = token, issuer, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.listener.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.serve, args=(self.listener.accept()[0],), daemon=True).start()

    def serve(self, stream):
        with stream, contextlib.suppress(OSError, EOFError):
            stream.settimeout(SECONDS)
            while struct.unpack("!I", self.body(stream)[:4])[0] in (SSL, GSS):
                stream.sendall(b"N")
            self.send(stream, b"R", struct.pack("!I", SASL) + b"OAUTHBEARER\0\0")
            _, _, text = self.read(stream).partition(b"\0")
            words = dict(part.split("=", 1) for part in text[4:].decode().split("\x01") if "=" in part)
            self.seen.append(words["auth"])
            if words["auth"] != f"Bearer {self.token}":
                refusal = {"status": "invalid_token", "scope": "db",
                           "openid-configuration": f"{self.issuer}/.well-known/openid-configuration"}
                self.send(stream, b"R", struct.pack("!I", CONTINUE) + json.dumps(refusal).encode())
                self.read(stream)
                self.send(stream, b"E", b"SFATAL\0VFATAL\0C28000\0Mrefused\0\0")
                return
            self.send(stream, b"R", struct.pack("!I", OK))
            self.send(stream, b"S", b"server_version\x0018.0\0")
            self.send(stream, b"K", struct.pack("!II", 1, 2))
            self.send(stream, b"Z", b"I")
            self.read(stream)

    @staticmethod
    def send(stream, kind, body):
        stream.sendall(kind + struct.pack("!I", len(body) + 4) + body)

    def read(self, stream):
        self.exactly(stream, 1)
        return self.body(stream)

    def body(self, stream):
        return self.exactly(stream, struct.unpack("!I", self.exactly(stream, 4))[0] - 4)

    @staticmethod
    def exactly(stream, count):
        found = b""
        while len(found) < count:
            piece = stream.recv(count - len(found))
            if not piece:
                raise EOFError
            found += piece
        return found
