"""The heart: at each tick ask every sampler that is due, gather until the deadline, hand out one snapshot."""

import contextlib

import trio

from pipeline.aggregate import Aggregator
from pipeline.clock import Clock, Tick
from pipeline.fanout import Fanout
from pipeline.health import Health
from pipeline.records import NANOSECONDS, Report
from pipeline.roster import Roster
from pipeline.selfmetrics import SelfMetrics
from pipeline.source import settle

# Gathering may take half an interval; what has not come by then costs its own rows of this snapshot only.
DEADLINE = 0.5
# A slow sampler's rows outlive this many missed intervals, with their age published beside them.
STALE_AFTER = 3


class Ticker:
    """Drives the flow. Counters since the start are public and become metrics of the daemon itself."""

    def __init__(
        self, clock: Clock, roster: Roster, health: Health, fanout: Fanout, aggregator: Aggregator
    ) -> None:
        self.ticks = 0
        self.late = 0
        self.last_duration_ns = 0
        self._clock = clock
        self._roster = roster
        self._health = health
        self._fanout = fanout
        self._aggregator = aggregator
        self._own = SelfMetrics(health, fanout, clock)

    async def run(self) -> None:
        """Tick until cancelled."""
        async for tick in self._clock.ticks():
            self.late += tick.late
            await self._gather(tick)
            self.ticks += 1
            self._publish(tick)

    async def _gather(self, tick: Tick) -> None:
        self._take_waiting(set())
        self._aggregator.keep_only(self._roster.workers.keys())
        owing = self._roster.tell(tick)
        for name in owing:
            self._aggregator.drop(name)
        with trio.move_on_at(tick.due + DEADLINE * self._clock.interval_ns / NANOSECONDS):
            while owing:
                self._take(await self._roster.reports.receive(), owing)
                self._take_waiting(owing)
        self._take_waiting(owing)
        for name in owing & self._roster.workers.keys():
            self._health.samplers[name].missed += 1
        for name in self._roster.stale(STALE_AFTER):
            self._aggregator.drop(name)

    def _take_waiting(self, owing: set[str]) -> None:
        """Fold in what lies in the channel: also reports of slow samplers, and those that came too late."""
        with contextlib.suppress(trio.WouldBlock):
            while True:
                self._take(self._roster.reports.receive_nowait(), owing)

    def _take(self, report: Report, owing: set[str]) -> None:
        owing.discard(report.sampler)
        if report.sampler in self._roster.workers:
            settle(report, self._health, self._clock.monotonic_ns())
            self._aggregator.apply(report)

    def _publish(self, tick: Tick) -> None:
        self.last_duration_ns = round((trio.current_time() - tick.began) * NANOSECONDS)
        self._aggregator.apply(self._own.report(self.ticks, self.late, self.last_duration_ns))
        self._fanout.publish(
            self._aggregator.snapshot(tick.wall_ns, self._clock.anchored_ns(), self.last_duration_ns)
        )
