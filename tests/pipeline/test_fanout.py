import logging

import pytest
import trio

from pipeline.fanout import DirectOutlet, Fanout, Outlet, Policy
from pipeline.records import Snapshot


def snapshot(seq: int) -> Snapshot:
    return Snapshot(seq, 0, 0, 0, ())


async def drain(outlet: Outlet) -> list[int]:
    return [held.seq async for held in outlet]


def offered(policy: Policy, capacity: int, count: int) -> tuple[Fanout, Outlet]:
    fanout = Fanout()
    outlet = fanout.add(Outlet("sink", policy, capacity))
    for seq in range(1, count + 1):
        fanout.publish(snapshot(seq))
    fanout.close()
    return fanout, outlet


@pytest.mark.parametrize(
    ("policy", "kept", "dropped"),
    [(Policy.NEWEST, [5], 4), (Policy.DROP_OLDEST, [3, 4, 5], 2), (Policy.KEEP_ALL, [1, 2, 3], 2)],
)
async def test_a_full_outlet_follows_its_policy_and_counts(
    policy: Policy, kept: list[int], dropped: int
) -> None:
    _, outlet = offered(policy, 3, 5)
    assert await drain(outlet) == kept
    assert (outlet.published, outlet.dropped) == (5, dropped)


async def test_a_slow_sink_costs_the_others_nothing() -> None:
    fanout = Fanout()
    slow, fast = fanout.add(Outlet("slow", Policy.NEWEST)), fanout.add(Outlet("fast", Policy.NEWEST))
    seen: list[int] = []

    async def read() -> None:
        seen.extend(await drain(fast))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        for seq in range(100):
            await trio.testing.wait_all_tasks_blocked()
            fanout.publish(snapshot(seq))
        await trio.testing.wait_all_tasks_blocked()
        fanout.close()
    assert seen == list(range(100))
    assert (slow.dropped, fast.dropped) == (99, 0)


async def test_close_lets_a_sink_take_what_it_is_owed() -> None:
    _, outlet = offered(Policy.DROP_OLDEST, 10, 4)
    assert await drain(outlet) == [1, 2, 3, 4]
    assert await drain(outlet) == []


def test_losing_what_was_to_be_kept_is_an_error_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        offered(Policy.KEEP_ALL, 2, 50)
    assert [record.message for record in caplog.records] == ["sink sink is behind by 2 snapshots, dropping"]


def test_an_outlet_has_room_for_one_at_least() -> None:
    with pytest.raises(ValueError, match="capacity of at least 1"):
        Outlet("sink", Policy.KEEP_ALL, 0)


def test_a_direct_sink_takes_each_on_the_spot_and_its_failure_is_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    taken: list[int] = []

    def take(snapshot: Snapshot) -> None:
        if snapshot.seq == 2:
            raise RuntimeError("on purpose")
        taken.append(snapshot.seq)

    fanout = Fanout()
    direct = fanout.add(DirectOutlet("direct", take))
    other = fanout.add(Outlet("other", Policy.DROP_OLDEST, 9))
    for seq in (1, 2, 3):
        fanout.publish(snapshot(seq))
    assert taken == [1, 3]
    assert (direct.published, direct.dropped) == (3, 1)
    assert (other.published, other.dropped) == (3, 0)
    assert "sink direct could not take a snapshot" in caplog.text
