"""One connection of a soak's client, and requests in every form that the socket takes."""

import asyncio
import json
import urllib.parse

ANSWER_SECONDS = 60
LONGEST_LINE = 4 * 1024 * 1024


class Refused(Exception):
    """The broker has as many connections as it takes."""


class Closed(Exception):
    """The broker closed the connection."""


class Wire:
    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, path):
        async with asyncio.timeout(ANSWER_SECONDS):
            return cls(*await asyncio.open_unix_connection(path, limit=LONGEST_LINE))

    async def send(self, *payloads):
        self.writer.write(b"".join(payloads))
        async with asyncio.timeout(ANSWER_SECONDS):
            await self.writer.drain()

    async def answer(self, seconds=ANSWER_SECONDS):
        async with asyncio.timeout(seconds):
            line = await self.reader.readline()
        if not line.endswith(b"\n"):
            raise Closed(line[:200])
        reply = json.loads(line)
        if isinstance(reply, dict) and reply.get("id") is None and is_refusal(reply):
            raise Refused
        return reply

    async def ask(self, method, id=1, **params):
        await self.send(request(method, params, id))
        return await self.answer()

    def close(self):
        self.writer.close()

    def abort(self):
        self.writer.transport.abort()


def is_refusal(reply):
    error = reply.get("error") or {}
    return (error.get("data") or {}).get("reason") == "overloaded" and "connections" in error.get("message", "")


def message(method, params=None, id=None):
    made = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        made["params"] = params
    if id is not None:
        made["id"] = id
    return made


def request(method, params, id):
    return json.dumps(message(method, params, id), separators=(",", ":")).encode() + b"\n"


def some_id(random, number):
    """An id of any kind, different for each number."""
    kind = random.randrange(8)
    return (number, -number - 1, 2**62 + number, 10**30 + number, number + 0.5, str(number),
            f'"{number}\\ ü 🜂 \u2028', f"{number} " + "x" * 200)[kind]


def written(random, made):
    """The same message as different clients write it."""
    style = random.randrange(6)
    if style == 0:
        members = list(made.items())
        random.shuffle(members)
        return json.dumps(dict(members)).encode() + b"\n"
    if style == 1:
        return b" \t" + json.dumps(made, ensure_ascii=False).encode() + b" \r\n"
    if style == 2:
        return json.dumps(made).replace("account", "\\u0061ccount").encode() + b"\n\n"
    return json.dumps(made, separators=(",", ":")).encode() + b"\n"


def key(id):
    """An id, to find its request by."""
    return json.dumps(id)


async def fetch(url, headers=()):
    """The status and body of a GET on loopback."""
    parts = urllib.parse.urlsplit(url)
    async with asyncio.timeout(ANSWER_SECONDS):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            target = parts.path + (f"?{parts.query}" if parts.query else "")
            lines = [f"GET {target} HTTP/1.1", f"Host: {parts.netloc}", "Connection: close", *headers, "", ""]
            writer.write("\r\n".join(lines).encode())
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            return int(head.split()[1]), body
        finally:
            writer.close()
