"""How many instructions a cached `token.get` takes, counted by valgrind: the same number on a busy machine."""

import json
import re
import shutil
import statistics
import subprocess
import time

from grantd_testing import Gone
from machines import eventually

ROUNDS, REQUESTS, START_SECONDS = 5, 4000, 120
REQUEST = {"jsonrpc": "2.0", "id": "{{id}}", "method": "token.get"}


def is_possible():
    if shutil.which("valgrind") and shutil.which("vgdb"):
        return True
    print("SKIP  valgrind is not installed", flush=True)
    return False


def wrap(programs, folder):
    """A folder with a grantd that runs in valgrind. Valgrind cannot read Swift's debug information, so it is removed."""
    folder.mkdir()
    subprocess.run(["strip", "-o", folder / "stripped", programs / "grantd"], check=True)
    script = folder / "grantd"
    script.write_text(f"#!/bin/sh\nexec valgrind -q --tool=callgrind --callgrind-out-file={folder}/count.%p {folder}/stripped "
                      '"$@"\n')
    script.chmod(0o755)
    return folder


class Counter:
    def __init__(self, machine, folder, udsbench):
        self.machine, self.folder, self.udsbench, self.seen = machine, folder, udsbench, set()

    def take(self):
        """The instructions since the last time."""
        pid = self.machine.process.pid
        subprocess.run(["vgdb", f"--pid={pid}", "dump"], capture_output=True, check=True)
        files = set(self.folder.glob(f"count.{pid}.*")) - self.seen
        self.seen |= files
        return sum(eventually("the count is written", lambda: self.total(file)) for file in files)

    @staticmethod
    def total(file):
        found = re.findall(r"^(?:totals|summary): (\d+)$", file.read_text(), re.M)
        return int(found[-1]) if found else None

    def per_request(self, account):
        """One connection, one request at a time; what the process does anyway in that time does not count."""
        request = json.dumps({**REQUEST, "params": {"account": account}}).replace('"{{id}}"', "{{id}}")
        counts = []
        for _ in range(ROUNDS):
            self.take()
            begun = time.monotonic()
            result = subprocess.run(
                [self.udsbench, "--socket", self.machine.socket, "--warmup", "0", "--requests", str(REQUESTS), "--duration", "60",
                 "--request", request], capture_output=True, text=True, check=True)
            took = time.monotonic() - begun
            if json.loads(result.stdout)["errors"]:
                raise RuntimeError(f"errors: {result.stdout}")
            count = self.take()
            time.sleep(took)
            counts.append((count - self.take()) / REQUESTS)
        # The process may do other work in the time without requests.
        return statistics.median(counts)


def measure(machine, account, folder, udsbench):
    """- account: imported here, with a token that lives long."""
    machine.launch()
    try:
        eventually("grantd serves in valgrind", machine.serves, START_SECONDS)
        try:
            machine.call("account.import", account=account, provider="fast0", refresh_token=f"{account}-r1")
        except Gone as error:
            raise RuntimeError(machine.log_text()[-2000:]) from error
        eventually("the account has a token", lambda: machine.get(account))
        return Counter(machine, folder, udsbench).per_request(account)
    finally:
        machine.close()
