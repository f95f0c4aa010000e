"""What the broker's process takes: samples of /proc, and whether they grow."""

import collections
import dataclasses
import os
import pathlib
import re
import statistics

from soak.plan import clock


@dataclasses.dataclass(frozen=True)
class Sample:
    at: float
    rss: int
    # Bytes of the heaps that are in use; 0 where nobody counts them.
    live: int
    threads: int
    descriptors: dict
    # Seconds that all threads ran, and that the one which waited longest was ready to run and had no CPU.
    cpu: float
    starved: float
    database: int
    wal: int

    @property
    def open(self):
        return sum(self.descriptors.values())

    @property
    def peers(self):
        """Each client's process is held by a descriptor: `anon_inode:[pidfd]`, or from Linux 6.9 on `pidfd`."""
        return sum(times for name, times in self.descriptors.items() if "pidfd" in name)


def kind(target):
    """`socket:[1234]` and its like, without the number."""
    return re.sub(r":?\[?\d+\]?$", "", target) if not target.startswith("/") else "file"


def descriptors(pid):
    """How many of each kind; for others than root only how many, as the broker forbids to look into it (Linux 6.2)."""
    found, folder = collections.Counter(), pathlib.Path(f"/proc/{pid}/fd")
    try:
        entries = list(folder.iterdir())
    except PermissionError:
        return {"of any kind": folder.stat().st_size}
    for entry in entries:
        try:
            found[kind(os.readlink(entry))] += 1
        except FileNotFoundError:
            continue  # closed since the folder was read
    return dict(found)


def starved(proc):
    """The second number of each thread's `schedstat`, in nanoseconds; 0 where the kernel keeps none."""
    longest = 0
    for stat in proc.glob("task/*/schedstat"):
        try:
            longest = max(longest, int(stat.read_text().split()[1]))
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended since the folder was read
    return longest / 1e9


def live(broker):
    """What `heap.c` says from within the broker."""
    try:
        return int(pathlib.Path(broker.more["HEAP_FILE"]).read_text() or 0)
    except (KeyError, FileNotFoundError):
        return 0


def size(path):
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def sample(broker):
    proc = pathlib.Path(f"/proc/{broker.process.pid}")
    status = (proc / "status").read_text()
    database = broker.state / "grantd.db"
    return Sample(
        at=clock(), rss=broker.process.resident(), live=live(broker),
        threads=int(re.search(r"^Threads:\s+(\d+)", status, re.M)[1]), descriptors=descriptors(broker.process.pid),
        cpu=broker.process.cpu_seconds(), starved=starved(proc),
        database=size(database), wal=size(database.with_name("grantd.db-wal")))


def trend(points):
    """How much the values grow from the first to the last by their trend: the median of all slopes (Theil and Sen),
    which a few odd samples do not move."""
    slopes = [(later[1] - earlier[1]) / (later[0] - earlier[0])
              for index, earlier in enumerate(points) for later in points[index + 1:] if later[0] > earlier[0]]
    return statistics.median(slopes) * (points[-1][0] - points[0][0]) if slopes else 0.0


def self_test():
    level = [(second, 50e6 + (second * 7919 % 13) * 1e5) for second in range(0, 600, 5)]
    assert abs(trend(level)) < 1e6, "a level line with noise has no trend"
    leak = [(second, value + second * 1e4) for second, value in level]
    assert 5e6 < trend(leak) < 7e6, "a leak of 10 kB a second is found"
    spike = [(second, value + (40e6 if second == 300 else 0)) for second, value in level]
    assert abs(trend(spike)) < 1e6, "one sample is no trend"
    step = [(second, value + (9e6 if second > 200 else 0)) for second, value in level]
    assert trend(step) > 2e6, "a step that stays is one"
    assert kind("socket:[123]") == "socket" and kind("anon_inode:[pidfd]") == "anon_inode:[pidfd]"
    assert kind("/tmp/grantd.db") == "file" and kind("pipe:[7]") == "pipe"
