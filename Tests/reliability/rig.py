"""The real grantd as a process, and what it is run in."""

import asyncio
import contextlib
import ctypes
import fcntl
import os
import pathlib
import resource
import signal
import socket
import struct
import subprocess
import time

from client import Client, Gone
from web import sign_in

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
START_SECONDS = 30
FILL_BYTES = 1 << 16
PR_SET_PDEATHSIG = 1
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
LIBC = ctypes.CDLL(None)


class Wrong(Exception):
    """The test found what must not be."""


class Skip(Exception):
    """This machine cannot do the test."""


async def until(condition, seconds, what, pause=0.05):
    """Asks again and again; the first answer that is true."""
    end = time.monotonic() + seconds
    while True:
        answer = condition()
        if asyncio.iscoroutine(answer):
            answer = await answer
        if answer:
            return answer
        if time.monotonic() > end:
            raise Wrong(f"not within {seconds:g} s: {what}")
        await asyncio.sleep(pause)


class Program:
    """A process that ends with this one, known by its process id alone."""

    def __init__(self, arguments, environment, log, files=None):
        def prepare():
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if files:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        with open(log, "ab") as output:
            self.process = subprocess.Popen(
                [str(argument) for argument in arguments], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env=environment, preexec_fn=prepare)

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
            await asyncio.sleep(0.005)
        return True

    def cpu_seconds(self):
        """What it has used so far."""
        text = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text()
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


class Daemon:
    """grantd on one state folder, which outlives its processes."""

    def __init__(self, products, folder, ledger, state=None):
        self.products, self.folder, self.ledger, self.process = products, folder, ledger, None
        self.socket, self.log, self.state = folder / "s", folder / "grantd.log", state or folder / "state"
        self.starts, self.runtime = 0, folder

    def configure(self, sections, refresh="", more=""):
        text = f'[refresh]\nmargin = "0s"\nretry_delays = ["1s", "2s"]\n{refresh}{more}\n' + "\n".join(sections)
        (self.folder / "grantd.toml").write_text(text)

    @property
    def environment(self):
        own = {
            "PATH": "/usr/bin:/bin", "HOME": str(self.folder), "XDG_RUNTIME_DIR": str(self.runtime),
            "RUNTIME_DIRECTORY": str(self.runtime / "run")}
        kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        return own | kept

    def launch(self, files=None):
        self.starts += 1
        (self.runtime / "run").mkdir(mode=0o700, exist_ok=True)
        with open(self.log, "a") as log:
            log.write(f"---- start {self.starts}\n")
        self.process = Program(
            [self.products / "grantd", "--user", "--config", self.folder / "grantd.toml", "--state", self.state,
             "--socket", self.socket, "--log-level", "debug"], self.environment, self.log, files)
        self.tell("start")

    def tell(self, what):
        self.ledger.write("daemon", what=what, pid=self.process.process.pid, daemon=str(self.folder.name))

    async def connect(self, within=10.0):
        async with asyncio.timeout(within):
            return await Client.connect(self.socket)

    async def ready(self):
        """A client of the daemon that was just launched."""
        end = time.monotonic() + START_SECONDS
        while self.process.status is None:
            with contextlib.suppress(Gone):
                return await self.connect()
            if time.monotonic() > end:
                raise Wrong(f"the daemon does not listen after {START_SECONDS} s")
            await asyncio.sleep(0.01)
        raise Wrong(f"the daemon does not start: it ended with status {self.process.status}: {self.last_lines(3)}")

    async def start(self, files=None):
        self.launch(files)
        return await self.ready()

    def kill(self):
        if self.process and self.process.status is None:
            self.tell("kill")
            self.process.kill()

    async def stop(self, seconds=60.0):
        """In order; the exit status."""
        self.tell("term")
        self.process.signal(signal.SIGTERM)
        if not await self.process.ended(seconds):
            raise Wrong(f"the daemon has not ended {seconds:g} s after SIGTERM")
        self.tell("exited")
        return self.process.status

    def freeze(self):
        self.tell("stop")
        self.process.signal(signal.SIGSTOP)

    def thaw(self):
        self.process.signal(signal.SIGCONT)
        self.tell("cont")

    def lines(self, *words):
        """Those of the log in which all the words are."""
        text = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return [line for line in text if all(word in line for word in words)]

    def last_lines(self, count):
        return " | ".join(self.lines()[-count:])

    async def login(self, client, realm, account):
        """Signs in by the socket and the pages, as a person with a browser does."""
        started = await client.call("login.start", provider=realm.name, account=account, login_hint=account)
        url = next(place["url"] for place in started["destinations"] if place["kind"] == "browser")
        await sign_in(url, account)
        result = await client.call("login.wait", login_id=started["login_id"], timeout=20)
        if result["state"] != "completed":
            raise Wrong(f"{account}: the login is {result['state']} after the callback")

    async def grantctl(self, *arguments, seconds=30.0):
        """Exit status and output."""
        process = await asyncio.create_subprocess_exec(
            str(self.products / "grantctl"), "--socket", str(self.socket), *arguments, env=self.environment,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
        try:
            async with asyncio.timeout(seconds):
                output, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            return None, f"no end within {seconds:g} s"
        return process.returncode, output.decode(errors="replace")


class SmallDisk:
    """A file system of its own in the mount namespace of this process, which can be filled."""

    def __init__(self, folder, megabytes=16):
        self.folder, self.filler, self.is_full = folder, folder / "filler", False
        folder.mkdir(mode=0o700)
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "tmpfs", str(folder)], check=True)

    def fill(self):
        self.is_full = True
        with contextlib.suppress(OSError), open(self.filler, "ab", buffering=0) as file:
            while True:
                file.write(b"\0" * FILL_BYTES)
        with contextlib.suppress(OSError), open(self.filler, "ab", buffering=0) as file:
            while True:
                file.write(b"\0" * 512)

    def free(self):
        self.filler.unlink(missing_ok=True)
        self.is_full = False

    def close(self):
        self.free()
        subprocess.run(["umount", "-l", str(self.folder)], check=False)


class FrozenDisk:
    """A file system of its own in the mount namespace of this process, on which each write can be made to wait."""

    def __init__(self, folder, megabytes=32):
        self.folder = folder
        image = folder.with_suffix(".image")
        with open(image, "wb") as file:
            file.truncate(megabytes << 20)
        folder.mkdir(mode=0o700)
        for command in (["mkfs.ext4", "-q", "-F", str(image)], ["mount", "-o", "loop", str(image), str(folder)]):
            try:
                subprocess.run(command, check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError) as error:
                raise Skip(f"this machine mounts no file: {' '.join(command)}") from error
        folder.chmod(0o700)

    @contextlib.contextmanager
    def freeze(self):
        try:
            subprocess.run(["fsfreeze", "--freeze", str(self.folder)], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Skip("this machine freezes no file system") from error
        try:
            yield
        finally:
            subprocess.run(["fsfreeze", "--unfreeze", str(self.folder)], check=True)

    def close(self):
        subprocess.run(["umount", "-l", str(self.folder)], check=False)


def namespace(*more):
    """The command that gives a process a mount namespace of its own; None: this machine does not."""
    for flags in ([], ["-r"]):
        command = ["unshare", *flags, "-m", *more, "--propagation", "private"]
        test = [*command, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        with contextlib.suppress(OSError):
            if subprocess.run(test, capture_output=True, check=False).returncode == 0:
                return command
    return None


def loopback_up():
    """In a network namespace of its own nothing is up at first (netdevice(7))."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh22x", b"lo", 0)
        flags = struct.unpack("16sh22x", fcntl.ioctl(control, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | IFF_UP))


def products(argument):
    """Where grantd and grantctl are: the option, else the environment, else the build."""
    folder = argument or os.environ.get("PRODUCTS") or ROOT / ".build" / os.environ.get("BUILD", "debug")
    folder = pathlib.Path(folder).resolve()
    for name in ("grantd", "grantctl"):
        if not os.access(folder / name, os.X_OK):
            raise SystemExit(f"{folder / name} is not there: `make build` makes it")
    return folder


def raise_files():
    """As many descriptors as this process may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192) if hard > 0 else 8192, hard))
