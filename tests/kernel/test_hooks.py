"""Every way to hook an event: the one that is preferred, each fallback by force, and all of them compared.

What a kernel does not offer is skipped, which the matrix of kernels shows as unsupported there.
"""

import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import chain
from pathlib import Path

import msgspec
import numpy as np
import pytest
import trio
from numpy.typing import NDArray

from bpf.btf import Btf
from bpf.hooks import KINDS, candidates
from bpf.host import Host
from bpf.maps import Mapped
from bpf.objects import Hook, Object, cells
from bpf.room import Family
from pipeline.health import Unsupported
from pipeline.programs import Program, Verdict
from pipeline.source import Roots
from rezolusd import catalog
from tests.kernel.world import calls, cgroup, hierarchy_root, loaded, run, within

pytestmark = pytest.mark.kernel

SOURCE = Path(__file__).with_name("ways.bpf.c")
READS, BYTES = 500, 4096


def whole(family: Family) -> Object:
    host = Host.read(Roots(), "auto")
    return family.build(host, {part.sampler.name for part in family.parts})


def forced(wanted: Object, kind: str) -> Object:
    """The object with this kind of hook wherever it has one, and as it is elsewhere."""
    hooks = [tuple(way for way in hook if way[0] == kind) or hook for hook in wanted.hooks]
    return msgspec.structs.replace(wanted, hooks=hooks)


def refusals(programs: Sequence[Program]) -> str:
    return "; ".join(program.error for program in programs if not program.attached)


FORCED = [
    pytest.param(family, kind, id=f"{family.name}-{kind}")
    for family in catalog.FAMILIES
    for kind in KINDS
    if any(way[0] == kind for way in chain(*whole(family).hooks))
]


def programs(wanted: Object) -> Sequence[Program]:
    """The object's programs as loaded and attached; skips where the kernel does not have one of the hooks.

    For tests that are not async: a skip would lose its reason on the way out of trio.
    """

    async def load() -> Sequence[Program] | Unsupported:
        try:
            async with loaded(wanted) as found:
                return found.programs
        except Unsupported as reason:
            return reason

    found = trio.run(load)
    if isinstance(found, Unsupported):
        pytest.skip(str(found))
    if any(program.verdict is Verdict.UNSUPPORTED for program in found):
        pytest.skip(refusals(found))
    return found


@pytest.mark.core
@pytest.mark.parametrize("family", catalog.FAMILIES, ids=lambda family: family.name)
def test_the_preferred_way_is_taken_where_the_kernel_describes_it(family: Family) -> None:
    wanted = whole(family)
    btf = Btf(Path(wanted.btf))
    best = [candidates(hook, btf)[0][0] for hook in wanted.hooks]
    btf.close()
    found = programs(wanted)
    assert [program.kind for program in found] == best, refusals(found)


@pytest.mark.parametrize(("family", "kind"), FORCED)
def test_every_fallback_loads_and_attaches(family: Family, kind: str) -> None:
    wanted = forced(whole(family), kind)
    found = programs(wanted)
    assert not refusals(found)
    for program, hook in zip(found, wanted.hooks, strict=True):
        assert program.kind in {way[0] for way in hook}


async def test_the_syscall_samplers_count_the_same_either_way() -> None:
    hierarchy = "v2" if hierarchy_root("v2") else "cpu"
    script = "import os\nfor _ in range(300): os.getppid(); os.sched_yield()"
    async with (
        calls(hierarchy, twins=("tp_btf",)) as typed,
        calls(hierarchy, twins=("raw_tp",)) as raw,
    ):
        with cgroup(hierarchy, "either") as folder:
            run(within(folder, "/usr/bin/python3", "-c", script))
            one, other = (side.by_cgroup()[f"/{folder.name}"] for side in (typed, raw))
        assert one == other
        assert one["yield"] == 300
        assert sum(typed.histogram("yield")) >= 300


def ways(*hooks: Hook) -> Object:
    maps = [cells("wanted", 8, [os.getpid()]), cells("seen", 16)]
    return Object(str(SOURCE), maps, hooks, structs=("pt_regs", "trace_event_raw_sys_enter"))


# Of one function or tracepoint in one object there is one hook, so the ways to it are in several.
OBJECTS = (
    ways(
        (("tp_btf", "sys_enter", "typed"),),
        (("tracepoint", "raw_syscalls/sys_enter", "classic"),),
    ),
    ways((("raw_tp", "sys_enter", "raw"),), (("kprobe", "vfs_read", "probed"),)),
    ways((("fentry", "vfs_read", "at_entry"),)),
    ways((("fexit", "vfs_read", "at_exit"),)),
)
# By kind of hook: its object and its first cell.
TRACEPOINT = {"tp_btf": (0, 0), "tracepoint": (0, 4), "raw_tp": (1, 6)}
FUNCTION = {"fentry": (2, 2), "kprobe": (1, 8), "fexit": (3, 10)}


async def compare() -> tuple[dict[str, tuple[int, int]], dict[str, str]]:
    """Count and sum by kind of hook after the same calls, and why a kind is not to be had."""
    lacking: dict[str, str] = {}
    seen: list[NDArray[np.uint64]] = []
    async with AsyncExitStack() as stack:
        for wanted in OBJECTS:
            try:
                found = await stack.enter_async_context(loaded(wanted))
            except Unsupported as reason:  # a kernel without fentry refuses the program itself
                lacking |= {hook[0][0]: str(reason) for hook in wanted.hooks}
                seen.append(np.zeros(16, np.uint64))
                continue
            for hook, program in zip(wanted.hooks, found.programs, strict=True):
                if not program.attached:
                    lacking[hook[0][0]] = program.error
            mapped = Mapped(wanted.maps, found.maps)
            stack.callback(mapped.close)
            seen.append(mapped.cells("seen"))
        with open("/dev/zero", "rb", buffering=0) as zero:  # noqa: ASYNC230 - nobody else is waiting
            start = [side.copy() for side in seen]
            for _ in range(READS):
                zero.read(BYTES)
            grown = [side - first for side, first in zip(seen, start, strict=True)]
        seen.clear()
    return {
        kind: (int(grown[at][cell]), int(grown[at][cell + 1]))
        for kind, (at, cell) in (TRACEPOINT | FUNCTION).items()
        if kind not in lacking
    }, lacking


@pytest.mark.core
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="registers of x86_64")
def test_all_ways_see_the_same_calls_with_the_same_arguments() -> None:
    counted, lacking = trio.run(compare)
    assert counted == {kind: (READS, 0 if kind in TRACEPOINT else READS * BYTES) for kind in counted}
    assert counted.keys() >= {"tp_btf", "raw_tp"}
    if lacking:
        pytest.skip(f"compared without {', '.join(sorted(lacking))}: {'; '.join(lacking.values())}")
