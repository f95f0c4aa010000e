"""How many commits a second the store takes, with and without the count of commits in a second folder."""

import statistics
import time

from broker import Broker
from grantd_testing import BlockingClient, BlockingDemo

# A login that begins is a commit, and so is its end.
COMMITS_EACH = 2
RATIO_WANTED = 0.95


class Commits:
    def __init__(self, binaries, folder, is_quick):
        self.binaries, self.folder = binaries, folder
        self.rounds, self.seconds = (7, 0.5) if is_quick else (15, 1)
        self.results, self.missed = {}, []

    def run(self):
        self.folder.mkdir(mode=0o755)
        provider = BlockingDemo(self.binaries, self.folder)
        brokers, clients = [], []
        try:
            for name in ("one", "two"):
                place = self.folder / name
                place.mkdir()
                broker = Broker(self.binaries, place, {"demo": provider})
                cache = place / "cache"
                # A file instead of the folder: there is no second count.
                cache.mkdir() if name == "two" else cache.write_text("")
                broker.more = {"XDG_CACHE_HOME": str(cache)}
                broker.start()
                brokers.append(broker)
                clients.append(BlockingClient(broker.socket))
            self.check()
            rates = [[self.rate(client) for client in clients] for _ in range(self.rounds)]
        finally:
            for client in clients:
                client.close()
            for broker in brokers:
                broker.stop()
            provider.close()
        self.report(rates)

    def check(self):
        counts = [len(list((self.folder / name).glob("cache/grantd/*.commits"))) for name in ("one", "two")]
        if counts != [0, 1]:
            raise RuntimeError(f"second counts of the two brokers: {counts}")

    def rate(self, client):
        """Commits a second, one after the other."""
        count, began = 0, time.monotonic()
        while (passed := time.monotonic() - began) < self.seconds:
            login = client.call("login.start", provider="demo", account="bench", destinations=["manual"])
            client.call("login.cancel", login_id=login["login_id"])
            count += COMMITS_EACH
        return count / passed

    def report(self, rates):
        one, two = (statistics.median(row[index] for row in rates) for index in (0, 1))
        ratio = statistics.median(row[1] / row[0] for row in rates)
        is_good = ratio >= RATIO_WANTED
        self.results = {"one_per_second": one, "two_per_second": two, "ratio": ratio, "pass": is_good}
        self.missed += [] if is_good else ["commits"]
        print(f"{'PASS' if is_good else 'FAIL'}  {one:.0f} commits a second without the second count, {two:.0f} with it: "
              f"{100 * ratio:.1f} % (wanted: {100 * RATIO_WANTED:.0f} %)", flush=True)
