"""When to sample: ticks on wall-clock multiples of the interval, paced by the monotonic clock."""

import time
from collections.abc import Callable

import msgspec
import trio

from pipeline.records import NANOSECONDS


class Tick(msgspec.Struct, frozen=True):
    """One moment to sample at.

    Attributes:
        wall_ns: the wall clock when the tick began.
        due, began: when it was due and when it began, in trio's clock.
        late: how many ticks before this one were skipped because they could no longer start in time.
    """

    wall_ns: int
    due: float
    began: float
    late: int


class Clock:
    """The daemon's sense of time.

    Attributes:
        anchor_wall_ns: the wall clock at the start; `anchored_ns` counts on from it and never steps.
    """

    def __init__(self, interval_ns: int, wall: Callable[[], int] = time.time_ns) -> None:
        """`wall` is replaced by tests that step the clock."""
        self.interval_ns = interval_ns
        self.wall = wall
        self.anchor_wall_ns = wall()
        self._anchor = trio.current_time()
        self._sleeping = trio.CancelScope()
        self._changed = False

    def monotonic_ns(self) -> int:
        """Nanoseconds since the start."""
        return round((trio.current_time() - self._anchor) * NANOSECONDS)

    def anchored_ns(self) -> int:
        return self.anchor_wall_ns + self.monotonic_ns()

    def set_interval(self, interval_ns: int) -> None:
        """Tick at another pace from now on; a wait under way is planned anew."""
        if interval_ns != self.interval_ns:
            self.interval_ns = interval_ns
            self._changed = True
            self._sleeping.cancel()

    def ticks(self) -> "Ticks":
        """A run of ticks, from now on."""
        return Ticks(self)

    async def sleep_until(self, due: float) -> bool:
        """True once `due` has come, False when the interval was changed before."""
        self._changed = False
        with trio.CancelScope(deadline=due) as self._sleeping:
            await trio.sleep_forever()
        return not self._changed

    def aligned(self, due: float) -> float:
        """The moment nearest to `due` at which the wall clock shows a multiple of the interval."""
        ahead_ns = round((due - trio.current_time()) * NANOSECONDS)
        past_multiple = (self.wall() + ahead_ns) % self.interval_ns
        if past_multiple > self.interval_ns // 2:
            past_multiple -= self.interval_ns
        return due - past_multiple / NANOSECONDS


class Ticks:
    """The first tick at once, then one on each wall-clock multiple of the interval.

    The next due time is the last one plus an interval, moved to the wall-clock multiple nearest to it. So
    a slewing clock is followed, nothing drifts, and after a step one single interval comes out between a
    half and one and a half of its length: never a stall, never a burst. A tick that cannot start before
    half its interval is over (the work before it overran, or the machine slept) is skipped and counted.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: float | None = None

    def __aiter__(self) -> "Ticks":
        return self

    async def __anext__(self) -> Tick:
        late = 0
        if self._due is None:
            self._due = trio.current_time()
        else:
            late = await self._wait(self._due)
        return Tick(self._clock.wall(), self._due, trio.current_time(), late)

    async def _wait(self, due: float) -> int:
        """Sleep until the tick after `due` that can start in time; how many had to be skipped."""
        late = 0
        while True:
            interval = self._clock.interval_ns / NANOSECONDS
            due = self._clock.aligned(due + interval)
            behind = trio.current_time() - due
            if behind > interval / 2:
                skipped = max(1, int(behind / interval))
                late += skipped
                due += (skipped - 1) * interval
            elif await self._clock.sleep_until(due):
                self._due = due
                return late
            else:
                due = trio.current_time()
