"""The object of `syscall_counts` and `syscall_latency`, which share the hook sys_enter: `syscall.bpf.c`."""

import platform
from collections.abc import Collection
from typing import Final

from bpf import identity, syscall_counts, syscall_latency
from bpf.host import Host
from bpf.maps import padded
from bpf.objects import HERE, Map, Object, cells, twins
from bpf.room import Family
from bpf.syscall_table import NAMES, NEVER_RETURN, OPS, numbers
from pipeline.health import Unsupported
from pipeline.records import HISTOGRAM_BUCKETS

COUNTS: Final = syscall_counts.NAME
LATENCY: Final = syscall_latency.NAME

TABLE_SIZE: Final = 1024
WIDTH: Final = padded(len(OPS))
OP_BITS: Final = 5
OP_MASK: Final = (1 << OP_BITS) - 1
NO_RETURN: Final = 1 << OP_BITS


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


FAMILY: Final = Family("syscall", build, (syscall_counts.PART, syscall_latency.PART))
