"""The desktop: a real message bus with a fake logind and a fake notification server."""

import json
import pathlib
import queue
import subprocess
import threading

from grantd_testing import wait_until
from home import must, shows
from server import Answer
from table import Skip, case

from .locking import locks, unlock

PYTHON = "/usr/bin/python3"
SERVICES = pathlib.Path(__file__).resolve().parent.parent / "desktop_bus.py"
SECONDS = 60
QUIET_SECONDS = 2


class Bus:
    def __init__(self, home):
        try:
            subprocess.run([PYTHON, "-c", "import dbus, gi"], check=True, capture_output=True)
            self.address = f"unix:path={home.folder}/bus"
            self.daemon = subprocess.Popen(
                ["dbus-daemon", "--session", "--nofork", "--nopidfile", f"--address={self.address}", "--print-address"],
                stdout=subprocess.PIPE, text=True)
        except (OSError, subprocess.CalledProcessError):
            raise Skip("dbus-daemon or python3-dbus is not installed") from None
        self.daemon.stdout.readline()
        self.services = subprocess.Popen([PYTHON, SERVICES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                         env=home.environment(DBUS_SESSION_BUS_ADDRESS=self.address))
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()
        self.next("ready")
        usual = home.environment
        home.environment = lambda **more: usual(**{"DBUS_SESSION_BUS_ADDRESS": self.address,
                                                   "DBUS_SYSTEM_BUS_ADDRESS": self.address} | more)

    def read(self):
        for line in self.services.stdout:
            self.lines.put(json.loads(line))

    def next(self, call, seconds=SECONDS):
        """The next call of that name."""
        while True:
            try:
                line = self.lines.get(timeout=seconds)
            except queue.Empty:
                must(False, f"no {call}")
            if line["call"] == call:
                return line

    def quiet(self):
        try:
            must(False, f"there is {self.lines.get(timeout=QUIET_SECONDS)}")
        except queue.Empty:
            return

    def do(self, action):
        self.services.stdin.write(action + "\n")
        self.services.stdin.flush()

    def close(self):
        for process in (self.services, self.daemon):
            process.kill()
            process.wait()


def state(home):
    client = home.connect()
    try:
        return client.call("broker.status")["state"] if client else None
    finally:
        if client:
            client.close()


def unlocked(home, settings):
    """A broker that was locked once, so that it has a passphrase; and its bus."""
    bus = home.keep(Bus(home))
    home.start(f"[lock]\n{settings}\n", demo=home.provider())
    home.sign_in("demo", "work")
    locks(home)
    unlock(home)
    return bus


@case("lock-on-suspend")
def lock_on_suspend(home):
    """The broker locks before a suspend and with the user's own screen; the suspend waits for it."""
    bus = home.keep(Bus(home))
    home.start("[lock]\non_suspend = true\non_screen_lock = true\n", demo=home.provider())
    home.sign_in("demo", "work")
    inhibitor = bus.next("Inhibit")
    must((inhibitor["what"], inhibitor["mode"], inhibitor["who"]) == ("sleep", "delay", "grantd"), f"{inhibitor}")
    # Without a passphrase it cannot lock, and does not hold up the machine.
    bus.do("suspend")
    bus.next("released")
    must(state(home) == "running", "it is locked without a passphrase")
    bus.do("resume")
    bus.next("Inhibit")
    locks(home)
    unlock(home)
    bus.next("Inhibit")
    bus.do("suspend")
    bus.next("released")
    wait_until(lambda: state(home) == "locked", SECONDS, "it is locked before the suspend")
    unlock(home)
    bus.next("Inhibit")
    bus.do("lock-other")
    bus.quiet()
    must(state(home) == "running", "another user's screen locks it")
    bus.do("lock")
    wait_until(lambda: state(home) == "locked", SECONDS, "it is locked with the screen")


@case("lock-by-hint")
def lock_by_hint(home):
    """The broker locks when the LockedHint of a session of its user becomes true, without the signal Lock."""
    bus = unlocked(home, "on_screen_lock = true")
    for other in ("hint-other", "no-hint", "idle"):
        bus.do(other)
    bus.quiet()
    must(state(home) == "running", "another session, or another property, locks it")
    bus.do("hint")
    wait_until(lambda: state(home) == "locked", SECONDS, "it is locked with the screen")


@case("lock-forged")
def lock_forged(home):
    """Signals that another process sends to the broker in logind's name do not lock it."""
    bus = unlocked(home, "on_suspend = true\non_screen_lock = true")
    bus.next("Inhibit")
    bus.do("forge")
    bus.next("forged")
    bus.quiet()
    must(state(home) == "running", "a forged signal locks it")
    bus.do("lock")
    wait_until(lambda: state(home) == "locked", SECONDS, "it is locked with the screen")


@case("notices")
def notices(home):
    """A needed sign-in and a needed approval are on the desktop, with the command; not too often, and not if disabled."""
    bus = home.keep(Bus(home))
    fake = home.provider()
    home.start(demo=fake)
    for name in ("work", "play"):
        home.sign_in("demo", name)
    fake.always("refresh", Answer.error("invalid_grant", 400, "revoked"))
    for _ in range(3):
        home.ctl("refresh", "work", "--now")
    notice = bus.next("Notify")
    must(notice["app"] == "grantd" and "work" in notice["summary"], f"{notice}")
    shows(notice["body"], "grantctl login demo work")
    bus.quiet()
    home.configure("[notify]\nenabled = false\n", demo=fake)
    home.ctl("reload", status=0)
    for _ in range(3):
        home.ctl("refresh", "play", "--now")
    must(home.json("show", "play")["state"] == "login_required", "the account needs no sign-in")
    bus.quiet()
