"""Sources that take longer to make than a tick lasts: nobody waits for them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import trio
import trio.testing

from pipeline.health import State, Unsupported
from pipeline.programs import Program
from pipeline.source import Prepared, Roots, Sampler
from tests.pipeline.test_tick import Flow, flow, value
from tests.pipeline.world import FakeSource

PROGRAMS = (Program("sys_enter", True, "tp_btf"),)


class Slow:
    """Prepares a source in so many seconds, or raises instead."""

    def __init__(self, name: str, seconds: float, *errors: Exception, degraded: str = "") -> None:
        self.source = FakeSource(name)
        self.seconds = seconds
        self.errors = list(errors)
        self.degraded = degraded
        self.calls = 0
        self.cancelled = 0

    async def prepare(self, _: Roots) -> Prepared:
        self.calls += 1
        try:
            await trio.sleep(self.seconds)
        except trio.Cancelled:
            self.cancelled += 1
            raise
        if self.errors:
            raise self.errors.pop(0)
        return Prepared(self.source, PROGRAMS, self.degraded)

    def sampler(self) -> Sampler:
        return msgspec.structs.replace(self.source.sampler(), prepare=self.prepare)


@asynccontextmanager
async def flow_with(slow: Slow, *others: FakeSource) -> AsyncIterator[Flow]:
    async with flow(*others) as running:
        running.roster.start(slow.sampler(), None)
        yield running


async def test_others_are_served_meanwhile_and_no_tick_waits(autojump_clock: trio.testing.MockClock) -> None:
    slow = Slow("slow", 3.2)
    async with flow_with(slow, FakeSource("quick")) as running:
        seen = await running.snapshots(3)
        assert [value(snapshot, "quick_value") for snapshot in seen] == [1, 2, 3]
        assert all(snapshot.duration_ns < 10**8 for snapshot in seen), "gathering did not wait"
        assert running.state("slow") == (State.STARTING, "")
        assert running.health.samplers["slow"].missed == 0
        seen = await running.snapshots(3)
        assert [value(snapshot, "slow_value") for snapshot in seen][-2:] == [1, 2]
        assert running.state("slow") == (State.ACTIVE, "")
        assert running.health.samplers["slow"].programs == PROGRAMS
    assert slow.source.opens == 0
    assert slow.source.closed == 1


async def test_a_failure_is_told_and_tried_again_beside_the_ticks(
    autojump_clock: trio.testing.MockClock,
) -> None:
    slow = Slow("slow", 0.7, ValueError("no luck"))
    async with flow_with(slow) as running:
        await running.snapshots(2)
        assert running.state("slow") == (State.FAILED, "ValueError: no luck")
        seen = await running.snapshots(5)
        assert all(snapshot.duration_ns < 10**8 for snapshot in seen)
        assert running.state("slow") == (State.ACTIVE, "")
    assert slow.calls == 2


async def test_unsupported_is_not_tried_again(autojump_clock: trio.testing.MockClock) -> None:
    slow = Slow("slow", 0.1, Unsupported("no kernel BTF", PROGRAMS))
    async with flow_with(slow) as running:
        await running.snapshots(100)
        assert running.state("slow") == (State.UNSUPPORTED, "no kernel BTF")
        assert running.health.samplers["slow"].programs == PROGRAMS
        assert running.health.samplers["slow"].health == "unsupported"
    assert slow.calls == 1


async def test_a_file_that_is_not_there_is_unsupported(autojump_clock: trio.testing.MockClock) -> None:
    slow = Slow("slow", 0.1, FileNotFoundError(2, "No such file or directory", "/proc/mounts"))
    async with flow_with(slow) as running:
        await running.snapshots(2)
        assert running.state("slow") == (
            State.UNSUPPORTED,
            "/proc/mounts: ENOENT (No such file or directory)",
        )


async def test_what_is_missing_from_the_start_is_said_with_every_read(
    autojump_clock: trio.testing.MockClock,
) -> None:
    slow = Slow("slow", 0.1, degraded="sys_exit: EINVAL")
    async with flow_with(slow) as running:
        seen = await running.snapshots(3)
        assert value(seen[-1], "slow_value") is not None
        assert running.state("slow") == (State.DEGRADED, "sys_exit: EINVAL")


async def test_a_read_that_fails_has_it_prepared_anew(autojump_clock: trio.testing.MockClock) -> None:
    slow = Slow("slow", 0.1)
    async with flow_with(slow) as running:
        await running.snapshots(2)
        slow.source.error = OSError(5, "gone")
        await running.snapshots(1)
        assert running.state("slow")[0] is State.FAILED
        slow.source.error = None
        await running.snapshots(4)
        assert running.state("slow")[0] is State.ACTIVE
    assert slow.calls == 2
    assert slow.source.closed == 2


async def test_stopping_ends_the_preparation(autojump_clock: trio.testing.MockClock) -> None:
    slow = Slow("slow", 1000)
    async with flow_with(slow) as running:
        await running.snapshots(2)
        running.roster.stop("slow")
        await running.snapshots(1)
        assert slow.cancelled == 1
        assert running.state("slow")[0] is State.DISABLED
