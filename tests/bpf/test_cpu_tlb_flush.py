"""What an architecture tells of a flush, and the source on plain arrays."""

from pathlib import Path

import numpy as np
import pytest

from bpf.cpu_tlb_flush import REASONS, Flushes, hook, present
from bpf.host import OnlineCpus
from bpf.maps import LINE, Bank
from tests.bpf.kernel import SLOTS, FakeCgroups


@pytest.mark.parametrize(
    ("machine", "ways", "told"),
    [
        ("x86_64", ["tp_btf", "raw_tp"], REASONS[:-1]),
        ("aarch64", ["fentry", "kprobe"], ("unknown",)),
    ],
)
def test_reasons_are_told_on_x86_only(machine: str, ways: list[str], told: tuple[str, ...]) -> None:
    assert [way[0] for way in hook(machine)] == ways
    assert tuple(reason for reason, is_told in zip(REASONS, present(machine), strict=True) if is_told) == told


def test_flushes_by_cpu_and_cgroup(tmp_path: Path) -> None:
    (tmp_path / "online").write_text("0-1\n")
    kernel = FakeCgroups()
    flushes, by_cgroup = np.zeros(2 * LINE, np.uint64), np.zeros(SLOTS * LINE, np.uint64)
    source = Flushes(
        Bank(flushes, len(REASONS)),
        Bank(by_cgroup, len(REASONS)),
        kernel.table,
        OnlineCpus(tmp_path / "online", 2),
        present("x86_64"),
    )
    flushes[LINE + REASONS.index("remote_shootdown")] = 1009
    by_cgroup[kernel.event(9, b"db") * LINE + REASONS.index("remote_shootdown")] = 1009
    host, cgroups = source.sample()
    assert host.values.tolist() == [[0] * 6, [0, 1009, 0, 0, 0, 0]]
    assert cgroups.values.tolist() == [[0, 1009, 0, 0, 0, 0]]
    assert host.present.tolist() == [[True] * 5 + [False]] * 2
    source.close()
