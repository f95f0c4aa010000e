"""Where a test finds the programs, and where it works: folders and ports of its own."""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
MEMORY = "/dev/shm"


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
    """Different ports of loopback that were free a moment ago: held together, so that no two are the same."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
