"""A control group of the unified hierarchy for clients, as each process has one under systemd (cgroups(7))."""

import contextlib
import os
import pathlib
import subprocess
import time

END_SECONDS = 5


def own():
    """The path of this process's group in the unified hierarchy; None: the kernel has no such hierarchy."""
    lines = pathlib.Path("/proc/self/cgroup").read_text().splitlines()
    return next((line[3:] for line in lines if line.startswith("0::")), None)


@contextlib.contextmanager
def of_a_unit(folder):
    """The file that a process writes its id to to be in a unit's group. None: it is in a group already, or cannot be."""
    if own() != "/" or os.geteuid() != 0:
        yield None
        return
    tree = folder / "cgroup"
    tree.mkdir()
    if subprocess.run(["mount", "-t", "cgroup2", "none", tree], capture_output=True, check=False).returncode:
        yield None
        return
    group = tree / f"grantd-bench-{os.getpid()}.service"
    try:
        group.mkdir()
        yield group / "cgroup.procs"
    finally:
        end = time.monotonic() + END_SECONDS
        while group.exists() and time.monotonic() < end:
            with contextlib.suppress(OSError):
                group.rmdir()
            time.sleep(0.02)
        subprocess.run(["umount", tree], check=False)
