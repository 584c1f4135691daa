"""The source on plain arrays."""

from pathlib import Path

import numpy as np

from bpf.cpu_migrations import MOVES, Migrations
from bpf.host import OnlineCpus
from bpf.maps import LINE, Bank
from tests.bpf.kernel import SLOTS, FakeCgroups


def test_moves_by_cpu_and_cgroup(tmp_path: Path) -> None:
    (tmp_path / "online").write_text("0-1\n")
    kernel = FakeCgroups()
    moves, by_cgroup = np.zeros(2 * LINE, np.uint64), np.zeros(SLOTS * LINE, np.uint64)
    source = Migrations(
        Bank(moves, 2), Bank(by_cgroup, LINE), kernel.table, OnlineCpus(tmp_path / "online", 2)
    )
    moves[0], moves[LINE + 1] = 17, 17
    by_cgroup[kernel.event(9, b"db") * LINE + MOVES] = 17
    host, cgroups = source.sample()
    assert host.values.tolist() == [[17, 0], [0, 17]]
    assert [dict(metric.labels)["direction"] for metric in host.schema.group.metrics] == ["from", "to"]
    assert cgroups.values.tolist() == [[17]]
    source.close()
