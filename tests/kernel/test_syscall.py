"""The syscall samplers against workloads whose calls are known."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.histogram import index as bucket
from tests.kernel.world import PATIENCE, calls, cgroup, hierarchy_root, run, until, within

pytestmark = pytest.mark.kernel

HIERARCHIES = [
    pytest.param(name, marks=pytest.mark.skipif(hierarchy_root(name) is None, reason=f"no {name} hierarchy"))
    for name in ("v2", "cpu")
]
FSYNCS = 1009


@pytest.mark.core
@pytest.mark.parametrize("hierarchy", HIERARCHIES)
@pytest.mark.parametrize("twins", [("tp_btf",), ("raw_tp",)], ids=["tp_btf", "raw_tp"])
async def test_fsyncs_in_a_cgroup(hierarchy: str, twins: tuple[str, ...], tmp_path: Path) -> None:
    script = f"import os\nfor _ in range({FSYNCS}): os.fsync(3)"
    command = (sys.executable, "-c", f"import os\nassert os.open({str(tmp_path / 'f')!r}, 65) == 3\n{script}")
    async with calls(hierarchy, twins=twins) as running:
        before = running.by_op()["sync"]
        with cgroup(hierarchy, "fsync") as folder:
            run(within(folder, *command))
            assert running.by_cgroup()[f"/{folder.name}"]["sync"] == FSYNCS
        assert FSYNCS <= running.by_op()["sync"] - before < FSYNCS + 1000


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
async def test_nested_cgroups_are_named_by_their_last_three_levels(hierarchy: str) -> None:
    async with calls(hierarchy) as running:
        with cgroup(hierarchy, "top") as top:
            folders = [top]
            for name in ("b\\x2dc", "c", "d\udcff"):
                folders.append(folders[-1] / name)
                folders[-1].mkdir()
            for folder in folders:
                run(within(folder, "/bin/true"))
            seen = running.by_cgroup()
            for folder in reversed(folders[1:]):
                until(lambda folder=folder: not (folder / "cgroup.procs").read_text())  # type: ignore[misc]
                folder.rmdir()
        name = top.name
        assert {f"/{name}", f"/{name}/b-c", f"/{name}/b-c/c", ".../b-c/c/d\\xff"} <= seen.keys()
        assert "/" in seen


@pytest.mark.skipif(shutil.which("perf") is None, reason="needs perf as the independent source")
async def test_total_against_perf(tmp_path: Path) -> None:
    hierarchy = "v2" if hierarchy_root("v2") else "cpu"
    out = tmp_path / "perf"
    loop = "import os\nfor _ in range(100_000): os.getppid()"
    async with calls(hierarchy) as running:
        with cgroup(hierarchy, "perf") as folder:
            perf = ["perf", "stat", "-x,", "-o", str(out), "-e", "raw_syscalls:sys_enter", "--"]
            mounted = 'mount -t tracefs tracefs /sys/kernel/tracing && exec "$@"'
            command = [
                "unshare",
                "-m",
                "sh",
                "-c",
                mounted,
                "sh",
                *perf,
                *within(folder, sys.executable, "-c", loop),
            ]
            if subprocess.run(command, capture_output=True).returncode:
                pytest.skip("perf cannot count the tracepoint here")
            ours = sum(running.by_cgroup()[f"/{folder.name}"].values())
    theirs = next(int(line.split(",")[0]) for line in out.read_text().splitlines() if "sys_enter" in line)
    # The shell's calls before it joined the cgroup are perf's only.
    assert theirs - 100 <= ours <= theirs


@pytest.mark.core
async def test_sleeps_of_7_ms_are_in_the_buckets_of_7_ms() -> None:
    sleeps = 40
    script = f"import time\nfor _ in range({sleeps}): time.sleep(0.007)"
    async with calls("auto") as running:
        before = running.histogram("sleep")
        run([sys.executable, "-c", script])
        new = [after - first for after, first in zip(running.histogram("sleep"), before, strict=True)]
    around = sum(new[bucket(7_000_000) : bucket(8_500_000) + 1])
    assert around >= sleeps * 3 // 4, "a busy machine may be late now and then"
    assert sum(new[bucket(7_000_000) :]) >= sleeps


REUSE_A_PROCESS_ID = """
import os, time
reused = 0
for _ in range(8):
    first = os.fork()
    if not first: os._exit(0)
    os.waitpid(first, 0)
    time.sleep(0.3)
    open("/proc/sys/kernel/ns_last_pid", "w").write(str(first - 1))
    second = os.fork()
    if not second: os._exit(0)
    os.waitpid(second, 0)
    reused += second == first
print(reused)
"""


async def test_a_call_that_never_returned_leaves_nothing_to_the_next_with_its_id() -> None:
    """A process ends in `exit_group`; the next begins by returning from `clone`, a call of the same class."""
    async with calls("auto") as running:
        before = running.histogram("process")
        reused = int(run([sys.executable, "-c", REUSE_A_PROCESS_ID]))
        new = [after - first for after, first in zip(running.histogram("process"), before, strict=True)]
    if reused < 3:
        pytest.skip("process ids were not reused")
    assert sum(new[bucket(300_000_000) : bucket(330_000_000) + 1]) < reused


async def test_a_call_broken_off_by_a_signal_counts_as_long_as_it_took() -> None:
    script = (
        "import signal, time, ctypes\n"
        "libc = ctypes.CDLL(None)\n"
        "signal.signal(signal.SIGALRM, lambda *_: None)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)\n"
        "for _ in range(5): libc.usleep(900_000)\n"
    )
    async with calls("auto") as running:
        before = running.histogram("sleep")
        run([sys.executable, "-c", script])
        new = [after - first for after, first in zip(running.histogram("sleep"), before, strict=True)]
    assert sum(new[bucket(40_000_000) : bucket(70_000_000) + 1]) >= 4


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
async def test_short_lived_cgroups_leave_no_wrong_series(hierarchy: str) -> None:
    """Many more cgroups than there are slots, one after the other, each with the same few calls."""
    count, slots = (500 if PATIENCE == 1 else 120), 64
    seen: dict[str, int] = {}
    async with calls(hierarchy, slots) as running:
        for number in range(count):
            with cgroup(hierarchy, str(number)) as folder:
                run(within(folder, "/bin/true"))
            if number % 5 == 0:
                for name, by_op in running.by_cgroup().items():
                    if name.startswith(f"/rezolusd-test-{os.getpid()}-"):
                        seen[name] = max(seen.get(name, 0), sum(by_op.values()))
        for _ in range(3):
            left = running.by_cgroup()
        assert not [name for name in left if "rezolusd-test" in name]
        assert running.cgroups.lost == 0, "slots were given back in time"
    assert len(seen) == count - 4, "all but those after the last look"
    assert max(seen.values()) < 2 * min(seen.values()), "nobody was credited with a predecessor's calls"


async def test_cgroups_beyond_the_table_are_counted_together() -> None:
    hierarchy = "v2" if hierarchy_root("v2") else "cpu"
    async with calls(hierarchy, slots=4) as running:
        folders = []
        with cgroup(hierarchy, "many") as top:
            for number in range(6):
                folder = top / str(number)
                folder.mkdir()
                folders.append(folder)
                run(within(folder, "/bin/true"))
            seen = running.by_cgroup()
            for folder in folders:
                folder.rmdir()
        assert sum(seen["other"].values()) > 100
        assert len(seen) == 4


# mov eax, 20; int 0x80; ret: call 20 is getpid for 32-bit tasks and writev for 64-bit ones.
AS_A_32_BIT_TASK = """
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("b814000000cd80c3"))
call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
for _ in range(1000): call()
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="machine code of x86_64")
@pytest.mark.parametrize("twins", [("tp_btf",), ("raw_tp",)], ids=["tp_btf", "raw_tp"])
async def test_calls_of_32_bit_tasks_are_other(twins: tuple[str, ...]) -> None:
    hierarchy = "v2" if hierarchy_root("v2") else "cpu"
    async with calls(hierarchy, twins=twins) as running:
        with cgroup(hierarchy, "compat") as folder:
            command = within(folder, sys.executable, "-c", AS_A_32_BIT_TASK)
            if subprocess.run(command, capture_output=True).returncode:
                pytest.skip("this kernel has no 32-bit calls")
            seen = running.by_cgroup()[f"/{folder.name}"]
    assert seen["other"] >= 1000
    assert seen["write"] < 1000
