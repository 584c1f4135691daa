"""Every sampler by name, in one literal, and what the configuration makes of each."""

from collections.abc import Iterator
from typing import Final

from bpf import cpu_bandwidth, cpu_tlb_flush, sched, syscall
from config.model import Config
from config.model import Sampler as Settings
from pipeline.readers import cpu_cores, memory_meminfo, memory_vmstat, rezolus_rusage
from pipeline.records import Group
from pipeline.selfmetrics import GROUPS
from pipeline.source import Sampler

# Samplers that share an object because they share a hook.
FAMILIES: Final = (cpu_bandwidth.FAMILY, cpu_tlb_flush.FAMILY, sched.FAMILY, syscall.FAMILY)

SAMPLERS: Final = {
    sampler.name: sampler
    for sampler in (
        cpu_cores.SAMPLER,
        memory_meminfo.SAMPLER,
        memory_vmstat.SAMPLER,
        rezolus_rusage.SAMPLER,
        *(part.sampler for family in FAMILIES for part in family.parts),
    )
}


def enabled(config: Config, sampler: Sampler) -> bool:
    """Its own table decides, then `[defaults]`; an opt-in sampler only listens to its own table."""
    own = config.samplers.get(sampler.name, Settings()).enabled
    if own is not None:
        return own
    return config.defaults.enabled and not sampler.opt_in


def interval_ns(config: Config, sampler: Sampler) -> int | None:
    """Its own table decides, then `[defaults]`, then the sampler itself; None means every tick."""
    for given in (config.samplers.get(sampler.name, Settings()).interval, config.defaults.interval):
        if given is not None:
            return given.ns
    return sampler.interval_ns


def groups() -> Iterator[Group]:
    """Every group that can be published, the daemon's own included."""
    for sampler in SAMPLERS.values():
        yield from sampler.groups
    yield from GROUPS
