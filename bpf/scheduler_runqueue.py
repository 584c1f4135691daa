"""`scheduler_runqueue`: how long tasks wait for a CPU, run and sleep, and their switches (`sched.bpf.c`)."""

from collections.abc import Sequence
from typing import Final

from bpf import identity
from bpf.host import Host, OnlineCpus
from bpf.identity import Cgroups
from bpf.maps import LINE, Bank, Histograms, Mapped
from bpf.room import Part, declare
from bpf.series import ByCgroup, ByCpu, Whole, columns
from pipeline.records import HISTOGRAM_BUCKETS, Group, Kind, Metric, Reading
from pipeline.source import Source

NAME: Final = "scheduler_runqueue"


def _switches(metric: str, text: str) -> tuple[Metric, ...]:
    """Away from a task that could run on, and from one that blocked."""
    kinds = ("involuntary", "voluntary")
    return tuple(Metric(metric, Kind.COUNTER, "", text, (("kind", kind),)) for kind in kinds)


def _histogram(group: str, metric: str, text: str) -> Group:
    return Group(NAME, group, (Metric(metric, Kind.HISTOGRAM, "nanoseconds", text),))


HISTOGRAMS: Final = (
    _histogram(
        "scheduler_runqueue_runqlat",
        "scheduler_runqueue_latency",
        "Time from when a task could run to when it ran",
    ),
    _histogram(
        "scheduler_runqueue_running", "scheduler_running", "Time a task ran before another took its CPU"
    ),
    _histogram(
        "scheduler_runqueue_offcpu", "scheduler_offcpu", "Time a task slept, its wait for a CPU not included"
    ),
)
# In the order of a row of the bank `sched_counters`.
COUNTERS: Final = Group(
    NAME,
    "scheduler_runqueue_counters",
    (
        *_switches("scheduler_context_switch", "Switches away from a task by whether it could have run on"),
        Metric(
            "scheduler_runqueue_wait",
            Kind.COUNTER,
            "nanoseconds",
            "Waits for a CPU, by the CPU that ended them",
        ),
        Metric(
            "scheduler_discarded_samples",
            Kind.COUNTER,
            "",
            "Spans not recorded as their ends were out of order",
        ),
    ),
)
# In the order of a row of the bank `cgroup_sched`.
CGROUP_SWITCHES: Final = Group(
    NAME,
    "scheduler_runqueue_cgroup_context_switch",
    _switches(
        "cgroup_scheduler_context_switch",
        "Switches away from a task by whether it could have run on, by cgroup",
    ),
)
CGROUP_WAIT: Final = Group(
    NAME,
    "scheduler_runqueue_cgroup_wait",
    (
        Metric(
            "cgroup_scheduler_runqueue_wait",
            Kind.COUNTER,
            "nanoseconds",
            "Waits for a CPU by cgroup",
            (("state", "wait"),),
        ),
    ),
)
CGROUP_OFFCPU: Final = Group(
    NAME,
    "scheduler_runqueue_cgroup_offcpu",
    (
        Metric(
            "cgroup_scheduler_offcpu",
            Kind.COUNTER,
            "nanoseconds",
            "Time tasks slept, their waits for a CPU not included, by cgroup",
            (("state", "offcpu"),),
        ),
    ),
)
SAMPLER: Final = declare(
    NAME,
    "tracepoints sched/sched_wakeup, sched_wakeup_new and sched_switch",
    (*HISTOGRAMS, COUNTERS, CGROUP_SWITCHES, CGROUP_WAIT, CGROUP_OFFCPU),
)


class RunQueue:
    """The source of `scheduler_runqueue`.

    Args:
        latencies: the histograms, in the order of `HISTOGRAMS`.
        counters: a row a CPU.
        by_cgroup: a row a cgroup slot.
    """

    def __init__(
        self,
        latencies: Sequence[Histograms],
        counters: Bank,
        by_cgroup: Bank,
        cgroups: Cgroups,
        online: OnlineCpus,
    ) -> None:
        self._online, self._cgroups = online, cgroups
        self._hosts = [Whole(group, each) for group, each in zip(HISTOGRAMS, latencies, strict=True)]
        self._cpus = ByCpu(COUNTERS, columns(counters, 0, len(COUNTERS.metrics)), online)
        self._by_cgroup = [
            ByCgroup(group, columns(by_cgroup, first, len(group.metrics)), cgroups)
            for group, first in ((CGROUP_SWITCHES, 0), (CGROUP_WAIT, 2), (CGROUP_OFFCPU, 3))
        ]
        cgroups.join(self, by_cgroup)

    def sample(self) -> Sequence[Reading]:
        self._online.changed()
        self._cgroups.refresh(self)
        return [
            *(histogram.read() for histogram in self._hosts),
            self._cpus.read(),
            *(series.read() for series in self._by_cgroup),
        ]

    def close(self) -> None:
        self._cgroups.leave(self)
        self._online.close()


def open_runqueue(mapped: Mapped, host: Host) -> Source:
    striped = mapped.cells("sched_latencies").reshape(-1, len(HISTOGRAMS) * HISTOGRAM_BUCKETS)
    latencies = [Histograms(striped[:, at * HISTOGRAM_BUCKETS :], 1) for at in range(len(HISTOGRAMS))]
    return RunQueue(
        latencies,
        Bank(mapped.cells("sched_counters"), len(COUNTERS.metrics)),
        Bank(mapped.cells("cgroup_sched"), LINE),
        mapped.share(Cgroups, identity.open_cgroups),
        OnlineCpus(host.online, host.cpus),
    )


PART: Final = Part(
    SAMPLER, ("sched_wakeup", "sched_wakeup_new", "sched_switch", "cgroup_rmdir"), open_runqueue
)
