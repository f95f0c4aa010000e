"""The machine that the cases share: grantd as a service, users, units, slices. All of it is thrown away."""

import os
import pathlib
import shutil
import subprocess
import time

from actor import Who
from grantd_testing import Wrong, wait_until

COMMAND_SECONDS = 120
GRANTCTL_SECONDS = 60
MEGABYTE = 1 << 20
# What the broker may have more than before an attack.
GROWTH_BYTES = 200 * MEGABYTE
UNITS = ("grantd.service", "grantd.socket", "grantd-credentials.socket")
SOCKET = pathlib.Path("/run/grantd/grantd.sock")
STATE = pathlib.Path("/var/lib/grantd")
CONFIGURATION = pathlib.Path("/etc/grantd/grantd.toml")
DROP_IN = pathlib.Path("/etc/systemd/system/grantd.service.d/hostile.conf")
# A control group of no unit and no slice.
NO_UNIT = pathlib.Path("/sys/fs/cgroup/hostile")
READER = "hostile-reader.service"
# The account's own user; one with a capped rule that asks a person; one with `login` alone; one without a rule; one
# that has subordinate uids; one more without a rule, for what takes two.
USERS = {"owner": 61001, "capped": 61002, "signer": 61003, "ruleless": 61004, "many": 61005, "other": 61006}
SUBORDINATE_FIRST, SUBORDINATE_COUNT = 1_000_000, 65536


def command(*words, check=True, **more):
    return subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=check, timeout=COMMAND_SECONDS, **more)


class Machine:
    def __init__(self, products, root):
        self.products, self.root = products, root

    def install(self):
        for name in ("grantd", "grantctl"):
            shutil.copy(self.products / name, "/usr/local/bin/")
        self.install_libraries()
        units = pathlib.Path("/etc/systemd/system")
        for name in UNITS:
            shutil.copy(self.root / "systemd" / name, units / name)
        # Each case starts it anew, and a crash must be seen.
        DROP_IN.parent.mkdir(exist_ok=True)
        DROP_IN.write_text("[Unit]\nStartLimitIntervalSec=0\n[Service]\nRestart=no\nTimeoutStopSec=30\n")
        CONFIGURATION.parent.mkdir(exist_ok=True)
        self.add_users()
        command("systemd-sysusers", self.root / "systemd" / "sysusers.d" / "grantd.conf")
        command("systemctl", "daemon-reload")
        NO_UNIT.mkdir()
        for name, uid in USERS.items():
            self.hold(f"hostile-{name}.service", f"user-{uid}.slice")
        self.hold(READER, "system.slice")

    def install_libraries(self):
        """The Swift runtime of a debug build, where a sandboxed service can read it."""
        said = command("ldd", "/usr/local/bin/grantd", "/usr/local/bin/grantctl").stdout
        found = {line.split()[2] for line in said.splitlines() if "=> /" in line}
        for path in found:
            if not path.startswith(("/lib", "/usr/lib", "/usr/local/lib")):
                shutil.copy(path, "/usr/local/lib/")
        command("ldconfig")

    @staticmethod
    def add_users():
        with open("/etc/passwd", "a") as users, open("/etc/group", "a") as groups:
            for name, uid in USERS.items():
                home = pathlib.Path(f"/home/hostile-{name}")
                home.mkdir(parents=True)
                shutil.chown(home, uid, uid)
                # "*": no password, and none to be looked for in shadow(5), where the user has no line.
                users.write(f"hostile-{name}:*:{uid}:{uid}::{home}:/bin/sh\n")
                groups.write(f"hostile-{name}:x:{uid}:\n")
        with open("/etc/subuid", "a") as ranges:
            ranges.write(f"hostile-many:{SUBORDINATE_FIRST}:{SUBORDINATE_COUNT}\n")

    @staticmethod
    def hold(unit, slice_name):
        """A unit whose control group others join: it exists as long as this runs."""
        command("systemd-run", "--quiet", f"--unit={unit}", f"--slice={slice_name}", "sleep", "infinity")

    @staticmethod
    def user(name):
        uid = USERS[name]
        return Who(uid, f"/user.slice/user-{uid}.slice/hostile-{name}.service")

    @staticmethod
    def unit(part=""):
        """A process of the unit with a rule; in a control group of its own below the unit's if `part` names one."""
        group = f"/system.slice/{READER}" + (f"/{part}" if part else "")
        pathlib.Path(f"/sys/fs/cgroup{group}").mkdir(exist_ok=True)
        return Who(65534, group)

    # grantd

    def start(self, configuration):
        """With nothing of an earlier case."""
        self.kill()
        for entry in STATE.iterdir() if STATE.exists() else ():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        CONFIGURATION.write_text(configuration)
        self.resume()

    def resume(self):
        """On the state that is there."""
        command("systemctl", "reset-failed", *UNITS, check=False)
        command("systemctl", "start", "grantd.socket")
        started = command("systemctl", "start", "grantd.service", check=False)
        if started.returncode:
            said = command("journalctl", "-q", "-o", "cat", "-u", "grantd", "-n", "5", check=False).stdout
            raise RuntimeError(f"grantd does not start: {said[-600:]}")

    def restart(self):
        command("systemctl", "restart", "grantd.service")

    def kill(self):
        command("systemctl", "kill", "--signal=KILL", "grantd.service", check=False)
        # Connections that wait in the queue would start it again.
        command("systemctl", "stop", "grantd.socket", "grantd-credentials.socket", "grantd.service", check=False)
        wait_until(lambda: self.pid() == 0, 60, "grantd ended")

    @staticmethod
    def shows(name):
        return command("systemctl", "show", "-P", name, "grantd.service").stdout.strip()

    def pid(self):
        return int(self.shows("MainPID"))

    def resident(self):
        """Bytes of memory (proc_pid_status(5))."""
        if not (pid := self.pid()):
            raise Wrong("grantd has ended")
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))

    def growth(self, idle, seconds):
        """The most that it has above `idle` in that time; not much longer than until it is too much."""
        end, peak = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            peak = max(peak, self.resident() - idle)
            if peak > GROWTH_BYTES:
                end = min(end, time.monotonic() + 1)
            time.sleep(0.1)
        return peak

    @staticmethod
    def journal_size():
        """Lines of grantd's, and how many bytes their messages have."""
        said = command("journalctl", "-q", "-o", "cat", "--all", "-u", "grantd").stdout
        return said.count("\n"), len(said)


def grantctl(*words, given=None):
    """As root, at the system's broker; a command that has not ended in time says nothing, with status 124."""
    environment = os.environ | {"GRANTD_SOCKET": str(SOCKET)}
    return command("timeout", GRANTCTL_SECONDS, "grantctl", *words, check=False, input=given, env=environment)
