"""`syscall_counts` and `syscall_latency`: system calls by class. The kernel's side is `syscall.bpf.c`."""

import platform
from collections.abc import Collection, Sequence
from typing import Final

import numpy as np

from bpf import identity
from bpf.host import Host
from bpf.identity import Cgroups
from bpf.maps import Bank, Histograms, Mapped, padded
from bpf.objects import HERE, Map, Object, cells, twins
from bpf.room import Family, Part, declare
from bpf.syscall_table import NAMES, NEVER_RETURN, OPS, numbers
from pipeline.health import Unsupported
from pipeline.records import HISTOGRAM_BUCKETS, Group, Kind, Metric, Reading, Schema, Slot
from pipeline.source import Stopwatch

COUNTS: Final = "syscall_counts"
LATENCY: Final = "syscall_latency"

TABLE_SIZE: Final = 1024
WIDTH: Final = padded(len(OPS))
OP_BITS: Final = 5
OP_MASK: Final = (1 << OP_BITS) - 1
NO_RETURN: Final = 1 << OP_BITS

SYSCALL: Final = Group(
    COUNTS,
    "syscall_counts_counters",
    tuple(
        Metric("syscall", Kind.COUNTER, "syscalls", "System calls by class and CPU", (("op", op),))
        for op in OPS
    ),
)
CGROUP_SYSCALL: Final = Group(
    COUNTS,
    "syscall_counts_cgroup",
    tuple(
        Metric("cgroup_syscall", Kind.COUNTER, "syscalls", "System calls by class and cgroup", (("op", op),))
        for op in OPS
    ),
)
SYSCALL_LATENCY: Final = Group(
    LATENCY,
    "syscall_latency_latencies",
    tuple(
        Metric(
            "syscall_latency",
            Kind.HISTOGRAM,
            "nanoseconds",
            "Duration of system calls by class",
            (("op", op),),
        )
        for op in OPS
    ),
)


def classes(machine: str) -> list[int]:
    """Class of each call number on an architecture, with `NO_RETURN` where the call does not come back."""
    known = numbers(machine)
    if not known:
        raise Unsupported(f"no table of system calls for {machine}")
    table = [0] * TABLE_SIZE
    for op, names in NAMES.items():
        for name in names.split():
            if name in known:
                table[known[name]] = OPS.index(op)
    for name in NEVER_RETURN:
        table[known[name]] |= NO_RETURN
    return table


def build(host: Host, parts: Collection[str]) -> Object:
    """The object with the parts that the wanted samplers need."""
    counts, latency = COUNTS in parts, LATENCY in parts
    maps = [cells("syscall_classes", TABLE_SIZE, classes(platform.machine()))]
    hooks = [twins("sys_enter")]
    defines = {"COUNTS": int(counts), "LATENCY": int(latency), "OP_BITS": OP_BITS, "OP_MASK": OP_MASK}
    defines |= {"NO_RETURN": NO_RETURN, "COUNTS_WIDTH": WIDTH}
    if counts:
        maps += [cells("syscall_counts", host.cpus * WIDTH), cells("cgroup_counts", host.slots * WIDTH)]
        maps += identity.maps(host.cpus, host.slots)
        hooks.append(twins("cgroup_rmdir"))
        defines |= identity.defines(host.hierarchy)
    if latency:
        maps += [
            Map("syscall_stamps", "array", host.pids),
            cells("syscall_latencies", len(OPS) * HISTOGRAM_BUCKETS),
        ]
        hooks.append(twins("sys_exit"))
    fields = dict(identity.FIELDS if counts else {})
    if latency:
        fields["SYSCALL_NUMBER"] = ("pt_regs", ("orig_ax", "syscallno"))
    return Object(
        str(HERE / "syscall.bpf.c"),
        maps,
        hooks,
        structs=(*identity.STRUCTS, "pt_regs"),
        defines=defines,
        fields=fields,
        enums=identity.ENUMS if counts and host.hierarchy == "cpu" else {},
        btf=host.btf,
    )


def per_cpu(group: Group, cpus: Sequence[int]) -> Schema:
    return Schema(group, tuple(Slot((("id", str(cpu)),), cpu) for cpu in cpus))


class Counts:
    """The source of `syscall_counts`.

    Args:
        bank: a row a CPU.
        by_cgroup: a row a cgroup slot.
        cpus: rows of `bank` to publish.
    """

    def __init__(self, bank: Bank, by_cgroup: Bank, cgroups: Cgroups, cpus: Sequence[int]) -> None:
        self._bank, self._by_cgroup, self._cgroups = bank, by_cgroup, cgroups
        self._cpus = np.array(cpus, np.intp)
        self._schema = per_cpu(SYSCALL, cpus)
        self._present = np.ones((len(cpus), len(OPS)), np.bool_)
        self._generation = -1
        self._cgroup_schema = Schema(CGROUP_SYSCALL, ())
        self._cgroup_present = np.ones((0, len(OPS)), np.bool_)
        cgroups.join(self, by_cgroup)

    def sample(self) -> Sequence[Reading]:
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


class Latency:
    """The source of `syscall_latency`."""

    def __init__(self, histograms: Histograms) -> None:
        self._histograms = histograms
        self._schema = Schema(SYSCALL_LATENCY)
        self._present = np.ones((1, len(OPS)), np.bool_)

    def sample(self) -> Sequence[Reading]:
        stopwatch = Stopwatch()
        values = self._histograms.read()
        return (Reading(self._schema, stopwatch.window(), values, self._present),)

    def close(self) -> None:
        """Nothing of its own to give back."""


def open_counts(mapped: Mapped, host: Host) -> Counts:
    return Counts(
        Bank(mapped.cells("syscall_counts"), len(OPS)),
        Bank(mapped.cells("cgroup_counts"), len(OPS)),
        mapped.share(Cgroups, identity.open_cgroups),
        host.present,
    )


def open_latency(mapped: Mapped, host: Host) -> Latency:
    return Latency(Histograms(mapped.cells("syscall_latencies"), len(OPS)))


FAMILY: Final = Family(
    "syscall",
    build,
    (
        Part(
            declare(COUNTS, "tracepoint raw_syscalls/sys_enter", (SYSCALL, CGROUP_SYSCALL)),
            ("sys_enter", "cgroup_rmdir"),
            open_counts,
        ),
        Part(
            declare(LATENCY, "tracepoints raw_syscalls/sys_enter and sys_exit", (SYSCALL_LATENCY,)),
            ("sys_enter", "sys_exit"),
            open_latency,
        ),
    ),
)
