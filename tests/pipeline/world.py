"""Fakes for the flow: a wall clock that can be stepped, samplers that do as they are told."""

import threading
from collections.abc import Sequence

import trio

from pipeline.records import NANOSECONDS, Group, Kind, Metric, Reading, Schema, Window, fill
from pipeline.source import Pace, Roots, Sampler, Source

SECOND = NANOSECONDS


class Wall:
    """A wall clock on trio's (mock) clock; `step` is what an administrator or NTP did to it."""

    def __init__(self, start_ns: int = 1_700_000_000 * SECOND) -> None:
        self._from = trio.current_time()
        self._start_ns = start_ns
        self.step_ns = 0

    def __call__(self) -> int:
        return self._start_ns + self.step_ns + round((trio.current_time() - self._from) * SECOND)


def reading(sampler: str, value: int) -> Reading:
    schema = Schema(Group(sampler, "main", (Metric(f"{sampler}_value", Kind.GAUGE, "", "A number"),)))
    return Reading(schema, Window(0, 0), *fill(schema, ((value,),)))


class FakeSource:
    """Gives 1, 2, 3, ...; raises `error` while it is set; waits while `gate` is cleared."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.running = 0
        self.most_running = 0
        self.closed = 0
        self.error: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.opens = 0

    def sample(self) -> Sequence[Reading]:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            assert self.gate.wait(20)
            self.count += 1
            if self.error is not None:
                raise self.error
            return (reading(self.name, self.count),)
        finally:
            self.running -= 1

    def close(self) -> None:
        self.closed += 1

    def open(self, _: Roots) -> Source:
        self.opens += 1
        return self

    def sampler(self, pace: Pace = Pace.TICK, interval_ns: int | None = None) -> Sampler:
        return Sampler(self.name, "nothing", (), self.open, pace, interval_ns)
