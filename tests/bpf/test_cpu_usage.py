"""The split into user and system, and the source on plain arrays."""

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bpf.cpu_usage import (
    CHARGED,
    COLUMNS,
    EXITED,
    HARDIRQ,
    INTERRUPTS,
    SOFTIRQ,
    SOFTIRQ_TIME,
    SOFTIRQS,
    STIME,
    UTIME,
    WIDTH,
    Split,
    Usage,
)
from bpf.host import OnlineCpus
from bpf.maps import LINE, Bank
from tests.bpf.kernel import SLOTS, FakeCgroups

U64 = np.uint64
GROWTH = st.integers(0, 2**40)


def split(splitter: Split, charged: int, utime: int, stime: int) -> tuple[int, int]:
    one = np.array([0], np.intp)
    user, system = splitter(one, *(np.array([value], U64) for value in (charged, utime, stime)))
    return int(user[0]), int(system[0])


@given(st.lists(st.tuples(GROWTH, GROWTH, GROWTH), max_size=50))
def test_the_parts_are_the_whole_and_never_shrink(growths: list[tuple[int, int, int]]) -> None:
    splitter = Split(1)
    totals, before = [0, 0, 0], (0, 0)
    for growth in growths:
        totals = [total + more for total, more in zip(totals, growth, strict=True)]
        parts = split(splitter, *totals)
        assert sum(parts) == totals[0]
        assert all(now >= then >= 0 for now, then in zip(parts, before, strict=True))
        before = parts


def test_the_share_is_that_of_the_ticks() -> None:
    assert split(Split(1), 1000, 30, 10) == (750, 250)
    assert split(Split(1), 1000, 0, 0) == (1000, 0), "no tick yet: taken for user, as the kernel does"
    assert split(Split(1), 1000, 0, 4) == (0, 1000)


def test_a_row_that_somebody_else_has_now_begins_anew() -> None:
    splitter = Split(1)
    assert split(splitter, 1_000_000, 0, 1) == (0, 1_000_000)
    assert split(splitter, 500, 1, 0) == (500, 0)


def test_every_group_has_its_own_cells(tmp_path: Path) -> None:
    (tmp_path / "online").write_text("0-1\n")
    kernel = FakeCgroups()
    times, by_cgroup = np.zeros(2 * WIDTH, U64), np.zeros(SLOTS * LINE, U64)
    source = Usage(
        Bank(times, COLUMNS), Bank(by_cgroup, LINE), kernel.table, OnlineCpus(tmp_path / "online", 2), None
    )
    row = times[WIDTH:]
    row[[CHARGED, UTIME, STIME, EXITED, INTERRUPTS]] = 1000, 30, 10, 600, 7
    row[HARDIRQ : HARDIRQ + 2] = 3, 33
    row[SOFTIRQ + SOFTIRQS.index("timer")] = 5
    row[SOFTIRQ_TIME + SOFTIRQS.index("rcu")] = 55
    at = kernel.event(9, b"db") * LINE
    by_cgroup[at : at + 4] = 2000, 1, 1, 900
    readings = {reading.schema.group.name: reading.values.tolist() for reading in source.sample()}
    assert readings["cpu_usage_cpu"] == [[0, 0, 0], [750, 257, 600]], "interrupts of an idle CPU are system"
    assert readings["cpu_usage_softirq"][1] == [0, 5] + [0] * 8
    assert readings["cpu_usage_softirq_time"][1] == [0] * 9 + [55]
    assert readings["cpu_usage_hardirq"] == [[0, 0], [3, 33]]
    assert readings["cpu_usage_cgroup_usage"] == [[1000, 1000]]
    assert readings["cpu_usage_cgroup_exited"] == [[900]]
    assert len(readings) == 6, "no series of tasks where they are off"
    source.close()
