"""Waits, runs, sleeps and switches of known workloads, against what the kernel says of the same tasks."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import trio

from bpf import sched
from pipeline.histogram import bounds
from pipeline.records import Reading
from tests.kernel.sched import HIERARCHY, Running, scheduler
from tests.kernel.world import PATIENCE, cgroup, python, run, until, within

pytestmark = pytest.mark.kernel

RUNQUEUE = (sched.RUNQUEUE,)
PING_PONG = """
import os, sys
rounds = int(sys.argv[1])
there, back = os.pipe(), os.pipe()
if os.fork() == 0:
    for _ in range(rounds):
        os.read(there[0], 1); os.write(back[1], b"x")
    os._exit(0)
for _ in range(rounds):
    os.write(there[1], b"x"); os.read(back[0], 1)
os.wait()
"""
SPIN = "import sys, time\nend = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end: pass\n"
BURST = """
import sys, time
for _ in range(int(sys.argv[1])):
    time.sleep(0.01)
    end = time.thread_time() + 0.005
    while time.thread_time() < end: pass
print(open("/proc/self/schedstat").read(), open("/proc/self/status").read())
"""


def longest(now: Reading, before: Reading) -> int:
    """Upper bound of the highest bucket that grew, ns."""
    return bounds(int(np.flatnonzero(now.values[0] - before.values[0])[-1]))[1]


@pytest.mark.core
@pytest.mark.parametrize("kind", ["tp_btf", "raw_tp"])
async def test_a_ping_pong_switches_as_often_as_it_must(kind: str) -> None:
    rounds = 1009
    async with scheduler(RUNQUEUE, HIERARCHY, kind) as running:
        with cgroup(HIERARCHY, "pingpong") as folder:
            run(within(folder, "taskset", "-c", "0", *python(PING_PONG, rounds)))
            involuntary, voluntary = running.cgroup(
                "scheduler_runqueue_cgroup_context_switch", f"/{folder.name}"
            )
            (wait,) = running.cgroup("scheduler_runqueue_cgroup_wait", f"/{folder.name}")
            (off,) = running.cgroup("scheduler_runqueue_cgroup_offcpu", f"/{folder.name}")
    # Both on one CPU: each read finds an empty pipe, but where one was preempted after its write.
    assert 2 * rounds - involuntary <= voluntary <= 2 * rounds + 100
    assert wait > 0
    assert off > 0


def test_switches_agree_with_perf() -> None:
    if not shutil.which("perf"):
        pytest.skip("no perf here")
    seen, counted = trio.run(beside_perf)
    assert seen == pytest.approx(counted, rel=0.01, abs=100)  # perf itself is in the cgroup too


async def beside_perf() -> tuple[int, int]:
    async with scheduler(RUNQUEUE) as running:
        with cgroup(HIERARCHY, "perf") as folder:
            command = ["perf", "stat", "-x,", "-e", "context-switches", "--", *python(PING_PONG, 2003)]
            done = subprocess.run(within(folder, *command), capture_output=True, text=True, check=True)
            switches = running.cgroup("scheduler_runqueue_cgroup_context_switch", f"/{folder.name}")
    line = next(row for row in done.stderr.splitlines() if "context-switches" in row)
    return sum(switches), int(line.split(",")[0])


@pytest.mark.core
async def test_a_task_behind_a_busy_one_waits_and_it_shows() -> None:
    async with scheduler(RUNQUEUE) as running:
        before = {name: running.read(f"scheduler_runqueue_{name}") for name in ("runqlat", "running")}
        cpu = ("taskset", "-c", str(max(os.sched_getaffinity(0))))
        with (
            cgroup(HIERARCHY, "behind") as folder,
            subprocess.Popen([*cpu, *python(SPIN, 600)]) as hog,
        ):
            try:
                said = run(within(folder, *cpu, *python(BURST, 50)))
            finally:
                hog.kill()
            (wait,) = running.cgroup("scheduler_runqueue_cgroup_wait", f"/{folder.name}")
            switches = running.cgroup("scheduler_runqueue_cgroup_context_switch", f"/{folder.name}")
            lat, ran = (running.read(f"scheduler_runqueue_{name}") for name in before)
    kernel = int(said.split()[1])  # schedstat: time waiting on a run queue, ns
    assert kernel > 1e6
    assert wait == pytest.approx(kernel, rel=0.1, abs=5e6 * PATIENCE)
    assert longest(lat, before["runqlat"]) > 1e6
    assert longest(ran, before["running"]) > 1e6
    status = dict(line.split(":") for line in said.splitlines() if "ctxt_switches" in line)
    # The shell before it and the end of the process after its last look switch a few times more.
    assert switches[0] == pytest.approx(int(status["nonvoluntary_ctxt_switches"]), abs=30)
    assert switches[1] == pytest.approx(int(status["voluntary_ctxt_switches"]), abs=30)


async def test_sleep_is_off_cpu_time() -> None:
    async with scheduler(RUNQUEUE) as running:
        before = running.read("scheduler_runqueue_offcpu")
        with cgroup(HIERARCHY, "sleep") as folder:
            run(within(folder, "sleep", "0.7"))
            (off,) = running.cgroup("scheduler_runqueue_cgroup_offcpu", f"/{folder.name}")
            now = running.read("scheduler_runqueue_offcpu")
    assert 0.69e9 < off < (0.7 + 0.2 * PATIENCE) * 1e9
    assert longest(now, before) > 0.7e9


async def test_the_idle_task_is_in_nothing() -> None:
    """An idle CPU switches between its idle task and others: only the others' side counts."""
    async with scheduler(RUNQUEUE) as running:

        def switches() -> int:
            return sum(row[0] + row[1] for row in running.rows("scheduler_runqueue_counters").values())

        def kernel() -> int:
            text = Path("/proc/stat").read_text()
            return int(next(line.split()[1] for line in text.splitlines() if line.startswith("ctxt")))

        ours, theirs = -switches(), -kernel()
        run(python(PING_PONG, 997))
        until(lambda: switches() > 0)
        ours, theirs = ours + switches(), theirs + kernel()
    assert 997 < ours <= theirs + 10


def total(running: Running, column: int) -> int:
    return sum(row[column] for row in running.rows("scheduler_runqueue_counters").values())
