"""What a soak consists of: the providers, the accounts, how long, how much. Shared by all its processes."""

import asyncio
import dataclasses
import multiprocessing
import time

CONTEXT = multiprocessing.get_context("fork")
# After a provider's trouble has ended its accounts may be unavailable for so long: the waits between two probes.
RECOVERY_SECONDS = 30
# What the broker of a soak closes: a connection that says nothing.
IDLE_SECONDS = 20
CONNECTIONS_PER_USER = 256


@dataclasses.dataclass(frozen=True)
class Kind:
    """A provider: how long its access tokens live, what it does to refresh tokens, what may go wrong there."""

    name: str
    access_ttl: float
    rotation: str
    accounts: int
    grace: int = 60
    faults: tuple = ()

    @property
    def configured_rotation(self):
        return f"grace {self.grace}s" if self.rotation == "grace" else self.rotation


REFUSED = {"kind": "status", "code": 503}
REFUSED_FOR_A_SECOND = {"kind": "status", "code": 503, "retry_after": "1"}
DROPPED_UNDONE = {"kind": "drop_before_commit"}
DROPPED_DONE = {"kind": "drop_after_commit"}
LATE = {"kind": "delay", "seconds": 1.5}
# A strict provider's answer that is lost takes the grant with it, whatever the client does: not a fault for this one.
KINDS = (
    Kind("calm", 3600, "strict", 2),
    Kind("strict", 4, "strict", 7, faults=(REFUSED_FOR_A_SECOND, DROPPED_UNDONE, LATE)),
    Kind("grace", 5, "grace", 7, faults=(DROPPED_DONE, {"kind": "slow_body", "bytes_per_second": 2000}, REFUSED)),
    Kind("none", 3, "none", 7, faults=(DROPPED_DONE, {"kind": "html_200"}, {"kind": "truncated"}, LATE)),
)
CALM = KINDS[0].name


@dataclasses.dataclass(frozen=True)
class Account:
    name: str
    provider: str
    user: str
    lifetime: float

    @property
    def subject(self):
        return f"sub-{self.user}"


def accounts():
    made, number = [], 0
    for kind in KINDS:
        for index in range(1, kind.accounts + 1):
            number += 1
            made.append(Account(f"{kind.name}-{index}", kind.name, f"user-{number}", kind.access_ttl))
    return made


def refused_account(provider):
    """The account whose tokens are reported as refused: nobody else asks for it."""
    return f"{provider}-1"


@dataclasses.dataclass
class Plan:
    """One run."""

    seconds: float
    warm_up: float
    connections: int
    # Mean seconds between two turns of a steady client.
    think: float
    fault_seconds: float
    fault_every: float
    first_fault: float
    storm_every: float
    reload_every: float
    # What a trend may add to the resident memory between the warm-up and the end, in bytes.
    growth: int
    # The same of what the broker holds of it, which is not what its allocator keeps.
    live: int
    # The 99th percentile of a cached token that the steady clients see, in seconds.
    p99: float
    seed: int
    socket: str = ""
    issuers: dict = dataclasses.field(default_factory=dict)
    accounts: list = dataclasses.field(default_factory=accounts)
    # What the broker offers, by its own document.
    methods: frozenset = frozenset()


class Shared:
    """What all processes of a run look at: whether it is over, and what may fail just now."""

    def __init__(self):
        self.over = CONTEXT.Event()
        self._troubled = CONTEXT.Array("d", len(KINDS))
        self._storm = CONTEXT.Value("d", 0.0)
        self._index = {kind.name: index for index, kind in enumerate(KINDS)}

    def trouble(self, provider, until):
        self._troubled[self._index[provider]] = until

    def is_troubled(self, provider, since):
        """Whether a request sent at `since` may have met the provider's trouble."""
        return since <= self._troubled[self._index[provider]]

    def storm(self, until):
        self._storm.value = until

    def is_storm(self, since):
        return since <= self._storm.value


def clock():
    return time.monotonic()


async def pause(shared, seconds):
    end = clock() + seconds
    while not shared.over.is_set() and clock() < end:
        await asyncio.sleep(min(0.25, seconds))
