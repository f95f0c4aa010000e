"""The proxies of the suite: Debian's tinyproxy, and one behind it that alone knows the names of the providers."""

import contextlib
import socket
import threading

from grantd_testing import Program, StreamServer, free_ports, wait_until

SECONDS, START_SECONDS, PAUSE_SECONDS = 20, 10, 0.02
PIPE_BYTES = 1 << 16


def pipe(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(PIPE_BYTES):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


class Names(StreamServer):
    """A proxy whose names are all this machine (RFC 9110 §9.3.6, RFC 9112 §3.2.2). It keeps the heads of requests."""

    def __init__(self):
        self.heads = []
        super().__init__()

    def close(self):
        self.listener.close()

    @property
    def lines(self):
        return [head[0] for head in self.heads]

    def serve(self, stream):
        with contextlib.suppress(OSError), stream, stream.makefile("rb", buffering=0) as file:
            head = []
            while line := file.readline().decode("latin-1").strip():
                head.append(line)
            if not head:
                return
            self.heads.append(head)
            method, target, version = head[0].split()
            if method == "CONNECT":
                port, first = target.rpartition(":")[2], b""
            else:
                authority, _, path = target.removeprefix("http://").partition("/")
                port = authority.partition(":")[2] or "80"
                first = "\r\n".join([f"{method} /{path} {version}", *head[1:], "", ""]).encode("latin-1")
            with socket.create_connection(("127.0.0.1", int(port)), SECONDS) as other:
                if method == "CONNECT":
                    stream.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
                other.sendall(first)
                threading.Thread(target=pipe, args=(other, stream), daemon=True).start()
                pipe(stream, other)


class Odd(StreamServer):
    """A proxy that reads the head of a request and answers with these bytes; None: it never answers."""

    def __init__(self, answer):
        self.answer, self.open_ones = answer, []
        super().__init__()

    def close(self):
        self.listener.close()
        for stream in self.open_ones:
            stream.close()

    def serve(self, stream):
        self.open_ones.append(stream)
        with contextlib.suppress(OSError):
            stream.recv(PIPE_BYTES)
            if self.answer is not None:
                stream.sendall(self.answer)
                stream.shutdown(socket.SHUT_RDWR)


class Tinyproxy:
    """tinyproxy in the foreground, which sends all requests on to `names`."""

    def __init__(self, folder, names, *lines, denied=()):
        self.port = free_ports()[0]
        self.log = folder / f"tinyproxy-{self.port}.log"
        self.place = f"127.0.0.1:{self.port}"
        settings = folder / f"tinyproxy-{self.port}.conf"
        if denied:
            deny = folder / f"denied-{self.port}"
            deny.write_text("".join(f"{host}\n" for host in denied))
            lines = [*lines, f'Filter "{deny}"']
        settings.write_text("\n".join([
            f"Port {self.port}", "Listen 127.0.0.1", "Timeout 60", "LogLevel Info", f'LogFile "{self.log}"',
            f"Upstream http 127.0.0.1:{names.port}", *lines, ""]))
        self.process = Program(["tinyproxy", "-d", "-c", settings], folder / f"tinyproxy-{self.port}.out")
        wait_until(self.listens, START_SECONDS, "tinyproxy listens", PAUSE_SECONDS)

    def listens(self):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), SECONDS).close()
            return True

    def close(self):
        self.process.stop()

    @property
    def requests(self):
        """The lines of its log with requests."""
        return [line for line in self.log.read_text().splitlines() if " HTTP/1." in line]
