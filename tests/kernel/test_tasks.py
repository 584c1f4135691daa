"""Task slots on a real kernel: named once, ended once, nothing inherited, nothing lost to a full ring."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from bpf import identity, tasks
from bpf.host import Host
from bpf.maps import Mapped
from bpf.objects import Object, cells
from bpf.tasks import RING_BYTES, Tasks
from pipeline.records import Values
from pipeline.source import Roots
from tests.kernel.world import loaded, until

pytestmark = pytest.mark.kernel

SOURCE = Path(__file__).with_name("probes.bpf.c")


class ByTask:
    """System calls by task, counted by a probe of the tests."""

    def __init__(self, table: Tasks, calls: Values) -> None:
        self.table = table
        self.calls = calls

    def seen(self) -> dict[str, tuple[str, int]]:
        """Name and calls of each task that is shown now, by its unique label."""
        self.table.refresh()
        labels = [dict(slot.labels) for slot in self.table.slots]
        counts = self.calls[self.table.rows].tolist()
        return {each["__uid__"]: (each["comm"], count) for each, count in zip(labels, counts, strict=True)}


@contextmanager
def child_process(script: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A Python process that waits for its standard input to end; killed if the test does not let it."""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            yield child
        finally:
            child.kill()


@asynccontextmanager
async def by_task(ring_bytes: int = RING_BYTES, kind: str = "tp_btf") -> AsyncIterator[ByTask]:
    host = Host.read(Roots(), "auto")
    wanted = Object(
        str(SOURCE),
        (*tasks.maps(host.pids, ring_bytes), cells("task_calls", host.pids)),
        [((kind, event, event),) for event in ("sys_enter", "sched_process_exit")],
        structs=identity.STRUCTS,
        defines={"PART_TASKS": 1} | identity.defines(host.hierarchy),
        fields=identity.FIELDS,
        enums=identity.ENUMS if host.hierarchy == "cpu" else {},
    )
    async with loaded(wanted) as found:
        assert all(program.attached for program in found.programs), found.programs
        mapped = Mapped(wanted.maps, found.maps)
        table = tasks.open_tasks(mapped, ring_bytes)
        yield ByTask(table, mapped.cells("task_calls"))
        table.close()
        mapped.close()


@pytest.mark.parametrize("kind", ["tp_btf", "raw_tp"])
async def test_a_task_is_named_and_its_calls_are_its_own(kind: str) -> None:
    script = "import os\nfor _ in range(1009): os.getppid()\ninput()"
    async with by_task(kind=kind) as running:
        with child_process(script) as child:

            def counted() -> int:
                mine = [
                    count for uid, (_, count) in running.seen().items() if uid.startswith(f"{child.pid:x}-")
                ]
                return mine[0] if mine else 0

            until(lambda: counted() >= 1009)
            (slot,) = [slot for slot in running.table.slots if slot.index == child.pid]
            labels = dict(slot.labels)
            assert labels["tgid"] == labels["pid"] == str(child.pid)
            # Named at its first call, which after a fork may be before exec gave it another name.
            assert labels["comm"]
            child.communicate(b"\n")
        until(lambda: all(slot.index != child.pid for slot in (running.seen(), running.table.slots)[1]))


# A busy process, and then an idle one with the same id; prints the ids for which that came true.
REUSE_AN_ID = """
import os, time
for _ in range(8):
    first = os.fork()
    if not first:
        for _ in range(1009): os.getppid()
        os._exit(0)
    os.waitpid(first, 0)
    open("/proc/sys/kernel/ns_last_pid", "w").write(str(first - 1))
    second = os.fork()
    if not second: os._exit(0)
    os.waitpid(second, 0)
    if second == first: print(first)
"""


async def test_a_recycled_id_is_another_series_and_begins_at_zero() -> None:
    async with by_task() as running:
        reused = subprocess.check_output([sys.executable, "-c", REUSE_AN_ID], text=True).split()
        if not reused:
            pytest.skip("process ids were not reused")
        seen = running.seen()
    for number in reused:
        (calls,) = [count for uid, (_, count) in seen.items() if uid.startswith(f"{int(number):x}-")]
        assert 0 < calls < 1009


THREADS = 40
MANY_THREADS = f"""
import threading, os
def work():
    for _ in range(202): os.getppid()
    while not done.wait(0.02): os.getppid()
done = threading.Event()
threads = [threading.Thread(target=work) for _ in range({THREADS})]
for thread in threads: thread.start()
print("working", flush=True)
input()
done.set()
"""


async def test_a_full_ring_loses_no_counts_and_no_names() -> None:
    """A ring of eight records, and forty threads before anybody looks."""
    async with by_task(ring_bytes=4096) as running:
        with child_process(MANY_THREADS) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"working\n"
            # The first thread waits for its input: without a next event its name is not sent again.
            threads = {int(name) for name in os.listdir(f"/proc/{child.pid}/task")} - {child.pid}
            assert len(threads) == THREADS
            assert running.table.retried > 0

            def all_named() -> bool:
                running.table.refresh()
                return threads <= set(running.table.rows.tolist())

            until(all_named)
            assert all(int(running.calls[thread]) >= 202 for thread in threads)
            child.communicate(b"\n")


async def test_a_thousand_short_processes_leave_nothing_behind() -> None:
    async with by_task() as running:
        subprocess.run(
            ["/bin/sh", "-c", "i=0; while [ $i -lt 1000 ]; do /bin/true; i=$((i+1)); done"], check=True
        )
        most = len(running.seen())
        running.seen()
        left = [slot.index for slot in (running.seen(), running.table.slots)[1]]
        assert most > 100
        assert all(Path(f"/proc/{row}").exists() for row in left)
