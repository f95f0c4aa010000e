"""A service manager with a descriptor store, as systemd is one (sd_notify(3), sd_listen_fds(3))."""

import array
import contextlib
import os
import socket
import sys
import threading

from grantd_testing import Program
from scene import Broker

MESSAGE_BYTES, MOST_DESCRIPTORS = 1 << 16, 16
FIRST_DESCRIPTOR = 3
# Puts the descriptors where a service expects them, and becomes the service.
LAUNCHER = """
import os, sys
given, names = [int(number) for number in sys.argv[1].split(",") if number], sys.argv[2]
high = [os.dup(number) for number in given]
base = max([100, *high]) + 1
for index, number in enumerate(high):
    os.dup2(number, base + index)
for index in range(len(high)):
    os.dup2(base + index, 3 + index, inheritable=True)
os.closerange(3 + len(high), base + len(high))
if high:
    os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(high)), "LISTEN_FDNAMES": names}
os.execv(sys.argv[3], sys.argv[3:])
"""


class Manager:
    def __init__(self, folder):
        self.path, self.kept, self.lock = folder / "notify", {}, threading.Lock()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        threading.Thread(target=self.receive, daemon=True).start()

    def receive(self):
        room = socket.CMSG_SPACE(MOST_DESCRIPTORS * array.array("i").itemsize)
        with contextlib.suppress(OSError):
            while True:
                data, ancillary, _, _ = self.socket.recvmsg(MESSAGE_BYTES, room)
                descriptors = array.array("i")
                for level, kind, content in ancillary:
                    if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                        descriptors.frombytes(content[:len(content) // descriptors.itemsize * descriptors.itemsize])
                self.take(dict(line.partition("=")[::2] for line in data.decode().splitlines()), list(descriptors))

    def take(self, message, descriptors):
        name, ended = message.get("FDNAME"), []
        with self.lock:
            if "FDSTOREREMOVE" in message:
                ended = self.kept.pop(name, [])
            elif "FDSTORE" in message:
                self.kept.setdefault(name, []).extend(descriptors)
                descriptors = []
        for descriptor in ended + descriptors:
            os.close(descriptor)

    def held(self):
        with self.lock:
            return [(name, descriptor) for name, descriptors in self.kept.items() for descriptor in descriptors]

    def close(self):
        self.socket.close()
        for _, descriptor in self.held():
            os.close(descriptor)


class ManagedBroker(Broker):
    """grantd as a service of that manager: its listening sockets stay over a restart."""

    def __init__(self, programs, folder):
        super().__init__(programs, folder)
        self.manager = Manager(folder)

    def launch(self, files=None, **more):
        self.starts += 1
        held = self.manager.held()
        numbers = ",".join(str(descriptor) for _, descriptor in held)
        self.process = Program(
            [sys.executable, "-c", LAUNCHER, numbers, ":".join(name for name, _ in held),
             self.products / "grantd", f"--{self.instance}", "--config", self.config, "--state", self.state,
             "--socket", self.socket, *self.options],
            self.log, files, env=self.environment | {"NOTIFY_SOCKET": str(self.manager.path)} | more,
            pass_fds=[descriptor for _, descriptor in held])

    def close(self):
        super().close()
        self.manager.close()
