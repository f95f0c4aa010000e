"""As much of a Kafka broker as a client asks for until it has signed in by OAUTHBEARER (RFC 7628)."""

import contextlib
import socket
import struct

from grantd_testing import StreamServer

READ_SECONDS = 60
LIMIT_BYTES = 1 << 20
METADATA, HANDSHAKE, VERSIONS, AUTHENTICATE = 3, 17, 18, 36
UNSUPPORTED_VERSION = 35
MECHANISM = b"OAUTHBEARER"


class Kafka(StreamServer):
    def __init__(self, provider):
        """`provider` says which tokens are alive."""
        self.provider, self.seen = provider, []
        super().__init__()

    def serve(self, stream):
        stream.settimeout(READ_SECONDS)
        with contextlib.suppress(OSError, struct.error), stream, stream.makefile("rb") as file:
            while (head := file.read(4)) and (size := struct.unpack(">i", head)[0]) < LIMIT_BYTES:
                message = file.read(size)
                key, version, number = struct.unpack_from(">hhi", message)
                answer = struct.pack(">i", number) + self.answer(key, version, message)
                stream.sendall(struct.pack(">i", len(answer)) + answer)

    def answer(self, key, version, message):
        if key == VERSIONS:
            if version > 0:
                # The client asks again, in version 0.
                return struct.pack(">hihhh", UNSUPPORTED_VERSION, 1, VERSIONS, 0, 0)
            rows = [(0, 0, 7), (1, 0, 10), (METADATA, 0, 0), (HANDSHAKE, 0, 1), (VERSIONS, 0, 0), (AUTHENTICATE, 0, 1)]
            return struct.pack(">hi", 0, len(rows)) + b"".join(struct.pack(">hhh", *row) for row in rows)
        if key == HANDSHAKE:
            return struct.pack(">hih", 0, 1, len(MECHANISM)) + MECHANISM
        if key == AUTHENTICATE:
            # The header's client id, and then the bytes of the mechanism.
            (length,) = struct.unpack_from(">h", message, 8)
            at = 10 + max(length, 0)
            (size,) = struct.unpack_from(">i", message, at)
            token = self.token(message[at + 4:at + 4 + size])
            self.seen.append(token)
            if self.provider.is_alive(token):
                return struct.pack(">hhi", 0, -1, 0) + (struct.pack(">q", 0) if version else b"")
            words = b'{"status":"invalid_token"}'
            return struct.pack(">hh", 58, len(words)) + words + struct.pack(">i", 0) + (struct.pack(">q", 0) if version
                                                                                        else b"")
        # METADATA: one broker, this one, and no topics.
        name, _, port = self.place.partition(":")
        return struct.pack(">iih", 1, 0, len(name)) + name.encode() + struct.pack(">ii", int(port), 0)

    @staticmethod
    def token(response):
        for part in response.split(b"\1"):
            if part.startswith(b"auth=Bearer "):
                return part[12:].decode()
        return f"no token in {response!r}"

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
