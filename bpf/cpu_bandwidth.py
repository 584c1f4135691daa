"""`cpu_bandwidth`: CPU limits of cgroups and what they cost, from `cpu_bandwidth.bpf.c`."""

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from bpf import identity
from bpf.host import Host
from bpf.identity import Cgroups
from bpf.maps import LINE, Bank, Mapped
from bpf.objects import HERE, Hook, Object, cells, twins
from bpf.room import Family, Part, declare
from bpf.series import ByCgroup, columns
from pipeline.records import Group, Kind, Metric, Reading, Schema
from pipeline.source import Source, Stopwatch

NAME: Final = "cpu_bandwidth"


def _counter(group: str, metric: str, unit: str, text: str) -> Group:
    return Group(NAME, f"cpu_bandwidth_cgroup_{group}", (Metric(metric, Kind.COUNTER, unit, text),))


# In the order of a row of the bank.
COUNTERS: Final = (
    _counter(
        "throttled_time",
        "cgroup_cpu_throttled_time",
        "nanoseconds",
        "Time the run queues of a cgroup, one a CPU, were throttled",
    ),
    _counter(
        "throttled_count", "cgroup_cpu_throttled", "events", "Times a run queue of a cgroup was throttled"
    ),
    _counter(
        "bandwidth_periods",
        "cgroup_cpu_bandwidth_periods",
        "events",
        "Periods in which a limit was enforced, as counted by the kernel",
    ),
    _counter(
        "bandwidth_throttled_periods",
        "cgroup_cpu_bandwidth_throttled_periods",
        "events",
        "Periods in which a cgroup was throttled, as counted by the kernel",
    ),
    _counter(
        "bandwidth_throttled_time",
        "cgroup_cpu_bandwidth_throttled_time",
        "nanoseconds",
        "Time a cgroup was throttled, as counted by the kernel",
    ),
)
LIMITS: Final = Group(
    NAME,
    "cpu_bandwidth_cgroup_limits",
    (
        Metric(
            "cgroup_cpu_bandwidth_quota",
            Kind.GAUGE,
            "nanoseconds",
            "CPU time a cgroup may use in a period, -1 for any",
        ),
        Metric(
            "cgroup_cpu_bandwidth_period_duration",
            Kind.GAUGE,
            "nanoseconds",
            "Length of the period a limit is for",
        ),
    ),
)
QUOTA, PERIOD, KNOWN = range(5, 8)
SAMPLER: Final = declare(
    NAME,
    "functions tg_set_cfs_bandwidth, throttle_cfs_rq and unthrottle_cfs_rq",
    (*COUNTERS, LIMITS),
)
HOOKS: Final[tuple[Hook, ...]] = (
    (("fexit", "tg_set_cfs_bandwidth", "set_fexit"), ("kprobe", "tg_set_cfs_bandwidth", "set_kprobe")),
    (("fentry", "throttle_cfs_rq", "throttle_fentry"), ("kprobe", "throttle_cfs_rq", "throttle_kprobe")),
    (
        ("fentry", "unthrottle_cfs_rq", "unthrottle_fentry"),
        ("kprobe", "unthrottle_cfs_rq", "unthrottle_kprobe"),
    ),
    twins("cgroup_rmdir"),
)


def build(host: Host, parts: Collection[str]) -> Object:
    columns = ("THROTTLED_TIME", "THROTTLED", "PERIODS", "THROTTLED_PERIODS", "KERNEL_TIME")
    defines = {name: column for column, name in enumerate((*columns, "QUOTA", "PERIOD", "KNOWN"))}
    return Object(
        str(HERE / "cpu_bandwidth.bpf.c"),
        (
            cells("bandwidth", host.slots * LINE),
            cells("throttled_at", host.cpus * host.slots),
            *identity.maps(host.cpus, host.slots),
        ),
        HOOKS,
        structs=(*identity.STRUCTS, "pt_regs", "task_group", "cfs_rq", "rq"),
        defines=defines | {"WIDTH": LINE, "SLOTS": host.slots} | identity.defines("cpu"),
        fields=identity.FIELDS,
        enums=identity.ENUMS,
        parameters={"MICROSECONDS": ("tg_set_cfs_bandwidth", "period_us")},
        btf=host.btf,
    )


class Bandwidth:
    """The source of `cpu_bandwidth`.

    Args:
        bank: a row a cgroup slot.
    """

    def __init__(self, bank: Bank, cgroups: Cgroups) -> None:
        self._bank, self._cgroups = bank, cgroups
        self._counters = [ByCgroup(group, columns(bank, at, 1), cgroups) for at, group in enumerate(COUNTERS)]
        self._limits = Schema(LIMITS, ())
        cgroups.join(self, bank)

    def sample(self) -> Sequence[Reading]:
        self._cgroups.refresh(self)
        if self._limits.slots is not self._cgroups.slots:
            self._limits = Schema(LIMITS, self._cgroups.slots)
        return *(series.read() for series in self._counters), self._read_limits(self._cgroups.rows)

    def _read_limits(self, rows: npt.NDArray[np.intp]) -> Reading:
        stopwatch = Stopwatch()
        taken = self._bank.take(rows)
        present = np.repeat(taken[:, KNOWN : KNOWN + 1] > 0, 2, axis=1)
        return Reading(self._limits, stopwatch.window(), taken[:, QUOTA:KNOWN], present)

    def close(self) -> None:
        self._cgroups.leave(self)


def open_bandwidth(mapped: Mapped, host: Host) -> Source:
    return Bandwidth(Bank(mapped.cells("bandwidth"), LINE), mapped.share(Cgroups, identity.open_cgroups))


PART: Final = Part(
    SAMPLER, ("tg_set_cfs_bandwidth", "throttle_cfs_rq", "unthrottle_cfs_rq", "cgroup_rmdir"), open_bandwidth
)
FAMILY: Final = Family("cpu_bandwidth", build, (PART,))
