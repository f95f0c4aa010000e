"""The desktop's notice of a scope that a server requires: a real message bus, with a fake notification server."""

import contextlib
import json
import subprocess

from clients import HERE, START_SECONDS
from grantd_testing import Program, wait_until
from logins import LIST, case
from scene import Broker, Skip, must, same

PYTHON = "/usr/bin/python3"
SERVICES = HERE.parent / "messages" / "desktop_bus.py"


class DesktopBroker(Broker):
    """On a desktop with a bus of its own."""

    @property
    def environment(self):
        return super().environment | {"DBUS_SESSION_BUS_ADDRESS": f"unix:path={self.folder}/bus"}

    def launch(self, files=None, **more):
        address = self.environment["DBUS_SESSION_BUS_ADDRESS"]
        try:
            subprocess.run([PYTHON, "-c", "import dbus, gi"], check=True, capture_output=True)
            self.bus = Program(["dbus-daemon", "--session", "--nofork", "--nopidfile", f"--address={address}"],
                               self.folder / "bus.log")
        except (OSError, subprocess.CalledProcessError):
            raise Skip("dbus-daemon or python3-dbus is not installed") from None
        wait_until((self.folder / "bus").exists, START_SECONDS, "the bus")
        self.calls = self.folder / "calls.log"
        self.services = Program([PYTHON, SERVICES], self.calls, stdin=subprocess.PIPE,
                                env=self.environment | {"DBUS_SYSTEM_BUS_ADDRESS": address})
        wait_until(lambda: self.notices("ready"), START_SECONDS, "the desktop's services")
        super().launch(files, **more)

    def notices(self, call="Notify"):
        return [line for text in self.calls.read_text().splitlines() if (line := json.loads(text))["call"] == call]

    def close(self):
        super().close()
        for one in (getattr(self, "services", None), getattr(self, "bus", None)):
            if one:
                one.kill()


@case
def notice(scene):
    """A tool call that needs a scope: one notice with the scope and the command, not one for each call."""
    _, resource = scene.pair()
    broker = scene.closing.enter_context(contextlib.closing(DesktopBroker(scene.programs, scene.folder)))
    broker.start()
    broker.login(scene.url(resource), "notes")
    resource.needed = "notes.write"
    for _ in range(3):
        broker.forward("notes/mcp", LIST)
    wait_until(broker.notices, START_SECONDS, "the notice")
    same([one["summary"] for one in broker.notices()], ["Sign in again: notes"], "the notices")
    body = broker.notices()[0]["body"]
    must("notes.write" in body and "grantctl login 127.0.0.1 notes" in body, f"the body: {body}")
