"""`syscall_counts`: system calls by class, by CPU and by cgroup, from `syscall.bpf.c`."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from bpf import identity
from bpf.host import Host, OnlineCpus
from bpf.identity import Cgroups
from bpf.maps import Bank, Mapped
from bpf.room import Part, declare
from bpf.syscall_table import OPS
from pipeline.records import Group, Kind, Metric, Reading, Schema, Slot
from pipeline.source import Stopwatch

NAME: Final = "syscall_counts"

SYSCALL: Final = Group(
    NAME,
    "syscall_counts_counters",
    tuple(
        Metric("syscall", Kind.COUNTER, "syscalls", "System calls by class and CPU", (("op", op),))
        for op in OPS
    ),
)
CGROUP_SYSCALL: Final = Group(
    NAME,
    "syscall_counts_cgroup",
    tuple(
        Metric("cgroup_syscall", Kind.COUNTER, "syscalls", "System calls by class and cgroup", (("op", op),))
        for op in OPS
    ),
)
SAMPLER: Final = declare(NAME, "tracepoint raw_syscalls/sys_enter", (SYSCALL, CGROUP_SYSCALL))


def per_cpu(group: Group, cpus: Sequence[int]) -> Schema:
    return Schema(group, tuple(Slot((("id", str(cpu)),), cpu) for cpu in cpus))


class Counts:
    """The source of `syscall_counts`.

    Args:
        bank: a row a CPU.
        by_cgroup: a row a cgroup slot.
        online: rows of `bank` to publish.
    """

    def __init__(self, bank: Bank, by_cgroup: Bank, cgroups: Cgroups, online: OnlineCpus) -> None:
        self._bank, self._by_cgroup, self._cgroups = bank, by_cgroup, cgroups
        self._online = online
        self._take_cpus()
        self._generation = -1
        self._cgroup_schema = Schema(CGROUP_SYSCALL, ())
        self._cgroup_present = np.ones((0, len(OPS)), np.bool_)
        cgroups.join(self, by_cgroup)

    def _take_cpus(self) -> None:
        cpus = self._online.cpus
        self._cpus = np.array(cpus, np.intp)
        self._schema = per_cpu(SYSCALL, cpus)
        self._present = np.ones((len(cpus), len(OPS)), np.bool_)

    def sample(self) -> Sequence[Reading]:
        if self._online.changed():
            self._take_cpus()
        stopwatch = Stopwatch()
        values = self._bank.take(self._cpus)
        counts = Reading(self._schema, stopwatch.window(), values, self._present)
        stopwatch = Stopwatch()
        if self._generation != (generation := self._cgroups.refresh(self)):
            self._generation = generation
            self._cgroup_schema = Schema(CGROUP_SYSCALL, self._cgroups.slots)
            self._cgroup_present = np.ones((len(self._cgroups.slots), len(OPS)), np.bool_)
        values = self._by_cgroup.take(self._cgroups.rows)
        return counts, Reading(self._cgroup_schema, stopwatch.window(), values, self._cgroup_present)

    def close(self) -> None:
        self._cgroups.leave(self)
        self._online.close()


def open_counts(mapped: Mapped, host: Host) -> Counts:
    return Counts(
        Bank(mapped.cells("syscall_counts"), len(OPS)),
        Bank(mapped.cells("cgroup_counts"), len(OPS)),
        mapped.share(Cgroups, identity.open_cgroups),
        OnlineCpus(host.online, host.cpus),
    )


PART: Final = Part(SAMPLER, ("sys_enter", "cgroup_rmdir"), open_counts)
