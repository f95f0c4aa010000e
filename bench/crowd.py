"""What bench/scale.py measures with: state folders with many accounts, and a provider that answers at once."""

import hashlib
import json
import random
import shutil
import sqlite3
import subprocess
import time

from broker import Broker
from grantd_testing import BlockingClient, Program, get

# As long as the access tokens of the state live. They were issued half of that ago, and those that are due later are set
# anew; what the provider gives lives for a day.
LIFETIME = 864_000
DAY = 86_400
START_SECONDS = 300
SETTLE_SECONDS = 600
# What starting and coming to rest may take longer than the last time, before accounts are due.
LEAD_SECONDS = 8
# What takes as long to write is kept for the next run.
LONG_SECONDS = 20

CONFIGURATION = """
[provider.fast]
kind = "oauth2"
discovery = false
authorization_endpoint = "{provider}/authorize"
token_endpoint = "{provider}/token"
client_id = "bench"
scopes = ["openid", "profile", "offline_access"]

[refresh]
jitter = 0.0
concurrent_per_provider = 1024
{refresh}

[limits]
requests_per_second = 1000000
burst = 10000000
"""


# What the schema's versions after the first one added (Sources/Edges/SQLiteStore/Tables/SQLiteSchema.swift).
VERSION = 6
ADDED = {
    "grants": ["refresh_token_issued_at", "expiry_announced_at", "kind", "dpop_key", "source_fingerprint"],
    "logins": ["dpop_key", "device", "progress"],
    "revocations": ["context"],
    "tokens": ["reports"],
}


class FastProvider:
    """bench/fasttoken on a port of its own."""

    def __init__(self, program):
        self.process = Program([program, "--expires-in", DAY], stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().split()[-1]

    def stats(self):
        return json.loads(get(f"{self.url}/stats"))

    def reset(self):
        get(f"{self.url}/reset", b"{}")

    def stop(self):
        self.process.stop()


class State:
    """A state folder with so many accounts, and the broker that serves it."""

    def __init__(self, scale, accounts):
        self.scale, self.accounts = scale, accounts
        self.folder = scale.folder / str(accounts)
        self.broker = self.new_broker(self.folder)
        self.fill_took = self.rest_took = None

    def new_broker(self, folder):
        folder.mkdir(exist_ok=True)
        broker = Broker(self.scale.binaries, folder, {}, sections=CONFIGURATION.format(
            provider=self.scale.provider.url, refresh="\n".join(self.scale.options.refresh)))
        broker.start_limit = START_SECONDS
        return broker

    def older(self):
        """A broker on a copy of the state, whose schema is that of the first version."""
        broker = self.new_broker(self.scale.folder / f"{self.accounts}-older")
        shutil.rmtree(broker.state)
        shutil.copytree(self.broker.state, broker.state)
        database = sqlite3.connect(self.database(broker), isolation_level=None)
        for table, columns in ADDED.items():
            for column in columns:
                database.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        database.execute("DROP TABLE registrations")
        database.execute("PRAGMA user_version = 1")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.close()
        return broker

    def make_newer(self, broker):
        """Gives the broker's database a version that is not known yet; says what its file is."""
        database = sqlite3.connect(self.database(broker), isolation_level=None)
        database.execute(f"PRAGMA user_version = {VERSION + 1}")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.close()
        return self.digest(broker)

    @staticmethod
    def database(broker):
        return next(broker.state.glob("*.db"))

    def digest(self, broker):
        with self.database(broker).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def seed(self, *arguments, every=1):
        """Writes every so-many-th account."""
        subprocess.run([self.scale.binaries / "store-fixture", "seed", "--folder", self.broker.state,
                        "--accounts", str(self.accounts), "--every", str(every), *arguments],
                       check=True, stdout=subprocess.DEVNULL)

    def fill(self):
        """Writes all accounts, half-way through the lives of their tokens, unless an earlier run left them (--keep) and that
        takes long. Says how many seconds it takes."""
        took = self.folder / "fill-took"
        if not took.exists() or float(took.read_text()) < LONG_SECONDS:
            begun = time.monotonic()
            self.seed("--issued-ago", str(LIFETIME // 2), "--expires-in", str(LIFETIME // 2))
            took.write_text(str(time.monotonic() - begun))
        self.fill_took = float(took.read_text())
        return self.fill_took

    def make_due(self, count, spread=0):
        """Lets so many accounts be due; says how many, and when the first is, on the monotonic clock."""
        every = max(1, self.accounts // count)
        # Random places of the database are written, which takes longer than filling it.
        due_in = LEAD_SECONDS + 2 * self.rest_took + 3 * self.fill_took * count / self.accounts
        due = time.monotonic() + due_in
        self.seed("--expires-in", str(LIFETIME), "--due-in", f"{due_in:.3f}", "--spread", str(spread), every=every)
        return self.accounts // every, due

    def start(self):
        """Starts the broker and lets it come to rest; says how many seconds it took until it was ready."""
        begun = time.monotonic()
        ready = self.broker.start()
        self.broker.settle(seconds=SETTLE_SECONDS)
        self.rest_took = time.monotonic() - begun
        return ready

    def rest(self):
        """The broker at work, and nothing due."""
        if self.broker.process is None or self.broker.process.status is not None:
            self.start()
        else:
            self.broker.settle(seconds=SETTLE_SECONDS)

    def restart_with_due(self, count, spread=0):
        """Lets so many accounts be due soon, with the broker at rest before; says how many, and when the first is."""
        self.rest()
        self.broker.stop()
        count, due = self.make_due(count, spread)
        self.start()
        if time.monotonic() > due:
            raise RuntimeError("accounts were due before the broker was at rest: LEAD_SECONDS is too short")
        return count, due

    def client(self, **options):
        return BlockingClient(self.broker.socket, **options)

    def random_account(self):
        return f"user{random.randint(1, self.accounts):07}"
