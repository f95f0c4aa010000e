"""One row of the table: a server that behaves as the row says, and a program that is run against it."""

import contextlib
import dataclasses
import json
import os
import pathlib
import pty
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable

from grantd_testing import environment

# Of one run; the longest row takes eleven.
RUN_SECONDS = 120
# Another user than the one who runs the tests.
STRANGER = 65534


@dataclasses.dataclass
class Row:
    name: str
    # `{socket}` is the path of the server's socket.
    arguments: list
    # What the server does with a connection, or a list of that for the first, the second … connection; None: no server.
    server: Callable | list | None
    # The front answers without the full program.
    by_itself: bool = False
    environment: dict = dataclasses.field(default_factory=dict)
    # Prepares the folder instead of the server.
    place: Callable | None = None
    # "full": /dev/full; "gone": a pipe that nobody reads; "closed": none.
    output: str = "pipe"
    # Of the socket's file.
    mode: int = 0o777
    # Standard error is a terminal.
    terminal: bool = False
    # The server runs as another user, or the command does.
    foreign_server: bool = False
    as_stranger: bool = False
    # How many connections wait in the server's queue, which it does not look at.
    waiting: int = 0
    # Whether what the server was sent is the same cannot be said: it may be gone before.
    compares_requests: bool = True
    is_slow: bool = False

    @property
    def needs_root(self):
        return self.foreign_server or self.as_stranger


@dataclasses.dataclass
class Outcome:
    status: int
    out: bytes
    err: bytes
    requests: list


class Connection:
    """One connection of the server's."""

    def __init__(self, server, connection, number):
        self.server, self.socket, self.number = server, connection, number
        self.reader = connection.makefile("rb")

    def request(self):
        """The next line, which is noted."""
        line = self.reader.readline()
        if line:
            self.server.requests.append((self.number, line))
        return line

    def send(self, text):
        self.socket.sendall(text if isinstance(text, bytes) else text.encode())

    def pause(self, seconds):
        time.sleep(seconds)

    def hang(self):
        """Until the client is gone."""
        self.reader.read()


class Server:
    """Listens from the first moment on; one thread for each connection."""

    def __init__(self, path, row):
        self.script, self.requests, self.threads, self.queue = row.server, [], [], []
        # Set by a script that another connection waits for.
        self.explained = threading.Event()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        os.chmod(path, row.mode)
        if row.foreign_server:
            listen_as(self.listener, STRANGER)
        else:
            self.listener.listen(row.waiting or 16)
        if row.waiting:
            self.fill(path)
        else:
            self.thread = threading.Thread(target=self.serve, daemon=True)
            self.thread.start()

    def fill(self, path):
        with contextlib.suppress(BlockingIOError):
            while True:
                one = socket.socket(socket.AF_UNIX)
                one.setblocking(False)
                self.queue.append(one)
                one.connect(str(path))

    def serve(self):
        number = 0
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                thread = threading.Thread(target=self.handle, args=(connection, number), daemon=True)
                thread.start()
                self.threads.append(thread)
                number += 1

    def handle(self, connection, number):
        script = self.script[min(number, len(self.script) - 1)] if isinstance(self.script, list) else self.script
        with connection, contextlib.suppress(OSError):
            script(Connection(self, connection, number))

    def close(self):
        self.explained.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(RUN_SECONDS)
        for one in self.queue:
            one.close()


def listen_as(listener, uid):
    """The kernel notes who calls listen(2) (SO_PEERCRED); as that user in a process of its own, since all threads of this
    one have one user."""
    child = os.fork()
    if child == 0:
        try:
            os.setuid(uid)
            listener.listen(16)
        finally:
            os._exit(0)
    os.waitpid(child, 0)


class Trial:
    def __init__(self, row, folder, lone):
        self.row, self.folder, self.lone = row, folder, lone
        folder.mkdir()
        folder.chmod(0o755)
        self.home = folder / "grantd"
        self.socket = self.home / "grantd.sock"

    def nothing_beside(self):
        text = f"grantctl: cannot run {self.lone.parent}/grantctl: No such file or directory\n  Install grantd again.\n"
        return (text.replace("\n", "\r\n") if self.row.terminal else text).encode()

    def run(self, program):
        """Everything as it was before the first run."""
        for path in [self.socket, self.home]:
            if path.is_dir():
                path.rmdir()
            elif path.exists() or path.is_symlink():
                path.unlink()
        self.home.mkdir(mode=0o755)
        if self.row.place:
            self.row.place(self.socket)
        server = Server(self.socket, self.row) if self.row.server else None
        try:
            status, out, err = self.outcome(program)
        finally:
            if server:
                server.close()
        requests = sorted(server.requests) if server and self.row.compares_requests else []
        return Outcome(status, out, err, requests)

    def outcome(self, program):
        arguments = [str(argument).replace("{socket}", str(self.socket)) for argument in self.row.arguments]
        more = {name: value.replace("{socket}", str(self.socket)) for name, value in self.row.environment.items()}
        out_reader = out_writer = None
        options = {}
        match self.row.output:
            case "full":
                options["stdout"] = open("/dev/full", "wb")
            case "closed":
                options["preexec_fn"] = lambda: os.close(1)
            case _:
                out_reader, out_writer = os.pipe()
                options["stdout"] = out_writer
                if self.row.output == "gone":
                    os.close(out_reader)
                    out_reader = None
        err_reader, err_writer = pty.openpty() if self.row.terminal else os.pipe()
        if self.row.as_stranger:
            options |= {"user": STRANGER, "group": STRANGER, "extra_groups": []}
        process = subprocess.Popen(
            [program, *arguments], stdin=subprocess.DEVNULL, stderr=err_writer, env=environment(self.folder, **more), **options)
        os.close(err_writer)
        if out_writer is not None:
            os.close(out_writer)
        if self.row.output == "full":
            options["stdout"].close()
        end = threading.Timer(RUN_SECONDS, process.kill)
        end.start()
        collected = {}
        readers = [
            threading.Thread(target=lambda name, one: collected.update({name: contents(one)}), args=(name, one))
            for name, one in [("out", out_reader), ("err", err_reader)] if one is not None]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        status = process.wait()
        end.cancel()
        return status, collected.get("out", b""), collected["err"]


def contents(descriptor):
    text = b""
    # A terminal whose last writer is gone fails with EIO.
    with contextlib.suppress(OSError):
        while piece := os.read(descriptor, 65536):
            text += piece
    os.close(descriptor)
    return text


def reply(result, identifier=1):
    return json.dumps({"jsonrpc": "2.0", "id": identifier, "result": result}) + "\n"


def failure(code, message, identifier=1, **data):
    error = {"code": code, "message": message} | ({"data": data} if data else {})
    return json.dumps({"jsonrpc": "2.0", "id": identifier, "error": error}) + "\n"


def resets(connection):
    """Ends a connection so that what was sent on it is lost."""
    connection.request()
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def regular_file(path):
    pathlib.Path(path).write_text("")
