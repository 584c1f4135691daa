"""The source on plain arrays."""

import numpy as np

from bpf.maps import Bank
from bpf.syscall import WIDTH
from bpf.syscall_counts import NAME, Counts
from bpf.syscall_table import OPS
from tests.bpf.kernel import SLOTS, FakeCgroups


def test_counts_by_cpu_and_cgroup() -> None:
    kernel = FakeCgroups()
    cells, by_cgroup = np.zeros(4 * WIDTH, np.uint64), np.zeros(SLOTS * WIDTH, np.uint64)
    source = Counts(Bank(cells, len(OPS)), Bank(by_cgroup, len(OPS)), kernel.table, (0, 1, 3))
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
