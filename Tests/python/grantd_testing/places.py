"""Where a test finds the programs, and where it works: folders and ports of its own."""

import contextlib
import errno
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
MEMORY = "/dev/shm"
# Below the ports that Linux chooses for connections and for port 0 (ip_local_port_range), and above those of services.
PORTS = range(16384, 32768)
TRIES = 4096
# The abstract sockets that reserve the ports of this process.
reserved = []


def products(argument=None, names=("grantd", "grantctl")):
    """The folder of the programs: the option, else $PRODUCTS, else the build of $BUILD (debug)."""
    folder = argument or os.environ.get("PRODUCTS") or ROOT / ".build-make" / os.environ.get("BUILD", "debug")
    folder = pathlib.Path(folder).resolve()
    for name in names:
        if not os.access(folder / name, os.X_OK):
            raise SystemExit(f"{folder / name} is not there: `make build` makes it")
    return folder


def build(targets, release=True):
    """Builds these in one go; the folder that they are in."""
    print(f"building {' '.join(targets)} …", file=sys.stderr, flush=True)
    flags = ["-c", "release", "--static-swift-stdlib"] if release else []
    subprocess.run(
        [ROOT / "scripts" / "swiftpm", "build", *flags], env=os.environ | {"GRANTD_TARGETS": " ".join(targets)},
        check=True, stdout=sys.stderr)
    return ROOT / ".build-make" / ("release" if release else "debug")


@contextlib.contextmanager
def temporary_folder(prefix, in_memory=False):
    """Removed at the end. `in_memory`: for programs that write so much that a disk would slow the test down."""
    place = MEMORY if in_memory and os.path.isdir(MEMORY) else None
    with tempfile.TemporaryDirectory(prefix=prefix, dir=place, ignore_cleanup_errors=True) as folder:
        yield pathlib.Path(folder)


def free_ports(count=1):
    """Ports of loopback that are free, and that the kernel and other tests do not choose while this process runs."""
    ports = []
    for _ in range(TRIES):
        if len(ports) == count:
            return ports
        port = random.SystemRandom().choice(PORTS)
        if is_reserved(port):
            ports.append(port)
    raise OSError(f"{len(ports)} of {count} ports are free")


def is_reserved(port):
    """Reserves the port among the tests of this machine; false: another test or program has it."""
    with contextlib.ExitStack() as stack:
        mark = stack.enter_context(socket.socket(socket.AF_UNIX))
        try:
            mark.bind(f"\0grantd-test-port-{port}")
            for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
                if not is_free(family, host, port):
                    return False
        except OSError:
            return False
        reserved.append(mark)
        stack.pop_all()
        return True


def is_free(family, host, port):
    """Also if the machine has no such address."""
    try:
        with socket.socket(family) as one:
            one.bind((host, port))
    except OSError as error:
        return error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
    return True
