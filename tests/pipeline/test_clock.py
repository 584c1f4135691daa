import itertools

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.clock import Clock, Tick
from tests.pipeline.world import SECOND, Wall

MS = SECOND // 1000


async def take(clock: Clock, count: int) -> list[Tick]:
    ticks: list[Tick] = []
    async for tick in clock.ticks():
        ticks.append(tick)
        if len(ticks) == count:
            return ticks
    raise AssertionError("ticks end")


async def test_first_tick_is_immediate_and_the_others_on_the_grid(
    autojump_clock: trio.testing.MockClock,
) -> None:
    start = 1_700_000_000 * SECOND + 300 * MS
    ticks = await take(Clock(SECOND, Wall(start)), 4)
    assert ticks[0].wall_ns == start
    assert [tick.wall_ns for tick in ticks[1:]] == pytest.approx(
        [(1_700_000_000 + n) * SECOND for n in (1, 2, 3)], abs=1000
    )
    assert not any(tick.late for tick in ticks)


async def test_the_first_gap_is_at_least_half_an_interval(autojump_clock: trio.testing.MockClock) -> None:
    start = 1_700_000_000 * SECOND + 900 * MS
    ticks = await take(Clock(SECOND, Wall(start)), 2)
    assert ticks[1].wall_ns == pytest.approx(1_700_000_002 * SECOND, abs=1000)


async def test_ten_milliseconds_do_not_drift(autojump_clock: trio.testing.MockClock) -> None:
    ticks = await take(Clock(10 * MS, Wall()), 1001)
    assert ticks[-1].wall_ns - ticks[0].wall_ns == pytest.approx(10 * SECOND, abs=1000)


@pytest.mark.parametrize("step_s", [3600, -3600, 0.4, -0.4, 86_400.3, -0.999])
async def test_a_step_costs_one_uneven_interval(
    step_s: float, autojump_clock: trio.testing.MockClock
) -> None:
    wall = Wall()
    clock = Clock(SECOND, wall)
    began = []
    async for tick in clock.ticks():
        began.append(trio.current_time())
        assert tick.late == 0
        if len(began) == 5:
            wall.step_ns = round(step_s * SECOND)
        if len(began) == 12:
            break
    gaps = [after - before for before, after in itertools.pairwise(began)]
    assert all(0.499 <= gap <= 1.501 for gap in gaps)
    assert sum(abs(gap - 1) > 0.001 for gap in gaps) <= 1
    assert wall() % SECOND == pytest.approx(0, abs=1000) or wall() % SECOND > SECOND - 1000


async def test_a_step_while_asleep_neither_stalls_nor_bursts(autojump_clock: trio.testing.MockClock) -> None:
    wall = Wall()
    clock = Clock(SECOND, wall)

    async def step() -> None:
        await trio.sleep(3.5)
        wall.step_ns = -3600 * SECOND

    async with trio.open_nursery() as nursery:
        nursery.start_soon(step)
        ticks = await take(clock, 8)
    gaps = [after.due - before.due for before, after in itertools.pairwise(ticks)]
    assert all(0.499 <= gap <= 1.501 for gap in gaps)


@pytest.mark.parametrize(
    ("busy_s", "late"),
    [(0.9, 0), (1.4, 0), (1.6, 1), (2.4, 1), (3.6, 3)],
)
async def test_ticks_that_cannot_start_in_time_are_skipped_and_counted(
    busy_s: float, late: int, autojump_clock: trio.testing.MockClock
) -> None:
    ticks = []
    async for tick in Clock(SECOND, Wall()).ticks():
        ticks.append(tick)
        if len(ticks) == 3:
            await trio.sleep(busy_s)
        if len(ticks) == 6:
            break
    assert [tick.late for tick in ticks] == [0, 0, 0, late, 0, 0]
    assert ticks[3].due - ticks[2].due == pytest.approx(late + 1)


@given(
    interval_ms=st.sampled_from([10, 100, 1000, 60_000]),
    busy=st.lists(st.floats(0, 5), min_size=1, max_size=20),
)
@settings(max_examples=60, deadline=None)
def test_every_interval_is_a_tick_or_a_late_one(interval_ms: int, busy: list[float]) -> None:
    async def main() -> None:
        interval = interval_ms / 1000
        clock, late, first = Clock(interval_ms * MS, Wall(0)), 0, trio.current_time()
        work = iter(busy)
        count = 0
        async for tick in clock.ticks():
            late += tick.late
            assert tick.due == pytest.approx(first + (count + late) * interval, abs=1e-6)
            count += 1
            share = next(work, None)
            if share is None:
                return
            await trio.sleep(share * interval)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def test_a_new_interval_takes_over_from_a_long_one(autojump_clock: trio.testing.MockClock) -> None:
    clock = Clock(3600 * SECOND, Wall())
    began = trio.current_time()

    async def hurry() -> None:
        await trio.sleep(5)
        clock.set_interval(SECOND)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hurry)
        await take(clock, 4)
    assert trio.current_time() - began < 10


async def test_anchored_time_ignores_steps(autojump_clock: trio.testing.MockClock) -> None:
    wall = Wall()
    clock = Clock(SECOND, wall)
    wall.step_ns = -5 * SECOND
    await trio.sleep(2)
    assert clock.anchored_ns() == clock.anchor_wall_ns + 2 * SECOND
