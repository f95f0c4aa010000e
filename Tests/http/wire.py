"""HTTP/1.1 as bytes: what a test sends as it is, and answers that are read strictly (RFC 9112)."""

import dataclasses
import re
import socket
import time

READ_SECONDS = 60
PIECE_BYTES = 1 << 16
HEAD_BYTES = 1 << 18
NO_BODY = {204, 304}


class Broken(Exception):
    """No message, or one that is not whole."""


@dataclasses.dataclass
class Answer:
    status: int
    fields: list
    body: bytes
    is_whole: bool = True
    trailers: list = dataclasses.field(default_factory=list)
    # Interim responses before it.
    interim: list = dataclasses.field(default_factory=list)

    def all(self, name):
        return [value for field, value in self.fields if field == name]

    def get(self, name, default=None):
        return next(iter(self.all(name)), default)


class Reader:
    """Messages of one socket."""

    def __init__(self, stream, seconds=READ_SECONDS):
        self.stream, self.kept, self.has_ended = stream, b"", False
        stream.settimeout(seconds)

    def more(self):
        """Whether there was any."""
        try:
            piece = self.stream.recv(PIECE_BYTES)
        except ConnectionError:
            piece = b""
        self.kept += piece
        self.has_ended |= not piece
        return bool(piece)

    def until(self, mark, limit=HEAD_BYTES):
        while mark not in self.kept:
            if len(self.kept) > limit or not self.more():
                raise Broken(f"no {mark!r} in {self.kept[:300]!r}")
        found, _, self.kept = self.kept.partition(mark)
        return found

    def exactly(self, count):
        while len(self.kept) < count:
            if not self.more():
                raise Broken(f"{len(self.kept)} bytes in place of {count}")
        found, self.kept = self.kept[:count], self.kept[count:]
        return found

    def head(self):
        """The first line, and the fields: names in lower case, in their order."""
        first, *lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        fields = []
        for line in lines:
            found = re.fullmatch(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*?)[ \t]*", line)
            if not found:
                raise Broken(f"no field: {line!r}")
            fields.append((found[1].lower(), found[2]))
        return first, fields

    def chunks(self):
        """Of a body, and then a list: its trailers."""
        while True:
            line = self.until(b"\r\n").partition(b";")[0].strip(b" \t")
            if not re.fullmatch(rb"[0-9A-Fa-f]{1,15}", line):
                raise Broken(f"no size of a chunk: {line!r}")
            size = int(line, 16)
            if not size:
                break
            yield self.exactly(size)
            if self.exactly(2) != b"\r\n":
                raise Broken("a chunk is longer than it says")
        trailers = []
        while line := self.until(b"\r\n"):
            trailers.append(line.decode("latin-1"))
        yield trailers

    def pieces(self, count):
        """A body of that length, as it comes."""
        while count:
            if not self.kept and not self.more():
                raise Broken(f"{count} bytes are missing")
            found, self.kept = self.kept[:count], self.kept[count:]
            count -= len(found)
            yield found

    def answer_head(self):
        """Status, fields, and the interim responses before."""
        interim = []
        while True:
            first, fields = self.head()
            found = re.fullmatch(r"HTTP/1\.[01] ([1-9]\d\d) ?.*", first)
            if not found:
                raise Broken(f"no status line: {first!r}")
            if 100 <= int(found[1]) < 200 and int(found[1]) != 101:
                interim.append((int(found[1]), fields))
                continue
            return int(found[1]), fields, interim

    def answer(self, method="GET"):
        status, fields, interim = self.answer_head()
        made = Answer(status, fields, b"", interim=interim)
        lengths, coding = set(made.all("content-length")), made.all("transfer-encoding")
        if coding and lengths:
            raise Broken("an answer with length and coding")
        if method == "HEAD" or status in NO_BODY:
            return made
        try:
            if coding:
                for piece in self.chunks():
                    if isinstance(piece, list):
                        made.trailers = piece
                    else:
                        made.body += piece
            elif lengths:
                (length,) = lengths
                for piece in self.pieces(int(length)):
                    made.body += piece
            else:
                while self.more():
                    pass
                made.body, self.kept = self.kept, b""
        except (Broken, ValueError):
            made.is_whole = False
        return made

    def closes(self, seconds=READ_SECONDS):
        """Whether the other side closes without another byte."""
        self.stream.settimeout(seconds)
        try:
            return not self.kept and not self.more()
        except TimeoutError:
            return False


def dial(place, seconds=READ_SECONDS):
    """`place`: a port of 127.0.0.1, or the path of a socket."""
    if isinstance(place, int):
        made = socket.create_connection(("127.0.0.1", place), seconds)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(seconds)
    made.connect(str(place))
    return made


def host(place):
    return f"127.0.0.1:{place}" if isinstance(place, int) else "localhost"


def request(method, target, place, body=None, fields=(), close=True):
    """The bytes of a request; `fields` may name a Host of its own."""
    lines = [f"{method} {target} HTTP/1.1"]
    lines += [] if any(name.lower() == "host" for name, _ in fields) else [f"Host: {host(place)}"]
    lines += [f"{name}: {value}" for name, value in fields]
    lines += [f"Content-Length: {len(body)}"] if body is not None else []
    lines += ["Connection: close"] if close else []
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


def ask(place, method, target, body=None, fields=(), seconds=READ_SECONDS):
    """One request on a connection of its own."""
    if isinstance(body, str):
        body = body.encode()
    with dial(place, seconds) as stream:
        stream.sendall(request(method, target, place, body, fields))
        return Reader(stream, seconds).answer(method)


def raw(place, data, seconds=READ_SECONDS, quiet=0.3, first=None, expected=1, closes=False):
    """All answers to these bytes until the other side closes, or is silent for `quiet`; and whether it closed.

    `first`: how long the first answer may take, where there may be none. Of HEAD only the first request may be.
    Until `expected` answers have come and the last is not an error, silence is no end; nor before the other side closes
    if it `closes`.
    """
    is_head = data.lstrip().startswith(b"HEAD ")
    answers, end = [], time.monotonic() + seconds
    with dial(place, seconds) as stream:
        try:
            stream.sendall(data)
        except ConnectionError:
            pass
        reader = Reader(stream, seconds)
        while time.monotonic() < end:
            is_complete = len(answers) >= expected or (answers and answers[-1].status >= 400)
            stream.settimeout(seconds if closes or not is_complete else quiet if answers else first or seconds)
            try:
                if not reader.kept and not reader.more():
                    return answers, True
                stream.settimeout(seconds)
                answers.append(reader.answer("HEAD" if is_head and not answers else "GET"))
            except TimeoutError:
                return answers, False
            except Broken:
                if reader.has_ended and not reader.kept:
                    return answers, True
                raise
    return answers, False
