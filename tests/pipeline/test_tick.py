"""The flow as a whole, on trio's mock clock: samplers that fail, hang, come late, are turned off."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import numpy as np
import pytest
import trio
import trio.testing

from pipeline.aggregate import Aggregator
from pipeline.clock import Clock
from pipeline.fanout import Fanout, Outlet, Policy
from pipeline.health import Health, State, Unsupported
from pipeline.records import Group, Kind, Metric, Reading, Schema, Snapshot, fill
from pipeline.roster import Roster
from pipeline.source import Pace, Roots
from pipeline.tick import STALE_AFTER, Ticker
from tests.pipeline.world import SECOND, FakeSource, Wall


class Flow:
    def __init__(self, nursery: trio.Nursery, interval_ns: int = SECOND) -> None:
        self.health = Health()
        self.clock = Clock(interval_ns, Wall())
        self.fanout = Fanout()
        self.outlet = self.fanout.add(Outlet("test", Policy.DROP_OLDEST, 10_000))
        self.roster = Roster(nursery, self.clock, self.health, Roots())
        self.ticker = Ticker(self.clock, self.roster, self.health, self.fanout, Aggregator())
        nursery.start_soon(self.ticker.run)

    async def snapshots(self, count: int) -> list[Snapshot]:
        return [await anext(self.outlet) for _ in range(count)]

    async def sees(self, metric: str) -> None:
        """Take snapshots until one has the metric."""
        with trio.fail_after(20):
            while value(await anext(self.outlet), metric) is None:
                pass

    def state(self, name: str) -> tuple[State, str]:
        return self.health.samplers[name].state, self.health.samplers[name].reason


@asynccontextmanager
async def flow(*sources: FakeSource, interval_ns: int = SECOND) -> AsyncIterator[Flow]:
    async with trio.open_nursery() as nursery:
        made = Flow(nursery, interval_ns)
        for source in sources:
            made.roster.start(source.sampler(), None)
        yield made
        nursery.cancel_scope.cancel()


def value(snapshot: Snapshot, metric: str, label: str = "") -> int | None:
    """A series' value in a snapshot, None where it has none; `label` is any one label's value."""
    for reading in snapshot.readings:
        for column, found in enumerate(reading.schema.group.metrics):
            for row, slot in enumerate(reading.schema.slots):
                labels = reading.schema.labels(slot, found)
                if found.name == metric and (not label or label in labels.values()):
                    return int(reading.values[row, column]) if reading.present[row, column] else None
    return None


async def test_one_snapshot_a_tick_with_dense_numbers(autojump_clock: trio.testing.MockClock) -> None:
    async with flow(FakeSource("a"), FakeSource("b")) as running:
        seen = await running.snapshots(5)
    assert [snapshot.seq for snapshot in seen] == [1, 2, 3, 4, 5]
    assert [value(snapshot, "a_value") for snapshot in seen] == [1, 2, 3, 4, 5]
    assert [value(snapshot, "b_value") for snapshot in seen] == [1, 2, 3, 4, 5]
    assert value(seen[4], "rezolusd_ticks") == 5
    keys = [reading.schema.group.key for reading in seen[0].readings]
    assert keys == sorted(keys)


async def test_a_sampler_that_raises_fails_alone_and_is_tried_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    bad, good = FakeSource("bad"), FakeSource("good")
    async with flow(bad, good) as running:
        await running.snapshots(1)
        bad.error = ValueError("line 3:\n  odd")
        seen = await running.snapshots(1)
        assert running.state("bad") == (State.FAILED, "ValueError: line 3: odd")
        assert value(seen[0], "bad_value") is None
        assert value(seen[0], "good_value") == 2
        assert value(seen[0], "rezolusd_sampler_healthy", "bad") == 0
        await running.snapshots(30)
        tries = bad.count - 1
        assert 4 <= tries <= 6, "back-off doubles: after 1, 2, 4, 8, ... seconds"
        bad.error = None
        seen = await running.snapshots(40)
        assert running.state("bad") == (State.ACTIVE, "")
        assert value(seen[-1], "bad_value") == bad.count
        assert value(seen[-1], "rezolusd_sampler_failed_reads", "bad") == tries


async def test_what_is_unsupported_is_not_tried_again(autojump_clock: trio.testing.MockClock) -> None:
    source = FakeSource("odd")
    source.error = Unsupported("no such file here")
    async with flow(source) as running:
        seen = await running.snapshots(100)
    assert source.count == 1
    assert running.state("odd") == (State.UNSUPPORTED, "no such file here")
    assert value(seen[-1], "rezolusd_sampler_healthy", "odd") is None


async def test_a_missing_file_is_unsupported_with_its_errno(autojump_clock: trio.testing.MockClock) -> None:
    source = FakeSource("odd")

    def refuse(_: Roots) -> FakeSource:
        raise PermissionError(13, "Permission denied", "/proc/slabinfo")

    source.open = refuse  # type: ignore[method-assign]
    async with flow(source) as running:
        await running.snapshots(2)
    assert running.state("odd") == (State.UNSUPPORTED, "/proc/slabinfo: EACCES (Permission denied)")


async def test_a_sampler_of_its_own_pace_keeps_its_reading(autojump_clock: trio.testing.MockClock) -> None:
    source = FakeSource("rare")
    async with trio.open_nursery() as nursery:
        running = Flow(nursery)
        running.roster.start(source.sampler(), 5 * SECOND)
        seen = await running.snapshots(16)
        nursery.cancel_scope.cancel()
    values = [value(snapshot, "rare_value") for snapshot in seen]
    assert None not in values
    assert source.count == len(set(values)) == 4


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(10):
        while not condition():
            await trio.sleep(0.001)


async def test_a_sampler_that_misses_the_deadline_costs_only_its_rows() -> None:
    """On the real clock, as a thread is involved."""
    slow, good = FakeSource("slow"), FakeSource("good")
    async with trio.open_nursery() as nursery:
        running = Flow(nursery, SECOND // 50)
        running.roster.start(slow.sampler(Pace.TICK_THREAD), None)
        running.roster.start(good.sampler(), None)
        await running.snapshots(5)
        slow.gate.clear()
        await until(lambda: slow.running == 1)
        seen = (await running.snapshots(6))[2:]
        assert all(value(snapshot, "slow_value") is None for snapshot in seen)
        assert all(value(snapshot, "good_value") is not None for snapshot in seen)
        with trio.fail_after(20):
            while (value(await anext(running.outlet), "rezolusd_sampler_missed_ticks", "slow") or 0) < 3:
                pass
        assert slow.most_running == 1
        slow.gate.set()
        await running.sees("slow_value")
        nursery.cancel_scope.cancel()


async def test_a_hung_slow_read_neither_delays_ticks_nor_piles_up() -> None:
    slow, good = FakeSource("slow"), FakeSource("good")
    interval = SECOND // 20
    async with trio.open_nursery() as nursery:
        running = Flow(nursery, SECOND // 100)
        running.roster.start(slow.sampler(Pace.SLOW), interval)
        running.roster.start(good.sampler(), None)
        await until(lambda: slow.count == 1)
        slow.gate.clear()
        await until(lambda: slow.running == 1)
        seen = await running.snapshots(40)
        assert running.state("slow")[0] is State.DEGRADED
        assert "under way for more than its interval of 0.05 s" in running.state("slow")[1]
        assert slow.most_running == 1
        assert all(value(snapshot, "good_value") is not None for snapshot in seen)
        age = value(seen[-1], "rezolusd_sampler_age", "slow")
        assert age is not None
        assert age > STALE_AFTER * interval
        assert value(seen[-1], "slow_value") is None, "stale rows are gone, their age is not"
        slow.gate.set()
        await until(lambda: slow.count >= 3)
        assert running.state("slow") == (State.ACTIVE, "")
        await running.sees("slow_value")
        nursery.cancel_scope.cancel()


async def test_turning_a_sampler_off_and_on(autojump_clock: trio.testing.MockClock) -> None:
    source = FakeSource("a")
    async with flow(source) as running:
        await running.snapshots(2)
        running.roster.stop("a")
        seen = await running.snapshots(2)
        assert running.state("a")[0] is State.DISABLED
        assert value(seen[-1], "a_value") is None
        assert value(seen[-1], "rezolusd_sampler_reads", "a") is None
        assert source.closed == 1
        running.roster.start(source.sampler(), None)
        seen = await running.snapshots(2)
        assert value(seen[-1], "a_value") == source.count
        assert value(seen[-1], "rezolusd_sampler_reads", "a") == 4, "counters go on where they stood"


class Hog(FakeSource):
    """Holds the loop for longer than two of its ticks."""

    def sample(self) -> Sequence[Reading]:
        time.sleep(0.05)
        return super().sample()


async def test_late_ticks_are_counted_in_a_metric() -> None:
    async with flow(Hog("hog"), interval_ns=SECOND // 50) as running:
        seen = await running.snapshots(4)
        late = running.ticker.late
    assert [snapshot.seq for snapshot in seen] == [1, 2, 3, 4]
    assert late > 0
    assert 0 < (value(seen[-1], "rezolusd_late_ticks") or 0) <= late


async def test_gauges_keep_their_sign_and_counters_their_size(
    autojump_clock: trio.testing.MockClock,
) -> None:
    metrics = (Metric("g", Kind.GAUGE, "", "h"), Metric("c", Kind.COUNTER, "", "h"))
    values, present = fill(Schema(Group("s", "g", metrics)), ((-1, (1 << 64) - 1),))
    assert values.view(np.int64)[0, 0] == -1
    assert int(values[0, 1]) == (1 << 64) - 1
    assert present.all()


@pytest.mark.parametrize("interval_ms", [10, 100])
async def test_short_intervals_work_on_the_real_clock(interval_ms: int) -> None:
    async with flow(FakeSource("a"), interval_ns=interval_ms * SECOND // 1000) as running:
        seen = await running.snapshots(20)
    assert [snapshot.seq for snapshot in seen] == list(range(1, 21))
