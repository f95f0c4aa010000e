"""A small HTTP/1.1 server that knows what became of each byte it sent, and an equally small client."""

import asyncio
import contextlib
import dataclasses
import fcntl
import itertools
import re
import select
import socket
import struct
import time
import traceback
import urllib.parse

HEAD_BYTES = 64 << 10
BODY_BYTES = 1 << 20
# How long the kernel may take to send on what it was handed.
ARRIVAL_SECONDS = 10
# linux/sockios.h: bytes of the socket's queue that have not been sent.
SIOCOUTQNSD = 0x894B
HTTP_SECONDS = 60
REASONS = {200: "OK", 201: "Created", 303: "See Other", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found"}


@dataclasses.dataclass
class Request:
    method: str
    path: str
    headers: dict
    body: bytes

    @property
    def query(self):
        return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query, keep_blank_values=True))

    @property
    def form(self):
        return dict(urllib.parse.parse_qsl(self.body.decode("latin-1"), keep_blank_values=True))


class Connection(asyncio.Protocol):
    """One connection; requests on it are answered one after the other."""

    numbers = itertools.count(1)

    def __init__(self, server):
        self.server, self.buffer, self.number = server, b"", next(self.numbers)
        # When the peer closed its side, or all of it.
        self.closed_at = None
        self.is_busy = False
        self.readable, self.ended = asyncio.Event(), asyncio.Event()

    def connection_made(self, transport):
        self.transport, self.socket = transport, transport.get_extra_info("socket")
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.connections.add(self)
        self.task = asyncio.create_task(self.serve())

    def data_received(self, data):
        self.buffer += data
        self.readable.set()

    def eof_received(self):
        self.closed_by_peer()
        return True

    def connection_lost(self, _):
        self.closed_by_peer()
        self.server.connections.discard(self)

    def closed_by_peer(self):
        self.closed_at = self.closed_at or round(time.monotonic(), 4)
        self.readable.set()
        self.ended.set()

    async def closed_within(self, seconds):
        """Waits; whether the peer closed the connection meanwhile. The whole time, as a server does not look."""
        end = time.monotonic() + seconds
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.ended.wait()
                await asyncio.sleep(max(0, end - time.monotonic()))
        return self.closed_at is not None

    async def serve(self):
        try:
            while (request := await self.read()) is not None and not self.transport.is_closing():
                self.is_busy = True
                answer = await self.server.answer(self, request)
                if answer is not None:
                    await self.send(self.response(*answer))
                self.is_busy = False
        except ValueError:
            await self.send(self.response(400, {}, ""))
        except Exception:
            traceback.print_exc()
        finally:
            self.close()

    async def read(self):
        """The next request; None: there is none."""
        while True:
            head, separator, rest = self.buffer.partition(b"\r\n\r\n")
            if separator:
                lines = head.decode("latin-1").split("\r\n")
                method, path, _ = lines[0].split(" ", 2)
                pairs = (line.partition(":") for line in lines[1:])
                headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
                length = int(headers.get("content-length", 0))
                if length > BODY_BYTES or "transfer-encoding" in headers:
                    raise ValueError(head)
                if len(rest) >= length:
                    self.buffer = rest[length:]
                    return Request(method, path, headers, rest[:length])
            elif len(self.buffer) > HEAD_BYTES:
                raise ValueError("the head is too long")
            if self.closed_at is not None:
                return None
            self.readable.clear()
            await self.readable.wait()

    @staticmethod
    def response(status, headers, body):
        data = body.encode()
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}", f"Content-Length: {len(data)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + data

    async def send(self, data):
        """How many bytes the kernel took."""
        if self.transport.is_closing():
            return 0
        self.transport.write(data)
        end = time.monotonic() + ARRIVAL_SECONDS
        while left := self.transport.get_write_buffer_size():
            if self.transport.is_closing() or time.monotonic() > end:
                return len(data) - left
            await asyncio.sleep(0.005)
        return 0 if self.transport.is_closing() else len(data)

    async def arrived(self):
        """Whether the peer's kernel has all that was sent, and the peer had not closed the connection before.

        Over loopback what has left this end is in the other's buffer; its acknowledgement may come later.
        """
        if self.transport.is_closing():
            return False
        poll, end = select.poll(), time.monotonic() + ARRIVAL_SECONDS
        poll.register(self.socket.fileno(), select.POLLRDHUP)
        while self.closed_at is None and not self.transport.is_closing() and not poll.poll(0):
            unsent = struct.unpack("i", fcntl.ioctl(self.socket.fileno(), SIOCOUTQNSD, b"\0" * 4))[0]
            if unsent == 0 or time.monotonic() > end:
                return unsent == 0
            await asyncio.sleep(0.002)
        return False

    def reset(self):
        with contextlib.suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def close(self):
        self.transport.close()


class Server:
    """A port with realms on it, which can be closed and opened again."""

    def __init__(self):
        self.realms, self.connections, self.listener, self.port = {}, set(), None, 0

    @classmethod
    async def open(cls):
        server = cls()
        await server.listen()
        return server

    @property
    def origin(self):
        return f"http://127.0.0.1:{self.port}"

    async def listen(self):
        loop = asyncio.get_running_loop()
        self.listener = await loop.create_server(
            lambda: Connection(self), "127.0.0.1", self.port, backlog=512, reuse_address=True)
        self.port = self.listener.sockets[0].getsockname()[1]

    def refuse(self):
        """From now on connections are refused; those that are there are reset where nothing is under way."""
        if self.listener:
            self.listener.close()
            self.listener = None
        for connection in list(self.connections):
            if not connection.is_busy:
                connection.reset()

    async def answer(self, connection, request):
        _, name, rest = (urllib.parse.urlsplit(request.path).path + "//").split("/", 2)
        realm = self.realms.get(name)
        return await realm.answer(connection, request, "/" + rest.rstrip("/")) if realm else (404, {}, "")

    def close(self):
        if self.listener:
            self.listener.close()
        for connection in list(self.connections):
            connection.task.cancel()
            connection.transport.abort()


async def http(method, url, form=None):
    """Status, headers in lower case, body."""
    parts = urllib.parse.urlsplit(url)
    data = urllib.parse.urlencode(form or {}).encode()
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    head = f"{method} {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\nContent-Length: {len(data)}\r\n"
    head += "Content-Type: application/x-www-form-urlencoded\r\n\r\n"
    async with asyncio.timeout(HTTP_SECONDS):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            writer.write(head.encode() + data)
            await writer.drain()
            # To the length that is promised: what answers here may keep the connection.
            text = await reader.readuntil(b"\r\n\r\n")
            lines = text.decode("latin-1").split("\r\n")
            pairs = (line.partition(":") for line in lines[1:] if line)
            headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
            length = headers.get("content-length")
            body = await (reader.readexactly(int(length)) if length else reader.read(-1))
        finally:
            writer.close()
    return int(lines[0].split()[1]), headers, body


async def sign_in(url, user):
    """What a browser and a person do: the page, its form, and the address that it ends at."""
    # The broker's short address leads to the page.
    _, headers, page = await http("GET", url)
    if "location" in headers:
        _, _, page = await http("GET", headers["location"])
    action = re.search(r'action="([^"]+)"', page.decode())
    hidden = re.search(r'name="page" type="hidden" value="([^"]+)"', page.decode())
    if not action or not hidden:
        raise ValueError(f"the sign-in page is {page[:200]}")
    _, headers, _ = await http("POST", action[1], {"page": hidden[1], "user": user})
    return await http("GET", headers["location"])
