"""Decides by the ledger alone which grants may be lost, and finds those that were lost without need."""

import collections

# A daemon that runs and has an answer has this long to save it.
SAVE_SECONDS = 6.0
# How long a refresh is read for, and how long an orderly stop lets it be read.
READ_SECONDS = 300.0
DRAIN_SECONDS = 30.0
# Two clocks' worth of doubt about which of two things was first.
MOMENT = 0.5
# A request of a process that has ended may be read so much later, if none has started since.
READ_LATER_SECONDS = 5.0
NEVER_WHOLE = ("cut", "reset", "none", "status")


class Judge:
    def __init__(self, records):
        # By the number of the exchange.
        self.requests, self.spent, self.answers = {}, {}, {}
        self.revoked, self.reuses, self.unknown, self.lost = {}, {}, [], []
        # When the daemon ended, each with whether that was orderly; started; was told to end; could not work.
        self.ends, self.starts, self.terms, self.pauses = [], [], [], []
        began = {}
        for record in records:
            event = record["event"]
            if event == "daemon":
                self.see_daemon(record, began)
            elif event in ("request", "spent", "answer"):
                {"request": self.requests, "spent": self.spent, "answer": self.answers}[event][record["x"]] = record
            elif event == "revoked":
                self.revoked[record["family"]] = record
            elif event == "reuse":
                # What comes after the first is of a family that has ended.
                self.reuses.setdefault(record["family"], record)
            elif event in ("unknown", "lost"):
                {"unknown": self.unknown, "lost": self.lost}[event].append(record)
        self.pauses = sorted([*self.pauses, *((start, float("inf")) for start in began.values())])

    def see_daemon(self, record, began):
        what, at = record["what"], record["t"]
        if what in ("kill", "exited"):
            self.ends.append((at, what == "exited"))
        elif what in ("term", "start"):
            (self.terms if what == "term" else self.starts).append(at)
        elif what in ("stop", "disk-full"):
            began.setdefault(what, at)
        if what in ("cont", "kill", "exited") and "stop" in began:
            self.pauses.append((began.pop("stop"), at))
        if what == "disk-free" and "disk-full" in began:
            self.pauses.append((began.pop("disk-full"), at))

    def worked(self, start, end):
        """For how long of that the daemon was not stopped and had a disk to write to."""
        idle, reached = 0.0, start
        for first, last in self.pauses:
            first, last = max(first, reached), min(last, end)
            if last > first:
                idle, reached = idle + last - first, last
        return max(0.0, end - start - idle)

    def first_end(self, asked, until):
        """Of the process that asked then. What it sent may be read a moment after its end."""
        for at, is_orderly in self.ends:
            if asked <= at <= until:
                return at, is_orderly
            if asked - READ_LATER_SECONDS <= at < asked and not any(at < start <= asked for start in self.starts):
                return at, is_orderly
        return None

    def excuse(self, number, until):
        """Why the answer of that exchange could not be saved before `until`; None: it could be."""
        asked, answer = self.requests[number]["t"], self.answers.get(number)
        if answer and answer["stop"] in NEVER_WHOLE:
            return "the provider did not send the answer whole"
        if answer and answer["arrived"]:
            end = self.first_end(asked, until)
            if end and self.worked(answer["t"], end[0]) < SAVE_SECONDS:
                return "the daemon was ended as the answer came"
            return None
        # It came too late: who closed the connection, and when?
        closed = answer["peer_closed"] if answer and answer["peer_closed"] else until
        end = self.first_end(asked, closed + MOMENT)
        if end is None:
            return "it was waited for as long as is promised" if closed - asked >= READ_SECONDS else None
        if end[1] and end[0] - max(asked, max(at for at in self.terms if at <= end[0])) < DRAIN_SECONDS:
            return None
        return "the daemon was ended before the answer came"

    def violations(self):
        """Of each: the user, what is wrong, and the line of the ledger that shows it."""
        found = []
        for reuse in self.reuses.values():
            if not self.excuse(reuse["first"], reuse["t"]):
                what = f"{reuse['rt']} was used again, though the answer to its first use could be had"
                found.append((reuse["user"], what, reuse))
        for record in self.unknown:
            found.append((None, "a refresh token was used that nobody issued", record))
        for loss in self.lost:
            if loss["family"] not in self.revoked:
                found.append((loss["user"], f"{loss['family']} was given up, and lives: {loss['why']}", loss))
        return found

    def tally(self):
        """The families that ended, by why."""
        counts = collections.Counter()
        for family, record in self.revoked.items():
            reuse = self.reuses.get(family)
            why = self.excuse(reuse["first"], reuse["t"]) if reuse and record["why"] == "reuse" else record["why"]
            counts[why or "the daemon's own fault"] += 1
        return counts


def self_test():
    """What must be found is found, and nothing else: each case is the story of one exchange, then its token again."""
    def story(*events, stop="whole", answered=1.0, arrived=True, closed=None, again=60.0):
        records = [{"t": 0.0, "event": "request", "x": 1, "rt": "a:0"}, {"t": 0.0, "event": "spent", "x": 1}]
        if answered is not None:
            records.append({
                "t": answered, "event": "answer", "x": 1, "stop": stop, "arrived": arrived, "peer_closed": closed})
        records += [{"t": at, "event": "daemon", "what": what} for at, what in events]
        records.append({"t": again, "event": "reuse", "x": 2, "first": 1, "rt": "a:0", "user": "a", "family": "f"})
        records.append({"t": again, "event": "revoked", "family": "f", "why": "reuse"})
        records.append({"t": again, "event": "lost", "family": "f", "user": "a", "why": "invalid_grant"})
        return Judge(sorted(records, key=lambda record: record["t"]))

    late = {"answered": 33.0, "arrived": False}
    lost = {
        "an answer that was there": story(),
        "an answer that came while it was stopped": story((0.5, "stop"), (40.0, "cont")),
        "a daemon that hung up on a late answer": story(closed=30.0, **late),
        "a daemon that asked again meanwhile": story(answered=None, again=31.0),
        "a kill long after the answer": story((10.0, "kill")),
        "a kill of the process before": story((-0.3, "kill"), (-0.1, "start")),
        "an orderly end that did not wait": story((1.0, "term"), (3.0, "exited"), closed=3.0, **late)}
    excused = {
        "a cut answer": story(stop="cut", arrived=False),
        "no answer": story(stop="none", arrived=False, closed=30.0),
        "a kill before the answer": story((5.0, "kill"), closed=5.0, **late),
        "a kill before the answer, which is still to come": story((5.0, "kill"), answered=None),
        "a kill before the request was read": story((-0.1, "kill"), answered=0.0, arrived=False, closed=0.0),
        "a kill with the answer": story((1.5, "kill")),
        "a kill of a stopped process": story((0.5, "stop"), (50.0, "kill")),
        "a kill while the disk is full": story((0.5, "disk-full"), (50.0, "kill"), (55.0, "disk-free")),
        "an orderly end after its time": story(
            (1.0, "term"), (36.0, "exited"), answered=40.0, arrived=False, closed=36.0),
        "an answer after the promised time": story(answered=400.0, arrived=False, closed=301.0, again=301.5)}
    for name, judge in lost.items():
        assert len(judge.violations()) == 1, name
    for name, judge in excused.items():
        assert not judge.violations(), name
    lives = Judge([{"t": 0.0, "event": "lost", "family": "f", "user": "a", "why": "?"}])
    stranger = Judge([{"t": 0.0, "event": "unknown", "x": 1}])
    assert len(lives.violations()) == len(stranger.violations()) == 1
