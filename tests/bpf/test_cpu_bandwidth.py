"""The source on plain arrays."""

import numpy as np

from bpf.cpu_bandwidth import KNOWN, PERIOD, QUOTA, Bandwidth
from bpf.maps import LINE, Bank
from pipeline.records import Reading
from tests.bpf.kernel import SLOTS, FakeCgroups


def by_metric(readings: list[Reading]) -> dict[str, list[int | None]]:
    """Values by metric, in the order of the cgroups; None where there is none."""
    found = {}
    for reading in readings:
        for column, metric in enumerate(reading.schema.group.metrics):
            pairs = zip(reading.values[:, column].view(np.int64), reading.present[:, column], strict=True)
            found[metric.name] = [int(value) if there else None for value, there in pairs]
    return found


def test_limits_and_what_they_cost() -> None:
    kernel = FakeCgroups()
    cells = np.zeros(SLOTS * LINE, np.uint64)
    source = Bandwidth(Bank(cells, LINE), kernel.table)
    at = kernel.event(9, b"limited") * LINE
    cells[at : at + 5] = 1, 2, 3, 4, 5
    cells[at + QUOTA], cells[at + PERIOD], cells[at + KNOWN] = 20_000_000, 100_000_000, 1
    at = kernel.event(10, b"unlimited") * LINE
    cells[at + QUOTA], cells[at + PERIOD], cells[at + KNOWN] = 2**64 - 1, 100_000_000, 1
    kernel.event(11, b"never-set")
    assert by_metric(list(source.sample())) == {
        "cgroup_cpu_throttled_time": [1, 0, 0],
        "cgroup_cpu_throttled": [2, 0, 0],
        "cgroup_cpu_bandwidth_periods": [3, 0, 0],
        "cgroup_cpu_bandwidth_throttled_periods": [4, 0, 0],
        "cgroup_cpu_bandwidth_throttled_time": [5, 0, 0],
        "cgroup_cpu_bandwidth_quota": [20_000_000, -1, None],
        "cgroup_cpu_bandwidth_period_duration": [100_000_000, 100_000_000, None],
    }
    source.close()
