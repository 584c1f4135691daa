"""What all BPF samplers of one daemon share: the host's figures, the compile children, and loaded objects."""

import logging
import os
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

import msgspec
import trio

from bpf.handoff import Loaded, LoadError, interpreters, load
from bpf.host import Host
from bpf.maps import Mapped
from bpf.objects import Object
from bpf.runstats import RunStats, run_group
from config.model import Config
from pipeline.health import Unsupported
from pipeline.programs import Program, rollup
from pipeline.records import Group, Reading
from pipeline.source import Prepared, Roots, Sampler, Source

log = logging.getLogger(__name__)


class Part(msgspec.Struct, frozen=True):
    """One sampler of a family.

    Attributes:
        sampler: as declared, not yet bound to a room.
        programs: names of the programs it needs; others of the object are not its business.
        open: makes its source from the mapped object.
    """

    sampler: Sampler
    programs: tuple[str, ...]
    open: Callable[[Mapped, Host], Source]


class Family(msgspec.Struct, frozen=True):
    """Samplers that share one object, because they share a hook.

    Attributes:
        build: the object for a host with just the parts of the samplers named.
    """

    name: str
    build: Callable[[Host, Collection[str]], Object]
    parts: tuple[Part, ...]


def _unbound(_: Roots) -> NoReturn:
    raise Unsupported("a BPF sampler is started through a room")


def declare(name: str, reads: str, groups: tuple[Group, ...]) -> Sampler:
    """A BPF sampler for the catalogue; `Room.bind` makes it one that can be started."""
    return Sampler(name, reads, (*groups, run_group(name)), _unbound)


class Tenancy:
    """One loaded object and how many sources use it; the last to leave unloads it."""

    def __init__(self, wanted: Object, loaded: Loaded, host: Host, parts: frozenset[str]) -> None:
        self.loaded = loaded
        self.mapped = Mapped(wanted.maps, loaded.maps)
        self.host = host
        self.parts = parts
        self.tenants = 0

    def leave(self) -> None:
        self.tenants -= 1
        if self.tenants == 0:
            self.mapped.close()
            self.loaded.close()


Loader = Callable[[Object, Sequence[str], trio.CapacityLimiter], Awaitable[Loaded]]


class Room:
    """Loads objects for samplers and keeps them while they are used.

    Args:
        families: the samplers it knows.
        config: its `bpf` and `cgroups` tables are used.
        enabled: names of all samplers that are to run, so that an object is compiled once with all its parts.
            On a reload change it first, and start anew whatever is `outdated` then.
        load: brings an object into the kernel; a fake in tests.
    """

    def __init__(
        self, families: Sequence[Family], config: Config, enabled: Collection[str], load: Loader = load
    ) -> None:
        self.enabled = enabled
        self._places = {part.sampler.name: (family, part) for family in families for part in family.parts}
        self._bring = load
        self._config = config
        self._pythons = interpreters(config.bpf.python)
        self._limiter = trio.CapacityLimiter(os.cpu_count() or 1)
        self._tenancies: dict[str, Tenancy] = {}
        self._locks: dict[str, trio.Lock] = {}

    def bind(self, sampler: Sampler) -> Sampler:
        """A sampler of one of the families, able to start in this room; any other as it is."""
        if sampler.name not in self._places:
            return sampler
        return msgspec.structs.replace(sampler, prepare=partial(self._prepare, *self._places[sampler.name]))

    def outdated(self, name: str) -> bool:
        """Whether a sampler's object has other parts than those enabled now, so that it should start anew."""
        if name not in self._places:
            return False
        family, _ = self._places[name]
        tenancy = self._tenancies.get(family.name)
        return tenancy is not None and tenancy.tenants > 0 and tenancy.parts != self._together(family, name)

    def _together(self, family: Family, name: str) -> frozenset[str]:
        """The sampler and all enabled ones of its family."""
        names = {part.sampler.name for part in family.parts}
        return frozenset({name, *names.intersection(self.enabled)})

    async def _prepare(self, family: Family, part: Part, roots: Roots) -> Prepared:
        """Load the family's object, or join those who use it already. Raises as `handoff.load` does."""
        name = part.sampler.name
        async with self._locks.setdefault(family.name, trio.Lock()):
            tenancy = self._tenancies.get(family.name)
            if tenancy is None or not tenancy.tenants or tenancy.parts != self._together(family, name):
                tenancy = await self._load(family, name, roots)
                self._tenancies[family.name] = tenancy
            tenancy.tenants += 1
        try:
            programs = tuple(found for found in tenancy.loaded.programs if found.name in part.programs)
            degraded = judge(programs)
            running = [tenancy.loaded.running[found.name] for found in programs if found.attached]
            source = Tenant(tenancy, part.open(tenancy.mapped, tenancy.host), running, part.sampler, roots)
        except BaseException:
            tenancy.leave()
            raise
        return Prepared(source, programs, degraded)

    async def _load(self, family: Family, name: str, roots: Roots) -> Tenancy:
        """An object with this sampler's part and those of all enabled; if that fails, with its own alone."""
        host = Host.read(roots, self._config.cgroups.hierarchy)
        host = msgspec.structs.replace(host, max_tasks=self._config.tasks.max_tasks)
        together = self._together(family, name)
        try:
            return await self._load_parts(family, together, host)
        except LoadError as error:
            if len(together) == 1:
                raise
            log.warning("%s: %s; %s is tried alone", family.name, error, name)
        return await self._load_parts(family, frozenset({name}), host)

    async def _load_parts(self, family: Family, parts: frozenset[str], host: Host) -> Tenancy:
        wanted = msgspec.structs.replace(family.build(host, parts), seconds=self._config.bpf.compile_seconds)
        begin = trio.current_time()
        loaded = await self._bring(wanted, self._pythons, self._limiter)
        ways = ", ".join(f"{found.name} {found.kind or 'not attached'}" for found in loaded.programs)
        log.info("%s: %s, after %.2f s", wanted.name, ways, trio.current_time() - begin)
        return Tenancy(wanted, loaded, host, parts)


def judge(programs: tuple[Program, ...]) -> str:
    """What is missing of a sampler's programs, one line, empty when nothing is.

    Raises:
        Unsupported: nothing is attached, as this kernel has none of the events.
        LoadError: nothing is attached.
    """
    missing = "; ".join(f"{found.name}: {found.error}" for found in programs if not found.attached)
    if not any(found.attached for found in programs):
        raise (Unsupported if rollup(programs) == "unsupported" else LoadError)(missing, programs)
    return "" if rollup(programs) == "healthy" else missing


class Tenant:
    """A sampler's source, with its share in a loaded object."""

    def __init__(
        self, tenancy: Tenancy, source: Source, running: Sequence[int], sampler: Sampler, roots: Roots
    ) -> None:
        self._tenancy = tenancy
        self._source = source
        group = next(group for group in sampler.groups if group.name == "main")
        self._stats = RunStats(group, running, Path(roots.proc))

    def sample(self) -> Sequence[Reading]:
        return (*self._source.sample(), *self._stats.readings())

    def close(self) -> None:
        self._stats.close()
        self._source.close()
        del self._source  # its views keep the maps in the kernel
        self._tenancy.leave()
