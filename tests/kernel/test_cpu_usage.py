"""CPU time against what the kernel itself says: cpu.stat, cpuacct, /proc/stat, getrusage."""

import os
import subprocess
import time
from pathlib import Path

import pytest
import trio

from bpf import sched
from tests.kernel.sched import HIERARCHY, Running, scheduler
from tests.kernel.world import PATIENCE, cgroup, hierarchy_root, python, run, until, within

pytestmark = pytest.mark.kernel

USAGE = (sched.USAGE,)
CHURN = """
import os, sys, threading
for _ in range(int(sys.argv[1])):
    threads = [threading.Thread(target=lambda: sum(range(2000))) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""
SPIN = """
import os, resource, sys, time
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    for _ in range(1000): pass
used = resource.getrusage(resource.RUSAGE_SELF)
print(round((used.ru_utime + used.ru_stime) * 1e9))
"""
CHILDREN = """
import os, sys
for _ in range(int(sys.argv[1])):
    pid = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(pid, 0)
"""


def cpu_stat(folder: Path) -> dict[str, int]:
    """`cpu.stat` of a cgroup2, or the usage that cpuacct has of a cgroup v1, ns."""
    if (folder / "cpuacct.usage").exists():
        return {"usage": int((folder / "cpuacct.usage").read_text())}
    rows = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
    return {name.removesuffix("_usec"): int(rows[name]) * 1000 for name in rows if name.endswith("_usec")}


def used(running: Running, folder: Path) -> list[int]:
    return running.cgroup("cpu_usage_cgroup_usage", f"/{folder.name}")


@pytest.mark.core
@pytest.mark.parametrize("kind", ["tp_btf", "raw_tp"])
async def test_a_cgroup_of_churning_threads_has_what_the_kernel_charged_it(kind: str) -> None:
    async with scheduler(USAGE, HIERARCHY, kind) as running:
        with cgroup(HIERARCHY, "churn") as folder:
            run(within(folder, *python(CHURN, round(2000 / PATIENCE))))
            kernel = cpu_stat(folder)
            user, system = used(running, folder)
    assert user + system == pytest.approx(kernel["usage"], rel=0.005)
    assert user > 0
    assert system > 0
    if PATIENCE == 1 and "user" in kernel:  # its split is by ticks, of which there must be many
        assert user == pytest.approx(kernel["user"], rel=0.1, abs=2e7)
        assert system == pytest.approx(kernel["system"], rel=0.1, abs=2e7)


@pytest.mark.skipif(PATIENCE > 1, reason="seconds of an emulated machine say little")
@pytest.mark.parametrize("hierarchy", ["v2", "cpu"])
async def test_stress_in_either_hierarchy_agrees_with_the_kernel(hierarchy: str) -> None:
    if not hierarchy_root(hierarchy):
        pytest.skip(f"no hierarchy {hierarchy} is mounted")
    accounting = "cpuacct" if hierarchy == "cpu" else hierarchy
    if not hierarchy_root(accounting):
        pytest.skip(f"no hierarchy {accounting} is mounted")
    async with scheduler(USAGE, hierarchy) as running:
        with cgroup(hierarchy, "stress") as folder, cgroup(accounting, "kernel") as accounted:
            stress = ("stress-ng", "--pthread", "2", "--timeout", "3", "--quiet")
            run(
                within(accounted, *within(folder, *stress)) if hierarchy == "cpu" else within(folder, *stress)
            )
            until(lambda: not (folder / "cgroup.procs").read_text())
            kernel = cpu_stat(accounted if hierarchy == "cpu" else folder)
            user, system = used(running, folder)
    assert kernel["usage"] > 1e9
    assert user + system == pytest.approx(kernel["usage"], rel=0.005)


async def test_a_busy_loop_is_seen_on_its_cpu_and_by_its_task() -> None:
    cpu = max(os.sched_getaffinity(0))
    async with scheduler(USAGE) as running:

        def now() -> tuple[int, int]:
            user, system, _ = running.rows("cpu_usage_cpu")[str(cpu)]
            return user + system, busy(cpu)

        before = now()
        with cgroup(HIERARCHY, "spin") as folder:
            own = int(run(within(folder, "taskset", "-c", str(cpu), *python(SPIN, 3))))
            after = now()
            in_cgroup = sum(used(running, folder))
        here, kernel = (late - early for late, early in zip(after, before, strict=True))
    assert here == pytest.approx(kernel, rel=0.02)
    assert here >= own * 0.99
    assert in_cgroup == pytest.approx(own, rel=0.02)


def busy(cpu: int) -> int:
    """User, nice, system, irq and softirq time of a CPU as in /proc/stat, ns."""
    line = next(row for row in Path("/proc/stat").read_text().splitlines() if row.startswith(f"cpu{cpu} "))
    user, nice, system, _, _, irq, softirq, *_ = map(int, line.split()[1:])
    return (user + nice + system + irq + softirq) * 10_000_000


@pytest.mark.core
async def test_a_task_that_never_switches_is_up_to_date() -> None:
    tick = time.clock_getres(6)  # CLOCK_MONOTONIC_COARSE
    async with scheduler(USAGE) as running:
        with subprocess.Popen(python(SPIN, 60 * PATIENCE), stdout=subprocess.DEVNULL) as child:
            try:
                until(lambda: str(child.pid) in running.rows("cpu_usage_task"))
                for _ in range(3):
                    await trio.sleep(0.1)
                    early = schedstat(child.pid)
                    (seen,) = running.rows("cpu_usage_task")[str(child.pid)]
                    # The file brings the charge up to date, and then the tracepoint has it too.
                    assert abs(seen - early) < 5 * tick * 1e9 * PATIENCE
            finally:
                child.kill()


def schedstat(pid: int) -> int:
    """What the scheduler has charged a process with one thread so far, ns."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


@pytest.mark.parametrize(
    "policy",
    [("chrt", "-f", "1"), ("chrt", "-d", "-T", "20000000", "-P", "40000000", "-D", "40000000", "0")],
    ids=["fifo", "deadline"],
)
async def test_realtime_and_deadline_tasks_count(policy: tuple[str, ...]) -> None:
    async with scheduler(USAGE) as running:
        with cgroup("v2", "policy") if hierarchy_root("v2") else cgroup("cpu", "policy") as folder:
            if subprocess.run(within(folder, *policy, "true"), capture_output=True).returncode:
                pytest.skip(f"{' '.join(policy[:2])} is refused here")
            before = sum(used(running, folder))
            own = int(run(within(folder, *policy, *python(SPIN, 1))))
            seen = sum(used(running, folder)) - before
    assert own * 0.97 < seen < own * 1.1 + 5e7


async def test_short_lived_processes_leave_their_time_and_no_series() -> None:
    count = round(4999 / PATIENCE)
    async with scheduler(USAGE) as running:
        with cgroup(HIERARCHY, "short") as folder:
            seen = [0, 0]
            with subprocess.Popen(within(folder, *python(CHILDREN, count))) as child:
                while child.poll() is None:
                    now = used(running, folder)
                    assert all(late >= early for late, early in zip(now, seen, strict=True))
                    seen = now
                    await trio.sleep(0.05)
            kernel = cpu_stat(folder)["usage"]
            total = sum(used(running, folder))
            (exited,) = running.cgroup("cpu_usage_cgroup_exited", f"/{folder.name}")
            until(lambda: not [
                1 for name in running.rows("cpu_usage_task", "cgroup") if name == f"/{folder.name}"
            ])  # fmt: skip
    assert total == pytest.approx(kernel, rel=0.005)
    # Everybody has exited; what they did before they were moved here is in their time too.
    assert exited == pytest.approx(total, rel=0.05, abs=2e7)


@pytest.mark.core
async def test_a_restart_credits_nothing_from_before() -> None:
    with subprocess.Popen(python(SPIN, 120 * PATIENCE), stdout=subprocess.DEVNULL) as child:
        try:
            until(lambda: schedstat(child.pid) > 1e9)
            async with scheduler(USAGE) as running:
                begin = schedstat(child.pid)
                until(lambda: str(child.pid) in running.rows("cpu_usage_task"))
                (seen,) = running.rows("cpu_usage_task")[str(child.pid)]
                assert seen < schedstat(child.pid) - begin + 1e9
                cpus = running.rows("cpu_usage_cpu").values()
                assert sum(user + system for user, system, _ in cpus) < 3e9 * PATIENCE
        finally:
            child.kill()


async def test_tasks_beyond_the_limit_are_summed() -> None:
    async with scheduler(USAGE, max_tasks=3) as running:
        run(python(CHURN, 20))
        rows = running.rows("cpu_usage_task", "comm")
        until(lambda: len(running.read("cpu_usage_task").schema.slots) == 4)
        assert running.rows("cpu_usage_tasks")[""][0] >= 1
        until(lambda: running.rows("cpu_usage_task", "comm")["other"][0] > 0)
    assert rows


async def test_without_series_by_task_the_rest_is_the_same() -> None:
    async with scheduler(USAGE, max_tasks=0) as running:
        with cgroup(HIERARCHY, "notask") as folder:
            run(within(folder, *python(CHURN, 50)))
            assert sum(used(running, folder)) == pytest.approx(cpu_stat(folder)["usage"], rel=0.01)
        with pytest.raises(LookupError):
            running.read("cpu_usage_task")


async def test_softirqs_agree_with_the_kernels_count() -> None:
    async with scheduler(USAGE) as running:

        def both() -> tuple[int, int]:
            ours = sum(row[3] for row in running.rows("cpu_usage_softirq").values())
            line = next(row for row in Path("/proc/softirqs").read_text().splitlines() if "NET_RX" in row)
            return ours, sum(map(int, line.split()[1:]))

        before = both()
        subprocess.run(python(PACKETS, 503), check=True)
        ours, kernel = (late - early for late, early in zip(both(), before, strict=True))
        times = sum(row[3] for row in running.rows("cpu_usage_softirq_time").values())
    assert kernel > 0
    assert ours == pytest.approx(kernel, abs=2)
    assert times > 0


PACKETS = """
import socket, sys
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.bind(("127.0.0.1", 0))
for _ in range(int(sys.argv[1])):
    one.sendto(b"x", one.getsockname())
    one.recv(1)
"""
