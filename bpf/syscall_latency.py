"""`syscall_latency`: how long system calls take, by class, from `syscall.bpf.c`."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from bpf.host import Host
from bpf.maps import Histograms, Mapped
from bpf.room import Part, declare
from bpf.syscall_table import OPS
from pipeline.records import Group, Kind, Metric, Reading, Schema
from pipeline.source import Stopwatch

NAME: Final = "syscall_latency"

SYSCALL_LATENCY: Final = Group(
    NAME,
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
SAMPLER: Final = declare(NAME, "tracepoints raw_syscalls/sys_enter and sys_exit", (SYSCALL_LATENCY,))


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


def open_latency(mapped: Mapped, host: Host) -> Latency:
    return Latency(Histograms(mapped.cells("syscall_latencies"), len(OPS)))


PART: Final = Part(SAMPLER, ("sys_enter", "sys_exit"), open_latency)
