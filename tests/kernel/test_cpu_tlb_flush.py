"""`cpu_tlb_flush` on the real kernel, beside perf's count of the same tracepoint."""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from bpf import cpu_tlb_flush
from bpf.cpu_tlb_flush import REASONS
from bpf.host import Host
from pipeline.source import Roots
from tests.kernel.sched import HIERARCHY, Running, running
from tests.kernel.world import PATIENCE, cgroup, python, within

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="reasons are told on x86_64"),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a shootdown takes two CPUs"),
]
ROUNDS = round(4999 / PATIENCE)
# On one CPU a page is taken away and then protected, while another runs in the same address space. Each of
# the two must flush at least here.
SHOOT_DOWN = """
import ctypes, mmap, os, sys, threading
libc = ctypes.CDLL(None)
here, there = sorted(os.sched_getaffinity(0))[:2]
text = ctypes.create_string_buffer(b"x" * (1 << 16))
ready, over = threading.Event(), threading.Event()
def spin():
    os.sched_setaffinity(0, {there})
    ready.set()
    while not over.is_set(): libc.strlen(text)  # without the interpreter's lock
thread = threading.Thread(target=spin)
thread.start()
ready.wait()
os.sched_setaffinity(0, {here})
page = mmap.mmap(-1, mmap.PAGESIZE)
address = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(page)))
for _ in range(int(sys.argv[1])):
    page[0] = 1
    libc.madvise(address, mmap.PAGESIZE, mmap.MADV_DONTNEED)
    page[0] = 1
    libc.mprotect(address, mmap.PAGESIZE, mmap.PROT_READ)
    libc.mprotect(address, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE)
over.set()
thread.join()
"""


@asynccontextmanager
async def flushes() -> AsyncIterator[Running]:
    host = Host.read(Roots(), HIERARCHY)
    name = cpu_tlb_flush.NAME
    async with running(cpu_tlb_flush.build(host, (name,)), (cpu_tlb_flush.PART,), host, (name,)) as found:
        yield found


def by_reason(running: Running) -> list[int]:
    totals: list[int] = running.read("cpu_tlb_flush_events").values.sum(axis=0).tolist()
    return totals


async def beside_perf() -> tuple[list[int], list[int], list[int]]:
    """Flushes by reason in the meantime: ours, perf's, and ours of the workload's cgroup."""
    events = [
        word
        for reason in range(len(REASONS) - 1)
        for word in ("-e", "tlb:tlb_flush", "--filter", f"reason == {reason}")
    ]
    async with flushes() as running:
        with cgroup(HIERARCHY, "tlb") as folder:
            work = within(folder, *python(SHOOT_DOWN, ROUNDS))
            before = by_reason(running)
            done = subprocess.run(
                ["perf", "stat", "-x,", "-a", *events, "--", *work],
                capture_output=True,
                text=True,
                check=True,
            )
            seen = [now - then for now, then in zip(by_reason(running), before, strict=True)]
            own = running.cgroup("cpu_tlb_flush_cgroup", f"/{folder.name}")
    counted = [int(line.split(",")[0]) for line in done.stderr.splitlines() if "tlb:tlb_flush" in line]
    return seen, counted, own


@pytest.mark.core
def test_shootdowns_agree_with_perf() -> None:
    if not shutil.which("perf"):
        pytest.skip("no perf here")
    seen, counted, own = trio.run(beside_perf)
    assert len(counted) == len(REASONS) - 1
    for ours, perfs in zip(seen, counted, strict=False):
        assert perfs <= ours <= perfs * 1.05 + 400 * PATIENCE  # what perf does before and after it counts
    local = own[REASONS.index("local_mm_shootdown")] + own[REASONS.index("local_shootdown")]
    assert local >= 2 * ROUNDS
    assert own[cpu_tlb_flush.UNKNOWN] == 0
    assert all(part <= whole for part, whole in zip(own, seen, strict=True))
