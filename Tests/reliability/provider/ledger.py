"""What the provider issued, took and answered, and what happened to the daemon, in the order in which it happened."""

import itertools
import json
import time


class Ledger:
    """Lines of JSON in a file, and the same in memory. Times are of the monotonic clock."""

    def __init__(self, path):
        self.path, self.records, self.numbers = path, [], itertools.count(1)
        self.file = open(path, "a", encoding="utf-8", buffering=1)

    def number(self):
        """Names one request and its answer."""
        return next(self.numbers)

    def write(self, event, **members):
        record = {"t": round(time.monotonic(), 4), "event": event, **members}
        self.records.append(record)
        self.file.write(json.dumps(record) + "\n")
        return record

    def of(self, user):
        """The lines that concern a user, and those of the daemon."""
        return [record for record in self.records if record.get("user") == user or record["event"] == "daemon"]

    def close(self):
        self.file.close()
