"""What is done to the daemon in each round."""

import random

# Seconds.
LONGEST_TRAFFIC = 1.2
# How high the count of a write point may be drawn: commits of some seconds of traffic.
LARGEST_COUNT = 40
# Milliseconds between the point and the kill: an answer that does not wait for its commit gets out meanwhile.
STALL = 60
POINTS = ("taken", "applied", "committed")


class Plan:
    """What is done to the daemon in one round. The same seed makes the same plans; the machine's timing is its own."""

    KINDS = (
        ["point"] * 8 + ["instant"] * 5 + ["start"] * 2 + ["start point"] + ["twice"] * 2 + ["drain"] + ["empty"])

    def __init__(self, number, kind, rng):
        self.kind, self.seed = kind, rng.random()
        self.traffic = rng.uniform(0, LONGEST_TRAFFIC)
        # Between what people do, at most: in some rounds most commits are theirs.
        self.pause = rng.choice((0.02, 0.3))
        nth = rng.randint(1, 3) if kind == "start point" else rng.randint(1, rng.choice((8, LARGEST_COUNT)))
        self.point = f"{POINTS[number % len(POINTS)]}:{nth}:{rng.choice((0, STALL))}"
        self.faults = [
            {
                "kind": "delay", "endpoint": place, "when": when, "seconds": round(rng.uniform(0.02, longest), 3),
                "times": times}
            for place, longest, times in (("token.refresh", 0.2, 12), ("token.code", 0.1, 2), ("revoke", 0.1, 2))
            for when in ("before", "after") if rng.random() < 0.6]
        if rng.random() < 0.1:
            self.faults.append({"kind": "status", "endpoint": "token.refresh", "status": 503, "times": 1})
        if rng.random() < 0.08:
            self.faults.append({"kind": "drop_after_commit", "endpoint": "token.refresh", "times": 1})

    @classmethod
    def all(cls, rounds, seed):
        """Every kind in its share, in an order of the seed's."""
        rng, kinds = random.Random(seed), []
        while len(kinds) < rounds:
            block = list(cls.KINDS)
            rng.shuffle(block)
            kinds += block
        return [cls(number, kind, rng) for number, kind in enumerate(kinds[:rounds])]
