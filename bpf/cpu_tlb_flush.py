"""`cpu_tlb_flush`: TLB flushes by cause, by CPU and cgroup, from `cpu_tlb_flush.bpf.c`."""

import platform
from collections.abc import Collection, Sequence
from typing import Final

from bpf import identity
from bpf.host import Host, OnlineCpus
from bpf.identity import Cgroups
from bpf.maps import LINE, Bank, Mapped
from bpf.objects import HERE, Hook, Object, cells, twins
from bpf.room import Family, Part, declare
from bpf.series import ByCgroup, ByCpu
from pipeline.records import Group, Kind, Metric, Reading
from pipeline.source import Source

NAME: Final = "cpu_tlb_flush"
# In the order of the kernel's enum tlb_flush_reason, and one for architectures that do not tell.
REASONS: Final = (
    "task_switch",
    "remote_shootdown",
    "local_shootdown",
    "local_mm_shootdown",
    "remote_send_ipi",
    "unknown",
)
UNKNOWN: Final = REASONS.index("unknown")


def _by_reason(group: str, metric: str, text: str) -> Group:
    return Group(
        NAME,
        group,
        tuple(Metric(metric, Kind.COUNTER, "", text, (("reason", reason),)) for reason in REASONS),
    )


FLUSHES: Final = _by_reason("cpu_tlb_flush_events", "cpu_tlb_flush", "TLB flushes by cause and CPU")
CGROUP_FLUSHES: Final = _by_reason(
    "cpu_tlb_flush_cgroup", "cgroup_cpu_tlb_flush", "TLB flushes by cause and cgroup of the task that ran"
)
SAMPLER: Final = declare(
    NAME,
    "tracepoint tlb/tlb_flush (elsewhere than on x86_64 function tlb_finish_mmu)",
    (FLUSHES, CGROUP_FLUSHES),
)


def present(machine: str) -> list[bool]:
    """Which of `REASONS` an architecture tells."""
    return [(reason != "unknown") == (machine == "x86_64") for reason in REASONS]


def hook(machine: str) -> Hook:
    if machine == "x86_64":
        return twins("tlb_flush")
    return (
        ("fentry", "tlb_finish_mmu", "tlb_finish_mmu"),
        ("kprobe", "tlb_finish_mmu", "tlb_finish_mmu"),
    )


def build(host: Host, parts: Collection[str]) -> Object:
    return Object(
        str(HERE / "cpu_tlb_flush.bpf.c"),
        (
            cells("tlb_flushes", host.cpus * LINE),
            cells("cgroup_flushes", host.slots * LINE),
            *identity.maps(host.cpus, host.slots),
        ),
        (hook(platform.machine()), twins("cgroup_rmdir")),
        structs=identity.STRUCTS,
        defines={"LINE": LINE, "REASONS": len(REASONS), "UNKNOWN": UNKNOWN}
        | identity.defines(host.hierarchy),
        fields=identity.FIELDS,
        enums=identity.ENUMS if host.hierarchy == "cpu" else {},
        btf=host.btf,
    )


class Flushes:
    """The source of `cpu_tlb_flush`.

    Args:
        flushes: a row a CPU.
        by_cgroup: a row a cgroup slot.
        told: which of `REASONS` this architecture tells.
    """

    def __init__(
        self, flushes: Bank, by_cgroup: Bank, cgroups: Cgroups, online: OnlineCpus, told: Sequence[bool]
    ) -> None:
        self._online, self._cgroups = online, cgroups
        self._cpus = ByCpu(FLUSHES, flushes.take, online, told)
        self._by_cgroup = ByCgroup(CGROUP_FLUSHES, by_cgroup.take, cgroups, told)
        cgroups.join(self, by_cgroup)

    def sample(self) -> Sequence[Reading]:
        self._online.changed()
        self._cgroups.refresh(self)
        return self._cpus.read(), self._by_cgroup.read()

    def close(self) -> None:
        self._cgroups.leave(self)
        self._online.close()


def open_flushes(mapped: Mapped, host: Host) -> Source:
    return Flushes(
        Bank(mapped.cells("tlb_flushes"), len(REASONS)),
        Bank(mapped.cells("cgroup_flushes"), len(REASONS)),
        mapped.share(Cgroups, identity.open_cgroups),
        OnlineCpus(host.online, host.cpus),
        present(platform.machine()),
    )


PART: Final = Part(SAMPLER, ("tlb_flush", "tlb_finish_mmu", "cgroup_rmdir"), open_flushes)
FAMILY: Final = Family("cpu_tlb_flush", build, (PART,))
