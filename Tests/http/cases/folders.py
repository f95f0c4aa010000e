"""Which folders a socket may be bound in: the main one, that of HTTP, and that for credentials."""

import contextlib
import os
import socket

from cases.questions import START_SECONDS, Deviations
from grantd_testing import DaemonProcess, Program, free_ports, temporary_folder, wait_until
from questions import FOLDERS
from rig import case


class Binder(DaemonProcess):
    """A broker with one socket in the folder of a row, and the others in a safe one."""

    instance = "system"

    def __init__(self, products, folder, entry, row):
        super().__init__(products, folder)
        self.entry, self.listener = entry, None
        named, place = prepared(folder, row)
        is_http = entry == "[http] unix"
        self.bound = place / ("http.sock" if is_http else "grantd.sock" if entry == "the main socket" else "credentials.sock")
        # A relative path is below the folder of the main socket there, otherwise below the working directory.
        http = f'[http]\nunix = "{named}/http.sock"\n' if is_http else ""
        self.config.write_text(f"[callback]\nport = {free_ports()[0]}\n{http}")
        if not is_http:
            self.socket = f"{named}/grantd.sock"

    def launch(self):
        command = [self.products / "grantd", "--system", "--config", self.config, "--state", self.state,
                   "--socket", self.socket]
        options = {}
        if self.entry == "the socket for credentials":
            # Its folder is that of the main socket, which a socket unit has bound here.
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(str(self.folder / "held.sock"))
            self.listener.listen(8)
            number = self.listener.fileno()
            start = f'LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=grantd exec "$@" 3<&{number}'
            command, options = ["/bin/bash", "-c", start, "grantd", *command], {"pass_fds": [number]}
        self.process = Program(command, self.log, cwd=self.folder, env=self.environment, **options)

    def is_decided(self):
        return self.process.status is not None or self.lines(" serving socket=")

    def is_bound(self):
        with socket.socket(socket.AF_UNIX) as stream, contextlib.suppress(OSError):
            stream.connect(str(self.bound))
            return True
        return False

    def close(self):
        self.process.kill()
        if self.listener:
            self.listener.close()


def prepared(folder, row):
    """The name of the row's folder in the configuration, and its path."""
    place = folder / "place"
    if row.kind == "folder":
        place.mkdir()
        place.chmod(row.mode)
        if row.owner is not None:
            os.chown(place, row.owner, row.owner)
    elif row.kind == "file":
        place.write_text("")
    if row.form == "link":
        link = folder / "link"
        link.symlink_to(place)
        return link, place
    return ("place" if row.form == "relative" else place), place


@case("questions.folders")
def folders(scene):
    """Which folders a socket may be bound in."""
    deviations = Deviations()
    rows = [row for row in FOLDERS if row.owner is None or os.getuid() == 0]
    for row in rows:
        with temporary_folder("grantd-folders-") as base, contextlib.ExitStack() as stack:
            brokers = []
            for number, entry in enumerate(("the main socket", "[http] unix", "the socket for credentials")):
                folder = base / str(number)
                folder.mkdir()
                broker = Binder(scene.programs, folder, entry, row)
                broker.launch()
                stack.callback(broker.close)
                brokers.append(broker)
            for broker in brokers:
                wait_until(broker.is_decided, START_SECONDS, f"{broker.entry}, {row.what}: the broker starts or ends")
                wanted = row.bound if row.http is None or broker.entry != "[http] unix" else row.http
                deviations.check(broker.entry, row.what, broker.is_bound(), wanted)
    deviations.end()
