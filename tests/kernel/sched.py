"""The scheduler's samplers on one real object, read by name."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import msgspec

from bpf import sched
from bpf.host import Host
from bpf.maps import Mapped
from bpf.objects import Object
from bpf.room import Part
from pipeline.records import Reading
from pipeline.source import Roots, Source
from tests.kernel.world import hierarchy_root, loaded

HIERARCHY = "v2" if hierarchy_root("v2") else "cpu"


class Running:
    """The sources of all parts that were asked for."""

    def __init__(self, sources: dict[str, Source]) -> None:
        self.sources = sources

    def read(self, group: str) -> Reading:
        """A fresh reading of one group."""
        for source in self.sources.values():
            for reading in source.sample():
                if reading.schema.group.name == group:
                    return reading
        raise LookupError(group)

    def rows(self, group: str, label: str = "id") -> dict[str, list[int]]:
        """The values of each occupant, by one of its labels."""
        reading = self.read(group)
        labels = [dict(slot.labels).get(label, "") for slot in reading.schema.slots]
        return dict(zip(labels, reading.values.tolist(), strict=True))

    def cgroup(self, group: str, name: str) -> list[int]:
        """The values of the cgroup of this name, zeros when it has no series yet."""
        reading = self.read(group)
        zeros = [0] * len(reading.schema.group.metrics)
        return self.rows(group, "name").get(name, zeros)


@asynccontextmanager
async def scheduler(
    parts: Collection[str] = (sched.RUNQUEUE, sched.MIGRATIONS, sched.USAGE),
    hierarchy: str = HIERARCHY,
    kind: str = "tp_btf",
    max_tasks: int = 4096,
) -> AsyncIterator[Running]:
    host = msgspec.structs.replace(Host.read(Roots(), hierarchy), max_tasks=max_tasks)
    wanted = sched.build(host, parts)
    hooks = [[way for way in hook if way[0] == kind] for hook in wanted.hooks]
    async with running(
        msgspec.structs.replace(wanted, hooks=hooks), sched.FAMILY.parts, host, parts
    ) as found:
        yield found


@asynccontextmanager
async def running(
    wanted: Object, offered: Collection[Part], host: Host, parts: Collection[str]
) -> AsyncIterator[Running]:
    """The sources of some parts of a family on its loaded object."""
    async with loaded(wanted) as found:
        assert all(program.attached for program in found.programs), found.programs
        mapped = Mapped(wanted.maps, found.maps)
        sources = {
            part.sampler.name: part.open(mapped, host) for part in offered if part.sampler.name in parts
        }
        for source in sources.values():
            source.sample()
        yield Running(sources)
        for source in sources.values():
            source.close()
        sources.clear()
        mapped.close()
