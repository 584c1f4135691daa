"""`cpu_bandwidth` on the real kernel, beside a limited cgroup's own `cpu.stat`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from bpf import cpu_bandwidth
from bpf.cpu_bandwidth import NAME, PART
from bpf.host import Host
from pipeline.health import Unsupported
from pipeline.source import Roots
from tests.kernel.sched import Running, running
from tests.kernel.world import PATIENCE, cgroup, hierarchy_root, loaded, python, run, within

pytestmark = pytest.mark.kernel

PERIOD_MS, QUOTA_MS = 50, 11
SPIN = """
import sys, time
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end: pass
"""


@contextmanager
def limited() -> Iterator[Path]:
    """A cgroup whose CPU time can be limited."""
    hierarchy = "cpu" if hierarchy_root("cpu") else "v2"
    root = hierarchy_root(hierarchy)
    assert root
    if hierarchy == "v2":
        if "cpu" not in (root / "cgroup.controllers").read_text().split():
            pytest.skip("no cpu controller here")
        (root / "cgroup.subtree_control").write_text("+cpu")
    with cgroup(hierarchy, "limited") as folder:
        yield folder


def limit(folder: Path, quota_ms: int | None) -> None:
    if (folder / "cpu.max").exists():
        quota = "max" if quota_ms is None else str(quota_ms * 1000)
        (folder / "cpu.max").write_text(f"{quota} {PERIOD_MS * 1000}")
    else:
        (folder / "cpu.cfs_period_us").write_text(str(PERIOD_MS * 1000))
        (folder / "cpu.cfs_quota_us").write_text(str(-1 if quota_ms is None else quota_ms * 1000))


def cpu_stat(folder: Path) -> dict[str, int]:
    """Periods, throttled periods and throttled time in ns, as the kernel counts them."""
    found = {key: int(value) for key, value in map(str.split, (folder / "cpu.stat").read_text().splitlines())}
    time_ns = found["throttled_time"] if "throttled_time" in found else found["throttled_usec"] * 1000
    return {
        "periods": found["nr_periods"],
        "throttled_periods": found["nr_throttled"],
        "throttled_time": time_ns,
    }


def of(running: Running, group: str, folder: Path) -> list[int]:
    return running.cgroup(f"cpu_bandwidth_cgroup_{group}", f"/{folder.name}")


async def workload() -> tuple[dict[str, int], dict[str, int]]:
    host = Host.read(Roots(), "auto")
    async with running(cpu_bandwidth.build(host, (NAME,)), (PART,), host, (NAME,)) as found:
        with limited() as folder:
            limit(folder, QUOTA_MS)
            assert of(found, "limits", folder) == [QUOTA_MS * 1_000_000, PERIOD_MS * 1_000_000]
            run(within(folder, *python(SPIN, 1.3 * PATIENCE)))
            kernel = cpu_stat(folder)
            seen = {name: of(found, f"bandwidth_{name}", folder)[0] for name in kernel}
            seen["count"], seen["time"] = (
                of(found, f"throttled_{name}", folder)[0] for name in ("count", "time")
            )
            limit(folder, None)
            seen["quota"] = of(found, "limits", folder)[0]
    return seen, kernel


async def attached() -> str:
    """Why the kernel has no hooks for it, if it has none."""
    host = Host.read(Roots(), "auto")
    try:
        async with loaded(cpu_bandwidth.build(host, (NAME,))) as found:
            return "; ".join(program.error for program in found.programs if not program.attached)
    except Unsupported as reason:
        return str(reason)


@pytest.mark.core
def test_a_limited_cgroup_agrees_with_its_cpu_stat() -> None:
    if refusal := trio.run(attached):
        pytest.skip(refusal)
    seen, kernel = trio.run(workload)
    assert kernel["throttled_periods"] > 3
    # The kernel's own figures are taken over at each end of a throttle, so the last one may be missing.
    for name, late in (("periods", 3), ("throttled_periods", 2), ("throttled_time", PERIOD_MS * 1_000_000)):
        assert kernel[name] - late * PATIENCE <= seen[name] <= kernel[name]
    assert seen["count"] >= kernel["throttled_periods"] - 1
    assert seen["time"] == pytest.approx(kernel["throttled_time"], rel=0.1, abs=2e7 * PATIENCE)
    assert seen["quota"] in (-1, 2**64 - 1)
