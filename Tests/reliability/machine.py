"""The machine that a test runs on: its disks, its namespaces, its descriptors."""

import contextlib
import fcntl
import resource
import socket
import struct
import subprocess

FILL_BYTES = 1 << 16
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


class Skip(Exception):
    """This machine cannot do the test."""


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
        # It may be read-only.
        with contextlib.suppress(OSError):
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


def raise_files():
    """As many descriptors as this process may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192) if hard > 0 else 8192, hard))
