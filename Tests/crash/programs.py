"""The programs under test, as processes, and how a client, a browser and a tester speak to them."""

import asyncio
import base64
import contextlib
import ctypes
import hashlib
import json
import os
import signal
import subprocess
import time
import urllib.parse

START_SECONDS = 20
CALL_SECONDS = 40
HTTP_SECONDS = 20
LINE_BYTES = 1 << 20
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class Gone(Exception):
    """The daemon hung up, or there is none."""


class Refused(Exception):
    """The daemon's error answer."""

    def __init__(self, error):
        self.data = error.get("data") or {}
        self.reason, self.detail = self.data.get("reason"), self.data.get("detail")
        super().__init__(f"{self.reason or error.get('code')}: {error.get('message')}")


class Broken(Exception):
    """The test found what must not be."""


def fingerprint(text):
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


async def http(method, url, body=None):
    """Status, headers in lower case, body."""
    parts = urllib.parse.urlsplit(url)
    data = b"" if body is None else json.dumps(body).encode()
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    head = f"{method} {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n"
    head += f"Content-Length: {len(data)}\r\n\r\n"
    async with asyncio.timeout(HTTP_SECONDS):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            writer.write(head.encode() + data)
            await writer.drain()
            answer = await reader.read(-1)
        finally:
            writer.close()
    head, separator, body = answer.partition(b"\r\n\r\n")
    if not separator:
        raise ConnectionError("no answer")
    lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines[1:])
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return int(lines[0].split()[1]), headers, body


class Process:
    """A program that ends with this one, known by its process id alone."""

    def __init__(self, arguments, environment, log):
        with open(log, "ab") as output:
            self.process = subprocess.Popen(
                [str(argument) for argument in arguments], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env=environment, preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))

    @property
    def status(self):
        return self.process.poll()

    def signal(self, number):
        if self.status is None:
            self.process.send_signal(number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait()

    async def ended(self, seconds):
        """Whether it ends within that time."""
        end = time.monotonic() + seconds
        while self.status is None:
            if time.monotonic() >= end:
                return False
            await asyncio.sleep(0.003)
        return True


def environment(folder, **more):
    own = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return own | kept | more


class Provider:
    """A grantd-demo-provider, and its control API."""

    def __init__(self, products, folder, name, rotation, access_ttl):
        self.name, self.rotation, self.log = name, rotation, folder / f"{name}.log"
        self.process = Process(
            [products / "grantd-demo-provider", "--rotation", rotation, "--grace", 30, "--access-ttl", access_ttl],
            environment(folder), self.log)

    async def ready(self):
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.process.status is None:
            for line in self.log.read_text().splitlines():
                if line.startswith("ready "):
                    self.issuer = json.loads(line[len("ready "):])["issuer"]
                    return
            await asyncio.sleep(0.01)
        raise Broken(f"the provider {self.name} does not start: {self.log.read_text()[-500:]}")

    @property
    def section(self):
        rotation = {"grace": "grace 30s"}.get(self.rotation, self.rotation)
        return (
            f'[provider.{self.name}]\nkind = "oidc"\nissuer = "{self.issuer}"\nclient_id = "demo"\n'
            f'scopes = ["openid", "profile", "email"]\nrotation = "{rotation}"\n')

    async def control(self, command, body=None):
        method = "GET" if body is None else "POST"
        status, _, answer = await http(method, f"{self.issuer}/_control/{command}", body)
        if status != 200:
            raise Broken(f"{self.name}: {command} answers {status}: {answer[:200]}")
        return json.loads(answer)

    async def facts(self, token):
        return await self.control("token", {"token": token})

    async def facts_of_hash(self, sha256):
        return await self.control("token", {"refresh_token_sha256": sha256})


class Client:
    """One connection to the daemon's socket; calls may be made at once."""

    def __init__(self, reader, writer):
        self.writer, self.waiting, self.last = writer, {}, 0
        self.reading = asyncio.create_task(self.read(reader))

    @classmethod
    async def connect(cls, path):
        try:
            return cls(*await asyncio.open_unix_connection(path, limit=LINE_BYTES))
        except OSError as error:
            raise Gone() from error

    async def read(self, reader):
        with contextlib.suppress(OSError, ValueError):
            while line := await reader.readline():
                answer = json.loads(line)
                waiter = self.waiting.pop(answer.get("id"), None)
                if waiter and not waiter.done():
                    waiter.set_result(answer)
        waiting, self.waiting = self.waiting, None
        for waiter in waiting.values():
            if not waiter.done():
                waiter.set_exception(Gone())
                # Whoever waited may be gone too.
                waiter.exception()

    async def call(self, method, **params):
        if self.waiting is None:
            raise Gone()
        self.last += 1
        identifier, waiter = self.last, asyncio.get_running_loop().create_future()
        self.waiting[identifier] = waiter
        request = {"jsonrpc": "2.0", "id": identifier, "method": method, "params": params}
        try:
            self.writer.write(json.dumps(request).encode() + b"\n")
            await self.writer.drain()
            async with asyncio.timeout(CALL_SECONDS):
                answer = await waiter
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise Broken(f"{method} has no answer after {CALL_SECONDS} s") from error
            raise Gone() from error
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["result"]

    def close(self):
        self.reading.cancel()
        self.writer.close()


class Daemon:
    """grantd on one state folder, which outlives its processes."""

    def __init__(self, products, folder):
        self.program, self.folder, self.process = products / "grantd", folder, None
        self.socket, self.log, self.state = folder / "s", folder / "grantd.log", folder / "state"
        self.starts, self.start_seconds = 0, 0.3

    def configure(self, providers):
        refresh = '[refresh]\nshare = 0.5\nmargin = "0s"\njitter = 0.2\nretry_delays = ["1s"]\n'
        text = refresh + "".join(provider.section for provider in providers)
        (self.folder / "grantd.toml").write_text(text)

    def launch(self, crash_at=None):
        more = {"GRANTD_CRASH_AT": crash_at} if crash_at else {}
        arguments = [
            self.program, "--user", "--config", self.folder / "grantd.toml", "--state", self.state, "--socket",
            self.socket, "--log-level", "debug"]
        self.starts += 1
        with open(self.log, "a") as log:
            log.write(f"---- start {self.starts}{' with ' + crash_at if crash_at else ''}\n")
        self.process = Process(arguments, environment(self.folder, **more), self.log)

    async def connect(self):
        return await Client.connect(str(self.socket))

    async def ready(self):
        """A client of the daemon just launched; Gone where it ended before."""
        began = time.monotonic()
        while self.process.status is None:
            with contextlib.suppress(Gone):
                client = await self.connect()
                self.start_seconds = 0.8 * self.start_seconds + 0.2 * (time.monotonic() - began)
                return client
            if time.monotonic() > began + START_SECONDS:
                raise Broken(f"the daemon does not listen after {START_SECONDS} s")
            await asyncio.sleep(0.005)
        if self.process.status != -signal.SIGKILL:
            raise Broken(f"the daemon does not start: it ended with status {self.process.status}")
        raise Gone()
