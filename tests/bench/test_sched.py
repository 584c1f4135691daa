"""Figures of the scheduler's samplers: `-m bench -s` prints them, nothing is asserted. Root and stress-ng."""

import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import numpy as np
import pytest
import trio

from bpf import sched
from bpf.host import Host
from bpf.runstats import parse
from bpf.sched import MIGRATIONS, RUNQUEUE, USAGE
from pipeline.source import Roots, Source
from tests.kernel.conftest import lacking
from tests.kernel.sched import HIERARCHY, scheduler
from tests.kernel.world import bring, cgroup, within

pytestmark = [pytest.mark.bench]
real = pytest.mark.skipif(bool(lacking()), reason=lacking() or "-")
ALL = (RUNQUEUE, MIGRATIONS, USAGE)
ENOUGH = 1000  # events of a round
LOADS = {"switches": ("--switch", "2"), "threads": ("--pthread", "2"), "processes": ("--fork", "2")}


@pytest.fixture
def counting() -> Iterator[None]:
    switch = Path("/proc/sys/kernel/bpf_stats_enabled")
    before = switch.read_text()
    switch.write_text("1")
    yield
    switch.write_text(before)


@real
@pytest.mark.skipif(not shutil.which("stress-ng"), reason="no stress-ng here")
@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("parts", [(RUNQUEUE,), (MIGRATIONS,), (USAGE,), ALL], ids="+".join)
async def test_ns_an_event(parts: tuple[str, ...], load: str, counting: None) -> None:
    found = await bring(sched.build(Host.read(Roots(), "auto"), parts))
    files = {name: Path(f"/proc/self/fdinfo/{number}") for name, number in found.running.items()}
    before = dict.fromkeys(files, (0, 0))
    rounds: dict[str, list[float]] = {name: [] for name in files}
    for _ in range(5):
        subprocess.run(["stress-ng", "--quiet", *LOADS[load], "-t", "1"], check=True)
        for name, file in files.items():
            count, ns = parse(file.read_text())
            events, before[name] = (count - before[name][0], ns - before[name][1]), (count, ns)
            if events[0] >= ENOUGH:
                rounds[name].append(events[1] / events[0])
    for name, each in rounds.items():
        if each:
            median, least = np.median(each), min(each)
            print(
                f"\n  {'+'.join(parts)}, {load}: {name} {median:.0f} ns an event, {least:.0f} at best", end=""
            )
    found.close()


@real
@pytest.mark.parametrize(("cgroups", "tasks"), [(1, 10), (50, 300), (50, 1200)])
async def test_reading_all_in_a_tick(cgroups: int, tasks: int) -> None:
    async with scheduler(ALL) as running:
        with ExitStack() as stack:
            folders = [stack.enter_context(cgroup(HIERARCHY, f"bench-{at}")) for at in range(cgroups)]
            script = f"for i in $(seq {tasks // cgroups}); do sleep 600 & done; wait"
            shells: list[subprocess.Popen[bytes]] = []
            stack.callback(end, folders, shells)
            for folder in folders:
                shells.append(subprocess.Popen(within(folder, "/bin/sh", "-c", script)))
                await trio.sleep(0.1)
                ticks(running.sources.values())  # names of new tasks are taken off the ring
            await trio.sleep(1)
            spans = [sorted(ticks(running.sources.values())) for _ in range(40)]
            shown = len(running.rows("cpu_usage_task"))
        totals = [sum(span) / 1e6 for span in spans]
        print(f"\n  {cgroups} cgroups, {shown} tasks shown: {np.median(totals):.2f} ms all three", end="")


def ticks(sources: Iterable[Source]) -> list[int]:
    """What each source takes after a pause, ns."""
    time.sleep(0.05)
    taken = []
    for source in sources:
        begin = time.perf_counter_ns()
        source.sample()
        taken.append(time.perf_counter_ns() - begin)
    return taken


def end(folders: list[Path], shells: list["subprocess.Popen[bytes]"]) -> None:
    for folder in folders:
        for pid in (folder / "cgroup.procs").read_text().split():
            subprocess.run(["kill", "-9", pid], check=False)
    for shell in shells:
        shell.wait()


@pytest.mark.parametrize("cpus", [2, 64, 256])
@pytest.mark.parametrize("pids", [32_768, 4_194_304])
def test_memory_of_the_maps(cpus: int, pids: int) -> None:
    host = msgspec.structs.replace(Host.read(Roots(), "v2"), cpus=cpus, pids=pids)
    for parts in (RUNQUEUE,), (MIGRATIONS,), (USAGE,), ALL:
        size = sum(
            each.entries * each.value_size for each in sched.build(host, parts).maps if each.type != "hash"
        )
        print(f"\n  {cpus} CPUs, {pids:,} thread ids: {'+'.join(parts)} {size / 2**20:.1f} MiB", end="")
