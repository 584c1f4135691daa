"""One snapshot to every sink: a bounded channel each, a named policy for a full one, every drop counted."""

import logging
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import TypeVar

import trio

from pipeline.records import Snapshot

log = logging.getLogger(__name__)

AnyOutlet = TypeVar("AnyOutlet", "Outlet", "DirectOutlet")


class Policy(Enum):
    """How a sink is handed snapshots, and what its full channel does with one more.

    `DIRECT` has no channel: the sink takes each one on the spot. `NEWEST` keeps the newest alone.
    `DROP_OLDEST` makes room at the old end. `KEEP_ALL` refuses the new one, so that what is held stays
    without gaps, and says so as an error.
    """

    DIRECT = "direct"
    NEWEST = "newest"
    DROP_OLDEST = "drop_oldest"
    KEEP_ALL = "keep_all"


class Outlet:
    """One sink's end of the fan-out; iterate over it to receive. Ends when the fan-out is closed and drained.

    Attributes:
        published, dropped: snapshots offered so far, and those of them that were lost here.
        left_out: asks the sink how many series it left out of its last output because of a limit.
    """

    def __init__(
        self, name: str, policy: Policy, capacity: int = 1, left_out: Callable[[], int] = lambda: 0
    ) -> None:
        if capacity < 1:
            raise ValueError(f"the outlet {name} needs a capacity of at least 1")
        self.name = name
        self.policy = policy
        self.capacity = 1 if policy is Policy.NEWEST else capacity
        self.published = 0
        self.dropped = 0
        self.left_out = left_out
        self._queue: deque[Snapshot] = deque()
        self._filled = trio.Event()
        self._closed = False
        self._overrun = False

    def offer(self, snapshot: Snapshot) -> None:
        """Hand over one snapshot; never waits."""
        self.published += 1
        if len(self._queue) >= self.capacity:
            self._drop()
            if self.policy is Policy.KEEP_ALL:
                return
            self._queue.popleft()
        else:
            self._overrun = False
        self._queue.append(snapshot)
        self._filled.set()

    def _drop(self) -> None:
        self.dropped += 1
        if not self._overrun:
            level = logging.ERROR if self.policy is Policy.KEEP_ALL else logging.DEBUG
            log.log(level, "sink %s is behind by %d snapshots, dropping", self.name, len(self._queue))
        self._overrun = True

    def close(self) -> None:
        self._closed = True
        self._filled.set()

    def __aiter__(self) -> "Outlet":
        return self

    async def __anext__(self) -> Snapshot:
        if self._queue:
            await trio.lowlevel.checkpoint()
        while not self._queue:
            if self._closed:
                raise StopAsyncIteration
            self._filled = trio.Event()
            await self._filled.wait()
        return self._queue.popleft()


class DirectOutlet:
    """A sink that does no more with a snapshot than remember it takes it within the tick.

    A channel and a task cost every tick one more turn of the event loop: at 10 ms a fiftieth of a core.
    `dropped` counts what the sink failed to take.
    """

    policy = Policy.DIRECT

    def __init__(
        self, name: str, take: Callable[[Snapshot], None], left_out: Callable[[], int] = lambda: 0
    ) -> None:
        self.name = name
        self.published = 0
        self.dropped = 0
        self.left_out = left_out
        self._take = take

    def offer(self, snapshot: Snapshot) -> None:
        self.published += 1
        try:
            self._take(snapshot)
        except Exception:
            self.dropped += 1
            log.exception("sink %s could not take a snapshot", self.name)

    def close(self) -> None:
        """Nothing is held back."""


class Fanout:
    """All outlets."""

    def __init__(self) -> None:
        self.outlets: list[Outlet | DirectOutlet] = []

    def add(self, outlet: AnyOutlet) -> AnyOutlet:
        self.outlets.append(outlet)
        return outlet

    def publish(self, snapshot: Snapshot) -> None:
        for outlet in self.outlets:
            outlet.offer(snapshot)

    def close(self) -> None:
        """No more snapshots will come; each sink gets what it has not yet taken, then its end."""
        for outlet in self.outlets:
            outlet.close()
