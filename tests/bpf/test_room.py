"""Samplers that share an object, with a fake kernel behind the room."""

import os
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest
import trio

from bpf.handoff import Loaded, LoadError
from bpf.host import Host
from bpf.maps import Mapped
from bpf.objects import Object, twins
from bpf.room import Family, Part, Room, declare, judge
from config.model import Cgroups, Config
from pipeline.health import Unsupported
from pipeline.programs import Program
from pipeline.records import Reading
from pipeline.source import Roots, Sampler


class FakeSource:
    def sample(self) -> Sequence[Reading]:
        return ()

    def close(self) -> None: ...


def open_source(_: Mapped, __: Host) -> FakeSource:
    return FakeSource()


def build(host: Host, parts: Collection[str]) -> Object:
    return Object("x.bpf.c", (), [twins("in"), twins("out")], defines=dict.fromkeys(sorted(parts), 1))


FAMILY = Family(
    "calls",
    build,
    (
        Part(declare("counts", "in", ()), ("in",), open_source),
        Part(declare("latency", "in and out", ()), ("in", "out"), open_source),
    ),
)
COUNTS, LATENCY = (part.sampler for part in FAMILY.parts)
BOTH = ("counts", "latency")


class FakeKernel:
    """Loads anything but what is in `refuse`, a set of parts."""

    def __init__(self, refuse: Collection[str] = (), missing: Program | None = None) -> None:
        self.refuse = frozenset(refuse)
        self.missing = missing
        self.asked: list[tuple[str, ...]] = []
        self.open = 0

    async def load(self, wanted: Object, _: Sequence[str], limiter: trio.CapacityLimiter) -> Loaded:
        async with limiter:
            await trio.lowlevel.checkpoint()
        self.asked.append(tuple(wanted.defines))
        if self.refuse and self.refuse <= set(wanted.defines):
            raise LoadError("R1 invalid")
        names = [name for name in ("in", "out") if self.missing is None or name != self.missing.name]
        programs = [Program(name, True, "tp_btf") for name in names]
        self.open += 1
        running = {name: os.open("/dev/null", os.O_RDONLY) for name in names}
        return CountedLoaded(self, tuple([*programs, self.missing] if self.missing else programs), running)


class CountedLoaded(Loaded):
    def __init__(self, kernel: FakeKernel, programs: tuple[Program, ...], running: dict[str, int]) -> None:
        super().__init__({}, programs, running, ())
        self._kernel = kernel

    def close(self) -> None:
        super().close()
        self._kernel.open -= 1


def room(kernel: FakeKernel, *enabled: str) -> Room:
    return Room((FAMILY,), Config(cgroups=Cgroups("v2")), enabled, kernel.load)


async def prepare(room: Room, sampler: Sampler) -> tuple[str, tuple[Program, ...], FakeSource]:
    bound = room.bind(sampler)
    assert bound.prepare is not None
    prepared = await bound.prepare(Roots())
    return prepared.degraded, prepared.programs, prepared.source  # type: ignore[return-value]


async def test_two_samplers_share_one_object_until_the_last_leaves() -> None:
    kernel = FakeKernel()
    shared = room(kernel, *BOTH)
    _, programs, counts = await prepare(shared, COUNTS)
    assert [program.name for program in programs] == ["in"], "the other program is not its business"
    _, programs, latency = await prepare(shared, LATENCY)
    assert [program.name for program in programs] == ["in", "out"]
    assert kernel.asked == [BOTH]
    counts.close()
    assert kernel.open == 1
    latency.close()
    assert kernel.open == 0
    _, _, again = await prepare(shared, COUNTS)
    assert kernel.asked == [BOTH, BOTH]
    again.close()


async def test_both_at_once_compile_once() -> None:
    kernel = FakeKernel()
    shared = room(kernel, *BOTH)
    sources = []

    async def one(sampler: Sampler) -> None:
        sources.append((await prepare(shared, sampler))[2])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one, COUNTS)
        nursery.start_soon(one, LATENCY)
    assert kernel.asked == [BOTH]
    for source in sources:
        source.close()
    assert kernel.open == 0


async def test_only_enabled_parts_are_compiled_and_a_later_one_gets_its_own() -> None:
    kernel = FakeKernel()
    shared = room(kernel, "counts")
    _, _, counts = await prepare(shared, COUNTS)
    shared.enabled = BOTH
    _, _, latency = await prepare(shared, LATENCY)
    assert kernel.asked == [("counts",), BOTH]
    counts.close()
    latency.close()
    assert kernel.open == 0


async def test_a_reload_that_changes_the_parts_has_the_others_start_anew() -> None:
    kernel = FakeKernel()
    shared = room(kernel, *BOTH)
    _, _, counts = await prepare(shared, COUNTS)
    assert not shared.outdated("counts")
    shared.enabled = ("counts",)
    assert shared.outdated("counts")
    assert not shared.outdated("memory_vmstat")
    _, _, anew = await prepare(shared, COUNTS)
    assert not shared.outdated("counts")
    assert kernel.asked == [BOTH, ("counts",)]
    counts.close()
    anew.close()
    assert not shared.outdated("counts")
    assert kernel.open == 0


async def test_a_part_that_does_not_load_fails_alone() -> None:
    kernel = FakeKernel(refuse={"latency"})
    shared = room(kernel, *BOTH)
    _, _, counts = await prepare(shared, COUNTS)
    with pytest.raises(LoadError, match="R1 invalid"):
        await prepare(shared, LATENCY)
    assert kernel.asked == [BOTH, ("counts",), BOTH, ("latency",)]
    counts.close()
    assert kernel.open == 0


async def test_a_program_that_is_missing_degrades_whom_it_concerns() -> None:
    missing = Program("out", False, error="cannot attach: EBUSY", errno=16)
    kernel = FakeKernel(missing=missing)
    shared = room(kernel, *BOTH)
    degraded, _, counts = await prepare(shared, COUNTS)
    assert degraded == ""
    degraded, programs, latency = await prepare(shared, LATENCY)
    assert degraded == "out: cannot attach: EBUSY"
    assert missing in programs
    counts.close()
    latency.close()


async def test_nothing_attached_gives_the_object_back() -> None:
    kernel = FakeKernel(missing=Program("in", False, error="ENOENT", errno=2))
    with pytest.raises(Unsupported, match="in: ENOENT") as caught:
        await prepare(room(kernel, *BOTH), COUNTS)
    assert [program.name for program in caught.value.programs] == ["in"]
    assert kernel.open == 0


def test_judge() -> None:
    with pytest.raises(LoadError, match="a: EBUSY"):
        judge((Program("a", False, error="EBUSY", errno=16),))
    assert judge((Program("a", True), Program("b", False, errno=2, driver="ena"))) == ""


def test_other_samplers_are_left_as_they_are() -> None:
    other = Sampler("file", "/proc/x", (), lambda roots: FakeSource())
    assert room(FakeKernel()).bind(other) is other


def test_a_sampler_without_a_room_says_so() -> None:
    with pytest.raises(Unsupported, match="room"):
        COUNTS.open(Roots())


def test_the_host_is_read_from_its_files(tmp_path: Path) -> None:
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/mounts").write_text("cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n")
    roots = Roots(str(tmp_path / "proc"), str(tmp_path / "sys"))
    assert Host.read(roots, "auto") == Host(
        1024, tmp_path / "sys/devices/system/cpu/online", 4_194_304, "cpu", f"{tmp_path}/sys/kernel/btf"
    )
    (tmp_path / "proc/sys/kernel/pid_max").write_text("99999999\n")
    assert Host.read(roots, "v2").pids == 4_194_304, "no thread id is larger, whatever the file says"
    (tmp_path / "proc/sys/kernel/pid_max").write_text("32768\n")
    assert Host.read(roots, "v2").pids == 32768
