"""`cpu_usage`: CPU time by CPU, cgroup and task, and that of interrupts, from `sched.bpf.c`."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from bpf import identity, tasks
from bpf.host import Host, OnlineCpus
from bpf.identity import Cgroups
from bpf.maps import LINE, Bank, Mapped, padded
from bpf.room import Part, declare
from bpf.series import ByCgroup, ByCpu, Take, columns
from bpf.task_usage import TASK, TASKS, TaskUsage
from pipeline.records import Group, Kind, Metric, Reading, Values
from pipeline.source import Source

NAME: Final = "cpu_usage"
SOFTIRQS: Final = (
    "hi",
    "timer",
    "net_tx",
    "net_rx",
    "block",
    "irq_poll",
    "tasklet",
    "sched",
    "hrtimer",
    "rcu",
)

# Columns of a row of the banks `cpu_times` and, the first four, `cgroup_times`.
CHARGED, UTIME, STIME, EXITED, INTERRUPTS, HARDIRQ, HARDIRQ_TIME, SOFTIRQ = range(8)
SOFTIRQ_TIME: Final = SOFTIRQ + len(SOFTIRQS)
COLUMNS: Final = SOFTIRQ_TIME + len(SOFTIRQS)
WIDTH: Final = padded(COLUMNS)
USER: Final = (("state", "user"),)
SYSTEM: Final = (("state", "system"),)


def _by_vector(group: str, metric: str, unit: str, text: str) -> Group:
    return Group(
        NAME,
        group,
        tuple(Metric(metric, Kind.COUNTER, unit, text, (("kind", vector),)) for vector in SOFTIRQS),
    )


CPU: Final = Group(
    NAME,
    "cpu_usage_cpu",
    (
        Metric("cpu_usage", Kind.COUNTER, "nanoseconds", "CPU time by CPU", USER),
        Metric("cpu_usage", Kind.COUNTER, "nanoseconds", "CPU time by CPU", SYSTEM),
        Metric(
            "cpu_usage_exited_tasks",
            Kind.COUNTER,
            "nanoseconds",
            "CPU time of tasks that exited, by the CPU of their exit",
        ),
    ),
)
SOFTIRQ_GROUP: Final = _by_vector(
    "cpu_usage_softirq", "softirq", "interrupts", "Softirq handler runs by vector"
)
SOFTIRQ_TIME_GROUP: Final = _by_vector(
    "cpu_usage_softirq_time", "softirq_time", "nanoseconds", "Time in softirq handlers by vector"
)
HARDIRQ_GROUP: Final = Group(
    NAME,
    "cpu_usage_hardirq",
    (
        Metric("hardirq", Kind.COUNTER, "interrupts", "Handler runs of device interrupts"),
        Metric("hardirq_time", Kind.COUNTER, "nanoseconds", "Time in handlers of device interrupts"),
    ),
)
CGROUP: Final = Group(
    NAME,
    "cpu_usage_cgroup_usage",
    (
        Metric("cgroup_cpu_usage", Kind.COUNTER, "nanoseconds", "CPU time by cgroup", USER),
        Metric("cgroup_cpu_usage", Kind.COUNTER, "nanoseconds", "CPU time by cgroup", SYSTEM),
    ),
)
CGROUP_EXITED: Final = Group(
    NAME,
    "cpu_usage_cgroup_exited",
    (
        Metric(
            "cgroup_cpu_usage_exited_tasks",
            Kind.COUNTER,
            "nanoseconds",
            "CPU time of tasks that exited, by cgroup",
        ),
    ),
)
SAMPLER: Final = declare(
    NAME,
    "tracepoints sched/sched_stat_runtime (else function cpuacct_account_field) and of irq/",
    (CPU, SOFTIRQ_GROUP, SOFTIRQ_TIME_GROUP, HARDIRQ_GROUP, CGROUP, CGROUP_EXITED, TASK, TASKS),
)


class Split:
    """Splits charged time into user and system, the way the kernel does it for `getrusage` and `cpu.stat`.

    What the scheduler charges is exact; utime and stime, whole ticks on most kernels, only tell the shares.
    The system's share of all that was charged so far is taken, but neither part ever shrinks, and both
    together are the charge to the nanosecond.

    Args:
        rows: of the bank.
    """

    def __init__(self, rows: int) -> None:
        self._charged = np.zeros(rows, np.uint64)
        self._system = np.zeros(rows, np.uint64)

    def __call__(
        self, rows: npt.NDArray[np.intp], charged: Values, utime: Values, stime: Values
    ) -> tuple[Values, Values]:
        """User and system time of these rows, u64 `(rows,)` each; a row that shrank begins anew."""
        before, system = self._charged[rows], self._system[rows]
        anew = charged < before
        before[anew] = system[anew] = 0
        ticks = (utime + stime).astype(np.float64)
        share = np.divide(stime, ticks, out=np.zeros(len(rows)), where=ticks > 0)
        wanted = np.minimum((charged * share).astype(np.uint64), charged)
        system = np.clip(wanted, system, system + (charged - before))
        self._charged[rows], self._system[rows] = charged, system
        return charged - system, system


class Usage:
    """The source of `cpu_usage`.

    Args:
        times: a row a CPU.
        by_cgroup: a row a cgroup slot.
        by_task: None when tasks are not told apart.
    """

    def __init__(
        self, times: Bank, by_cgroup: Bank, cgroups: Cgroups, online: OnlineCpus, by_task: TaskUsage | None
    ) -> None:
        self._online, self._cgroups, self._by_task = online, cgroups, by_task
        self._cpus = (
            ByCpu(CPU, _usage(times), online),
            ByCpu(SOFTIRQ_GROUP, columns(times, SOFTIRQ, len(SOFTIRQS)), online),
            ByCpu(SOFTIRQ_TIME_GROUP, columns(times, SOFTIRQ_TIME, len(SOFTIRQS)), online),
            ByCpu(HARDIRQ_GROUP, columns(times, HARDIRQ, 2), online),
        )
        self._by_cgroup = (
            ByCgroup(CGROUP, _cgroup_usage(by_cgroup), cgroups),
            ByCgroup(CGROUP_EXITED, columns(by_cgroup, EXITED, 1), cgroups),
        )
        cgroups.join(self, by_cgroup)

    def sample(self) -> Sequence[Reading]:
        self._online.changed()
        self._cgroups.refresh(self)
        by_task = self._by_task.read() if self._by_task else ()
        return *(series.read() for series in (*self._cpus, *self._by_cgroup)), *by_task

    def close(self) -> None:
        self._cgroups.leave(self)
        self._online.close()
        if self._by_task:
            self._by_task.close()


def _usage(bank: Bank) -> Take:
    split = Split(bank.rows)

    def take(rows: npt.NDArray[np.intp]) -> Values:
        taken = bank.take(rows)
        user, system = split(rows, taken[:, CHARGED], taken[:, UTIME], taken[:, STIME])
        return np.column_stack((user, system + taken[:, INTERRUPTS], taken[:, EXITED]))

    return take


def _cgroup_usage(bank: Bank) -> Take:
    split = Split(bank.rows)

    def take(rows: npt.NDArray[np.intp]) -> Values:
        taken = bank.take(rows)
        return np.column_stack(split(rows, taken[:, CHARGED], taken[:, UTIME], taken[:, STIME]))

    return take


def open_usage(mapped: Mapped, host: Host) -> Source:
    by_task = None
    if host.max_tasks:
        by_task = TaskUsage(tasks.open_tasks(mapped), mapped.cells("task_times"), host.max_tasks)
    return Usage(
        Bank(mapped.cells("cpu_times"), COLUMNS),
        Bank(mapped.cells("cgroup_times"), LINE),
        mapped.share(Cgroups, identity.open_cgroups),
        OnlineCpus(host.online, host.cpus),
        by_task,
    )


PART: Final = Part(
    SAMPLER,
    (
        "sched_stat_runtime",
        "sched_process_exit",
        "softirq_entry",
        "softirq_exit",
        "irq_handler_entry",
        "irq_handler_exit",
        "cgroup_rmdir",
    ),
    open_usage,
)
