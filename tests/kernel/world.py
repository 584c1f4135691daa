"""The real kernel, made handy: objects loaded for a test, cgroups that go away again, ids of programs."""

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import msgspec
import trio

from bpf import syscall, syscall_counts, syscall_latency
from bpf.handoff import Loaded, interpreters, load
from bpf.host import Host
from bpf.libbpf import libbpf
from bpf.maps import Mapped
from bpf.objects import Object
from bpf.syscall_table import OPS
from pipeline.records import Reading
from pipeline.source import Roots

# How much slower than a real machine an emulated one is.
PATIENCE = float(os.environ.get("REZOLUSD_PATIENCE", "1"))


async def bring(wanted: Object) -> Loaded:
    wanted = msgspec.structs.replace(wanted, seconds=int(wanted.seconds * PATIENCE))
    return await load(wanted, interpreters(""), trio.CapacityLimiter(1))


@asynccontextmanager
async def loaded(wanted: Object) -> AsyncIterator[Loaded]:
    found = await bring(wanted)
    try:
        yield found
    finally:
        found.close()


class Calls:
    """Both syscall samplers on one real object."""

    def __init__(self, mapped: Mapped, host: Host) -> None:
        self.counts = syscall_counts.open_counts(mapped, host)
        self.latency = syscall_latency.open_latency(mapped, host)
        self.cgroups = self.counts._cgroups

    def by_op(self) -> dict[str, int]:
        """Calls of the whole host so far, by class."""
        values = self.counts.sample()[0].values.sum(axis=0)
        return dict(zip(OPS, values.tolist(), strict=True))

    def by_cgroup(self) -> dict[str, dict[str, int]]:
        """Calls by class of each cgroup that has a series now, by name."""
        reading = self.counts.sample()[1]
        return {
            dict(slot.labels)["name"]: dict(zip(OPS, row, strict=True))
            for slot, row in zip(reading.schema.slots, reading.values.tolist(), strict=True)
        }

    def histogram(self, op: str) -> list[int]:
        (reading,) = self.latency.sample()
        return histogram(reading, op)


def histogram(reading: Reading, op: str) -> list[int]:
    column = OPS.index(op)
    first, end = reading.schema.group.offsets[column : column + 2]
    buckets: list[int] = reading.values[0, first:end].tolist()
    return buckets


@asynccontextmanager
async def calls(
    hierarchy: str,
    slots: int = 4096,
    parts: Collection[str] = (syscall.COUNTS, syscall.LATENCY),
    twins: Sequence[str] = ("tp_btf", "raw_tp"),
) -> AsyncIterator[Calls]:
    """The syscall samplers at work; `twins` are the kinds of hook they may use."""
    host = msgspec.structs.replace(Host.read(Roots(), hierarchy), slots=slots)
    wanted = syscall.build(host, parts)
    hooks = [[variant for variant in hook if variant[0] in twins] for hook in wanted.hooks]
    async with loaded(msgspec.structs.replace(wanted, hooks=hooks)) as found:
        assert all(program.attached for program in found.programs), found.programs
        assert {program.kind for program in found.programs} == {twins[0]}
        mapped = Mapped(wanted.maps, found.maps)
        running = Calls(mapped, host)
        yield running
        running.counts.close()
        mapped.close()


def hierarchy_root(hierarchy: str) -> Path | None:
    """Where a hierarchy is mounted: `v2`, or the one of a v1 controller."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, where, kind, options, *_ = line.split()
        if (
            (kind == "cgroup2")
            if hierarchy == "v2"
            else (kind == "cgroup" and hierarchy in options.split(","))
        ):
            return Path(where)
    return None


@contextmanager
def cgroup(hierarchy: str, name: str) -> Iterator[Path]:
    root = hierarchy_root(hierarchy)
    assert root is not None
    folder = root / f"rezolusd-test-{os.getpid()}-{name}"
    folder.mkdir()
    try:
        yield folder
    finally:
        until(lambda: not (folder / "cgroup.procs").read_text().strip())
        folder.rmdir()


def within(folder: Path, *command: str) -> list[str]:
    """The command line that runs a command in a cgroup."""
    return ["/bin/sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(folder), *command]


def python(script: str, *arguments: object) -> list[str]:
    """The command line of a script for this interpreter."""
    return [sys.executable, "-c", script, *map(str, arguments)]


def run(command: Sequence[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds * PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def in_kernel() -> tuple[set[int], set[int]]:
    """Ids of all BPF programs and of all maps."""
    lib = libbpf()
    return _ids(lib.bpf_prog_get_next_id), _ids(lib.bpf_map_get_next_id)


def _ids(following: Callable[..., int]) -> set[int]:
    found, number = set(), ctypes.c_uint32(0)
    while following(number, ctypes.byref(number)) == 0:
        found.add(number.value)
    return found


def held_by(pid: int, key: str) -> set[int]:
    """Ids of what a process's descriptors keep in the kernel."""
    found = set()
    for file in Path(f"/proc/{pid}/fdinfo").iterdir():
        with suppress(FileNotFoundError):  # closed this instant
            lines = file.read_text().splitlines()
            found |= {int(line.split()[1]) for line in lines if line.startswith(f"{key}:")}
    return found
