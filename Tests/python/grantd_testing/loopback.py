"""Requests to servers on this machine."""

import asyncio
import http.client as http_client
import json
import urllib.parse
import urllib.request

GET_SECONDS = 60
HTTP_SECONDS = 60


def get(url, body=None, seconds=GET_SECONDS):
    """The answer's body; POST where there is JSON to send. Redirects are followed; a proxy of the environment is not used."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"} if body else {})
    with opener.open(request, timeout=seconds) as answer:
        return answer.read()


async def http(method, url, body=None, headers=(), seconds=HTTP_SECONDS):
    """Status, header fields in lower case and body of one exchange. Redirects are not followed."""
    parts = urllib.parse.urlsplit(url)
    data = b"" if body is None else json.dumps(body).encode()
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    lines = [f"{method} {target} HTTP/1.1", f"Host: {parts.netloc}", "Connection: close", *headers]
    lines += [] if method == "GET" else [f"Content-Length: {len(data)}"]
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            writer.write("\r\n".join([*lines, "", ""]).encode() + data)
            await writer.drain()
            answer = await reader.read(-1)
        finally:
            writer.close()
    head, separator, body = answer.partition(b"\r\n\r\n")
    if not separator:
        raise ConnectionError("no answer")
    lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines[1:])
    return int(lines[0].split()[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}, body


def redirected(url, seconds=HTTP_SECONDS):
    """Where the answer to one GET leads; nothing is followed."""
    parts = urllib.parse.urlsplit(url)
    connection = http_client.HTTPConnection(parts.hostname, parts.port, timeout=seconds)
    try:
        connection.request("GET", parts.path + (f"?{parts.query}" if parts.query else ""))
        answer = connection.getresponse()
        location = answer.getheader("Location")
        if not location:
            raise ConnectionError(f"no redirect: {answer.status}")
        return location
    finally:
        connection.close()
