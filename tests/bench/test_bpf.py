"""Figures of the BPF side: run with `-m bench -s`. Printed, not asserted.

Root and a real kernel are needed, as for tests/kernel.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from bpf.host import Host, OnlineCpus
from bpf.maps import Bank, Histograms
from bpf.runstats import parse
from bpf.syscall import COUNTS, LATENCY, WIDTH, build
from bpf.syscall_counts import Counts
from bpf.syscall_latency import Latency
from bpf.syscall_table import OPS
from pipeline.records import HISTOGRAM_BUCKETS
from pipeline.source import Roots
from tests.bpf.kernel import SLOTS, FakeCgroups
from tests.kernel.conftest import lacking
from tests.kernel.world import bring

pytestmark = [pytest.mark.bench]
real = pytest.mark.skipif(bool(lacking()), reason=lacking() or "-")

CALLS = "import os\nfor _ in range(1_000_000): os.getppid()"


@pytest.fixture
def counting() -> Iterator[None]:
    switch = Path("/proc/sys/kernel/bpf_stats_enabled")
    before = switch.read_text()
    switch.write_text("1")
    yield
    switch.write_text(before)


@real
@pytest.mark.parametrize("hierarchy", ["v2", "cpu"])
@pytest.mark.parametrize("parts", [(COUNTS,), (COUNTS, LATENCY)], ids=["counts", "counts and latency"])
async def test_ns_a_call(hierarchy: str, parts: tuple[str, ...], counting: None) -> None:
    found = await bring(build(Host.read(Roots(), hierarchy), parts))
    files = {name: Path(f"/proc/self/fdinfo/{number}") for name, number in found.running.items()}
    subprocess.run([sys.executable, "-c", CALLS], check=True)
    total = 0.0
    for name, file in files.items():
        count, ns = parse(file.read_text())
        if count:
            total += ns / count
            print(
                f"\n  {hierarchy} {'+'.join(parts)} {name}: {ns / count:.1f} ns over {count:,} events", end=""
            )
    print(f"\n  {hierarchy} {'+'.join(parts)}: {total:.1f} ns a call", end="")
    found.close()


@real
@pytest.mark.parametrize("parts", [(COUNTS,), (COUNTS, LATENCY)], ids=["counts", "counts and latency"])
async def test_compile_to_attached(parts: tuple[str, ...]) -> None:
    wanted = build(Host.read(Roots(), "auto"), parts)
    spans = []
    for _ in range(5):
        begin = time.perf_counter()
        found = await bring(wanted)
        spans.append(time.perf_counter() - begin)
        found.close()
    print(f"\n  {'+'.join(parts)} attached after {min(spans):.2f} to {max(spans):.2f} s", end="")


@pytest.mark.parametrize("cpus", [2, 128])
@pytest.mark.parametrize("cgroups", [1, SLOTS - 1])
def test_reading_both_in_a_tick(cpus: int, cgroups: int, tmp_path: Path) -> None:
    (tmp_path / "online").write_text(f"0-{cpus - 1}\n")
    kernel = FakeCgroups()
    bank = Bank(np.ones(cpus * WIDTH, np.uint64), len(OPS))
    by_cgroup = Bank(np.ones(SLOTS * WIDTH, np.uint64), len(OPS))
    counts = Counts(bank, by_cgroup, kernel.table, OnlineCpus(tmp_path / "online", cpus))
    latency = Latency(Histograms(np.ones(len(OPS) * HISTOGRAM_BUCKETS, np.uint64), len(OPS)))
    for number in range(cgroups):
        kernel.event(number + 1, b"service")
    spans = [timed(lambda: (counts.sample(), latency.sample())) for _ in range(200)]
    print(f"\n  {cpus} CPUs, {cgroups} cgroups: {np.median(spans) / 1e6:.3f} ms both", end="")


def timed(action: Callable[[], object]) -> int:
    begin = time.perf_counter_ns()
    action()
    return time.perf_counter_ns() - begin
