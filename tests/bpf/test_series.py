"""Readings that keep everything but the numbers."""

from pathlib import Path

import numpy as np

from bpf.host import OnlineCpus
from bpf.maps import LINE, Bank, Histograms
from bpf.series import ByCgroup, ByCpu, Whole, columns
from pipeline.histogram import index as bucket
from pipeline.records import HISTOGRAM_BUCKETS, Group, Kind, Metric
from tests.bpf.kernel import SLOTS, FakeCgroups

PAIR = Group(
    "fake",
    "fake_pair",
    (Metric("reads", Kind.COUNTER, "", "Reads"), Metric("writes", Kind.COUNTER, "", "Writes")),
)


def test_some_columns_of_a_row_a_cpu(tmp_path: Path) -> None:
    (tmp_path / "online").write_text("0,2\n")
    cells = np.arange(3 * LINE, dtype=np.uint64)
    online = OnlineCpus(tmp_path / "online", 3)
    online.changed()
    series = ByCpu(PAIR, columns(Bank(cells, LINE), 3, 2), online)
    reading = series.read()
    assert reading.values.tolist() == [[3, 4], [2 * LINE + 3, 2 * LINE + 4]]
    assert reading.present.all()
    assert [slot.labels for slot in reading.schema.slots] == [(("id", "0"),), (("id", "2"),)]


def test_the_schema_stays_until_a_cpu_comes_or_goes(tmp_path: Path) -> None:
    path = tmp_path / "online"
    path.write_text("0-2\n")
    cells = np.zeros(3 * LINE, np.uint64)
    online = OnlineCpus(path, 3)
    series = ByCpu(PAIR, columns(Bank(cells, LINE), 0, 2), online)
    cells[::LINE] = 7
    first = series.read()
    assert series.read().schema is first.schema
    path.write_text("0,2\n")
    online.changed()
    assert series.read().values[:, 0].tolist() == [7, 7]
    cells[::LINE] += 1
    path.write_text("0-2\n")
    online.changed()
    assert series.read().values[:, 0].tolist() == [8, 8, 8], "what happened meanwhile is not lost"


def test_a_metric_this_host_does_not_have_is_absent(tmp_path: Path) -> None:
    online = OnlineCpus(tmp_path / "none", 2)
    series = ByCpu(PAIR, columns(Bank(np.zeros(2 * LINE, np.uint64), LINE), 0, 2), online, [True, False])
    assert series.read().present.tolist() == [[True, False], [True, False]]


def test_a_row_a_cgroup() -> None:
    kernel = FakeCgroups()
    cells = np.zeros(SLOTS * LINE, np.uint64)
    series = ByCgroup(PAIR, columns(Bank(cells, LINE), 0, 2), kernel.table)
    cells[kernel.event(9, b"db") * LINE + 1] = 1009
    kernel.table.refresh(None)
    first = series.read()
    assert first.values.tolist() == [[0, 1009]]
    assert series.read().schema is first.schema
    kernel.event(10, b"web")
    kernel.table.refresh(None)
    assert [dict(slot.labels)["name"] for slot in series.read().schema.slots] == ["/db", "/web"]


def test_a_histogram_of_the_whole_host() -> None:
    group = Group("fake", "fake_wait", (Metric("wait", Kind.HISTOGRAM, "nanoseconds", "Waits"),))
    cells = np.zeros(HISTOGRAM_BUCKETS, np.uint64)
    cells[bucket(7_000_000)] = 4
    reading = Whole(group, Histograms(cells, 1)).read()
    assert reading.values.shape == (1, HISTOGRAM_BUCKETS)
    assert reading.values[0, bucket(7_000_000)] == 4
