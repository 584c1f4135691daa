"""The source on plain arrays."""

from pathlib import Path

import numpy as np

from bpf.host import OnlineCpus
from bpf.maps import Bank
from bpf.syscall import WIDTH
from bpf.syscall_counts import NAME, Counts
from bpf.syscall_table import OPS
from tests.bpf.kernel import SLOTS, FakeCgroups


def test_counts_by_cpu_and_cgroup(tmp_path: Path) -> None:
    (tmp_path / "online").write_text("0-1,3\n")
    kernel = FakeCgroups()
    cells, by_cgroup = np.zeros(4 * WIDTH, np.uint64), np.zeros(SLOTS * WIDTH, np.uint64)
    source = Counts(
        Bank(cells, len(OPS)), Bank(by_cgroup, len(OPS)), kernel.table, OnlineCpus(tmp_path / "online", 4)
    )
    sync = OPS.index("sync")
    cells[3 * WIDTH + sync] = 1009
    by_cgroup[kernel.event(9, b"db") * WIDTH + sync] = 1009
    host, cgroups = source.sample()
    assert host.values.shape == host.present.shape == (3, 17)
    assert host.values[:, sync].tolist() == [0, 0, 1009]
    assert host.schema.slots[2].labels == (("id", "3"),)
    assert host.schema.labels(host.schema.slots[2], host.schema.group.metrics[sync]) == {
        "sampler": NAME,
        "unit": "syscalls",
        "op": "sync",
        "id": "3",
    }
    assert cgroups.values.tolist() == [[0] * 16 + [1009]]
    again = source.sample()[1]
    assert again.schema is cgroups.schema, "prepared once, as long as nobody comes or goes"
    kernel.event(10, b"web")
    assert len(source.sample()[1].schema.slots) == 2


def test_a_cpu_that_goes_offline_has_no_series_and_goes_on_when_it_is_back(tmp_path: Path) -> None:
    online = tmp_path / "online"
    online.write_text("0-3\n")
    kernel = FakeCgroups()
    cells = np.zeros(4 * WIDTH, np.uint64)
    source = Counts(
        Bank(cells, len(OPS)), Bank(np.zeros(SLOTS * WIDTH, np.uint64), len(OPS)), kernel.table,
        OnlineCpus(online, 4),
    )  # fmt: skip

    def by_cpu() -> dict[str, int]:
        reading = source.sample()[0]
        labels = [dict(slot.labels)["id"] for slot in reading.schema.slots]
        return dict(zip(labels, reading.values[:, 0].tolist(), strict=True))

    cells[::WIDTH] = 7
    assert by_cpu() == {"0": 7, "1": 7, "2": 7, "3": 7}
    schema = source.sample()[0].schema
    assert source.sample()[0].schema is schema
    online.write_text("0-1,3\n")
    assert by_cpu() == {"0": 7, "1": 7, "3": 7}
    online.write_text("what?\n")
    assert by_cpu() == {"0": 7, "1": 7, "3": 7}
    online.write_text("0-3\n")
    cells[2 * WIDTH] += 1
    assert by_cpu() == {"0": 7, "1": 7, "2": 8, "3": 7}
    source.close()


def test_where_no_list_can_be_read_all_rows_are_shown(tmp_path: Path) -> None:
    assert OnlineCpus(tmp_path / "none", 2).cpus == (0, 1)
