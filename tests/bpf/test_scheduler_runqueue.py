"""The source on plain arrays."""

from pathlib import Path

import numpy as np

from bpf.host import OnlineCpus
from bpf.maps import LINE, Bank, Histograms
from bpf.scheduler_runqueue import RunQueue
from pipeline.histogram import index as bucket
from pipeline.records import HISTOGRAM_BUCKETS
from tests.bpf.kernel import SLOTS, FakeCgroups


def test_every_group_has_its_own_cells(tmp_path: Path) -> None:
    (tmp_path / "online").write_text("0-1\n")
    kernel = FakeCgroups()
    spans = np.zeros((3, HISTOGRAM_BUCKETS), np.uint64)
    counters, by_cgroup = np.zeros(2 * LINE, np.uint64), np.zeros(SLOTS * LINE, np.uint64)
    source = RunQueue(
        [Histograms(row, 1) for row in spans],
        Bank(counters, 4),
        Bank(by_cgroup, LINE),
        kernel.table,
        OnlineCpus(tmp_path / "online", 2),
    )
    spans[[0, 1, 2], bucket(1000)] = 5, 6, 7
    counters[LINE : LINE + 4] = 1, 2, 3, 4
    at = kernel.event(9, b"db") * LINE
    by_cgroup[at : at + 4] = 10, 20, 30, 40
    readings = {
        reading.schema.group.name.removeprefix("scheduler_runqueue_"): reading for reading in source.sample()
    }
    assert [int(readings[name].values[0, bucket(1000)]) for name in ("runqlat", "running", "offcpu")] == [
        5,
        6,
        7,
    ]
    assert readings["counters"].values.tolist() == [[0, 0, 0, 0], [1, 2, 3, 4]]
    assert [metric.name for metric in readings["counters"].schema.group.metrics] == [
        "scheduler_context_switch",
        "scheduler_context_switch",
        "scheduler_runqueue_wait",
        "scheduler_discarded_samples",
    ]
    assert readings["cgroup_context_switch"].values.tolist() == [[10, 20]]
    assert readings["cgroup_wait"].values.tolist() == [[30]]
    assert readings["cgroup_offcpu"].values.tolist() == [[40]]
    source.close()
