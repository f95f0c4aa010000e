"""The user's browser: single requests on their own connections, whose every byte the row determines."""

import dataclasses
import socket
import urllib.parse

from grantd_testing import Wrong

SECONDS = 20
REDIRECTS = 10
READ_BYTES = 1 << 16


@dataclasses.dataclass
class Page:
    status: int
    fields: dict
    body: str


def connect(host, port):
    return socket.create_connection((host, port), SECONDS)


def head(url, method="GET", fields=()):
    parts = urllib.parse.urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [f"{method} {target} HTTP/1.1", f"Host: {parts.netloc}", "Connection: close", "Accept: text/html",
             *(f"{name}: {value}" for name, value in fields)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def browse(url, method="GET", fields=(), host=None):
    """The page at a URL; redirects are not followed. `host` is the address to connect to."""
    parts = urllib.parse.urlsplit(url)
    with connect(host or parts.hostname, parts.port) as stream:
        stream.sendall(head(url, method, fields))
        return read(stream)


def read(stream):
    """The page that a connection brings; it ends with the connection."""
    data = b""
    while part := stream.recv(READ_BYTES):
        data += part
    start, separator, body = data.partition(b"\r\n\r\n")
    if not separator:
        raise Wrong(f"no HTTP answer: {data[:100]!r}")
    lines = start.decode("latin-1").split("\r\n")
    found = (line.partition(":") for line in lines[1:])
    return Page(int(lines[0].split()[1]), {name.strip().lower(): value.strip() for name, _, value in found},
                body.decode(errors="replace"))


def follow(url):
    """The provider's last redirect: the URL of the callback, which is not requested."""
    for _ in range(REDIRECTS):
        page = browse(url)
        if "location" not in page.fields:
            raise Wrong(f"the provider does not redirect: {page.status} {page.body[:200]}")
        url = urllib.parse.urljoin(url, page.fields["location"])
        if "state=" in url:
            return url
    raise Wrong("too many redirects")
